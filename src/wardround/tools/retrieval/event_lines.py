"""Events as lines: ``[time] kind - description (value: v unit)``, the template of the EHR-RAG paper, appendix A.

An event is one line whatever its text holds: line breaks in it become spaces, so no note can pass for another event. A
longer text value is cut and says by how much. Lines are made when they are first needed, and once.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.clinical.vocabulary.units import plain_unit
from wardround.records import EventColumns

Places = npt.NDArray[np.int64]

NO_TIME_TEXT = "no time"
_COMPARED = re.compile(r"\s*[<>]=?\s*[-+]?[\d.,]+\s*")
_MIDNIGHT = re.compile(r" 00:00:00\.000000$|\.000000$")
_LAST_SECONDS = 253_402_300_799  # 9999-12-31 23:59:59


class EventLines:
    """The lines of one chart's events, by place."""

    def __init__(self, columns: EventColumns, *, line_characters: int) -> None:
        self._columns = columns
        self._limit = line_characters
        self._made: list[_Line | None] = [None] * len(columns)
        self._kinds = [_one_line(kind) for kind in columns.kinds]
        self._names = [_cut(_one_line(text), line_characters) for text in columns.descriptions]
        self._nameless = [text in columns.table_names for text in columns.descriptions]

    def lines(self, places: Places) -> list[str]:
        """Return the lines of events, in the requested order."""
        return [line.text for line in self._lines(places)]

    def panels(self, places: Places) -> tuple[Places, list[str]]:
        """Join the lines of neighbours of one moment and kind: ``[time] kind - A: 1 g, abnormal; B: 2 g``.

        Returns the first position of each line, and the lines; a single event keeps the template.
        """
        if not len(places):
            return places, []
        lines = self._lines(places)
        starts = np.flatnonzero(self.panel_starts(places)).tolist()
        texts = []
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            first, parts = lines[start], dict.fromkeys(line.part for line in lines[start:end])
            texts.append(first.text if end == start + 1 else f"[{first.time}] {first.kind} - " + "; ".join(parts))
        return places[starts], texts

    def panel_starts(self, places: Places) -> npt.NDArray[np.bool_]:
        """Return (n,) whether an event begins a line of its own among ``places``, which are in order."""
        columns = self._columns
        kinds = {kind: number for number, kind in enumerate(dict.fromkeys(columns.kinds))}
        kind = np.array([kinds[one] for one in columns.kinds], np.int64)[columns.concept[places]]
        keys = np.stack([columns.time[places], columns.table[places], kind])
        begins = np.ones(len(places), dtype=bool)
        begins[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0) | columns.is_static[places][1:]
        return begins

    def _lines(self, places: Places) -> list[_Line]:
        made = self._made
        wanted = places.tolist()
        missing = [place for place in wanted if made[place] is None]
        if missing:
            for place, line in zip(missing, self._make(np.asarray(missing, np.int64)), strict=True):
                made[place] = line
        return [line for line in (made[place] for place in wanted) if line is not None]

    def _make(self, places: Places) -> list[_Line]:
        columns = self._columns
        indices = pa.array(places)
        times = time_texts(columns.time[places], columns.is_static[places])
        bare = columns.notes.without_unit[places]
        numbers = number_texts(np.where(bare, np.nan, columns.numeric_value[places]))
        texts = columns.text_array.take(indices).to_pylist()
        units = columns.unit_array.take(indices).to_pylist()
        concepts = columns.concept[places].tolist()
        rows = zip(places.tolist(), concepts, times, zip(numbers, texts, units, strict=True), strict=True)
        return [self._line(place, concept, time, value) for place, concept, time, value in rows]

    def _line(self, place: int, concept: int, time: str, cells: tuple[str | None, str | None, str | None]) -> _Line:
        """Return the line of an event. ``cells``: number, text, unit. The value is the number, or the charted text if
        that is like ``< 5``; else the text."""
        number, text, unit = cells
        event_notes, nameless = self._columns.notes, self._nameless[concept]
        name, value = self._names[concept], number or ""
        borrowed = event_notes.name(place) if nameless else None
        name = name if borrowed is None else _cut(_one_line(borrowed), self._limit)
        if number is None or (text is not None and text.lstrip()[:1] in ("<", ">") and _COMPARED.fullmatch(text)):
            shown = "" if text is None else _cut(_MIDNIGHT.sub("", _one_line(text)), self._limit)
            value = "" if shown == name else shown
        value = f"{value} {_one_line(unit)}" if value and unit and plain_unit(unit) else value
        notes = [_cut(_one_line(note), self._limit) for note in event_notes.notes(place)]
        values = tuple(part for part in dict.fromkeys((value, *notes)) if part) if notes else (value,) * bool(value)
        if nameless and borrowed is None and values:  # the name of its table says less than the row itself
            name, values = values[0], values[1:]
        return _Line(time=time, kind=self._kinds[concept], name=name, values=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One event: its name, and its values, the number first."""

    time: str
    kind: str
    name: str
    values: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"[{self.time}] {self.kind} - {self.name}" + (
            f" (value: {'; '.join(self.values)})" if self.values else ""
        )

    @property
    def part(self) -> str:
        return f"{self.name}: {', '.join(self.values)}" if self.values else self.name


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
