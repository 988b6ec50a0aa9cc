"""Chunks and passages of a chart: texts, vectors, times, and how their time counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from wardround.core import format_time, from_microseconds
from wardround.records import EventColumns
from wardround.tools.retrieval.encoder import Encoder, Vectors, unit_rows
from wardround.tools.retrieval.event_lines import EventLines
from wardround.tools.retrieval.evidence_settings import ChunkTime, RetrievalSettings

# Equations 2 and 3 of the EHR-RAG paper: when a chunk happened, and how that weighs against what it says.


Times = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]

_MICROSECONDS_PER_DAY = 86_400_000_000.0
_PERIOD_DAYS = 90.0
_SAME_PERIOD_COSTS = 0.1


def time_relevance(times: Times, *, now: int, first: int, recent_days: float, early_days: float) -> Scores:
    """Eq. 2: max(exp(-(now - t) / recent), exp(-(t - first) / early)), from 0 to 1.

    ``times``, ``now`` (the prediction time) and ``first`` (the earliest time of the record) are microseconds since
    1970; the two lengths are days. At ``now`` and at ``first`` the score is 1. A time after ``now`` or before ``first``
    counts as that end: the printed formula would exceed 1 there.
    """
    since = np.maximum(now - times, 0) / _MICROSECONDS_PER_DAY
    onward = np.maximum(times - first, 0) / _MICROSECONDS_PER_DAY
    relevance: Scores = np.maximum(np.exp(-since / recent_days), np.exp(-onward / early_days))
    return relevance


def combined_score(similarity: npt.ArrayLike, relevance: npt.ArrayLike, *, alpha: float) -> Scores:
    """Eq. 3: alpha * similarity + (1 - alpha) * time relevance.

    ``similarity`` is the cosine as it is: below zero it stays below zero, as in the paper. It only ranks, and a floor
    at zero would tie everything unlike the query.
    """
    score: Scores = alpha * np.asarray(similarity, np.float64) + (1.0 - alpha) * np.asarray(relevance, np.float64)
    return score


def spread_out(score: Scores, times: Times, k: int) -> npt.NDArray[np.int64]:
    """Return the places of ``k`` scores, the best first, where each one taken costs those of its period a tenth.

    A long stay fills all places by itself where its chunks resemble the query and each other a little more than those
    of the stay that the question is about. ``times`` are microseconds; a period is 90 days to either side.
    """
    left = score.astype(np.float64).copy()
    chosen: list[int] = []
    for _ in range(min(k, len(score))):
        best = int(np.lexsort((-np.arange(len(left)), -left))[0])
        chosen.append(best)
        left[np.abs(times - times[best]) <= _PERIOD_DAYS * _MICROSECONDS_PER_DAY] -= _SAME_PERIOD_COSTS
        left[best] = -np.inf
    return np.asarray(chosen, np.int64)


def stretched(similarity: Scores) -> Scores:
    """Map the cosines of a pool to 0..1, the least like 0, the most like 1; all alike are all 0.

    Eq. 3 weighs two numbers of one scale. Time runs from 0 to 1, but the cosines of one record's chunks with a query
    may lie within a tenth of each other: then time decides alone, whatever alpha says.
    """
    if not len(similarity) or similarity.max() <= similarity.min():
        return np.zeros(len(similarity))
    scaled: Scores = (similarity - similarity.min()) / (similarity.max() - similarity.min())
    return scaled


# Vectors of chunks from the vectors of their event names.
#
# An encoder that reads 256 tokens sees the first ten lines of a chunk of 100. The mean of the vectors of the names in a
# chunk sees all of it, and costs one vector per name of the hospital instead of one per chunk of every patient.


def mean_name_vectors(columns: EventColumns, groups: Sequence[npt.NDArray[np.int64]], encoder: Encoder) -> Vectors:
    """Return a unit vector per group of rows: the mean of its ``kind - description`` vectors, a name that occurs n
    times weighing 1 + ln n. Values and times are not in it."""
    if not groups:
        return np.empty((0, encoder.dimensions), np.float32)
    used = np.unique(columns.concept[np.concatenate(groups)])
    names = [f"{columns.kinds[concept]} - {columns.descriptions[concept]}" for concept in used.tolist()]
    vectors = encoder.encode(names).astype(np.float64)
    weights = np.zeros((len(groups), len(used)))
    for row, group in zip(weights, groups, strict=True):
        found, counts = np.unique(np.searchsorted(used, columns.concept[group]), return_counts=True)
        row[found] = 1.0 + np.log(counts)
    return unit_rows(weights @ vectors)


# Passages and trajectories: what retrieval hands out, and how passages are cut and merged.


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Events of one chart as lines of text, in time order.

    ``rows`` are places in the chart's event columns, one per line. ``start`` and ``end`` are the first and last time
    among them, None where no row has one. ``score`` is what it was chosen by (0 where nothing was scored). ``id`` names
    the rows it was cut from: the same rows of a grown history have the same id.
    """

    id: str
    lines: tuple[str, ...]
    rows: tuple[int, ...]
    start: datetime | None
    end: datetime | None
    score: float = 0.0

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorTrajectory:
    """The latest values of one indicator, oldest first. ``rows`` are their positions, ``total`` is the number of
    values."""

    name: str
    unit: str | None
    values: tuple[tuple[datetime | None, float], ...]
    rows: tuple[int, ...]
    total: int
    value_texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """One line: ``name (unit): value at time, ...``, with how many values are older."""
        unit = f" ({self.unit})" if self.unit else ""
        shown = ", ".join(
            f"{text} at {'no time' if time is None else format_time(time)}"
            for (time, _), text in zip(self.values, self.value_texts, strict=True)
        )
        older = self.total - len(self.values)
        return f"{self.name}{unit}: {shown}" + (f" ({older:,} older not shown)" if older else "")


def merge(*passages: Passage) -> Passage:
    """Eq. 5 of the EHR-RAG paper: the union of passages of one chart, each row once, in time order.

    Event columns are in time order, so the order of places is the order of times. The score is the best one.
    """
    lines: dict[int, str] = {}
    for passage in passages:
        lines.update(zip(passage.rows, passage.lines, strict=True))
    rows = tuple(sorted(lines))
    return Passage(
        id="+".join(sorted({passage.id for passage in passages if passage.rows})),
        lines=tuple(lines[row] for row in rows),
        rows=rows,
        start=min((passage.start for passage in passages if passage.start is not None), default=None),
        end=max((passage.end for passage in passages if passage.end is not None), default=None),
        score=max((passage.score for passage in passages), default=0.0),
    )


def chunk_bounds(rows: int, *, size: int, overlap: int) -> tuple[tuple[int, int], ...]:
    """Cut ``rows`` rows into chunks of ``size`` that share ``overlap`` with the one before, from the beginning.

    Cut from the beginning, a full chunk stays what it is when rows are added at the end, and so does its vector. No
    chunk holds nothing but rows of the one before.
    """
    if rows <= size:
        return ((0, rows),) if rows else ()
    step = size - overlap
    return tuple((start, min(start + size, rows)) for start in range(0, rows - overlap, step))


# The chunks of some rows of a chart: their texts, vectors and times.


Places = npt.NDArray[np.int64]

_BIRTHS = frozenset({"meds_birth", "snomed/3950001", "snomed//3950001"})


class Chunks:
    """Rows of one chart cut into chunks; ``family`` tells the ids of several such cuts apart."""

    def __init__(
        self,
        family: str,
        places: Places,
        *,
        columns: EventColumns,
        lines: EventLines,
        encoder: Encoder,
        settings: RetrievalSettings,
    ) -> None:
        self._family = family
        self._places = places
        self._columns = columns
        self._lines = lines
        self._encoder = encoder
        self._by_names = settings.embedded == "names"
        self._encoded: Vectors | None = None
        self.bounds = chunk_bounds(len(places), size=settings.chunk_rows, overlap=settings.overlap)

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def row_groups(self) -> list[Places]:
        """The rows of each chunk, by place."""
        return [self._places[start:end] for start, end in self.bounds]

    @cached_property
    def texts(self) -> list[str]:
        """What the encoder reads of each chunk."""
        lines = self._lines.lines(self._places)
        return ["\n".join(lines[start:end]) for start, end in self.bounds]

    @property
    def vectors(self) -> Vectors:
        """A unit vector per chunk. No cached_property: Python 3.11's would let one chart at a time ask an endpoint."""
        if self._encoded is None:
            if self._by_names:
                self._encoded = mean_name_vectors(self._columns, self.row_groups, self._encoder)
            else:
                self._encoded = self._encoder.encode(self.texts)
        return self._encoded

    def similarity(self, query: Vectors) -> Scores:
        """Return the cosine of each chunk with a query's vector."""
        return (self.vectors @ query).astype(np.float64) if self.bounds else np.zeros(0)

    def passage(self, place: int, score: float = 0.0) -> Passage:
        """Return a chunk as a passage."""
        start, end = self.bounds[place]
        return passage_of(self._columns, self._lines, f"{self._family}:{start}-{end}", self._places[start:end], score)


def passage_of(columns: EventColumns, lines: EventLines, name: str, rows: Places, score: float) -> Passage:
    """Return rows of a chart, in time order, as a passage."""
    timed = rows[~columns.is_static[rows]] if len(rows) else rows
    return Passage(
        id=name,
        lines=tuple(lines.lines(rows)),
        rows=tuple(rows.tolist()),
        start=from_microseconds(int(columns.time[timed[0]])) if len(timed) else None,
        end=from_microseconds(int(columns.time[timed[-1]])) if len(timed) else None,
        score=score,
    )


def first_time(columns: EventColumns, count: int, *, births: bool) -> int | None:
    """Return the earliest time of the first ``count`` rows, in microseconds; None if no row has one.

    The paper uses the earliest timestamp of the record and means disease onset and first admission. Sources whose
    record begins with a birth (MEDS) would put the whole early arm of eq. 2 into childhood. Births therefore do not
    count, unless ``births`` is set or no other row has a time.
    """
    timed = np.flatnonzero(~columns.is_static[:count])
    if not len(timed):
        return None
    if not births:
        birth = np.array([code.casefold() in _BIRTHS for code in columns.codes], dtype=bool)
        others = timed[~birth[columns.concept[timed]]]
        timed = others if len(others) else timed
    return int(columns.time[timed[0]])


def chunk_times(
    time: Times, static: npt.NDArray[np.bool_], groups: Sequence[Places], kind: ChunkTime
) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Return (chunks, 2) times of chunks for eq. 2, and which chunks have a time; the better of two counts.

    The paper gives a chunk one timestamp and does not define it. ``middle`` (default) is that of its middle row: a
    chunk over years is then placed with most of its rows. ``first`` and ``last`` are its ends. ``nearest`` uses the
    better of both ends, which is the best of all its rows, since eq. 2 is lowest in between.
    """
    times = np.zeros((len(groups), 2), np.int64)
    dated = np.zeros(len(groups), dtype=bool)
    for place, group in enumerate(groups):
        timed = group[~static[group]]
        if not len(timed):
            continue
        dated[place] = True
        middle = timed[(len(timed) - 1) // 2]
        ends = {"middle": (middle, middle), "first": (timed[0],) * 2, "last": (timed[-1],) * 2}
        times[place] = time[list(ends.get(kind, (timed[0], timed[-1])))]
    return times, dated


# Which events say something in words: retrieval by likeness of words finds nothing in the others.


def described(columns: EventColumns) -> npt.NDArray[np.bool_]:
    """Return, by concept, whether it has words of its own: not its code again, nor the name of its table."""
    tables = set(columns.table_names)
    return np.array(
        [
            text.strip() not in ("", code) and text not in tables
            for code, text in zip(columns.codes, columns.descriptions, strict=True)
        ],
        dtype=bool,
    )


def described_codes(charts: Iterable[EventColumns]) -> tuple[int, int]:
    """Return the number of distinct codes of some charts that have words, and the number of codes."""
    words: dict[str, bool] = {}
    for columns in charts:
        for code, has_words in zip(columns.codes, described(columns).tolist(), strict=True):
            words[code] = words.get(code, False) or has_words
    return sum(words.values()), len(words)


def tells(columns: EventColumns) -> npt.NDArray[np.bool_]:
    """Return, by event, whether it has a line that says anything: a value, a text, or words beyond the class of a row
    (which its source's spec names) or the name of a table. Rows shown in another row's line have none of their own, nor
    have repetitions of a later one."""
    empty = np.array(
        [
            text in columns.table_names or class_only
            for text, class_only in zip(columns.descriptions, columns.class_only, strict=True)
        ],
        dtype=bool,
    )
    own = ~columns.notes.shown_elsewhere & ~columns.notes.unnamed & ~columns.notes.repeated
    if not empty.any():
        return own
    with_text = np.asarray(pc.is_valid(columns.text_array).to_numpy(zero_copy_only=False), dtype=bool)
    telling: npt.NDArray[np.bool_] = with_text | ~np.isnan(columns.numeric_value) | ~empty[columns.concept]
    for place in np.flatnonzero(own & ~telling).tolist():
        telling[place] = bool(columns.notes.notes(place))
    return telling & own
