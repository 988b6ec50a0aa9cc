"""What is installed here, what is missing, and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

from wardround import __version__
from wardround.clinical.codes import how_to_add, user_codes
from wardround.clinical.codes.user_codes import KINDS
from wardround.core import how_to_install, user_codes_home, user_home

_EXTRAS = {
    "view": ("the viewer of runs and CDS Hooks", 29),
    "mcp": ("the MCP server and wardround serve play", 29),
    "predictors": ("count-based logistic regression and gradient boosting, vectors of foundation models", 159),
    "figures": ("figures for a paper (wardround report --figures)", 77),
    "knowledge": ("corpora of medical text and the browser (wardround corpus)", 83),
    "imaging": ("chest films: image tools, DICOM files, wardround synth --films", 157),
    "demo": ("the last step of make demo: a handbook and a chest film", 46),
    "local": ("a small language model served on this machine (wardround models serve)", 102),
    "encoders": ("sentence encoders for candidate search and retrieval", 1_245),
    "train": ("fine-tuning of models and adapters (wardround train sft, rl)", 1_156),
    "openenv": ("training worlds served to OpenEnv (wardround train env)", 2),
    "inspect": ("our tasks inside Inspect; in an environment of its own", 162),
    "mem0": ("the memory of the peer mem0, filled by a model", 66),
    "zep": ("the memory of the peer zep, filled by a model", 50),
    "langmem": ("the memory of the peer langmem, filled by a model", 80),
    "aces": ("labels of ACES task files (wardround export aces)", 197),
    "postgres": ("records read from PostgreSQL (wardround ingest --database)", 26),
    "ray": ("workers on the machines of a cluster (--executor ray)", 207),
    "dev": ("tests, linters and types: what a change of the code needs", 678),
}
"""What each extra is for, and its packages in megabytes on disk beside the core: measured on 2026-11-28, Linux x86-64,
Python 3.11, with PyTorch's build for CPUs where one needs it. None: not measured."""
_OLDEST_SQLITE = (3, 37, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFinding:
    """What was found of one thing: ``state`` is ok, missing (optional) or broken (needed). ``megabytes``: of an extra,
    what it takes on disk beside the core; None where that was not measured."""

    what: str
    state: str
    detail: str
    megabytes: int | None = None


def check_installation() -> list[InstallationFinding]:
    """Return what wardround needs, its extras, the code tables that the user added, and the machine."""
    return [*_needed(), *_extras(), *_codes(), *_machine()]


def _needed() -> list[InstallationFinding]:
    found = [InstallationFinding(what="wardround", state="ok", detail=__version__)]
    for name in _requirements(extra=None):
        found.append(_package(name, missing="broken", how=f"pip install {name}"))
    sqlite_state = "ok" if sqlite3.sqlite_version_info >= _OLDEST_SQLITE else "broken"
    found.append(InstallationFinding(what="sqlite", state=sqlite_state, detail=sqlite3.sqlite_version))
    return found


def _extras() -> list[InstallationFinding]:
    found = []
    for extra, (purpose, megabytes) in _EXTRAS.items():
        packages = [_package(name, missing="missing", how="") for name in _requirements(extra=extra)]
        absent = [package.what for package in packages if package.state != "ok"]
        detail = f"{purpose}: {how_to_install(extra)}" if absent else purpose
        state = "missing" if absent else "ok"
        found.append(InstallationFinding(what=f"extra {extra}", state=state, detail=detail, megabytes=megabytes))
    return found


def _codes() -> list[InstallationFinding]:
    found = []
    for kind in sorted(KINDS):
        there = user_codes(user_codes_home()).get(kind)
        detail = f"{there.rows:,} rows of {there.file}" if there else how_to_add(kind)
        found.append(InstallationFinding(what=f"codes {kind}", state="ok" if there else "missing", detail=detail))
    return found


def _machine() -> list[InstallationFinding]:
    disk = shutil.disk_usage(Path.cwd())
    return [
        InstallationFinding(what="python", state="ok", detail=platform.python_version()),
        InstallationFinding(what="cores", state="ok", detail=str(os.cpu_count())),
        InstallationFinding(what="free disk here", state="ok", detail=f"{disk.free / 2**30:.1f} GiB"),
        InstallationFinding(what="own folder", state="ok", detail=str(user_home())),
    ]


def _requirements(extra: str | None) -> list[str]:
    """Return the package names wardround declares, of the core or of one extra."""
    names = []
    for line in metadata("wardround").get_all("Requires-Dist") or []:
        requirement, _, marker = line.partition(";")
        wanted = f'extra == "{extra}"' if extra else ""
        if (wanted in marker.replace("'", '"')) if extra else "extra" not in marker:
            names.append(requirement.split("[")[0].split("<")[0].split(">")[0].split("=")[0].strip())
    return names


def _package(name: str, *, missing: str, how: str) -> InstallationFinding:
    try:
        return InstallationFinding(what=name, state="ok", detail=version(name))
    except PackageNotFoundError:
        return InstallationFinding(what=name, state=missing, detail=how)
