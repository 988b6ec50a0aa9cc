"""Read a store's rows as events of bundles; which kinds and units a store carries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.clinical.bundles.events import (
    NUMBERS,
    STOPS,
    WORDS,
    BundleEvents,
    EventKind,
    Integers,
    ValueLevel,
    in_order,
)
from wardround.clinical.bundles.fold import TRENDS
from wardround.clinical.vocabulary import clinical_name, records_allergy
from wardround.clinical.vocabulary.units import plain_unit
from wardround.records import RowRole, SourceSpec, SpanRole, Store, TableSpec
from wardround.records.chart import Mask, Revisions, clock, read_revisions
from wardround.records.pieces import StoredTable
from wardround.records.rules import ALWAYS_TIME
from wardround.records.specs import CodedRows, microseconds, valid

# Kinds of events by the roles of a source's tables.


KIND_OF_ROLE: Mapping[str, EventKind] = {
    "transfer": EventKind.TRANSFER,
    "diagnosis": EventKind.DIAGNOSIS,
    "allergy": EventKind.ALLERGY,
    "order": EventKind.MEDICATION_START,
    "administration": EventKind.ADMINISTRATION,
    "vital": EventKind.VITAL,
    "lab": EventKind.LAB,
    "culture": EventKind.CULTURE,
    "intake": EventKind.INTAKE,
    "output": EventKind.OUTPUT,
    "procedure": EventKind.PROCEDURE,
}
"""Roles by priority: a row that fits several has the first, so a vital sign that is also a result is a vital sign."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlayedRows:
    """Rows of one table that are events of one kind: the columns that name and measure them."""

    kind: EventKind
    role: RowRole
    label: tuple[str, ...]
    value: str | None
    text: str | None
    unit: str | None

    @property
    def stop_kind(self) -> EventKind | None:
        """The kind of its end, if a column records one."""
        return None if self.role.stop is None else STOPS.get(self.kind)

    @property
    def columns(self) -> frozenset[str]:
        """The columns from which its events are made."""
        single = (self.value, self.text, self.unit, self.role.stop)
        return frozenset(name for name in (*self.label, *self.role.measures, *single) if name is not None)


def played_rows(spec: SourceSpec) -> Mapping[str, tuple[PlayedRows, ...]]:
    """Return by table with events which of its rows are events of which kind."""
    found: dict[str, list[PlayedRows]] = defaultdict(list)
    for kind, role in _roles(spec):
        found[role.table].append(_played(kind, role, spec.tables[role.table]))
    return {table: tuple(several) for table, several in found.items()}


def carried_kinds(spec: SourceSpec, tables: Collection[str]) -> frozenset[EventKind]:
    """Return the kinds of events that a source with these tables records; without a row an action was not done."""
    return frozenset(kind for kind, role in _roles(spec) if role.table in tables)


def _roles(spec: SourceSpec) -> Iterator[tuple[EventKind, RowRole]]:
    if spec.roles.admission is not None:
        yield from _stays(spec.roles.admission)
    for name, kind in KIND_OF_ROLE.items():
        for role in spec.roles.rows(name):
            runs = kind is EventKind.INTAKE and role.stop is not None
            yield EventKind.INFUSION_START if runs else kind, role


def _stays(role: SpanRole) -> Iterator[tuple[EventKind, RowRole]]:
    """Split stays into rows for their begin and end."""
    if role.code is None:
        end = next((end.partition("|")[0] for end in role.ends), None)
        yield EventKind.ADMISSION, RowRole(table=role.table, where=role.where, stop=end)
        return
    yield EventKind.ADMISSION, RowRole(table=role.table, where=({role.code: role.starts},))
    if role.stops:
        yield EventKind.DISCHARGE, RowRole(table=role.table, where=({role.code: role.stops},))


def _played(kind: EventKind, role: RowRole, spec: TableSpec) -> PlayedRows:
    label = role.label or ((spec.label,) if spec.label else ())
    return PlayedRows(
        kind=kind,
        role=role,
        label=label,
        value=role.value or spec.value,
        text=role.text or spec.text,
        unit=role.unit or spec.unit,
    )


# A store's rows as events of bundles, table by table, without a Python step per row, at the time each became known.


_PENDING_KINDS = {EventKind.CULTURE: EventKind.CULTURE_TAKEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCells:
    """Rows of one kind and revision, before concepts are numbered across tables."""

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
    """Return all events of some subjects, by subject, hour and time, without levels."""
    played = played_rows(spec)
    parts = [cells for table in tables for cells in table_events(table, played.get(table.layout.spec.name, ()))]
    return in_order(gathered(parts))


def table_events(table: StoredTable, played: Sequence[PlayedRows]) -> Iterator[KindCells]:
    """Yield the events of a table's rows, revision by revision and kind by kind."""
    layout = table.layout
    if not played or layout.spec.is_static:
        return
    wanted = frozenset[str]().union(*(each.columns for each in played)) & frozenset(layout.columns)
    for revision in read_revisions(layout, table.stored, table.subject, wanted):
        ends = {each: _ends_now(table, revision, each) for each in played if each.stop_kind is not None}
        yield from read_revision(layout.spec, played, revision, ends)


def read_revision(
    spec: TableSpec, played: Sequence[PlayedRows], revision: Revisions, ends: Mapping[PlayedRows, Mask]
) -> Iterator[KindCells]:
    """Yield the events of rows at one revision, kind by kind; ``ends``: which rows have ended by then."""
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
    """Yield begins and measurements, then ends known by this revision."""
    ends = ended[rows]
    begin = rows[~ends | (revision.number[rows] == 0)]
    kind = _PENDING_KINDS.get(played.kind) if revision.is_pending else played.kind
    kind = EventKind.RETRACTION if revision.is_withdrawn else kind
    if kind is not None and len(begin):
        for cells in _cells(spec, revision, played, begin, kind):
            yield from _with_allergies(cells) if kind is EventKind.DIAGNOSIS else (cells,)
    if played.stop_kind is not None and ends.any():
        yield from _cells(spec, revision, played, rows[ends], played.stop_kind)


def _with_allergies(cells: KindCells) -> Iterator[KindCells]:
    """Yield diagnoses; those that record an allergy have their own kind."""
    is_allergy = [name is not None and records_allergy(name) for name in cells.labels.dictionary.to_pylist()]
    if not any(is_allergy):
        yield cells
        return
    mask = np.array(is_allergy)[cells.labels.indices.to_numpy(zero_copy_only=False)]
    for kind, own in ((EventKind.DIAGNOSIS, ~mask), (EventKind.CODED_ALLERGY, mask)):
        places = np.flatnonzero(own)
        numbers = {name: getattr(cells, name)[places] for name in ("rows", "event", "value", "low", "high", "timed")}
        words = {name: getattr(cells, name).take(pa.array(places)) for name in ("labels", "text", "unit", "encounter")}
        yield replace(cells, kind=kind, **numbers, **words)


def _ends_now(table: StoredTable, revision: Revisions, played: PlayedRows) -> Mask:
    """Return which rows are first known to have ended at this revision. An end that is no late cell is only a plan."""
    column = played.role.stop
    group = next((group for group in table.layout.late if column in group.columns), None)
    if played.stop_kind is None or group is None or revision.is_pending or revision.is_withdrawn:
        return np.zeros(revision.batch.num_rows, dtype=bool)
    is_known_now = clock(table.stored, group.clock)[revision.rows] == revision.known
    return np.asarray(((revision.number == 0) | is_known_now) & valid(revision.batch.column(column)))


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
        text=_text_values(batch, played, value),
        unit=_unit(batch, played),
        encounter=encounter,
        timed=_timed(batch, played),
    )


def _timed(batch: pa.RecordBatch, played: PlayedRows) -> Mask:
    """Return which rows have the moment of their event; rows of a role known to the day or the stay have none."""
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
    """Yield one event for every filled cell of rows with several measurements."""
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
    """Return each row's unit: its cell, unless that is a word for none, else the unit declared for the column of
    numbers."""
    units = _words(batch, played.unit)
    none = [unit for unit in pc.unique(units).to_pylist() if unit is not None and plain_unit(unit) is None]
    if none:
        units = pc.if_else(pc.is_in(units, pa.array(none)), pa.scalar(None, pa.string()), units)
    if played.value not in played.role.units:
        return units
    return pc.coalesce(units, _declared(len(units), played, played.value))


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
    """Return each row's label from the first filled column, else the table's name, as a dictionary array."""
    columns = [_as_words(column) for name in played.label if (column := _column(batch, name)) is not None]
    if not columns:
        return pa.array([table] * batch.num_rows, pa.string()).dictionary_encode()
    named = columns[0] if len(columns) == 1 else pc.coalesce(*columns)
    named = pc.fill_null(named, table)
    fluid = _column(batch, played.role.fluid)
    return named.dictionary_encode() if fluid is None else _of_fluids(named, _as_words(fluid)).dictionary_encode()


def _of_fluids(named: Any, fluid: Any) -> Any:
    """Add the specimen to labels of rows not measured in blood: ``Glucose (Urine)``."""
    blood = pc.fill_null(pc.equal(pc.utf8_lower(fluid), "blood"), True)
    if pc.all(blood).as_py():
        return named
    within = pc.binary_join_element_wise(" (", pc.fill_null(fluid, ""), ")", "")
    return pc.if_else(blood, named, pc.binary_join_element_wise(named, within, ""))


def _text_values(batch: pa.RecordBatch, played: PlayedRows, value: npt.NDArray[np.float64]) -> Any:
    """Return values in words; null where the row has a number, or the label is the value."""
    if played.text is None or played.text in played.label:
        return pa.nulls(batch.num_rows, pa.string())
    numbered = ~np.isnan(value)
    words = _words(batch, played.text)
    return pc.if_else(pa.array(numbered), pa.scalar(None, pa.string()), words) if numbered.any() else words


def gathered(parts: Sequence[KindCells]) -> BundleEvents:
    """Join the events of several parts, in order."""
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


# What a store carries: kinds of events, and the units in which each measurement is charted.
#
# A person's own later readings must not decide how an earlier one is read: a unit that only one person has is not used
# for that person.


_SEVERAL = -1
"""Instead of a subject: several subjects have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What a store carries.

    ``kinds``: kinds of events it records; an action of these kinds without a row was not done. ``units``: by clinical
    name the charted units, each with its only subject, -1 if several subjects have it."""

    kinds: frozenset[EventKind] = frozenset()
    units: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)

    def units_of(self, concept: str, subject: int) -> frozenset[str]:
        """Return the units in which subjects other than this one have a measurement."""
        found = self.units.get(clinical_name(concept), {})
        return frozenset(unit for unit, only in found.items() if only != subject)

    def only_theirs(self, concept: str) -> frozenset[int]:
        """Return the subjects that are the only ones with some unit of a measurement."""
        return frozenset(self.units.get(clinical_name(concept), {}).values()) - {_SEVERAL}

    def for_subject(self, subject: int) -> Carried:
        """Return the part that may be shown for one subject: units without their subjects."""
        units = {name: dict.fromkeys(self.units_of(name, subject), _SEVERAL) for name in self.units}
        return replace(self, units=units)


NOTHING_KNOWN = Carried()
"""Default for a feed that declares nothing."""


@lru_cache(maxsize=2)
def carried_by(store: Store) -> Carried:
    """Return what a store carries. Trusted code only: reads the unit of every measurement."""
    first: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], int] = {}
    for name, unit, least, most in _charted(store):
        key = (clinical_name(name), unit)
        first[key], last[key] = min(least, first.get(key, least)), max(most, last.get(key, most))
    units: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, unit), subject in sorted(first.items()):
        units[name][unit] = subject if last[name, unit] == subject else _SEVERAL
    return Carried(kinds=carried_kinds(store.spec, store.table_names), units=dict(units))


def _charted(store: Store) -> Iterator[tuple[str, str, int, int]]:
    """Yield name, unit, and the least and greatest subject with it, table by table."""
    played = {
        table: tuple(map(_units_alone, several))
        for table, several in played_rows(store.spec).items()
        if any(each.kind in TRENDS for each in several)
    }
    for shard in range(store.shard_count):
        for table in played:
            found = store.shard_rows(shard, table) if table in store.table_names else None
            if found is None:
                continue
            for cells in table_events(StoredTable(layout=found[0], subject=found[1], stored=found[2]), played[table]):
                if cells.kind in TRENDS:
                    subjects = cells.revision.subject[cells.rows]
                    yield from _counted(cells.labels, cells.unit, ~np.isnan(cells.value), subjects)


def _units_alone(played: PlayedRows) -> PlayedRows:
    """Return the rows without columns that are not needed for units."""
    return replace(played, text=None, role=replace(played.role, stop=None, low=None, high=None))


def _counted(labels: Any, unit: Any, numbered: Any, subjects: Integers) -> Iterator[tuple[str, str, int, int]]:
    units = pc.fill_null(unit, "").dictionary_encode()
    spelt, names = units.dictionary.to_pylist(), labels.dictionary.to_pylist()
    code = np.asarray(labels.indices, np.int64) * max(len(spelt), 1) + np.asarray(units.indices, np.int64)
    code, subjects = code[numbered], subjects[numbered]
    least = np.full(len(names) * max(len(spelt), 1), np.iinfo(np.int64).max)
    most = np.full(len(least), np.iinfo(np.int64).min)
    np.minimum.at(least, code, subjects)
    np.maximum.at(most, code, subjects)
    for place in np.unique(code).tolist():
        name, unit_place = divmod(place, len(spelt))
        if spelt[unit_place]:
            yield names[name], spelt[unit_place], int(least[place]), int(most[place])
