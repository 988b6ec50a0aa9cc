"""Render results as compact text tables within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wardround.core.messages import estimate_tokens
from wardround.tools.session import Page, Session, ToolResult
from wardround.tools.table_view import BoolArray, IntArray, TableView, ViewColumn, as_cell

# The columns a short page shows: those that say something, not the ones that repeat it or serve the computer.
#
# A source's spec names a table's main columns. When a row became known is left out of them, because every row on the
# page was known; a number is, where the text beside it is that number. What is left out is named on the page.


def main_columns(view: TableView, rows: IntArray, keep: Sequence[str] = ()) -> list[ViewColumn]:
    """Return the columns to show of some rows. ``keep`` are requested columns, which always stay."""
    default = view.table.spec.default_columns
    if not default:
        return view.shown
    wanted = {*default, *keep} - ({view.filing_column} - set(keep))
    twin = view.number_and_text
    if twin is not None and not repeated(*twin, rows).all():
        wanted.add(twin[0].name)
    return [column for column in view.shown if column.name in wanted]


def repeated(number: ViewColumn, text: ViewColumn, rows: IntArray) -> BoolArray:
    """For each row whether its number says nothing that the text beside it does not: it has none, or the same."""
    codes, words = number.codes[rows], text.codes[rows]
    values, written = number.numbers[codes], text.numbers[words]
    same: BoolArray = (values == written) | (np.isnan(values) & np.isnan(written))
    return (codes < 0) | ((words >= 0) & same)


# Results as compact text: a caption, a header, one line per row, cut at whole rows within a token budget.
#
# Nothing is cut in silence: the caption says how many rows of how many are shown and carries the cursor of the next
# page, and a cut cell says how many characters are missing and carries a cursor of its own. Columns that are the same
# in every row of the result are folded into one line.


SEPARATOR = " | "
DITTO = '"'
_CHUNK_ROWS = 64
_FOLD_FROM_ROWS = 3
_FOLDED_CHARACTERS = 120
_SMALLEST_CELL = 160
_CHARACTERS_PER_TOKEN = 3.0
_CAPTION_TOKENS = 60
_CONTEXT_BEFORE_MATCH = 120


def lay_out(
    view: TableView, rows: IntArray, *, short: bool, keep: Sequence[str]
) -> tuple[list[ViewColumn], tuple[str, ...], str]:
    """Return the columns that vary over some rows, their header, and the line that replaces the others.

    ``short``: the main columns only, and ``keep``; the others are named if these rows have anything in them."""
    shown: list[ViewColumn] = []
    constant: list[str] = []
    empty: list[str] = []
    columns = main_columns(view, rows, keep) if short else view.shown
    for column in columns:
        codes = column.codes[rows]
        lowest = int(codes.min())
        if lowest != int(codes.max()) or (len(rows) < _FOLD_FROM_ROWS and lowest >= 0):
            shown.append(column)
        elif lowest < 0:
            empty.append(column.name)
        elif len(column.texts[lowest]) <= _FOLDED_CHARACTERS:
            constant.append(f"{column.name}={column.cells[lowest]}")
        else:
            shown.append(column)
    parts = ["constant: " + ", ".join(constant)] if constant else []
    if empty:
        parts.append("empty: " + ", ".join(empty))
    header = [column.name for column in shown]
    if short:
        rest = (column for column in view.shown if column not in columns)
        if left_out := [column.name for column in rest if int(column.codes[rows].max()) >= 0]:
            parts.append("left out: " + ", ".join(left_out))
        if any(column.kind == "time" and len(rows) > 1 for column in shown):
            parts.append(f"{DITTO} is the time above")
        if view.number_and_text is not None:
            number, text = view.number_and_text
            header = [f"{name} where it is not {text.name}" if name == number.name else name for name in header]
    return shown, tuple(header), "; ".join(parts)


def rows_page(
    session: Session,
    page: Page,
    view: TableView,
    rows: IntArray,
    *,
    note: str = "",
    focus: str = "",
    keep: Sequence[str] = (),
) -> ToolResult:
    """Show rows of a table. ``focus`` is a case-folded text that a cut cell should show, ``keep`` are columns that even
    a short page shows."""
    columns, names, folded = lay_out(view, rows, short=page.short, keep=keep)
    header = SEPARATOR.join(("row_id", *names))
    budget = page.tokens - _CAPTION_TOKENS - estimate_tokens(folded) - estimate_tokens(header)
    writer = _RowWriter(session=session, page=page, view=view, columns=columns, focus=focus)
    lines = writer.fitting(rows[page.offset :], budget)
    total, shown = len(rows), len(lines)
    end = page.offset + shown
    cursor = page.cursor(end) if end < total else None
    about = ", ".join(filter(None, (view.span(rows), note)))
    caption = _caption(view.name, page.offset, shown, total, about, cursor)
    head = [caption, *([folded] if folded else []), header]
    return ToolResult(
        text="\n".join(head + lines),
        table=view.name,
        row_ids=tuple(map(view.row_ids.__getitem__, rows[page.offset : end].tolist())),
        rows_total=total,
        rows_shown=shown,
        cursor=cursor,
    )


def _caption(name: str, offset: int, shown: int, total: int, note: str, cursor: str | None) -> str:
    if offset == 0 and shown == total:
        count = f"{total:,} row{'' if total == 1 else 's'}"
    elif offset == 0:
        count = f"showing {shown:,} of {total:,} rows"
    else:
        count = f"showing rows {offset + 1:,}-{offset + shown:,} of {total:,}"
    parts = [count, note, f"cursor={cursor} for the next" if cursor else ""]
    return f"{name}: " + ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowWriter:
    """Writes rows of a table as lines, long cells cut around ``focus`` with a cursor to the rest."""

    session: Session
    page: Page
    view: TableView
    columns: Sequence[ViewColumn]
    focus: str

    def fitting(self, rows: IntArray, budget: int) -> list[str]:
        """Return the lines of as many rows as the budget holds, at least one."""
        cell = cell_limit(budget, len(rows))
        lines: list[str] = []
        spent = 0
        for start in range(0, len(rows), _CHUNK_ROWS):
            for line in self._lines(rows[start : start + _CHUNK_ROWS], cell):
                cost = estimate_tokens(line) + 1
                if lines and spent + cost > budget:
                    return lines
                lines.append(line)
                spent += cost
                if spent > budget:  # a first row that is too wide on its own: cut its cells shorter, never drop it
                    return [self._narrow(rows[:1], budget, cell)]
        return lines

    def _narrow(self, row: IntArray, budget: int, cell: int) -> str:
        line = ""
        while cell >= 20:
            cell = cell * 2 // 3
            line = next(iter(self._lines(row, cell)))
            if estimate_tokens(line) <= budget:
                break
        return line

    def _lines(self, rows: IntArray, cell: int) -> Iterable[str]:
        row_numbers = rows.tolist()
        parts: list[Iterable[str]] = [map(self.view.row_ids.__getitem__, row_numbers)]
        twin = self.view.number_and_text if self.page.short else None
        for column in self.columns:
            texts = list(map(column.cells.__getitem__, column.codes[rows].tolist()))
            if self.page.short and column.kind == "time":
                texts = [*texts[:1], *(text and DITTO if text == above else text for above, text in pairwise(texts))]
            if twin is not None and column is twin[0]:  # blank where the text beside it is that number
                texts = ["" if same else text for same, text in zip(repeated(*twin, rows).tolist(), texts, strict=True)]
            if column.kind == "text" and max(map(len, texts)) > cell:
                texts = [
                    self._cut(column, row, cell) if len(text) > cell else text
                    for row, text in zip(row_numbers, texts, strict=True)
                ]
            parts.append(texts)
        return map(SEPARATOR.join, zip(*parts, strict=True))

    def _cut(self, column: ViewColumn, row: int, cell: int) -> str:
        """Return the part of a long text that fits, with the size of the rest and the cursor that reads it."""
        text = column.texts[column.codes[row]]
        found = text.casefold().find(self.focus) if self.focus else 0
        start = max(0, found - _CONTEXT_BEFORE_MATCH) if found > cell - _CONTEXT_BEFORE_MATCH else 0
        end = start + cell
        whole = _text_cell(self.session, self.page, self.view, row, column.name)
        kept = as_cell(text[start:end])
        if start:
            kept = f"[{start:,} characters before; whole text: cursor={whole.cursor(0)}] {kept}"
        if end < len(text):
            kept += f" [{len(text) - end:,} more characters: cursor={whole.cursor(end)}]"
        return kept


def _text_cell(session: Session, page: Page, view: TableView, row: int, column: str) -> Page:
    """Return the page of a long text cell, as it was written."""
    name = view.name

    def made_by(page: Page) -> ToolResult:
        view = session.view(name)
        prepared = view.column(column)
        row_id = view.row_ids[row]
        text, cursor = long_text(page, f"{name}.{column} of {row_id}", prepared.texts[prepared.codes[row]])
        return ToolResult(text=text, table=name, row_ids=(row_id,), rows_total=1, rows_shown=1, cursor=cursor)

    return page.part(made_by, "text", name, row, column)


def long_text(page: Page, name: str, text: str) -> tuple[str, str | None]:
    """Return a caption and the part of a text that fits the page, and the cursor of the next part."""
    start = page.offset
    end = _text_end(text, start, page.tokens - _CAPTION_TOKENS)
    cursor = page.cursor(end) if end < len(text) else None
    rest = f", cursor={cursor} for the next" if cursor else ""
    return f"{name}: characters {start + 1:,}-{end:,} of {len(text):,}{rest}\n{text[start:end]}", cursor


def cell_limit(budget: int, rows: int) -> int:
    """Return how many characters a long cell may show when ``rows`` rows share a token budget."""
    return max(_SMALLEST_CELL, int(0.7 * budget * _CHARACTERS_PER_TOKEN / max(1, rows)))


def _narrow_cells(cells: Sequence[str], budget: int) -> str:
    """Cut the cells of one row until the row fits, saying how much of each is missing."""
    size = max(map(len, cells))
    line = ""
    while size >= 8:
        size = size * 2 // 3
        kept = (as_cell(cell[:size]) + (f"[+{len(cell) - size:,}]" if len(cell) > size else "") for cell in cells)
        line = SEPARATOR.join(kept)
        if estimate_tokens(line) <= budget:
            break
    return line


def _text_end(text: str, start: int, budget: int) -> int:
    """Return where a page of text ends: within the budget, at a line or word break when one is near."""
    size = int(budget * _CHARACTERS_PER_TOKEN * 1.5)
    while size > 200 and estimate_tokens(text[start : start + size]) > budget:
        size = size * 7 // 8
    end = start + size
    if end >= len(text):
        return len(text)
    for mark in ("\n", " "):
        at = text.rfind(mark, end - size // 8, end)
        if at > start:
            return at + 1
    return end


def table_page(
    page: Page,
    name: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    note: str = "",
    whole: Callable[[int], Sequence[str]] | None = None,
) -> tuple[str, int, str | None]:
    """Show any table of cells; return the text, how many rows are in it and the cursor of the next page.

    ``whole`` gives a row with its cells uncut, for a row that has to be cut narrower still.
    """
    head = SEPARATOR.join(header)
    budget = page.tokens - _CAPTION_TOKENS - estimate_tokens(head)
    lines: list[str] = []
    spent = 0
    for index in range(page.offset, len(rows)):
        line = SEPARATOR.join(rows[index])
        spent += estimate_tokens(line) + 1
        if lines and spent > budget:
            break
        lines.append(line)
        if spent > budget:  # only the first row can be too wide on its own
            lines = [_narrow_cells(whole(index) if whole else rows[index], budget)]
            break
    shown = len(lines)
    end = page.offset + shown
    cursor = page.cursor(end) if end < len(rows) else None
    caption = _caption(name, page.offset, shown, len(rows), note, cursor)
    return "\n".join((caption, head, *lines)), shown, cursor
