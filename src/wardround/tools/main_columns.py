"""The columns a short page shows: those that say something, not the ones that repeat it or serve the computer.

A source's spec names a table's main columns. When a row became known is left out of them, because every row on the
page was known; a number is, where the text beside it is that number. What is left out is named on the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wardround.records.rules.language import Column as ColumnRule
from wardround.records.rules.language import Combined, MedianDelay, Rule
from wardround.tools.table_view import IntArray, TableView, ViewColumn, plain_number

if TYPE_CHECKING:
    from wardround.records.specs.spec import TableSpec


def filing_column(spec: TableSpec) -> str | None:
    """The column with the time at which a row was filed, where that is not the time it is about."""
    about = _own_columns(spec.event_time)
    filed = [name for name in _own_columns(spec.available_at) if name not in about]
    return filed[0] if filed else None


def _own_columns(rule: Rule) -> list[str]:
    if isinstance(rule, ColumnRule):
        return [rule.name]
    if isinstance(rule, MedianDelay):
        return [rule.end]
    parts = rule.parts if isinstance(rule, Combined) else ()
    return [name for part in parts for name in _own_columns(part)]


def main_columns(view: TableView, rows: IntArray, keep: Sequence[str] = ()) -> list[ViewColumn]:
    """Return the columns to show of some rows. ``keep`` are columns that were asked for and stay whatever they say."""
    spec = view.table.spec
    columns = view.columns_of(view.shown_columns)
    if not spec.default_columns:
        return columns
    wanted = {*spec.default_columns, *keep} - ({filing_column(spec)} - set(keep))
    names = number_and_text(view)
    if names is not None and not all(repeated(view.column(names[0]), view.column(names[1]), rows)):
        wanted.add(names[0])
    return [column for column in columns if column.name in wanted]


def number_and_text(view: TableView) -> tuple[str, str] | None:
    """The column with a row's number and the one with its text, where a table has both."""
    spec = view.table.spec
    if not spec.value or not spec.text or spec.value == spec.text or not {spec.value, spec.text} <= set(view.columns):
        return None
    return spec.value, spec.text


def repeated(number: ViewColumn, text: ViewColumn, rows: IntArray) -> list[bool]:
    """For each row whether its number says nothing that the text beside it does not: it has none, or the same."""
    pairs = list(zip(number.codes[rows].tolist(), text.codes[rows].tolist(), strict=True))
    same = {
        (value, word): value < 0 or (word >= 0 and plain_number(text.texts[word]) == plain_number(number.texts[value]))
        for value, word in set(pairs)
    }
    return [same[pair] for pair in pairs]
