"""Events as lines: ``[time] kind - description (value: v unit)``, the template of the EHR-RAG paper, appendix A.

An event is one line whatever its text holds: line breaks in it become spaces, so no note can pass for another event. A
longer text value is cut and says by how much. Lines are made when they are first needed, and once.
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records import EventColumns

Places = npt.NDArray[np.int64]

NO_TIME_TEXT = "no time"
_COMPARED = re.compile(r"\s*[<>]=?\s*[-+]?[\d.,]+\s*")
_LAST_SECONDS = 253_402_300_799  # 9999-12-31 23:59:59


class EventLines:
    """The lines of one chart's events, by place."""

    def __init__(self, columns: EventColumns, *, line_characters: int) -> None:
        self._columns = columns
        self._limit = line_characters
        self._lines: list[str | None] = [None] * len(columns)
        self._heads = [
            f"{_one_line(kind)} - {_cut(_one_line(description), line_characters)}"
            for kind, description in zip(columns.kinds, columns.descriptions, strict=True)
        ]

    def lines(self, places: Places) -> list[str]:
        """Return the lines of events, in the order asked for."""
        known = self._lines
        wanted = places.tolist()
        missing = [place for place in wanted if known[place] is None]
        if missing:
            for place, line in zip(missing, self._make(np.asarray(missing, np.int64)), strict=True):
                known[place] = line
        return [known[place] or "" for place in wanted]

    def _make(self, places: Places) -> list[str]:
        columns = self._columns
        taken = pa.array(places)
        times = time_texts(columns.time[places], columns.is_static[places])
        heads = [self._heads[concept] for concept in columns.concept[places].tolist()]
        numbers = number_texts(columns.numeric_value[places])
        texts = columns.text_array.take(taken).to_pylist()
        units = columns.unit_array.take(taken).to_pylist()
        return [
            f"[{time}] {head}" + self._value(head, number, text, unit)
            for time, head, number, text, unit in zip(times, heads, numbers, texts, units, strict=True)
        ]

    def _value(self, head: str, number: str | None, text: str | None, unit: str | None) -> str:
        """The value in brackets: the number, but as charted where that is ``< 5``; else the text."""
        if number is None or (text is not None and text.lstrip()[:1] in ("<", ">") and _COMPARED.fullmatch(text)):
            if text is None or not (shown := _one_line(text)) or head.endswith(f" - {shown}"):
                return ""
            shown = _cut(shown, self._limit)
        else:
            shown = number
        return f" (value: {shown} {_one_line(unit)})" if unit else f" (value: {shown})"


def time_texts(times: npt.NDArray[np.int64], static: npt.NDArray[np.bool_]) -> list[str]:
    """Return times as ``YYYY-MM-DD HH:MM:SS``; rows without a place in time say so."""
    seconds = np.minimum(np.where(static, 0, times) // 1_000_000, _LAST_SECONDS)
    texts: list[str] = pa.array(seconds).cast(pa.timestamp("s")).cast(pa.string()).to_pylist()
    if static.any():
        for place in np.flatnonzero(static).tolist():
            texts[place] = NO_TIME_TEXT
    return texts


def number_texts(values: npt.NDArray[np.float64]) -> list[str | None]:
    """Return numbers as short as they can be read back, in the precision they came in; NaN is None."""
    distinct, back = np.unique(values, return_inverse=True)
    texts = [_number_text(value) for value in distinct.tolist()]
    return [texts[place] for place in back.tolist()]


def _number_text(value: float) -> str | None:
    if math.isnan(value):
        return None
    if math.isfinite(value) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if math.isfinite(value) and abs(value) < 3e38 and float(np.float32(value)) == value:
        return str(np.float32(value))
    return repr(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [{len(text) - limit:,} more characters]"
