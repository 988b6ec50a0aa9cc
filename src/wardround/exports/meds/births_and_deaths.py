"""Births and deaths as MEDS has them: one of each per subject, known when a chart knows it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.core import to_microseconds
from wardround.exports.meds.event_rows import CodeBook, EventCounts, EventRows, Integers, TimeMode, plain_events
from wardround.records.chart.censor import clock
from wardround.records.chart.revisions import first_known
from wardround.records.rules.language import ALWAYS_TIME, NO_TIME, Column, Times
from wardround.records.shards.layout import LATE, NEVER_TIME
from wardround.records.shards.table_layout import TableLayout

BIRTH, DEATH = "MEDS_BIRTH", "MEDS_DEATH"
_OLDEST_MICROSECONDS = 125 * 365 * 86_400_000_000


def deaths_of(layout: TableLayout, stored: pa.RecordBatch, subject: Integers, mode: TimeMode) -> EventRows:
    """Return the deaths that a table tells, each from the moment on from which a chart shows it."""
    spec = layout.spec
    assert spec.death is not None
    event = clock(stored, spec.death)
    known = np.maximum(first_known(stored), event)
    if spec.death in spec.late:
        late = clock(stored, _late_clock(layout, spec.death))
        known = np.where(late == NO_TIME, NEVER_TIME, np.maximum(known, late))
    rows = np.flatnonzero((event != NO_TIME) & (known != NEVER_TIME))
    return plain_events(
        subject=subject[rows],
        event=event[rows],
        known=known[rows],
        time=(known if mode == "known" else event)[rows],
        concept=np.zeros(len(rows), np.int64),
        codes=(DEATH,),
        row_id=stored.column(0).take(pa.array(rows)),
    )


def _late_clock(layout: TableLayout, column: str) -> str:
    rule = layout.spec.late[column]
    if isinstance(rule, Column):
        return rule.name
    return next(group.clock for group in layout.late if column in group.columns and group.clock.startswith(LATE))


def first_deaths(found: list[EventRows], book: CodeBook, counts: EventCounts) -> Iterator[EventRows]:
    """Keep one death per subject: the one that was known first, then the one that says the time more exactly."""
    if not found:
        return
    subject, known, event = (
        np.concatenate([getattr(part, name) for part in found]) for name in ("subject", "known", "event")
    )
    order = np.lexsort((event, known, subject))
    first = order[np.r_[True, subject[order][1:] != subject[order][:-1]]] if len(order) else order
    counts.deaths += len(first)
    if len(first):
        book.saw(DEATH, "Death", len(first))
    row_id = pa.concat_arrays([part.row_id for part in found])
    time = np.concatenate([part.time for part in found])
    yield plain_events(
        subject=subject[first],
        event=event[first],
        known=known[first],
        time=time[first],
        concept=np.zeros(len(first), np.int64),
        codes=(DEATH,),
        row_id=row_id.take(pa.array(first)),
    )


def births_of(
    subject: Integers,
    dates: list[date | None],
    row_id: Any,
    parts: list[EventRows],
    book: CodeBook,
    counts: EventCounts,
) -> EventRows:
    """Return births; one that lies longer before the first event than people live is a mask and left out."""
    day = [NO_TIME if born is None else to_microseconds(datetime(born.year, born.month, born.day)) for born in dates]
    born = np.array(day, dtype=np.int64)
    first = _first_times(subject, parts)
    masked = (born != NO_TIME) & (first - born > _OLDEST_MICROSECONDS)
    rows = np.flatnonzero((born != NO_TIME) & ~masked)
    counts.births += len(rows)
    counts.masked_births += int(np.count_nonzero(masked))
    if len(rows):
        book.saw(BIRTH, "Birth", len(rows))
    return plain_events(
        subject=subject[rows],
        event=born[rows],
        known=born[rows],
        time=born[rows],
        concept=np.zeros(len(rows), np.int64),
        codes=(BIRTH,),
        row_id=row_id.take(pa.array(rows)),
    )


def _first_times(subject: Integers, parts: list[EventRows]) -> Times:
    """Return each subject's first event time, ``ALWAYS_TIME`` where there is none."""
    if not parts:
        return np.full(len(subject), ALWAYS_TIME)
    subjects = np.concatenate([part.subject for part in parts])
    times = np.concatenate([part.time for part in parts])
    subjects, times = subjects[times != NO_TIME], times[times != NO_TIME]
    order = np.lexsort((times, subjects))
    subjects, times = subjects[order], times[order]
    place = np.searchsorted(subjects, subject)
    inside = np.minimum(place, max(len(subjects) - 1, 0))
    if len(subjects) == 0:
        return np.full(len(subject), ALWAYS_TIME)
    return np.where((place < len(subjects)) & (subjects[inside] == subject), times[inside], ALWAYS_TIME)
