"""The subjects whose records changed since an earlier store, and the hashes of source files."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import Progress, Reporter, silent
from wardround.records.ingest.lineage import CHANGE_WORDS, Reuse
from wardround.records.ingest.plan import Plan
from wardround.records.shards.layout import CHANGES, SUBJECTS, map_checked, read_manifest

# Subjects whose records differ from the earlier store that this one was made from: listed beside the rows, and counted.


Integers = npt.NDArray[np.int64]


def note_lineage(
    plan: Plan,
    subjects: Integers,
    changed: Iterable[int],
    *,
    reuse: Reuse | None,
    shards: int,
    why_every_subject: str | None,
) -> dict[str, Any] | None:
    """Write the changed subjects into the store; return the manifest's entry. None: there was no earlier store."""
    if plan.earlier is None:
        return None
    manifest = read_manifest(plan.earlier)
    old = np.load(io.BytesIO(map_checked(plan.earlier / SUBJECTS, manifest["files"][SUBJECTS])), allow_pickle=False)
    both = np.intersect1d(old, subjects, assume_unique=True)
    differ = both if reuse is None else np.intersect1d(both, np.array(sorted(changed), dtype=np.int64))
    found = {
        "new": np.setdiff1d(subjects, old, assume_unique=True),
        "changed": differ,
        "gone": np.setdiff1d(old, subjects, assume_unique=True),
    }
    _write_changes(plan.store / CHANGES, found)
    counts = {name: len(numbers) for name, numbers in found.items()} | {"same": len(both) - len(differ)}
    return {
        "digest": manifest["digest"],
        "subjects": {name: counts[name] for name in CHANGE_WORDS},
        "tables": [] if reuse is None else list(reuse.tables),
        "read": {} if reuse is None else dict(reuse.read),
        "shards": [shards, plan.shards],
        "why_nothing": plan.why_nothing,
        "why_every_subject": why_every_subject,
    }


def _write_changes(path: Path, found: Mapping[str, Integers]) -> None:
    table = pa.table(
        {
            "subject_id": pa.array(np.concatenate(list(found.values())), pa.int64()),
            "change": pa.array([name for name, subjects in found.items() for _ in subjects], pa.string()),
        }
    )
    with pa.OSFile(str(path), "wb") as target, pa.ipc.new_file(target, table.schema) as stream:
        stream.write_table(table)


# Fingerprints of a source's files: sizes and hashes, kept in the store that was made from them.


FileFingerprints = list[list[object]]
"""Of every file its name as reports show it, its size and its SHA-256, in the order of reading."""
RAW = "raw"
"""What raw files that are no tables are called together."""
_BLOCK = 4 << 20


def file_fingerprints(plan: Plan, name: str, report: Reporter = silent) -> FileFingerprints:
    """Return the fingerprints of the files of a table or dictionary, or of all raw files; each file is hashed once."""
    part = f"bytes-{name}"
    noted: FileFingerprints | None = plan.noted(part)
    if noted is None:
        paths = files_of(plan, name)
        noted = [[plan.files.name(path), path.stat().st_size, _sha256(path, report)] for path in paths]
        plan.note(part, noted)
    return noted


def files_of(plan: Plan, name: str) -> Sequence[Path]:
    """Return the files of a table or dictionary; of a derived table, those of its source."""
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
