"""What some subjects have as MEDS events: every row's revisions, births, deaths and what never changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.exports.meds.births_and_deaths import births_of, deaths_of, first_deaths
from wardround.exports.meds.event_rows import (
    CodeBook,
    EventCounts,
    EventRows,
    Integers,
    TimeMode,
    null_static,
    plain_events,
)
from wardround.records.chart.censor import ChartTable, birth_dates
from wardround.records.chart.event_columns import EventColumns, event_columns
from wardround.records.chart.revisions import Revisions, first_known, last_revisions, revisions
from wardround.records.pieces import StoredTable
from wardround.records.rules.language import Times
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.shards.table_layout import TableLayout

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
        counts.never_visible += int(np.count_nonzero(first_known(stored) == NEVER_TIME))
        made = (last_revisions if mode == "event" else revisions)(layout, stored, subject)
        parts += _of_table(layout, made, mode, book)
        if layout.spec.age is not None:
            births.append((subject, birth_dates(layout.spec.age, stored), stored.column(0)))
        if layout.spec.death in stored.schema.names:
            deaths.append(deaths_of(layout, stored, subject, mode))
    parts += first_deaths(deaths, book, counts)
    parts += [births_of(*each, parts, book, counts) for each in births]
    counts.events += sum(len(part.subject) for part in parts)
    counts.later += sum(int(np.count_nonzero(part.number)) for part in parts if part.codes not in _TAKEN_BACK)
    return parts


def _of_table(layout: TableLayout, made: Iterable[Revisions], mode: TimeMode, book: CodeBook) -> Iterator[EventRows]:
    for rows in made:
        if rows.is_withdrawn:
            book.saw(WITHDRAWN, "The row of this id was entered in error or cancelled", len(rows.subject))
            yield _taken_back(rows, mode, WITHDRAWN)
            continue
        if rows.answered is not None:
            yield from _answered(rows, rows.answered, mode, book)
        if layout.spec.is_static:
            yield from _attributes(layout, rows, book)
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
    told = plain_events(
        subject=rows.subject,
        event=rows.event,
        known=rows.known,
        time=rows.known if mode == "known" else rows.event,
        concept=np.zeros(len(rows.subject), np.int64),
        codes=(code,),
        row_id=rows.batch.column(0),
    )
    return replace(told, number=rows.number, tells=True)


def _in_order(layout: TableLayout, rows: Revisions) -> EventColumns:
    """Flatten rows as a chart does. Their places stand for their times, so that they stay in order."""
    places = np.arange(rows.batch.num_rows).view("datetime64[us]")
    table = ChartTable(name=layout.spec.name, spec=layout.spec, batch=rows.batch, event_time=places)
    return event_columns([table])


def _note_groups(system: str, columns: EventColumns, labels: Any, book: CodeBook) -> None:
    encoded = labels.dictionary_encode()
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    names = encoded.dictionary.to_pylist()
    for pair in np.unique(columns.concept * (len(names) + 1) + places + 1).tolist():
        concept, place = divmod(pair, len(names) + 1)
        if place:
            book.parents[columns.codes[concept]].add(f"{system}//{names[place - 1]}")


def _attributes(layout: TableLayout, rows: Revisions, book: CodeBook) -> Iterator[EventRows]:
    """Say what a table without times tells of a person beside its code as codes: ``GENDER//F``. Late cells stay out."""
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
            known=rows.known[filled],
            time=rows.known[filled],
            concept=concept,
            codes=tuple(f"{name.upper()}//{word}" for word in words),
            row_id=rows.batch.column(0).filter(pa.array(filled)),
        )
