"""Label events: the moments of a subject's record at which a task's answer happens, grouped into one question each.

Rows are read from the trusted store, clock columns and all. A label is mapped once per distinct code, not per row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import RecordError
from wardround.records import Policy

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NO_TIME = np.iinfo(np.int64).min
NEVER = np.iinfo(np.int64).max
MINUTE = 60_000_000
DAY = 86_400_000_000
EVENT, AVAILABLE, PUBLISHED = "_event", "_available", "_published"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSource:
    """Where a task's labels come from.

    ``label`` maps the texts of ``columns`` to a label, None where there is none. ``keep``, if given, says by the text
    of ``keep_column`` which rows count; ``left_out`` is what the manifest calls the others. A row whose
    ``clock_column`` is empty has only a date and no moment to ask at. ``by_encounter`` keeps encounters apart.
    ``by_session``: under ``known_at``, rows less than a minute apart are one event (see :func:`session_starts`).
    ``from_day_start`` asks, under ``known_at``, at the start of the event's day or at admission, whichever is later.
    ``prompt`` names the template that asks it, where that is not the task's own. ``wants`` is the kind of code table
    that labels of this source need and that was not added, if so.
    """

    table: str
    columns: tuple[str, ...]
    label: Callable[..., str | None]
    keep_column: str | None = None
    keep: Callable[[str | None], bool] | None = None
    left_out: str | None = None
    clock_column: str | None = None
    by_encounter: bool = False
    by_session: bool = False
    from_day_start: bool = False
    prompt: str | None = None
    wants: str | None = None

    def needed_columns(self, policy: Policy) -> tuple[str, ...]:
        """Every column of the table that finding events reads."""
        named = [name for name in (self.keep_column, self.clock_column) if name]
        clocks = (EVENT, AVAILABLE) if policy == "known_at" else (PUBLISHED,)
        return tuple(dict.fromkeys((*self.columns, *named, "hadm_id", *clocks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Encounters:
    """The admissions of one subject in order of admission, times in microseconds."""

    ids: Ints
    starts: Ints
    ends: Ints

    @classmethod
    def read(cls, batch: pa.RecordBatch, ends_at: Sequence[str] = ("dischtime",)) -> Encounters:
        """Read a subject's admissions rows; a stay ends at the latest of these columns."""
        starts = microseconds(batch.column("admittime"))
        order = np.argsort(starts, kind="stable")
        ids = integers(batch.column("hadm_id"))
        ends = np.maximum.reduce([microseconds(batch.column(name)) for name in ends_at])
        return cls(ids=ids[order], starts=starts[order], ends=ends[order])

    @classmethod
    def none(cls) -> Encounters:
        """A subject without any."""
        empty = np.empty(0, np.int64)
        return cls(ids=empty, starts=empty, ends=empty)

    def position_of(self, ids: Ints, times: Ints) -> Ints:
        """Which admission each row belongs to: the one it names, else the one whose stay covers its time, else -1."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        order = np.argsort(self.ids)
        place = np.minimum(np.searchsorted(self.ids[order], ids), len(order) - 1)
        named = np.where(self.ids[order][place] == ids, order[place], -1)
        latest = np.searchsorted(self.starts, times, side="right") - 1
        covered = np.where((latest >= 0) & (times != NO_TIME) & (times <= self.ends[latest]), latest, -1)
        return np.where(ids >= 0, named, covered)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEvent:
    """One possible question: when it happens, when it is asked, what the answer is; ``unmapped`` rows had no label.
    ``known_us`` is when a chart shows all of its rows."""

    subject_id: int
    encounter: int
    event_us: int
    prediction_us: int
    target: tuple[str, ...]
    unmapped: int
    known_us: int = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRows:
    """A subject's rows that count, ordered by event: place in the batch, group key (time, group), admission, label, and
    the first moment at which the chart would show the row."""

    index: Ints
    keys: Ints
    position: Ints
    labels: list[str | None]
    shown: Ints

    def parts(self) -> Iterator[slice]:
        """Yield the rows of each event."""
        if not len(self.keys):
            return
        starts = np.flatnonzero(np.r_[True, np.any(self.keys[1:] != self.keys[:-1], axis=1)]).tolist()
        yield from (slice(a, b) for a, b in zip(starts, [*starts[1:], len(self.keys)], strict=True))


@dataclass(slots=True, kw_only=True)
class EventFinder:
    """Finds the eligible label events of one subject after another and counts what is dropped, by reason."""

    source: LabelSource
    policy: Policy
    dropped: Counter[str] = field(default_factory=Counter)
    found: int = 0
    _labels: dict[tuple[str | None, ...], str | None] = field(default_factory=dict)

    def events(self, subject_id: int, batch: pa.RecordBatch, encounters: Encounters) -> list[LabelEvent]:
        """Return the subject's eligible events, in time order."""
        rows = self.rows(batch, encounters)
        kept = []
        for part in rows.parts():
            crowded = self._is_crowded(rows, part.start)
            event = "within_a_minute_of_another" if crowded else self._event(subject_id, rows, part, encounters)
            if isinstance(event, str):
                self.dropped[event] += 1
            else:
                kept.append(event)
        self.found += len(kept)
        return kept

    def rows(self, batch: pa.RecordBatch, encounters: Encounters) -> LabelRows:
        """Return the rows that count; those without a time are dropped."""
        times = microseconds(batch.column(EVENT if self.policy == "known_at" else PUBLISHED))
        position = encounters.position_of(_encounter_ids(batch), times)
        group = position if self.source.by_encounter else np.zeros(len(times), np.int64)
        kept, timed = self._kept(batch), self._timed(batch, times)
        self.dropped["row_without_time"] += int(np.count_nonzero(kept & ~timed))
        index = np.flatnonzero(kept & timed)
        index = index[np.lexsort((group[index], times[index]))]
        one_act = self.policy == "known_at" and self.source.by_session
        starts = session_starts(times[index]) if one_act else times[index]
        shown = times if self.policy == "published" else self._known(times, batch)
        return LabelRows(
            index=index,
            keys=np.column_stack([starts, group[index]]),
            position=position[index],
            labels=self._mapped(batch.take(pa.array(index))),
            shown=shown[index],
        )

    def _is_crowded(self, rows: LabelRows, first: int) -> bool:
        """Whether the event before this one would not be known yet when this one is asked (a stop of some seconds)."""
        if self.policy == "published" or self.source.by_encounter or first == 0:
            return False
        return bool(rows.keys[first, 0] - rows.keys[first - 1, 0] < MINUTE)

    def _event(self, subject_id: int, rows: LabelRows, part: slice, encounters: Encounters) -> LabelEvent | str:
        """Build the event of some rows, or return the reason why it cannot be asked."""
        place = int(rows.position[part].max())
        if place < 0:
            return "no_admission"
        event_us = int(rows.keys[part.start, 0])
        start, end = int(encounters.starts[place]), int(encounters.ends[place])
        asked = self._asked_at(event_us, start)
        if start == NO_TIME or end == NO_TIME:
            return "admission_without_time"
        if asked < start:
            return "before_admission"
        if asked >= end:
            return "after_discharge"
        if int(rows.shown[part].min()) <= asked:
            return "already_known"
        labels = rows.labels[part]
        target = tuple(sorted({label for label in labels if label is not None}))
        if not target:
            return "no_label"
        return LabelEvent(
            subject_id=subject_id,
            encounter=int(encounters.ids[place]),
            event_us=event_us,
            prediction_us=asked,
            target=target,
            unmapped=sum(label is None for label in labels),
            known_us=int(rows.shown[part].max()),
        )

    def _asked_at(self, event_us: int, admitted_us: int) -> int:
        if self.source.from_day_start and self.policy == "known_at":
            return max(admitted_us, event_us - event_us % DAY)
        return event_us - MINUTE

    def _known(self, times: Ints, batch: pa.RecordBatch) -> Ints:
        """When a row shows under ``known_at``: not before its event, and never if it never becomes available."""
        available = microseconds(batch.column(AVAILABLE))
        return np.where(available == NO_TIME, NEVER, np.maximum(times, available))

    def _kept(self, batch: pa.RecordBatch) -> Flags:
        if self.source.keep_column is None or self.source.keep is None:
            return np.ones(batch.num_rows, bool)
        cells = texts(batch.column(self.source.keep_column))
        kept = np.fromiter(map(self.source.keep, cells), bool, batch.num_rows)
        if self.source.left_out:
            self.dropped[self.source.left_out] += int(np.count_nonzero(~kept))
        return kept

    def _timed(self, batch: pa.RecordBatch, times: Ints) -> Flags:
        timed: Flags = times != NO_TIME
        if self.source.clock_column is not None:
            timed = timed & (microseconds(batch.column(self.source.clock_column)) != NO_TIME)
        return timed

    def _mapped(self, batch: pa.RecordBatch) -> list[str | None]:
        cells = [texts(batch.column(name)) for name in self.source.columns]
        return [self._label(key) for key in zip(*cells, strict=True)]

    def _label(self, key: tuple[str | None, ...]) -> str | None:
        if key not in self._labels:
            self._labels[key] = self.source.label(*key)
        return self._labels[key]


def session_starts(times: Ints) -> Ints:
    """Replace each of some ordered times by the first of its session: a chain of gaps under a minute.

    A question is asked one minute before its event. Were two orders 30 seconds apart two questions, the second would
    be asked before the first is known and would count the first as a wrong answer.
    """
    fresh = np.ones(len(times), bool)
    fresh[1:] = np.diff(times) >= MINUTE
    return times[np.maximum.accumulate(np.where(fresh, np.arange(len(times)), 0))]


def microseconds(column: pa.Array) -> Ints:
    """Return a time column as integers, NO_TIME where it is null."""
    if pa.types.is_null(column.type):
        return np.full(len(column), NO_TIME, np.int64)
    if not (pa.types.is_timestamp(column.type) or pa.types.is_int64(column.type)):
        raise RecordError(f"expected a time column, not {column.type}")
    plain = column if pa.types.is_int64(column.type) else column.cast(pa.timestamp("us")).cast(pa.int64())
    return np.asarray(plain.fill_null(NO_TIME).to_numpy(zero_copy_only=False))


def integers(column: pa.Array) -> Ints:
    """Return an id column as integers, -1 where it is null."""
    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))


def texts(column: pa.Array) -> list[Any]:
    """Return a column as texts and None."""
    return list(column.cast(pa.string()).to_pylist())


def _encounter_ids(batch: pa.RecordBatch) -> Ints:
    if "hadm_id" not in batch.schema.names:
        return np.full(batch.num_rows, -1, np.int64)
    return integers(batch.column("hadm_id"))
