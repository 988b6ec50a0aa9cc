"""Laboratory results: rows to classes, with their units converted. What cannot be read is counted by its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.benchmarks.columns import MINUTE, NO_TIME, Ints, texts
from wardround.benchmarks.ehrshot.concepts import TaskConcept
from wardround.benchmarks.ehrshot.rules import LabelledQuestions
from wardround.records import RowRole

_NORMAL_WORDS = frozenset({"normal", "adequate"})
_BOUNDS = {"<": -0.001, ">": 0.001}
"""What a number that is only a bound ("<3 mmol/L" with the number 3) lies beyond it, in the concept's unit: a value
below 3 is not 3, whatever else it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Results of one concept in one table: time, class, place of the row."""

    table: str
    times: Ints
    classes: npt.NDArray[np.int8]
    rows: Ints

    def __len__(self) -> int:
        return len(self.times)


def read_results(
    concept: TaskConcept,
    place: RowRole,
    batch: pa.RecordBatch,
    *,
    times: Ints,
    rows: Ints,
    coded_units: Sequence[str | None],
    dropped: Counter[str],
    units: Counter[str],
) -> Results:
    """Classify the rows of a concept. ``coded_units`` are those that their codes name, used where the row has none.

    A text that says normal or adequate is class 0 without a number; a number counts only with a unit that the concept
    has a factor for. ``units`` counts every unit met; ``dropped`` says what was left out and why.
    """
    named = [name for name in (place.value, place.text, place.unit) if name and name in batch.schema.names]
    part = batch.select(named).take(pa.array(rows)) if named else pa.RecordBatch.from_pydict({"": pa.nulls(len(rows))})
    values = _numbers(part, place)
    words = [text.strip().casefold() if text else "" for text in _cells(part, place.text)]
    written = [unit or coded for unit, coded in zip(_cells(part, place.unit), coded_units, strict=True)]
    values = np.array([_read(word) if np.isnan(value) else value for word, value in zip(words, values, strict=True)])
    normal = np.isnan(values) & np.fromiter((word in _NORMAL_WORDS for word in words), bool, len(words))
    factors = np.array([np.nan if (found := concept.factor(unit)) is None else found for unit in written], float)
    units.update(unit or "(none)" for unit, wordy in zip(written, normal.tolist(), strict=True) if not wordy)
    timed = times[rows] != NO_TIME
    reasons = {
        "result_without_time": ~timed,
        "result_without_number": timed & np.isnan(values) & ~normal,
        "unknown_unit": timed & ~np.isnan(values) & np.isnan(factors),
    }
    kept = timed & ~reasons["result_without_number"] & ~reasons["unknown_unit"]
    dropped.update({reason: int(np.count_nonzero(flags)) for reason, flags in reasons.items()})
    beyond = np.array([_BOUNDS.get(word[:1], 0.0) if word[1:2] != "=" else 0.0 for word in words])
    converted = np.where(normal, 0.0, values * factors + beyond)[kept]
    classes = np.where(normal[kept], 0, concept.classes(converted)).astype(np.int8)
    return Results(table=place.table, times=times[rows][kept], classes=classes, rows=rows[kept])


def ask_before_results(results: Results, first_event: int, dropped: Counter[str]) -> LabelledQuestions:
    """lab_*: the class of every result, asked one minute before it. Those at the first event are left out."""
    kept = results.times > first_event
    dropped["at_the_first_event"] += int(np.count_nonzero(~kept))
    times = results.times[kept]
    return LabelledQuestions(
        predictions=times - MINUTE,
        values=results.classes[kept].astype(np.int64),
        events=times,
        stays=np.full(len(times), -1, np.int64),
        rows=results.rows[kept],
    )


def _numbers(batch: pa.RecordBatch, place: RowRole) -> npt.NDArray[np.float64]:
    if place.value is None or place.value not in batch.schema.names:
        return np.full(batch.num_rows, np.nan)
    column = batch.column(place.value).cast(pa.float64())
    values = np.asarray(column.fill_null(np.nan).to_numpy(zero_copy_only=False), float)
    return np.where(np.isfinite(values), values, np.nan)


def _cells(batch: pa.RecordBatch, name: str | None) -> list[str | None]:
    if name is None or name not in batch.schema.names:
        return [None] * batch.num_rows
    return texts(batch.column(name))


def _read(word: str) -> float:
    """Read a plain number written as text; anything else is NaN."""
    try:
        value = float(word)
    except ValueError:
        return float("nan")
    return value if np.isfinite(value) else float("nan")
