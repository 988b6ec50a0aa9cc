"""Whose records are not as they were in the store that a store was made from: kept beside the rows, counted."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.ingest.lineage import CHANGE_WORDS, Taking
from wardround.records.ingest.plan import Plan
from wardround.records.shards.checksums import map_checked
from wardround.records.shards.layout import CHANGES, SUBJECTS
from wardround.records.shards.manifest import read_manifest

Integers = npt.NDArray[np.int64]


def note_lineage(
    plan: Plan,
    subjects: Integers,
    changed: Iterable[int],
    *,
    taking: Taking | None,
    shards: int,
    why_every_subject: str | None,
) -> dict[str, Any] | None:
    """Write whose records changed into the store; return what its manifest says of it. None: it was made from none."""
    if plan.earlier is None:
        return None
    manifest = read_manifest(plan.earlier)
    old = np.load(io.BytesIO(map_checked(plan.earlier / SUBJECTS, manifest["files"][SUBJECTS])), allow_pickle=False)
    both = np.intersect1d(old, subjects, assume_unique=True)
    differ = both if taking is None else np.intersect1d(both, np.array(sorted(changed), dtype=np.int64))
    found = {
        "new": np.setdiff1d(subjects, old, assume_unique=True),
        "changed": differ,
        "gone": np.setdiff1d(old, subjects, assume_unique=True),
    }
    _write_changes(plan.store / CHANGES, found)
    counts = {name: len(held) for name, held in found.items()} | {"same": len(both) - len(differ)}
    return {
        "digest": manifest["digest"],
        "subjects": {name: counts[name] for name in CHANGE_WORDS},
        "tables": [] if taking is None else list(taking.tables),
        "read": {} if taking is None else dict(taking.read),
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
