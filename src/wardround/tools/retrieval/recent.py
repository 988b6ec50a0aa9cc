"""The text of a chart's most recent events: what a patient's state is recognised by (RetroSum, eq. 8).

Every table with visible rows is in it: the tokens are shared out evenly, and what short tables do not need goes to the
long ones, so a cut shortens tables but never drops one. Identifiers and clock times say nothing about another patient
and are left out; how long ago a table's latest rows are is said in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wardround.core import estimate_tokens, to_microseconds
from wardround.records import TableSpec
from wardround.records.rules import ALWAYS_TIME

MAX_TOKENS = 2048
_LEAST_TABLE_TOKENS = 24
_MOST_ROWS = 40
_UNTELLING = ("_id", "_seq", "_num", "_version", "_ordinal")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]\d+)?")
_HOUR_MICROSECONDS = 3_600_000_000
_AGES = ((1, "within the hour"), (6, "within 6 hours"), (24, "within a day"), (168, "within a week"))
_LATER_AGES = ((730, "within a month"), (8760, "within a year"))


class RecentTable(Protocol):
    """A table of a chart as it is needed here; ``records.ChartTable`` is one."""

    @property
    def spec(self) -> TableSpec: ...
    @property
    def batch(self) -> Any: ...
    @property
    def event_time(self) -> npt.NDArray[np.datetime64]: ...


class RecentChart(Protocol):
    """A chart as it is needed here; ``records.Chart`` is one."""

    @property
    def as_of(self) -> datetime: ...
    @property
    def table_names(self) -> tuple[str, ...]: ...
    def table(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One table's share: its heading, its rows as text, when the latest of them happened."""

    name: str
    latest: int | None
    heading: str
    rows: tuple[str, ...]
    rows_total: int

    @property
    def text(self) -> str:
        return "; ".join(self.rows)


def describe_recent_events(chart: RecentChart, *, max_tokens: int = MAX_TOKENS) -> str:
    """Return one line per table with visible rows: its rows of the latest moment, newest table first, static ones last.

    A line that had to be cut ends in ``...`` and tells how many rows of that moment there are. The text is longer than
    ``max_tokens`` only where there are more tables than that leaves a few words for each.
    """
    parts = [part for part in (_part(chart, name) for name in chart.table_names) if part is not None]
    parts.sort(key=lambda part: (part.latest is None, -(part.latest or 0), part.name))
    needs = [estimate_tokens(part.heading) + estimate_tokens(part.text) + 1 for part in parts]
    shares = share_out(needs, max_tokens, least=_LEAST_TABLE_TOKENS)
    return "\n".join(
        part.heading + _cut(part, share - estimate_tokens(part.heading) - 1, need <= share)
        for part, share, need in zip(parts, shares, needs, strict=True)
    )


def share_out(needs: Sequence[int], total: int, *, least: int) -> list[int]:
    """Share ``total`` so that everybody gets its need or an equal share of the rest, and nobody less than ``least``."""
    shares = [0] * len(needs)
    left = total
    for waiting, place in enumerate(sorted(range(len(needs)), key=lambda place: (needs[place], place))):
        even = left // (len(needs) - waiting)
        shares[place] = max(min(needs[place], even), min(needs[place], least))
        left = max(left - shares[place], 0)
    return shares


def _part(chart: RecentChart, name: str) -> _Part | None:
    table: RecentTable = chart.table(name)
    if table.batch.num_rows == 0:
        return None
    times = table.event_time.astype("datetime64[us]").view(np.int64)
    dated = ~np.isnat(table.event_time) & (times > ALWAYS_TIME)
    if dated.any():
        latest = int(times[dated].max())
        places = np.flatnonzero(times == latest)
        hours = (to_microseconds(chart.as_of) - latest) / _HOUR_MICROSECONDS
        ago = next((words for limit, words in (*_AGES, *_LATER_AGES) if hours <= limit), "more than a year ago")
        age = f"latest {ago}"
    else:
        latest, places, age = None, np.arange(table.batch.num_rows), "at all times"
    rows = _rows(table, places[:_MOST_ROWS])
    return _Part(name=name, latest=latest, heading=f"{name} ({age}): ", rows=rows, rows_total=len(places))


def _rows(table: RecentTable, places: npt.NDArray[np.int64]) -> tuple[str, ...]:
    names = _telling_columns(table)
    bare = table.spec.label not in names  # nothing on the row says what its numbers are of
    bare_numbers = bare or table.spec.value is None  # a label says it of one column only, the value
    columns = [table.batch.column(name).take(places).to_pylist() for name in names]
    texts = (
        " ".join(
            _cell(name, cell, bare_numbers if isinstance(cell, int | float) else bare)
            for name, cell in zip(names, row, strict=True)
            if cell is not None
        )
        for row in zip(*columns, strict=True)
    )
    return tuple(dict.fromkeys(text for text in texts if text))


def _telling_columns(table: RecentTable) -> list[str]:
    """Columns that say something of a patient's state, of those shown first: no key, no identifier, no clock, no
    counter, and the label instead of the code."""
    spec, names = table.spec, table.batch.schema.names
    types: dict[str, str] = dict(spec.public_columns)
    skipped = {"row_id", spec.subject, spec.encounter, *(name for name in spec.key if types.get(name) == "int")}
    if spec.label in names and spec.code != spec.label:
        skipped.add(spec.code)
    wanted = [name for name in spec.default_columns if name in names] or names
    return [
        name
        for name in wanted
        if name not in skipped and types.get(name) not in ("time", "date") and not name.endswith(_UNTELLING)
    ]


def _cell(name: str, value: Any, bare: bool) -> str:
    """Return the cell's text, with its column's name before it if it is a number that nothing else on the row names."""
    text = " ".join((f"{value:g}" if isinstance(value, float) else str(value)).split())
    return f"{name} {text}" if bare and _NUMBER.fullmatch(text) else text


def _cut(part: _Part, tokens: int, whole: bool) -> str:
    """Return the rows' text within a token limit."""
    more = part.rows_total - len(part.rows)
    if whole:
        return part.text
    note = f" ... ({part.rows_total} rows)" if more or len(part.rows) > 1 else " ..."
    text = part.text[: max(8, 4 * tokens)]
    while len(text) > 8 and estimate_tokens(text) + estimate_tokens(note) > tokens:
        text = text[: len(text) * 7 // 8]
    return _without_half_a_word(text, part.text) + note


def _without_half_a_word(text: str, whole: str) -> str:
    """Return a cut text without the rest of a word or number at the cut: 1 of 133 is another value."""
    if len(text) < len(whole) and not whole[len(text)].isspace() and " " in text:
        text = text.rpartition(" ")[0]
    return text.rstrip(" ;")
