"""The chunks of some rows of a chart: their texts, vectors and times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from wardround.core import from_microseconds
from wardround.records import EventColumns
from wardround.retrieval.chunk_vectors import mean_name_vectors
from wardround.retrieval.encoder import Encoder, Vectors
from wardround.retrieval.event_lines import EventLines
from wardround.retrieval.evidence_settings import ChunkTime, RetrievalSettings
from wardround.retrieval.passages import Passage, chunk_bounds
from wardround.retrieval.time_relevance import Scores, Times

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
        """The cosine of each chunk with a query's vector."""
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
    """Return the earliest time of the first ``count`` rows, in microseconds; None where no row has one.

    The paper takes the earliest timestamp of the record and means disease onset and first admission. Sources whose
    record begins with a birth (MEDS) would put the whole early arm of eq. 2 into childhood, so births do not count
    unless ``births`` says so, or nothing else is there.
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
    """Return (chunks, 2) times that stand for chunks in eq. 2, and which chunks have any; the better of two counts.

    The paper gives a chunk one timestamp and does not say which. ``middle`` (default) is that of its middle row: where
    a chunk bridges years it stands with most of its rows. ``first`` and ``last`` are its ends; ``nearest`` takes the
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
