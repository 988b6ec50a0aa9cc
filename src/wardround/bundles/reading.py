"""A store's rows as events of bundles, table by table, with no step per row. Each row stands where it became known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.bundles.events import NUMBERS, WORDS, BundleEvents, Integers, in_order
from wardround.bundles.kinds import EventKind, ValueLevel
from wardround.bundles.playing import PlayedRows, played_rows
from wardround.records.chart.censor import Mask, clock
from wardround.records.chart.revisions import Revisions, revisions
from wardround.records.pieces import StoredTable
from wardround.records.rules.language import ALWAYS_TIME
from wardround.records.specs.arrow_types import microseconds, valid
from wardround.records.specs.coded_rows import CodedRows
from wardround.records.specs.spec import SourceSpec, TableSpec

_PENDING_KINDS = {EventKind.CULTURE: EventKind.CULTURE_TAKEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCells:
    """One kind's rows of one revision, before their concepts are numbered across tables."""

    revision: Revisions
    rows: Integers
    kind: EventKind
    event: Integers
    labels: Any
    value: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    text: Any
    unit: Any
    encounter: Any
    timed: Mask


def read_events(spec: SourceSpec, tables: Iterable[StoredTable]) -> BundleEvents:
    """Return all events of some subjects, by subject, hour and time; levels are not worked out yet."""
    played = played_rows(spec)
    parts = [cells for table in tables for cells in table_events(table, played.get(table.layout.spec.name, ()))]
    return in_order(gathered(parts))


def table_events(table: StoredTable, played: Sequence[PlayedRows]) -> Iterator[KindCells]:
    """Yield the events of a table's rows, revision by revision and kind by kind."""
    layout = table.layout
    if not played or layout.spec.is_static:
        return
    wanted = frozenset[str]().union(*(each.columns for each in played)) & frozenset(layout.columns)
    for revision in revisions(layout, table.stored, table.subject, wanted):
        ends = {each: _ends_now(table, revision, each) for each in played if each.stop_kind is not None}
        yield from read_revision(layout.spec, played, revision, ends)


def read_revision(
    spec: TableSpec, played: Sequence[PlayedRows], revision: Revisions, ends: Mapping[PlayedRows, Mask]
) -> Iterator[KindCells]:
    """Yield what rows tell at one revision, kind by kind; ``ends``: which of them have ended by it."""
    coded = CodedRows(batch=revision.batch)
    free = revision.known > ALWAYS_TIME
    for each in played:
        own = free & coded.meet(each.role.where)
        free &= ~own
        if own.any():
            ended = ends.get(each, np.zeros(revision.batch.num_rows, dtype=bool))
            yield from _of_kind(spec, revision, each, np.flatnonzero(own), ended)


def _of_kind(
    spec: TableSpec, revision: Revisions, played: PlayedRows, rows: Integers, ended: Mask
) -> Iterator[KindCells]:
    """Yield what begins or is measured, then what has ended by this revision."""
    ends = ended[rows]
    begin = rows[~ends | (revision.number[rows] == 0)]
    kind = _PENDING_KINDS.get(played.kind) if revision.is_pending else played.kind
    kind = EventKind.RETRACTION if revision.is_withdrawn else kind
    if kind is not None and len(begin):
        yield from _cells(spec, revision, played, begin, kind)
    if played.stop_kind is not None and ends.any():
        yield from _cells(spec, revision, played, rows[ends], played.stop_kind)


def _ends_now(table: StoredTable, revision: Revisions, played: PlayedRows) -> Mask:
    """Say which rows are seen to have ended at this revision and not before. An end that is no late cell is a plan."""
    column = played.role.stop
    group = next((group for group in table.layout.late if column in group.columns), None)
    if played.stop_kind is None or group is None or revision.is_pending or revision.is_withdrawn:
        return np.zeros(revision.batch.num_rows, dtype=bool)
    told = clock(table.stored, group.clock)[revision.rows] == revision.known
    return np.asarray(((revision.number == 0) | told) & valid(revision.batch.column(column)))


def _cells(
    spec: TableSpec, revision: Revisions, played: PlayedRows, rows: Integers, kind: EventKind
) -> Iterator[KindCells]:
    batch = revision.batch
    if len(rows) < batch.num_rows:
        batch = batch.take(pa.array(rows))
    event = revision.event[rows] if kind == played.kind or played.stop_kind != kind else _ended(revision, played, rows)
    encounter = _words(batch, spec.encounter)
    if played.role.measures:
        yield from _measures(revision, replace(played, kind=kind), rows, event, batch, encounter)
        return
    value = _numbers(batch, played.value)
    yield KindCells(
        revision=revision,
        rows=rows,
        kind=kind,
        event=event,
        labels=_labels(batch, played, spec.name),
        value=value,
        low=_numbers(batch, played.role.low),
        high=_numbers(batch, played.role.high),
        text=_said(batch, played, value),
        unit=_unit(batch, played),
        encounter=encounter,
        timed=_timed(batch, played),
    )


def _timed(batch: pa.RecordBatch, played: PlayedRows) -> Mask:
    """Say which rows tell the moment of what they say: those of a role to the day or the stay never do."""
    moment = _column(batch, played.role.clock)
    if moment is not None:
        return np.asarray(valid(moment))
    return np.full(batch.num_rows, played.role.precision == "moment")


def _ended(revision: Revisions, played: PlayedRows, rows: Integers) -> Integers:
    cell = revision.batch.column(played.role.stop).take(pa.array(rows))
    if not pa.types.is_timestamp(cell.type):
        return revision.known[rows]
    return np.minimum(microseconds(cell), revision.known[rows])


def _measures(
    revision: Revisions, played: PlayedRows, rows: Integers, event: Integers, batch: pa.RecordBatch, encounter: Any
) -> Iterator[KindCells]:
    """Yield one event for every filled cell of rows that hold many measurements."""
    for column, name in played.role.measures.items():
        value = _numbers(batch, column)
        filled = np.flatnonzero(~np.isnan(value))
        nothing = np.full(len(filled), np.nan)
        no_words = pa.nulls(len(filled), pa.string())
        yield KindCells(
            revision=revision,
            rows=rows[filled],
            kind=played.kind,
            event=event[filled],
            labels=pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(filled), np.int32)), pa.array([name])),
            value=value[filled],
            low=nothing,
            high=nothing,
            text=no_words,
            unit=_declared(len(filled), played, column),
            encounter=encounter.take(pa.array(filled)),
            timed=np.ones(len(filled), dtype=bool),
        )


def _unit(batch: pa.RecordBatch, played: PlayedRows) -> Any:
    """Return each row's unit: what its cell says, else what is declared of the column of numbers."""
    said = _words(batch, played.unit)
    return pc.coalesce(said, _declared(len(said), played, played.value)) if played.value in played.role.units else said


def _declared(rows: int, played: PlayedRows, column: str | None) -> Any:
    unit = played.role.units.get(column or "")
    return pa.nulls(rows, pa.string()) if unit is None else pa.array([unit] * rows, pa.string())


def _column(batch: pa.RecordBatch, name: str | None) -> Any:
    place = -1 if name is None else batch.schema.get_field_index(name)
    return None if place < 0 else batch.column(place)


def _words(batch: pa.RecordBatch, name: str | None) -> Any:
    column = _column(batch, name)
    return pa.nulls(batch.num_rows, pa.string()) if column is None else _as_words(column)


def _as_words(column: Any) -> Any:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _numbers(batch: pa.RecordBatch, name: str | None) -> npt.NDArray[np.float64]:
    column = _column(batch, name)
    if column is None or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return np.full(batch.num_rows, np.nan)
    return np.asarray(pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False))


def _labels(batch: pa.RecordBatch, played: PlayedRows, table: str) -> Any:
    """Return what names each row, by the best of some columns, as a dictionary array; the table where none does."""
    columns = [_as_words(column) for name in played.label if (column := _column(batch, name)) is not None]
    if not columns:
        return pa.array([table] * batch.num_rows, pa.string()).dictionary_encode()
    named = columns[0] if len(columns) == 1 else pc.coalesce(*columns)
    named = pc.fill_null(named, table)
    fluid = _column(batch, played.role.fluid)
    return named.dictionary_encode() if fluid is None else _of_fluids(named, _as_words(fluid)).dictionary_encode()


def _of_fluids(named: Any, fluid: Any) -> Any:
    """Say of what was not measured in blood in what it was: ``Glucose (Urine)``."""
    blood = pc.fill_null(pc.equal(pc.utf8_lower(fluid), "blood"), True)
    if pc.all(blood).as_py():
        return named
    within = pc.binary_join_element_wise(" (", pc.fill_null(fluid, ""), ")", "")
    return pc.if_else(blood, named, pc.binary_join_element_wise(named, within, ""))


def _said(batch: pa.RecordBatch, played: PlayedRows, value: npt.NDArray[np.float64]) -> Any:
    """Return values in words, where they are not said by a number already, or by the name."""
    if played.text is None or played.text in played.label:
        return pa.nulls(batch.num_rows, pa.string())
    numbered = ~np.isnan(value)
    words = _words(batch, played.text)
    return pc.if_else(pa.array(numbered), pa.scalar(None, pa.string()), words) if numbered.any() else words


def gathered(parts: Sequence[KindCells]) -> BundleEvents:
    """Return what several tables tell as one, part after part."""
    names: dict[str, int] = {}
    columns = {name: [np.empty(0, kind)] for name, kind in _TYPES.items()}
    words: dict[str, list[Any]] = {name: [pa.array([], pa.string())] for name in WORDS}
    for part in parts:
        for name, cells in _numbered(part, names).items():
            columns[name].append(cells)
        words["text"].append(part.text)
        words["unit"].append(part.unit)
        words["encounter"].append(part.encounter)
        words["row_id"].append(part.revision.batch.column(0).take(pa.array(part.rows)))
    joined = {name: np.concatenate(several) for name, several in columns.items()}
    return BundleEvents(
        **joined, **{name: pa.concat_arrays(several) for name, several in words.items()}, names=tuple(names)
    )


_TYPES = {name: np.dtype(np.int64) for name in NUMBERS} | {
    "kind": np.dtype(np.int8),
    "level": np.dtype(np.int8),
    "value": np.dtype(np.float64),
    "low": np.dtype(np.float64),
    "high": np.dtype(np.float64),
    "timed": np.dtype(np.bool_),
}


def _numbered(part: KindCells, names: dict[str, int]) -> dict[str, npt.NDArray[Any]]:
    own = [names.setdefault(name, len(names)) for name in part.labels.dictionary.to_pylist()]
    concept = np.asarray(own, np.int64)[part.labels.indices.to_numpy(zero_copy_only=False)] if own else part.rows[:0]
    return {
        "subject": part.revision.subject[part.rows],
        "event": part.event,
        "known": part.revision.known[part.rows],
        "kind": np.full(len(part.rows), part.kind, np.int8),
        "concept": concept,
        "value": part.value,
        "low": part.low,
        "high": part.high,
        "level": np.full(len(part.rows), ValueLevel.UNKNOWN, np.int8),
        "revision": part.revision.number[part.rows],
        "timed": part.timed,
    }
