"""Every file of a folder held against the checksums it was written with: stores, benchmarks, runs, logs and banks.

Finds bits that changed on a disk or in a copy, not somebody who changes a file and its checksum.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.audits import check_store
from wardround.benchmarks import Benchmark
from wardround.core import RecordError, UserError, content_hash
from wardround.log import LOG_SUFFIX, damage_of_log
from wardround.memory.database import damage_of_bank

_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesCheck:
    """What was checked, by kind, and what is damaged, a line each."""

    checked: Mapping[str, int]
    damaged: tuple[str, ...]

    def as_text(self) -> str:
        """Say it in a few lines."""
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.checked.items() if count) or "nothing of ours"
        return "\n".join((f"checked {counts}: {len(self.damaged):,} damaged", *self.damaged))


def check_files(folder: Path) -> FilesCheck:
    """Check every store, benchmark, run, bank and log in a folder and below it. UserError: there is no such folder."""
    if not folder.is_dir():
        raise UserError(f"no folder {str(folder)!r}")
    checked = dict.fromkeys(("stores", "benchmarks", "runs", "banks", "logs"), 0)
    damaged: list[str] = []
    for path in sorted(folder.rglob(_MANIFEST)):
        text = path.read_text(encoding="utf-8", errors="replace")
        for kind, (mark, check) in _KINDS.items():
            if mark in text:
                checked[kind] += 1
                damaged += check(path.parent)
                break
    for path in sorted(folder.rglob("*.sqlite")):
        found = damage_of_bank(path)
        if found is not None:
            checked["banks"] += 1
            damaged += [f"{path}: {count:,} {what}" for what, count in found.items() if count]
    for path in sorted(folder.rglob(f"*{LOG_SUFFIX}")):
        checked["logs"] += 1
        damaged += damage_of_log(path)
    return FilesCheck(checked=checked, damaged=tuple(damaged))


def _damage_of_run(folder: Path) -> list[str]:
    path = folder / _MANIFEST
    try:
        manifest: Any = json.loads(path.read_bytes())
        whole = content_hash(manifest["settings"]) == manifest["settings_sha256"]
    except (ValueError, KeyError, TypeError) as error:
        return [f"{path} cannot be read: {error}"]
    return [] if whole else [f"{path}: the settings are not as they were written"]


def _damage_of_benchmark(folder: Path) -> list[str]:
    try:
        Benchmark.open(folder)
    except (UserError, RecordError) as error:
        return [str(error)]
    return []


def _damage_of_store(folder: Path) -> list[str]:
    try:
        return list(check_store(folder).damaged)
    except (UserError, RecordError) as error:
        return [str(error)]


_KINDS: Mapping[str, tuple[str, Callable[[Path], list[str]]]] = {
    "runs": ('"settings_sha256"', _damage_of_run),
    "benchmarks": ('"samples_sha256"', _damage_of_benchmark),
    "stores": ('"indexes"', _damage_of_store),
}
"""What a manifest is of: what stands in it, and how its folder is checked."""
