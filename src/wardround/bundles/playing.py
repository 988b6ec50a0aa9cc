"""Which rows of a source are which kind of event: its roles, read as kinds of bundle events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from wardround.bundles.kinds import STOPS, EventKind
from wardround.records.specs.roles import RowRole, SpanRole
from wardround.records.specs.spec import SourceSpec, TableSpec

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
"""Roles of rows. A row that fits several is of the first: what is both a vital sign and a result is a vital sign."""


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
        """What its end is, where a column tells it."""
        return None if self.role.stop is None else STOPS.get(self.kind)

    @property
    def columns(self) -> frozenset[str]:
        """The columns whose cells its events are made of."""
        single = (self.value, self.text, self.unit, self.role.stop)
        return frozenset(name for name in (*self.label, *self.role.measures, *single) if name is not None)


def played_rows(spec: SourceSpec) -> Mapping[str, tuple[PlayedRows, ...]]:
    """Return, for every table that has events for bundles, which of its rows are what."""
    found: dict[str, list[PlayedRows]] = defaultdict(list)
    for kind, role in _roles(spec):
        found[role.table].append(_played(kind, role, spec.tables[role.table]))
    return {table: tuple(several) for table, several in found.items()}


def carried_kinds(spec: SourceSpec, tables: Collection[str]) -> frozenset[EventKind]:
    """Return the kinds of events that a source with these tables has: what of them is not there was not done."""
    return frozenset(kind for kind, role in _roles(spec) if role.table in tables)


def _roles(spec: SourceSpec) -> Iterator[tuple[EventKind, RowRole]]:
    if spec.roles.admission is not None:
        yield from _stays(spec.roles.admission)
    for name, kind in KIND_OF_ROLE.items():
        for role in spec.roles.rows(name):
            runs = kind is EventKind.INTAKE and role.stop is not None
            yield EventKind.INFUSION_START if runs else kind, role


def _stays(role: SpanRole) -> Iterator[tuple[EventKind, RowRole]]:
    """Read stays as rows that begin and end, or as two events of a stream."""
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
