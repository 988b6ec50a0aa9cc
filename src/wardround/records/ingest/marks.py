"""What names the bytes of a source's files: their sizes and hashes, kept with the store that was made of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from wardround.core import Progress, Reporter, silent
from wardround.records.ingest.plan import Plan

Marks = list[list[object]]
"""Of every file its name as reports show it, its size and its SHA-256, in the order of reading."""
RAW = "raw"
"""What raw files that are no tables are called together."""
_BLOCK = 4 << 20


def mark_files(plan: Plan, name: str, report: Reporter = silent) -> Marks:
    """Return the marks of the files of a table or a dictionary, or of all raw files; each is hashed once."""
    part = f"bytes-{name}"
    noted: Marks | None = plan.noted(part)
    if noted is None:
        paths = files_of(plan, name)
        noted = [[plan.files.name(path), path.stat().st_size, _sha256(path, report)] for path in paths]
        plan.note(part, noted)
    return noted


def files_of(plan: Plan, name: str) -> Sequence[Path]:
    """Return the files that a table or a dictionary is read from, a derived table's those of its source."""
    files = plan.files
    if name == RAW:
        return files.raw
    table = plan.spec.tables.get(name)
    if table is not None and table.derive is not None and name not in files.tables:
        return files.tables.get(table.derive.source, ())
    return files.tables.get(name) or files.dictionaries.get(name, ())


def _sha256(path: Path, report: Reporter) -> str:
    size, done = path.stat().st_size, 0
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            report(Progress(label=f"hash {path.name}", done=done / 1e6, total=size / 1e6, unit="MB"))
    return digest.hexdigest()
