"""A tool's result as a typed table: what its text says in lines of cells, with the kind of every column.

The text is what the model was shown, so nothing is read but it: a text that is no table stays a text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wardround.tools.render import DITTO, SEPARATOR

ColumnKind = Literal["number", "time", "text"]
_NUMBER = re.compile(r"[<>]?-?\d[\d,]*(\.\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?")
_FEWEST = 2
"""A table has a header and so many lines of cells less one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """Lines before the header, the columns with their kinds, rows of cells, and lines behind them."""

    caption: str
    columns: tuple[tuple[str, ColumnKind], ...]
    rows: tuple[tuple[str, ...], ...]
    rest: str = ""

    def part(self, start: int, stop: int) -> ResultTable:
        """Some of its rows; what stands behind them only with the last."""
        rest = self.rest if stop >= len(self.rows) else ""
        return replace(self, rows=self.rows[start:stop], rest=rest)


def read_table(text: str) -> ResultTable | None:
    """Read the table of a result's text; None where it is none, or a cell holds what parts cells."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if SEPARATOR in line), None)
    if first is None:
        return None
    header = lines[first].split(SEPARATOR)
    rows = _rows(lines[first + 1 :], len(header))
    if len(rows) < _FEWEST - 1:
        return None
    columns = zip(*rows, strict=True)
    return ResultTable(
        caption="\n".join(lines[:first]),
        columns=tuple((name, _kind(cells)) for name, cells in zip(header, columns, strict=True)),
        rows=tuple(rows),
        rest="\n".join(lines[first + 1 + len(rows) :]).strip("\n"),
    )


def _rows(lines: Sequence[str], width: int) -> list[tuple[str, ...]]:
    """The lines of so many cells up to the first that is none."""
    found: list[tuple[str, ...]] = []
    for line in lines:
        cells = tuple(line.split(SEPARATOR))
        if len(cells) != width:
            break
        found.append(cells)
    return found


def _kind(cells: Sequence[str]) -> ColumnKind:
    """What all cells are that say anything; a sign for the cell above says nothing."""
    said = [cell for cell in cells if cell and cell != DITTO]
    if said and all(_NUMBER.fullmatch(cell) for cell in said):
        return "number"
    return "time" if said and all(_TIME.fullmatch(cell) for cell in said) else "text"
