"""The MEDS export in another future of the same past: up to each moment its events must be the same. For the audits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wardround.audits import Compared
from wardround.exports.meds.export import export_meds
from wardround.records.store import Store

Event = tuple[Any, ...]


def differing_exports(store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
    """Export two stores as MEDS and compare each subject's events up to its moment, every column and their order."""
    found = Compared()
    with TemporaryDirectory(prefix="wardround-futures-") as folder:
        here, there = (
            dict(_known_events(each, Path(folder) / name, moments))
            for each, name in ((store, "here"), (other, "there"))
        )
    for subject, as_of in moments.items():
        first, second = here.get(subject, []), there.get(subject, [])
        found.compared["exported events"] += len(first)
        if first == second:
            continue
        change = next(pair for pair in _pairs(first, second) if pair[0] != pair[1])
        code = next(str(event[_CODE]) for event in change if event is not None)
        found.differences.append(f"{subject} by {as_of}, exported events: {change[0]} in the other future {change[1]}")
        found.places[f"exported events {code.partition('//')[0]}"] += 1
    return found


_CODE = 2
"""Where an event has its code: after the subject and the time."""


def _pairs(first: list[Event], second: list[Event]) -> Iterator[tuple[Event | None, Event | None]]:
    for place in range(max(len(first), len(second))):
        yield (first[place] if place < len(first) else None, second[place] if place < len(second) else None)


def _known_events(store: Store, folder: Path, moments: Mapping[int, datetime]) -> Iterator[tuple[int, list[Event]]]:
    """Yield each subject with a moment and its exported events without a time or up to the moment."""
    export_meds(store, folder)
    asked = pa.array(list(moments), pa.int64())
    for file in sorted((folder / "data").rglob("*.parquet")):
        table = pq.read_table(file)
        table = table.filter(pc.is_in(table.column("subject_id"), asked))
        for subject in table.column("subject_id").unique().to_pylist():
            mine = table.filter(pc.equal(table.column("subject_id"), subject))
            times = mine.column("time")
            known = pc.or_(pc.is_null(times), pc.less_equal(times, pa.scalar(moments[subject], times.type)))
            mine = mine.filter(pc.fill_null(known, True))
            yield subject, list(zip(*(column.to_pylist() for column in mine.columns), strict=True))
