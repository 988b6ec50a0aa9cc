"""A store's rows as MEDS events: revisions, births, deaths."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import to_microseconds
from wardround.records import ChartTable, EventColumns
from wardround.records.chart import (
    Revisions,
    birth_dates,
    clock,
    event_columns,
    first_known,
    last_revisions,
    read_revisions,
)
from wardround.records.pieces import StoredTable
from wardround.records.rules import ALWAYS_TIME, NO_TIME, Column, Times
from wardround.records.shards import LATE, NEVER_TIME, TableLayout

# Events as columns, the codes seen, and what is counted: what the parts of an export hand to each other.


TimeMode = Literal["known", "event"]
Integers = npt.NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class CodeBook:
    """What was seen of every code: how often under which description, and the groups that it belongs to."""

    descriptions: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    parents: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def saw(self, code: str, description: str, count: int) -> None:
        """Note a code with its description; one that only repeats the code says nothing."""
        self.descriptions[code][description if description != code else ""] += count


@dataclass(slots=True, kw_only=True)
class EventCounts:
    """What an export wrote and left out."""

    events: int = 0
    later: int = 0
    """Events that are a row once more, with cells that were not known at first."""
    never_visible: int = 0
    births: int = 0
    deaths: int = 0
    masked_births: int = 0
    """Dates of birth that would make a person older than people get: how a source hides the age of the very old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRows:
    """Events as columns, not yet in order. ``time`` holds what goes into the MEDS column, ``NO_TIME`` for null;
    ``tells``: whether they tell how rows read, so that a later telling of a row takes the place of one before."""

    subject: Integers
    time: Times
    event: Times
    known: Times
    number: Integers
    concept: Integers
    value: npt.NDArray[np.float64]
    codes: tuple[str, ...]
    text: Any
    unit: Any
    row_id: Any
    tells: bool = False

    @property
    def telling_of(self) -> Any:
        """The rows that they tell of, null where they do not."""
        return self.row_id if self.tells else pa.nulls(len(self.row_id), pa.string())


def plain_events(
    *,
    subject: Integers,
    event: Times,
    known: Times,
    time: Times,
    concept: Integers,
    codes: tuple[str, ...],
    row_id: Any,
) -> EventRows:
    """Return events that are a code and nothing else."""
    nothing = pa.nulls(len(subject), pa.string())
    return EventRows(
        subject=subject,
        time=null_static(time),
        event=null_static(event),
        known=null_static(known),
        number=np.zeros(len(subject), np.int64),
        concept=concept,
        value=np.full(len(subject), np.nan),
        codes=codes,
        text=nothing,
        unit=nothing,
        row_id=row_id,
    )


def null_static(times: Times) -> Times:
    return np.where(times <= ALWAYS_TIME, NO_TIME, times)


# Births and deaths as MEDS has them: one of each per subject, known when a chart knows it.


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


# What some subjects have as MEDS events: every row's revisions, births, deaths and what never changes.


WITHDRAWN = "WITHDRAWN"
"""The code of an event that takes a row back."""
ANSWERED = "ANSWERED"
"""The code of an event that takes an order back, as its result is in."""
_TAKEN_BACK = ((WITHDRAWN,), (ANSWERED,))


def events_of(tables: Iterable[StoredTable], mode: TimeMode, book: CodeBook, counts: EventCounts) -> list[EventRows]:
    """Return everything that some subjects have, table by table."""
    parts: list[EventRows] = []
    births: list[tuple[Integers, list[date | None], Any]] = []
    deaths: list[EventRows] = []
    for table in tables:
        layout, subject, stored = table.layout, table.subject, table.stored
        first = first_known(stored)
        counts.never_visible += int(np.count_nonzero(first == NEVER_TIME))
        made = (last_revisions if mode == "event" else read_revisions)(layout, stored, subject)
        parts += _of_table(layout, made, first, mode, book)
        if layout.spec.age is not None:
            births.append((subject, birth_dates(layout.spec.age, stored), stored.column(0)))
        if layout.spec.death in stored.schema.names:
            deaths.append(deaths_of(layout, stored, subject, mode))
    parts += first_deaths(deaths, book, counts)
    parts += [births_of(*each, parts, book, counts) for each in births]
    counts.events += sum(len(part.subject) for part in parts)
    counts.later += sum(int(np.count_nonzero(part.number)) for part in parts if part.codes not in _TAKEN_BACK)
    return parts


def _of_table(
    layout: TableLayout, made: Iterable[Revisions], first: Times, mode: TimeMode, book: CodeBook
) -> Iterator[EventRows]:
    for rows in made:
        if rows.is_withdrawn:
            book.saw(WITHDRAWN, "The row of this id was entered in error or cancelled", len(rows.subject))
            yield _taken_back(rows, mode, WITHDRAWN)
            continue
        if rows.answered is not None:
            yield from _answered(rows, rows.answered, mode, book)
        if layout.spec.is_static:
            yield from _attributes(layout, rows, first, mode, book)
            if layout.spec.code is None:
                continue
        columns = _in_order(layout, rows)
        weights = np.bincount(columns.concept, minlength=len(columns.codes))
        for place, code in enumerate(columns.codes):
            book.saw(code, columns.descriptions[place], int(weights[place]))
        if layout.spec.group is not None and layout.spec.group.name in rows.batch.schema.names:
            _note_groups(layout.spec.group.system, columns, rows.batch.column(layout.spec.group.name), book)
        yield EventRows(
            subject=rows.subject,
            time=null_static(rows.known if mode == "known" else rows.event),
            event=null_static(rows.event),
            known=null_static(rows.known),
            number=rows.number,
            concept=columns.concept,
            value=columns.numeric_value,
            codes=columns.codes,
            text=columns.text_array,
            unit=columns.unit_array,
            row_id=columns.row_id_array,
            tells=True,
        )


def _answered(rows: Revisions, answered: Times, mode: TimeMode, book: CodeBook) -> Iterator[EventRows]:
    """Say from when on orders are no longer shown as such: the first result is in."""
    those = np.flatnonzero(answered != NEVER_TIME)
    if not len(those):
        return
    book.saw(ANSWERED, "The order of this id has its result", len(those))
    yield _taken_back(
        replace(
            rows,
            batch=rows.batch.take(pa.array(those)),
            subject=rows.subject[those],
            event=rows.event[those],
            known=answered[those],
            number=rows.number[those] + 1,
        ),
        mode,
        ANSWERED,
    )


def _taken_back(rows: Revisions, mode: TimeMode, code: str) -> EventRows:
    """Say from when on rows that were told are taken back: the row id names them, the code says why."""
    withdrawals = plain_events(
        subject=rows.subject,
        event=rows.event,
        known=rows.known,
        time=rows.known if mode == "known" else rows.event,
        concept=np.zeros(len(rows.subject), np.int64),
        codes=(code,),
        row_id=rows.batch.column(0),
    )
    return replace(withdrawals, number=rows.number, tells=True)


def _in_order(layout: TableLayout, rows: Revisions) -> EventColumns:
    """Flatten rows as a chart does. Their places stand for their times, so that they stay in order."""
    places = np.arange(rows.batch.num_rows).view("datetime64[us]")
    table = ChartTable(name=layout.spec.name, spec=layout.spec, batch=rows.batch, event_time=places)
    return event_columns([table])


def _note_groups(system: str, columns: EventColumns, labels: Any, book: CodeBook) -> None:
    encoded = labels.dictionary_encode()
    places = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    names = encoded.dictionary.to_pylist()
    for pair in np.unique(columns.concept * (len(names) + 1) + places + 1).tolist():
        concept, place = divmod(pair, len(names) + 1)
        if place:
            book.parents[columns.codes[concept]].add(f"{system}//{names[place - 1]}")


def _attributes(
    layout: TableLayout, rows: Revisions, first: Times, mode: TimeMode, book: CodeBook
) -> Iterator[EventRows]:
    """Say what a table without times tells of a person beside its code as codes: ``GENDER//F``. Late cells stay out, so
    all of it was known with the row (``first``), whenever the rest of that was."""
    known = first[rows.rows]
    spec = layout.spec
    keys = {spec.subject, spec.encounter, *spec.key, *spec.late, spec.code, spec.label, spec.text, spec.unit}
    wanted = [name for name in spec.default_columns if name in layout.columns] or list(layout.columns)
    for name in wanted:
        if layout.columns[name] != "text" or name in keys or int(rows.number.max(initial=0)):
            continue
        column = rows.batch.column(rows.batch.schema.get_field_index(name))
        filled = column.is_valid().to_numpy(zero_copy_only=False)
        if not filled.any():
            continue
        encoded = column.filter(pa.array(filled)).dictionary_encode()
        words = encoded.dictionary.to_pylist()
        concept = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        for word, count in zip(words, np.bincount(concept, minlength=len(words)).tolist(), strict=True):
            book.saw(f"{name.upper()}//{word}", f"{name.replace('_', ' ')}: {word}", count)
        yield plain_events(
            subject=rows.subject[filled],
            event=rows.event[filled],
            known=known[filled],
            time=(known if mode == "known" else rows.event)[filled],
            concept=concept,
            codes=tuple(f"{name.upper()}//{word}" for word in words),
            row_id=rows.batch.column(0).filter(pa.array(filled)),
        )
