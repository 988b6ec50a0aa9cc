"""Rules for the rows of a source: which are events and when they are known, from its spec and a store's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from wardround.clinical.bundles.reading import PlayedRows, played_rows
from wardround.core import content_hash
from wardround.records import IngestSettings, SourceSpec, Store, TableSpec
from wardround.records.ingest import ClockSettings, CodeLabels
from wardround.records.rules import Among, Around, Choice, Closed, Following, LateCell, NamedRow, Rule, walk_everywhere


@dataclass(frozen=True, kw_only=True)
class SourceRules:
    """A source's spec with the delays of its clocks and the labels of its codes."""

    spec: SourceSpec
    settings: ClockSettings
    labels: CodeLabels

    @classmethod
    def of_source(cls, spec: SourceSpec, user_codes: Path | None = None) -> SourceRules:
        """Return the rules of a source with the default settings of ingest, without dictionaries."""
        medians = {name: (round(seconds * 1e6),) * 2 for name, seconds in spec.median_seconds.items()}
        settings = ClockSettings(lags=IngestSettings().lags, medians=medians)
        return cls(spec=spec, settings=settings, labels=CodeLabels.of(spec, {}, user_codes))

    @classmethod
    def of_store(cls, store: Store, user_codes: Path | None = None) -> SourceRules:
        """Return the rules with which a store was made: its lags, medians and dictionaries."""
        made: Mapping[str, Any] = store.manifest["settings"]
        lags = {name: round(made[f"{name}_seconds"] * 1e6) for name in IngestSettings().lags}
        medians = {
            name: tuple(None if half is None else round(half * 1e6) for half in halves)
            for name, halves in store.manifest["median_delay_seconds"].items()
        }
        joined = {join.table for table in store.spec.tables.values() for join in table.dictionaries}
        dictionaries = {name: store.dictionary(name) for name in store.manifest["dictionaries"] if name in joined}
        return cls(
            spec=store.spec.in_zone(made.get("time_zone")),
            settings=ClockSettings(lags=lags, medians=medians),  # type: ignore[arg-type]
            labels=CodeLabels.of(store.spec, dictionaries, user_codes),
        )

    def in_zone(self, time_zone: str | None) -> SourceRules:
        """Return the same rules in a time zone. UserError: the source or the store declares another zone."""
        return replace(self, spec=self.spec.in_zone(time_zone))

    @property
    def digest(self) -> str:
        """Hash of the spec, the delays and the names of the dictionaries."""
        delays = sorted(self.settings.lags.items()), sorted(self.settings.medians.items())
        return content_hash([self.spec.sha256, delays, sorted(self.labels.dictionaries)])[:16]

    @cached_property
    def played(self) -> Mapping[str, tuple[PlayedRows, ...]]:
        """By table: which of its rows are events."""
        found = played_rows(self.spec)
        return {name: several for name, several in found.items() if not self.spec.tables[name].is_static}

    @cached_property
    def needed_tables(self) -> Mapping[str, frozenset[str]]:
        """By table with events: the tables that its clocks read, directly or through another table."""
        own = {name: self._directly_needed(name) for name in self.spec.tables}
        found = {}
        for name in self.played:
            reached: set[str] = set()
            front = set(own[name])
            while front:
                reached |= front
                front = {table for needed in front for table in own[needed]} - reached
            found[name] = frozenset(reached)
        return found

    @cached_property
    def needed_by(self) -> Mapping[str, tuple[str, ...]]:
        """By table: the tables with events whose clocks read its rows."""
        found: dict[str, list[str]] = {}
        for name, others in self.needed_tables.items():
            for other in others - {name}:
                found.setdefault(other, []).append(name)
        return {name: tuple(several) for name, several in found.items()}

    @cached_property
    def together(self) -> frozenset[str]:
        """Tables whose rows are read together with all others of their subject, because their clocks depend on them."""
        return frozenset(name for name in self.played if self._is_together(self.spec.tables[name], name))

    def concerns_others(self, name: str, cells: Mapping[str, Any]) -> bool:
        """Whether clocks of other rows of the subject may depend on a row of a table."""
        if name not in self.together or name in self.needed_by:
            return name in self.together or name in self.needed_by
        amended, looked_at = self.spec.tables[name].amended, self._looked_at[name]
        again = None if amended is None or amended.row is None else cells.get(amended.row)
        if looked_at is None or again is not None:
            return True
        return any(_holds(cells.get(column), values) for column, values in looked_at)

    @cached_property
    def _looked_at(self) -> Mapping[str, tuple[tuple[str, tuple[str, ...]], ...] | None]:
        """By table in ``together``: column and values of the rows that clocks of other rows read; None: any row."""
        return {name: self._looked_at_in(name) for name in self.together}

    def _looked_at_in(self, name: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        spec = self.spec.tables[name]
        if spec.pending is not None or spec.group is not None or not self.needed_tables[name] <= {name}:
            return None
        found: list[tuple[str, tuple[str, ...]]] = []
        for part in (part for rule in self._rules(name) for part in walk_everywhere(rule)):
            match part:
                case Following():
                    found.append((part.column, (*part.values, *part.barriers)))
                case Closed():
                    found.append((part.column, (f"{part.begin}*", f"{part.end}*")))
                case Around(start=Choice(column=column, values=values, other=other)) if str(other) == "never":
                    found.append((column, values))
                case NamedRow() | Among() | Around():
                    return None
        return tuple(dict.fromkeys(found))

    def _is_together(self, table: TableSpec, name: str) -> bool:
        wide = any(isinstance(part, Closed | Following) for rule in self._rules(name) for part in walk_everywhere(rule))
        rows = table.amended is not None and table.amended.row is not None
        return wide or rows or table.pending is not None or name in self.needed_tables[name]

    def _directly_needed(self, name: str) -> set[str]:
        found: set[str] = set()
        for rule in self._rules(name):
            for part in walk_everywhere(rule):
                if isinstance(part, NamedRow | Among | Around):
                    found.add(part.table)
        return found

    def _rules(self, name: str) -> list[Rule]:
        """Return the rules that a table's events need; for a table without events those that other tables may read."""
        table, played = self.spec.tables[name], self.played.get(name)
        if not played:
            return [table.available_at, *(rule for column, rule in table.late.items() if (name, column) in self._cells)]
        used = frozenset[str]().union(*(each.columns for each in played))
        used |= {column for each in played for condition in each.role.where for column in condition}
        used |= {c for each in played for c in (each.role.low, each.role.high, each.role.fluid, each.role.clock) if c}
        late = [rule for column, rule in table.late.items() if column in used]
        pending = [] if table.pending is None else [table.pending.at, table.pending.until]
        return [table.event_time, table.available_at, *late, *pending]

    @cached_property
    def _cells(self) -> frozenset[tuple[str, str]]:
        """The late cells, by table and column, whose clocks are read by rules of other tables."""
        rules = [rule for table in self.spec.tables.values() for _, rule in table.rules()]
        parts = (part for rule in rules for part in walk_everywhere(rule))
        return frozenset((part.table, part.column) for part in parts if isinstance(part, LateCell))


def _holds(cell: object, values: tuple[str, ...]) -> bool:
    """Whether a cell equals a value, or begins with one that ends in a star."""
    text = "" if cell is None else str(cell)
    return any(text.startswith(value[:-1]) if value.endswith("*") else text == value for value in values)
