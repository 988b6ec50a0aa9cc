"""Label events: when a task's answer happens in a record, and from which rows it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.clinical.codes import read_user_codes
from wardround.records import Policy, RowRole, SourceSpec
from wardround.records.shards import NEVER_TIME
from wardround.records.specs import CodedRows, Conditions
from wardround.tasks.benchmarks.encounters import (
    AVAILABLE,
    DAY,
    EVENT,
    MINUTE,
    NO_TIME,
    PUBLISHED,
    Encounters,
    Flags,
    Ints,
    microseconds,
    texts,
)
from wardround.tasks.benchmarks.task import Task
from wardround.tools.candidates import role_labels

# Rows are read from the trusted store, clock columns and all. A label is mapped once per distinct code, not per row.


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSource:
    """Where a task's labels come from.

    ``label`` maps the texts of ``columns`` to a label, None where there is none. ``where`` and, if given, ``keep``, by
    the text of ``keep_column``, say which rows count; ``left_out`` is what the manifest calls what ``keep`` leaves out.
    A row whose ``clock_column`` is empty has only a date and no moment to ask at. ``encounter`` names the stay by its
    column; ``by_encounter`` keeps stays apart. ``at_stay_end``: under ``known_at``, the rows of a stay are one event,
    its end, and those known before are none of the answer.
    ``by_session``: under ``known_at``, rows less than a minute apart are one event (see :func:`session_starts`).
    ``from_day_start`` asks, under ``known_at``, at the start of the event's day or at admission, whichever is later.
    ``prompt`` names the template that asks it, where that is not the task's own. ``wants`` is the kind of code table
    that labels of this source need and that was not added, if so.
    """

    table: str
    columns: tuple[str, ...]
    label: Callable[..., str | None]
    encounter: str | None = None
    where: Conditions = ()
    keep_column: str | None = None
    keep: Callable[[str | None], bool] | None = None
    left_out: str | None = None
    clock_column: str | None = None
    by_encounter: bool = False
    at_stay_end: bool = False
    by_session: bool = False
    from_day_start: bool = False
    prompt: str | None = None
    wants: str | None = None

    def needed_columns(self, policy: Policy) -> tuple[str, ...]:
        """Every column of the table that finding events reads."""
        named = [name for name in (self.keep_column, self.clock_column, self.encounter) if name]
        conditions = [column for condition in self.where for column in condition]
        clocks = (EVENT, AVAILABLE) if policy == "known_at" else (PUBLISHED,)
        return tuple(dict.fromkeys((*self.columns, *named, *conditions, *clocks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEvent:
    """One possible question: event time, prediction time and answer.

    ``unmapped`` counts rows without a label. ``known_us``: when a chart shows all of its rows.
    """

    subject_id: int
    encounter: Any
    event_us: int
    prediction_us: int
    target: tuple[str, ...]
    unmapped: int
    known_us: int = NEVER_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRows:
    """The rows of a subject that count, ordered by event.

    ``index`` in the batch, group key (time, group), position of the admission, label, and the first moment at which
    the chart would show the row.
    """

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
    """Finds the eligible label events of one subject after another and counts dropped ones by reason."""

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
        until = times - times % DAY + (DAY - 1) if self.source.from_day_start else None
        position = encounters.position_of(self._column(batch, self.source.encounter), times, until)
        if self.source.at_stay_end and self.policy == "known_at" and len(encounters.ends):
            times = np.where(position >= 0, encounters.discharges[position], times)
        group = position if self.source.by_encounter else np.zeros(len(times), np.int64)
        kept, timed = self._kept(batch), times != NO_TIME
        clock = self._column(batch, self.source.clock_column)
        if clock is not None:
            timed &= microseconds(clock) != NO_TIME
        self.dropped["row_without_time"] += int(np.count_nonzero(kept & ~timed))
        index = np.flatnonzero(self._unknown_before(times, batch, kept & timed))
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
        """Return whether the previous event would not be known yet at this one's prediction time."""
        if self.policy == "published" or self.source.by_encounter or first == 0:
            return False
        return bool(rows.keys[first, 0] - rows.keys[first - 1, 0] < MINUTE)

    def _event(self, subject_id: int, rows: LabelRows, part: slice, encounters: Encounters) -> LabelEvent | str:
        """Build the event of some rows, or return the reason why there is no question."""
        admission = int(rows.position[part].max())
        if admission < 0:
            return "no_admission"
        event_us = int(rows.keys[part.start, 0])
        start, end = int(encounters.starts[admission]), int(encounters.ends[admission])
        by_day = self.source.from_day_start and self.policy == "known_at"
        prediction_us = max(start, event_us - event_us % DAY) if by_day else event_us - MINUTE
        if start == NO_TIME or end == NO_TIME:
            return "admission_without_time"
        if prediction_us < start or event_us < start:  # the day was over at admission
            return "before_admission"
        if prediction_us >= end:
            return "after_discharge"
        if int(rows.shown[part].min()) <= prediction_us:
            return "already_known"
        labels = rows.labels[part]
        target = tuple(sorted({label for label in labels if label is not None}))
        if not target:
            return "no_label"
        return LabelEvent(
            subject_id=subject_id,
            encounter=encounters.name(admission),
            event_us=event_us,
            prediction_us=prediction_us,
            target=target,
            unmapped=sum(label is None for label in labels),
            known_us=int(rows.shown[part].max()),
        )

    def _known(self, times: Ints, batch: pa.RecordBatch) -> Ints:
        """Return when a row is shown under ``known_at``: at or after its event; never without an available time."""
        available = microseconds(batch.column(AVAILABLE))
        return np.where(available == NO_TIME, NEVER_TIME, np.maximum(times, available))

    def _unknown_before(self, times: Ints, batch: pa.RecordBatch, is_counted: Flags) -> Flags:
        """Leave out rows that were recorded before the rest of their stay: the chart shows them already."""
        if not self.source.at_stay_end or self.policy == "published":
            return is_counted
        is_known = is_counted & (microseconds(batch.column(AVAILABLE)) <= times - MINUTE)
        if is_known.any():
            self.dropped["row_known_before_the_end"] += int(np.count_nonzero(is_known))
        is_unknown: Flags = is_counted & ~is_known
        return is_unknown

    def _kept(self, batch: pa.RecordBatch) -> Flags:
        met = CodedRows(batch=batch).meet(self.source.where)
        column = self._column(batch, self.source.keep_column)
        if column is None or self.source.keep is None:
            return met
        kept = np.fromiter(map(self.source.keep, texts(column)), bool, batch.num_rows)
        if self.source.left_out:
            self.dropped[self.source.left_out] += int(np.count_nonzero(met & ~kept))
        both: Flags = met & kept
        return both

    def _mapped(self, batch: pa.RecordBatch) -> list[str | None]:
        columns = [self._column(batch, name) for name in self.source.columns]
        cells = [[None] * batch.num_rows if column is None else texts(column) for column in columns]
        labels = []
        for key in zip(*cells, strict=True):
            if key not in self._labels:
                self._labels[key] = self.source.label(*key)
            labels.append(self._labels[key])
        return labels

    @staticmethod
    def _column(batch: pa.RecordBatch, name: str | None) -> pa.Array | None:
        """A column by name, None where the store has none of that name: the source's files need not have every one."""
        return batch.column(name) if name is not None and name in batch.schema.names else None


def session_starts(times: Ints) -> Ints:
    """Replace each of some ordered times by the first of its session: a chain of gaps under a minute.

    The prediction time is one minute before the event. If two orders 30 seconds apart were two questions, the second
    would come before the first is known and would count the first as a wrong answer.
    """
    fresh = np.ones(len(times), bool)
    fresh[1:] = np.diff(times) >= MINUTE
    return times[np.maximum.accumulate(np.where(fresh, np.arange(len(times)), 0))]


# Where the labels of the six AgentEHR tasks come from (appendix B): the rows of a role of the source, one role a task.
#
# Label spaces: CCS categories where the role's codes have them, ATC names (or normalised drug names where no ATC map
# was added) for orders, else the names in the rows. The precision of the dates decides the question: what happens at
# the next moment, on a day, or which codes a whole stay gets at its end.


_ICD9_PROCEDURES = "icd9-procedures"


def is_other_source(spec: SourceSpec) -> bool:
    """Whether this is the paper's second database, on which methods are only tested."""
    return spec.name == "mimiciii"


def label_source(task: Task, role: RowRole, spec: SourceSpec, policy: Policy, user_codes: Path | None) -> LabelSource:
    """Return the source of a task's labels.

    Under ``known_at`` reflex tests (added by the laboratory because of a result) do not count: the spec of the
    cultures' table names them. Under ``published`` every test of the moment counts, as in the paper. For events with
    only a day, the prediction time under ``known_at`` is the start of the day.
    """
    table = spec.tables[role.table]
    labels = role_labels(task.role, role, spec, user_codes)
    reflex = table.pending.reflex.patterns if table.pending else ()
    return LabelSource(
        table=role.table,
        columns=labels.columns,
        label=labels.label,
        encounter=table.encounter,
        where=role.where,
        keep_column=table.pending.reflex.column if table.pending else None,
        keep=_not_any(reflex) if reflex and policy == "known_at" else None,
        left_out="row_of_reflex_test",
        clock_column=role.clock if policy == "known_at" else None,
        by_encounter=role.precision != "moment",
        at_stay_end=role.precision == "stay",
        by_session=role.precision == "moment" and task.role != "transfer",
        from_day_start=role.precision == "day",
        prompt=prompt_variant(task, role),
        wants=_wanted_codes(task, role, user_codes),
    )


def prompt_variant(task: Task, role: RowRole) -> str | None:
    """Return the template of a task for a role, None for the task's own."""
    if task.role == "culture":
        return "microbiology_specimens" if role.asks_specimens else None
    if task.role == "order":
        return "prescriptions_day" if role.precision == "day" else None
    if task.role == "diagnosis":
        return None if role.group else "diagnoses_names"
    if task.role == "procedure" and (role.group is None or role.precision == "stay"):
        return f"procedures{'_stay' if role.precision == 'stay' else ''}{'' if role.group else '_names'}"
    return None


def _wanted_codes(task: Task, role: RowRole, user_codes: Path | None) -> str | None:
    """Return the code table that the user must add: ICD-9 procedures have categories only through it."""
    wants = task.role == "procedure" and role.group == "ccs" and role.system == "icd9"
    return _ICD9_PROCEDURES if wants and not read_user_codes(_ICD9_PROCEDURES, user_codes) else None


def _not_any(patterns: tuple[str, ...]) -> Callable[[str | None], bool]:
    folded = [pattern.casefold() for pattern in patterns]
    return lambda name: name is None or not any(pattern in name.casefold() for pattern in folded)
