"""Select the evidence of one chart, for a record that is too long to show whole.

ETHER (EHR-RAG, section 3.2) selects text events by similarity and time, and numeric events as the latest values of
indicators. The comparison methods: chunks by similarity alone, random chunks, the latest events, the most frequent
events. Each part is built on first use; vectors of chunks come from the encoder in one call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.clinical.vocabulary.units import plain_unit
from wardround.core import estimate_tokens, from_microseconds, to_microseconds
from wardround.records import EventColumns
from wardround.tools.retrieval.chunks import (
    Chunks,
    IndicatorTrajectory,
    Passage,
    Scores,
    chunk_times,
    combined_score,
    described_codes,
    first_time,
    passage_of,
    spread_out,
    stretched,
    tells,
    time_relevance,
)
from wardround.tools.retrieval.encoder import Encoder, Vectors, is_lexical
from wardround.tools.retrieval.event_lines import EventLines, number_texts
from wardround.tools.retrieval.evidence_settings import Indicator, RetrievalSettings

Places = npt.NDArray[np.int64]


class EvidenceIndex:
    """Retrieval over the rows of a chart that happened by ``as_of``; safe to share between threads.

    Chunks are cut from the beginning, so a full chunk's text and vector do not change as the history grows. A row that
    becomes available late, with an earlier time, shifts the bounds after it. Rows without a time come first and are
    ordinary rows. Pass the columns of the chart as of that moment: rows after ``as_of`` are never used, but only the
    chart knows which rows became available late.
    """

    def __init__(
        self,
        columns: EventColumns,
        *,
        as_of: datetime,
        encoder: Encoder,
        settings: RetrievalSettings | None = None,
    ) -> None:
        self.columns = columns
        self.as_of = as_of
        self.encoder = encoder
        self.settings = settings or RetrievalSettings()
        self._now = to_microseconds(as_of)
        self._count = int(np.searchsorted(columns.time, self._now, side="right"))
        self._lines = EventLines(columns, line_characters=self.settings.line_characters)
        self._encoded_names: Vectors | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def rows_later(self) -> int:
        """How many rows of the columns lie after ``as_of``."""
        return len(self.columns) - self._count

    def prepare(self) -> None:
        """Build all that needs no vector: the texts and times of chunks, and the indicators. Asking builds it too."""
        self._all_chunks.texts  # noqa: B018
        self._text_chunks.texts  # noqa: B018
        self._text_relevance  # noqa: B018
        self._indicators  # noqa: B018

    @property
    def chunk_texts(self) -> tuple[str, ...]:
        """What the encoder reads of each chunk of all events."""
        return tuple(self._all_chunks.texts)

    def nearest(self, query: str, k: int | None = None) -> tuple[Passage, ...]:
        """Vanilla RAG: the ``k`` chunks of all events most like the query, the most like first; ties: the later."""
        chunks = self._all_chunks
        similarity = chunks.similarity(self._vector(query))
        best = ranked(similarity)[: self.settings.top_passages if k is None else max(k, 0)]
        return tuple(chunks.passage(place, float(similarity[place])) for place in best.tolist())

    def uniform(self, k: int | None = None, seed: int = 0) -> tuple[Passage, ...]:
        """Uniform RAG: ``k`` chunks of all events drawn at random without return, in time order."""
        chunks = self._all_chunks
        wanted = min(self.settings.top_passages if k is None else max(k, 0), len(chunks))
        drawn = np.random.default_rng(seed).permutation(len(chunks))[:wanted]
        return tuple(chunks.passage(place) for place in sorted(drawn.tolist()))

    def recent_events(self, n: int | None = None) -> Passage:
        """Direct generation: the ``n`` latest events. Rows without a time count as the earliest.

        With ``panels``, all rows of one moment and kind are one event and one line, identified by the first row.
        """
        wanted = self.settings.recent_events if n is None else max(n, 0)
        places = self._places
        if not self.settings.panels:
            return self.passage(places[max(0, len(places) - wanted) :])
        starts = np.flatnonzero(self._lines.panel_starts(places))
        first = starts[-wanted] if 0 < wanted <= len(starts) else 0 if wanted else len(places)
        rows, lines = self._lines.panels(places[first:])
        return replace(self.passage(rows), lines=tuple(lines))

    def frequent_events(self, n: int | None = None) -> Passage:
        """Rule-based RAG: events by how often their code occurs in this history, the ``n`` commonest in time order.

        As in the paper's appendix a very common code may fill the budget alone; ties go to the later event.
        """
        wanted = self.settings.recent_events if n is None else max(n, 0)
        codes = self._code_numbers[self.columns.concept[self._places]]
        often = np.bincount(codes, minlength=1)[codes]
        best = np.lexsort((-self._places, -often))[:wanted]
        return self.passage(self._places[np.sort(best)])

    def text_evidence(self, query: str, k: int | None = None) -> tuple[Passage, ...]:
        """ETHER's text part: of the chunks of events without a number the pool most like the query, of that the ``k``
        best by eq. 3, in time order."""
        chunks = self._text_chunks
        similarity = chunks.similarity(self._vector(query))
        pool = ranked(similarity)[: self.settings.candidates]
        likeness = stretched(similarity[pool]) if self._stretches else similarity[pool]
        score = combined_score(likeness, self._text_relevance[pool], alpha=self.settings.alpha)
        wanted = self.settings.final if k is None else max(k, 0)
        best = spread_out(score, self._text_times[pool], wanted) if self._spreads else ranked(score, pool)[:wanted]
        found = sorted(zip(pool[best].tolist(), score[best].tolist(), strict=True))
        return tuple(chunks.passage(place, value) for place, value in found)

    @property
    def _stretches(self) -> bool:
        """Eq. 3 weighs cosines of dense embeddings against time; hashed words lie too close together for its alpha."""
        setting = self.settings.likeness
        return setting == "scaled" or (setting == "auto" and is_lexical(self.encoder))

    @property
    def _spreads(self) -> bool:
        """Passages of the lexical encoder make room for other periods; those of others are ranked as in the paper."""
        setting = self.settings.spread
        return setting == "periods" or (setting == "auto" and is_lexical(self.encoder))

    @cached_property
    def lines_left_out(self) -> int:
        """The number of events without a line of their own: they are empty, or part of another event's line."""
        return self._count - len(self._places)

    @cached_property
    def described(self) -> tuple[int, int]:
        """The number of the chart's codes with words, and the number of codes."""
        return described_codes([self.columns])

    @property
    def indicators(self) -> tuple[str, ...]:
        """The names of all indicators, in alphabetical order."""
        return self._indicators.names

    def coarse_indicators(self, query: str, n: int | None = None) -> tuple[str, ...]:
        """ETHER's numeric part, first step: the ``n`` indicators whose names are most like the query, best first."""
        names = self._indicators.names
        if not names:
            return ()
        similarity = self._name_vectors @ self._vector(query)
        order = np.lexsort((np.arange(len(names)), -similarity.astype(np.float64)))
        own = self.settings.coarse_lexical if is_lexical(self.encoder) else self.settings.coarse
        return tuple(names[place] for place in order[: own if n is None else max(n, 0)].tolist())

    def trajectories(self, names: Iterable[str], recent: int | None = None) -> tuple[IndicatorTrajectory, ...]:
        """ETHER's numeric part, last step: the ``recent`` latest values of indicators; unknown names are left out."""
        return self._indicators.trajectories(names, recent=self.settings.recent_values if recent is None else recent)

    def passage(self, places: npt.ArrayLike, *, score: float = 0.0) -> Passage:
        """Return events, by place in the columns, as one passage."""
        rows = np.asarray(places, np.int64)
        name = f"rows:{rows[0]}-{rows[-1] + 1}/{len(rows)}" if len(rows) else "rows:none"
        return passage_of(self.columns, self._lines, name, rows, score)

    def row_ids(self, rows: Sequence[int]) -> tuple[str, ...]:
        """Return the row ids of events by place."""
        return tuple(self.columns.row_id_array.take(pa.array(rows, pa.int64())).to_pylist())

    @cached_property
    def chunks_cut_by_encoder(self) -> int:
        """How many chunks of all events are longer than the encoder reads, by estimate: it is blind to their ends."""
        limit = self.encoder.max_tokens
        if limit is None or self.settings.embedded == "names":
            return 0
        return sum(estimate_tokens(text) > limit for text in self._all_chunks.texts)

    def _vector(self, query: str) -> Vectors:
        vector: Vectors = self.encoder.encode([query])[0]
        return vector

    @cached_property
    def _all_chunks(self) -> Chunks:
        return self._chunks("all", self._places)

    @cached_property
    def _text_chunks(self) -> Chunks:
        return self._chunks("text", self._text_places)

    @cached_property
    def _places(self) -> Places:
        """The events with a line of their own."""
        if self.settings.lines == "all":
            return np.arange(self._count)
        return np.flatnonzero(tells(self.columns)[: self._count])

    @property
    def _text_places(self) -> Places:
        numbers = np.isfinite(self.columns.numeric_value) & ~self.columns.notes.without_unit
        return self._places[~numbers[self._places]]

    def _chunks(self, family: str, places: Places) -> Chunks:
        return Chunks(
            family,
            places,
            columns=self.columns,
            lines=self._lines,
            encoder=self.encoder,
            settings=self.settings,
        )

    @cached_property
    def _text_times(self) -> Places:
        """The time of each text chunk; 0 without one."""
        columns, groups = self.columns, self._text_chunks.row_groups
        times: Places = chunk_times(columns.time, columns.is_static, groups, self.settings.chunk_time)[0][:, 0]
        return times

    @cached_property
    def _text_relevance(self) -> Scores:
        """Eq. 2 for every text chunk; one without any time says nothing of when, and has 0."""
        chunks = self._text_chunks
        times, dated = chunk_times(
            self.columns.time, self.columns.is_static, chunks.row_groups, self.settings.chunk_time
        )
        first = first_time(self.columns, self._count, births=self.settings.births)
        if first is None:
            return np.zeros(len(chunks))
        scores = time_relevance(
            times,
            now=self._now,
            first=first,
            recent_days=self.settings.recent_days,
            early_days=self.settings.early_days,
        ).max(axis=1, initial=0.0)
        return np.where(dated, scores, 0.0)

    @cached_property
    def _indicators(self) -> Indicators:
        return Indicators(self.columns, np.arange(self._count), by=self.settings.indicator)

    @property
    def _name_vectors(self) -> Vectors:
        if self._encoded_names is None:
            self._encoded_names = self.encoder.encode(self._indicators.names)
        return self._encoded_names

    @cached_property
    def _code_numbers(self) -> Places:
        """A number per concept, the same for concepts of one code."""
        numbers: dict[str, int] = {}
        return np.asarray([numbers.setdefault(code, len(numbers)) for code in self.columns.codes], np.int64)


def ranked(score: Scores, tie: Places | None = None) -> Places:
    """Return positions by score, best first. Ties go to the higher ``tie``, by default the later (newer) position."""
    return np.lexsort((-(np.arange(len(score)) if tie is None else tie), -score))


# Numeric events by indicator: the named series of section 3.2 of the EHR-RAG paper.
#
# An indicator is an event name, as in the paper, together with its unit: values in mg/dL and mmol/L are no one series,
# values in g/dL and g/dl are, under the commoner spelling. Where a name has several units each is named
# ``name [unit]``.
# With ``indicator="code"`` tests of one name and different codes (blood and urine glucose) are kept apart too, named
# ``name [code]``. An infinite value is no measurement: such rows stay among the text events, so that they are shown.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """One indicator's rows, in time order."""

    unit: str | None
    places: Places


class Indicators:
    """The indicators of one chart, by name, names in alphabetical order."""

    def __init__(self, columns: EventColumns, places: Places, *, by: Indicator) -> None:
        self._columns = columns
        self._series = _named_series(columns, places, by)
        self.names: tuple[str, ...] = tuple(self._series)
        self._folded = {_folded(name): name for name in reversed(self.names)}

    def known(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the indicators that are meant, each once, in the order named; case and outer spaces are forgiven."""
        found = (name if name in self._series else self._folded.get(_folded(name)) for name in names)
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def trajectories(self, names: Iterable[str], *, recent: int) -> tuple[IndicatorTrajectory, ...]:
        """Return the last ``recent`` values of indicators, in the order named. Names it does not know are left out."""
        return tuple(self._trajectory(name, recent) for name in self.known(names))

    def _trajectory(self, name: str, recent: int) -> IndicatorTrajectory:
        series, columns = self._series[name], self._columns
        places = series.places[max(0, len(series.places) - recent) :] if recent > 0 else series.places[:0]
        values = columns.numeric_value[places]
        times = zip(columns.time[places].tolist(), columns.is_static[places].tolist(), strict=True)
        moments = [None if static else from_microseconds(time) for time, static in times]
        return IndicatorTrajectory(
            name=name,
            unit=series.unit,
            values=tuple(zip(moments, values.tolist(), strict=True)),
            rows=tuple(places.tolist()),
            total=len(series.places),
            value_texts=tuple(text or "" for text in number_texts(values)),
        )


def _named_series(columns: EventColumns, places: Places, by: Indicator) -> dict[str, _Series]:
    places = places[np.isfinite(columns.numeric_value[places]) & ~columns.notes.without_unit[places]]
    names = [" ".join(text.split()) for text in columns.descriptions]
    keys = [(names[place], columns.codes[place] if by == "code" else "") for place in range(len(names))]
    units = columns.unit_array.take(pa.array(places)).dictionary_encode()
    unit_texts = [*(plain_unit(text) and " ".join(text.split()) for text in units.dictionary.to_pylist()), None]
    unit_places = np.asarray(units.indices.fill_null(len(unit_texts) - 1), np.int64)
    unit_texts = _one_spelling(unit_texts, np.bincount(unit_places, minlength=len(unit_texts)).tolist())
    pairs, back = np.unique(columns.concept[places] * len(unit_texts) + unit_places, return_inverse=True)
    grouped: dict[tuple[str, str, str | None], list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs.tolist()):
        name, code = keys[pair // len(unit_texts)]
        grouped[name, code, unit_texts[pair % len(unit_texts)]].append(number)
    labels = _labels(list(grouped))
    order = np.argsort(back, kind="stable")
    starts = np.searchsorted(back[order], np.arange(len(pairs) + 1))
    series: dict[str, _Series] = {}
    for key in sorted(grouped, key=lambda key: labels[key]):
        rows = np.concatenate([order[starts[number] : starts[number + 1]] for number in grouped[key]])
        series[labels[key]] = _Series(unit=key[2], places=places[np.sort(rows)])
    return series


def _one_spelling(units: list[str | None], counts: list[int]) -> list[str | None]:
    """Return each unit in the commonest spelling of those that differ in case only."""
    best: dict[str, tuple[int, str]] = {}
    for unit, count in zip(units, counts, strict=True):
        if unit is not None:
            best[unit.casefold()] = max(best.get(unit.casefold(), (-1, "")), (count, unit))
    return [None if unit is None else best[unit.casefold()][1] for unit in units]


def _labels(keys: list[tuple[str, str, str | None]]) -> dict[tuple[str, str, str | None], str]:
    """Name each indicator: the event name, with code and unit only where the name alone means several."""
    codes: dict[str, set[str]] = defaultdict(set)
    units: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for name, code, unit in keys:
        codes[name].add(code)
        units[name, code].add(unit)
    labels = {}
    for name, code, unit in keys:
        label = f"{name} [{code}]" if len(codes[name]) > 1 else name
        labels[name, code, unit] = f"{label} [{unit or 'no unit'}]" if len(units[name, code]) > 1 else label
    used_labels: set[str] = set()
    for key in sorted(labels, key=lambda key: (labels[key], str(key))):  # a name may itself look like another's label
        label, number = labels[key], 2
        while labels[key] in used_labels:
            labels[key] = f"{label} ({number})"
            number += 1
        used_labels.add(labels[key])
    return labels


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
