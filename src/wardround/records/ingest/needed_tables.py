"""Tables that are not there although others need them: what no chart can show for want of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from wardround.records.rules.language import Known, LateCell, Reference, There, walk_everywhere
from wardround.records.specs.spec import SourceSpec, TableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """What a missing table takes with it: rows that are never shown, by table, and by table the column of encounters
    that stays empty in its rows."""

    rows: Mapping[str, int]
    encounters: Mapping[str, str]

    def __str__(self) -> str:
        lost = [f"{count:,} rows of {name}" for name, count in self.rows.items()]
        return ", ".join([*lost, *(f"{column} of {name}" for name, column in self.encounters.items())])


def needed_tables(
    spec: SourceSpec, missing: Collection[str], read: Mapping[str, Mapping[str, Any]]
) -> dict[str, LostRows]:
    """Return, by missing table, what is lost without it. ``read`` are the tables of a store's manifest.

    A module may be left out as a whole: encounters that only its tables know are not missed.
    """
    modules = {spec.tables[name].module for name in read}
    lost = {name: _lost(spec, name, read) for name in missing if name in spec.tables}
    return {
        name: what
        for name, what in lost.items()
        if what.rows or (what.encounters and spec.tables[name].module in modules)
    }


def _lost(spec: SourceSpec, missing: str, read: Mapping[str, Mapping[str, Any]]) -> LostRows:
    rows: dict[str, int] = {}
    encounters: dict[str, str] = {}
    for name, said in read.items():
        table = spec.tables[name]
        if said["never_visible"] and missing in _looked_up(table):
            rows[name] = said["never_visible"]
        elif said["rows"] and table.encounter in said["columns"] and _names(table, missing):
            encounters[name] = str(table.encounter)
    return LostRows(rows=rows, encounters=encounters)


def _looked_up(table: TableSpec) -> set[str]:
    """The tables in which a row's clock looks."""
    parts = walk_everywhere(table.available_at)
    return {part.table for part in parts if isinstance(part, Known | Reference | LateCell | There)}


def _names(table: TableSpec, missing: str) -> bool:
    """Whether the number of a row's encounter is known with that encounter's own row, which is in ``missing``."""
    rule = table.late.get(table.encounter or "")
    return isinstance(rule, Known) and rule.table == missing
