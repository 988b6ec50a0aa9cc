"""Lines that are rows of the source's files: taken in together, and what comes of each when it stands alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from wardround.core import to_microseconds
from wardround.records import TableSpec
from wardround.stream.cells import subject_of
from wardround.stream.evaluating import RowClocks, RowEvents, in_rounds
from wardround.stream.source_rows import Cells, SourceRows, StreamedRow, typed_cells
from wardround.stream.source_rules import SourceRules


@dataclass(slots=True, kw_only=True)
class RowLine:
    """A row of a table. ``given``: its own id, where the line says one; ``earliest``: the first time that stands in the
    line, in microseconds. Filled in when it is read: ``events`` of it and of all rows that hang on it; ``refused``: why
    it cannot be read; ``is_new``: it says something new."""

    subject: int
    table: TableSpec
    cells: Cells
    given: str | None
    events: RowEvents = field(default_factory=dict)
    refused: str | None = None
    earliest: int | None = None
    is_new: bool = True


@dataclass(slots=True, kw_only=True)
class RowReader:
    """Reads rows with the rules of the source."""

    rules: SourceRules
    rows: SourceRows

    def needs(self, table: str) -> bool:
        """Whether anything of a table's rows is said, or clocks of others look at them."""
        return table in self.rules.played or table in self.rules.asked_by

    def line(self, table: str, row: Mapping[str, Any]) -> RowLine:
        """Return a row as a line. ValueError: a cell is no value of its column, or it does not say whose it is."""
        spec = self.rules.spec.tables[table]
        given = None if "row_id" in spec.read_columns or "row_id" in self.rules.spec.ignored else row.get("row_id")
        subject = subject_of(self.rules.spec, spec, row)
        cells = typed_cells(spec, row)
        own = None if given is None else _own_id(table, given)
        return RowLine(subject=subject, table=spec, cells=cells, given=own, earliest=_earliest(spec, cells))

    def read(self, lines: Sequence[RowLine]) -> None:
        """Take rows in, in order, and fill in what they come to."""
        for places in in_rounds([self._step(place, line) for place, line in enumerate(lines)]):
            taken: list[tuple[RowLine, StreamedRow]] = []
            for place in places:
                line = lines[place]
                try:
                    held = self.rows.put(line.subject, line.table, line.cells, line.given)
                except Exception as error:  # whatever a row holds, it stops nobody else's
                    line.refused = f"{line.table.name}: {error or type(error).__name__}"
                    continue
                line.is_new = held is not None
                if held is not None:
                    taken.append((line, held))
            self._read(taken)

    def _step(self, place: int, line: RowLine) -> tuple[int, str, bool]:
        name, key = line.table.name, [line.cells.get(each) for each in line.table.key]
        row = line.given or ("-".join(map(str, key)) if key else f" {place}")
        return line.subject, f"{name}:{row}", self.rules.concerns_others(name, line.cells)

    def _read(self, taken: Sequence[tuple[RowLine, StreamedRow]]) -> None:
        try:
            self._events(taken)
        except Exception as error:  # one at a time says which of them cannot be read
            if len(taken) > 1:
                for one in taken:
                    self._read([one])
                return
            for line, held in taken:
                self.rows.take_back(line.subject, line.table.name, held)
                line.refused, line.events = f"{line.table.name}: {error or type(error).__name__}", {}

    def _events(self, taken: Sequence[tuple[RowLine, StreamedRow]]) -> None:
        asked: dict[str, dict[tuple[int, str], StreamedRow]] = defaultdict(dict)
        whole: dict[str, dict[int, RowLine]] = defaultdict(dict)
        for line, held in taken:
            name = line.table.name
            line.events = {}
            for table in (name, *self.rules.asked_by.get(name, ())):
                if table not in self.rules.played:
                    continue
                if table == name and table not in self.rules.together:
                    asked[table][held.subject, held.name] = held
                else:
                    whole[table][line.subject] = line
        for table in (*asked, *(each for each in whole if each not in asked)):
            rows = asked[table]
            rows |= {(each.subject, each.name): each for each in self.rows.of(whole[table], table)}
            if not rows:
                continue
            found = RowClocks(rules=self.rules, rows=self.rows).events(table, list(rows.values()))
            single = {(held.subject, held.name): line for line, held in taken if line.table.name == table}
            for key, events in found.items():
                line = single.get(key) or whole[table][key[0]]
                line.events[key] = events


def _own_id(table: str, given: object) -> str:
    return str(given) if str(given).startswith(f"{table}:") else f"{table}:{given}"


def _earliest(table: TableSpec, cells: Cells) -> int | None:
    """The earliest time that stands in a row, in microseconds."""
    times = (str(cell) for name, cell in cells.items() if table.columns.get(name) in ("time", "date"))
    first = min(times, default=None)
    return None if first is None else to_microseconds(datetime.fromisoformat(first))
