"""Other runs in the same folder that answer the questions of the same benchmark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.core.settings import flat
from wardround.runs.folder import RunFolder

_MOST = 20
_SAME_FOR_ALL = ("run.store", "run.benchmark", "run.executor")
"""Places say nothing of what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """Another run in the same folder. ``page``: its report, relative to this run's page, None without one; ``differs``:
    the settings in which the two differ."""

    name: str
    page: str | None
    differs: str


def siblings(folder: RunFolder, page_folder: Path) -> list[Sibling]:
    """Return the other runs in a run's folder, by name; only those of the same benchmark."""
    found = []
    for path, manifest in _runs_beside(folder.path.resolve()):
        if manifest.get("benchmark_digest") != folder.manifest["benchmark_digest"]:
            continue
        page = path / "report" / "index.html"
        link = os.path.relpath(page, page_folder.resolve()) if page.is_file() else None
        found.append(Sibling(name=path.name, page=link, differs=_differs(folder.manifest, manifest)))
    return found[:_MOST]


def _runs_beside(own: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the folders of other runs, and their manifests; folders that cannot be read are ignored."""
    for file in sorted(own.parent.glob("*/manifest.json")):
        try:
            manifest = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if file.parent != own and isinstance(manifest, dict) and "settings_sha256" in manifest:
            yield file.parent, manifest


def _differs(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Return the settings in which the second differs from the first, with values for a few."""
    if first["policy"] != second.get("policy"):
        return f"on the clocks {second.get('policy')}"
    ours, theirs = flat(first["settings"]), flat(second.get("settings", {}))
    names = [name for name in theirs if theirs[name] != ours.get(name) and name not in _SAME_FOR_ALL]
    told = [f"{name.rpartition('.')[2]} {_text(theirs[name])}" for name in names[:2]]
    more = [f"{len(names) - 2} more setting{'s' * (len(names) > 3)}"] if len(names) > 2 else []
    return ", ".join([*told, *more]) or "the same settings"


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
