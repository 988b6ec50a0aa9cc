"""Decisions: what the next event of a sort will be.

Asked at a moment of a stay, any at which the chart changed, drawn by its own number: how many come later, and what they
are, has no part in which of the earlier it is. The published benchmark asks just before the event instead, so that the
place itself says that it comes next. Here all that the moment tells is that such an event follows within some hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.clinical.codes import how_to_add, load_drugs
from wardround.core import derive_seed
from wardround.records import Policy, SourceSpec, Store, unplayed
from wardround.records.shards import NEVER_TIME
from wardround.records.specs import CodedRows, Conditions
from wardround.tasks.benchmarks.clinseek.definitions import DecisionRule, SpanName
from wardround.tasks.benchmarks.clinseek.timeline import HOUR, Span, StayQuestion, Timeline
from wardround.tasks.benchmarks.encounters import DAY, NO_TIME, Flags, Ints, texts
from wardround.tasks.benchmarks.label_events import label_source, session_starts
from wardround.tasks.benchmarks.pipeline import BuildSettings
from wardround.tasks.benchmarks.task import get_task
from wardround.tools.candidates import naming_columns

_WINDOW = 24 * HOUR
_GROUPED = ("diagnosis", "procedure")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRule:
    """Which rows of a table are events of the sort, and what each is called. ``days``: they have only a date."""

    table: str
    columns: tuple[str, ...]
    label: Callable[..., str | None]
    where: Conditions = ()
    clock: str | None = None
    keep_column: str | None = None
    keep: Callable[[str | None], bool] | None = None
    days: bool = False

    def counted(self, batch: pa.RecordBatch) -> Flags:
        """Say which rows count."""
        kept: Flags = CodedRows(batch=batch).meet(self.where)
        if self.clock is not None and self.clock in batch.schema.names:
            kept &= np.asarray(batch.column(self.clock).is_valid())
        if self.keep is not None and self.keep_column in batch.schema.names:
            kept &= np.fromiter(map(self.keep, texts(batch.column(self.keep_column))), bool, batch.num_rows)
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class NextEvents:
    """The events of one subject that are asked about: when each begins, when it is told, when a chart shows
    all its rows, its names and rows, and the stays that it ends."""

    begins: Ints
    told: Ints
    known: Ints
    names: Sequence[tuple[str, ...]]
    rows: Sequence[tuple[str, ...]]
    ended: Sequence[frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedRows:
    """When rows begin, are told and are known; what each is called; their ids; the stay that each ends ("": none)."""

    times: tuple[Ints, Ints, Ints]
    names: list[str]
    rows: list[str]
    ended: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionAsking:
    """One decision task on one store."""

    task: str
    rule: DecisionRule
    store: Store
    seed: int
    labels: tuple[LabelRule, ...]
    reason: str | None
    _known: dict[tuple[int, tuple[Any, ...]], str | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, task: str, rule: DecisionRule, store: Store, settings: BuildSettings, user_codes: Path | None
    ) -> DecisionAsking:
        """Find where a store has the events of a task; ``reason`` says why it has none."""
        found = label_rules(task, rule, store, settings.policy, user_codes)
        labels, reason = ((), found) if isinstance(found, str) else (found, None)
        return cls(task=task, rule=rule, store=store, seed=settings.seed, labels=labels, reason=reason)

    def unavailable(self) -> str | None:
        """Say why no subject of this store can be asked."""
        return self.reason or _no_spans(self.rule.spans, self.store)

    @property
    def hangs_on(self) -> str:
        """The columns that decide whether and when a question is asked."""
        return "; ".join(f"{one.table}.{','.join(one.columns) or 'row_id'}" for one in self.labels[:2])

    def question(self, timeline: Timeline, dropped: Counter[str]) -> StayQuestion | None:
        """Ask at the moment whose own number is the least among those from which such an event follows in time."""
        found = self.questions(timeline)
        if not found:
            dropped["subject_without_such_an_event"] += 1
            return None
        return min(found, key=lambda one: derive_seed(self.seed, self.task, one.subject, "moment", one.asked))

    def questions(self, timeline: Timeline) -> list[StayQuestion]:
        """Return every moment at which a subject could be asked."""
        events = self.events(timeline)
        return [
            question
            for kind in self.rule.spans
            for span in timeline.spans(kind)
            for question in self._of_span(timeline, span, events)
        ]

    def events(self, timeline: Timeline) -> NextEvents:
        """Return a subject's events of the sort, in order; rows less than a minute apart are one event."""
        parts = [self._rows(timeline, place) for place in range(len(self.labels))]
        begins, told, known = (
            np.concatenate([np.empty(0, np.int64), *(part.times[n] for part in parts)]) for n in range(3)
        )
        names = [name for part in parts for name in part.names]
        ids = [row for part in parts for row in part.rows]
        ended = [stay for part in parts for stay in part.ended]
        order = np.lexsort((told, begins))
        starts = session_starts(begins[order])
        first = np.flatnonzero(np.r_[True, starts[1:] != starts[:-1]]) if len(order) else np.empty(0, np.int64)
        groups = np.split(order, first[1:])[: len(first)]
        return NextEvents(
            begins=starts[first],
            told=np.array([told[group].min() for group in groups], np.int64),
            known=np.array([known[group].max() for group in groups], np.int64),
            names=[tuple(sorted({names[row] for row in group})) for group in groups],
            rows=[tuple(sorted({ids[row] for row in group})) for group in groups],
            ended=[frozenset(ended[row] for row in group) - {""} for group in groups],
        )

    def _rows(self, timeline: Timeline, place: int) -> _CountedRows:
        """The rows that one rule counts."""
        rule = self.labels[place]
        batch = timeline.rows(rule.table)
        times = timeline.happened(rule.table)
        kept = rule.counted(batch) & (times != NO_TIME)
        names = self._names(place, batch)
        index = [row for row in np.flatnonzero(kept).tolist() if names[row] is not None]
        told = times[index]
        known = timeline.known(rule.table)[index]
        ids = batch.column("row_id").to_pylist()
        return _CountedRows(
            times=(told - told % DAY if rule.days else told, told, np.where(known == NO_TIME, NEVER_TIME, known)),
            names=[str(names[row]) for row in index],
            rows=[ids[row] for row in index],
            ended=self._ended(batch, [(row, str(names[row])) for row in index]),
        )

    def _ended(self, batch: pa.RecordBatch, named: Sequence[tuple[int, str]]) -> list[str]:
        """The stay that each row ends, empty where it ends none."""
        if not self.rule.ending or self.rule.stay_column not in batch.schema.names:
            return [""] * len(named)
        stays = texts(batch.column(self.rule.stay_column))
        return [stays[row] or "" if name == self.rule.ending else "" for row, name in named]

    def _names(self, place: int, batch: pa.RecordBatch) -> list[str | None]:
        rule = self.labels[place]
        cells = [
            texts(batch.column(name)) if name in batch.schema.names else [None] * batch.num_rows
            for name in rule.columns
        ]
        made = zip(*cells, strict=True) if cells else [()] * batch.num_rows
        return [self._name(place, key) for key in made]

    def _name(self, place: int, key: tuple[Any, ...]) -> str | None:
        """A name with single spaces; worked out once per distinct cells."""
        if (place, key) not in self._known:
            label = self.labels[place].label(*key)
            self._known[place, key] = " ".join(label.split()) or None if label else None
        return self._known[place, key]

    def _of_span(self, timeline: Timeline, span: Span, events: NextEvents) -> list[StayQuestion]:
        """Every moment of a stay after which an event follows in time: before the stay ends, as its end, or after it
        where the rule says so."""
        last = span.left if span.left != NO_TIME else np.iinfo(np.int64).max
        moments = timeline.moments
        moments = moments[(moments >= span.start) & (moments < last)]
        following = np.searchsorted(events.begins, moments, side="right")
        found = []
        for moment, place in zip(moments.tolist(), following.tolist(), strict=True):
            if place == len(events.begins) or events.begins[place] > moment + self.rule.within_hours * HOUR:
                continue
            if events.begins[place] > last and not self.rule.leaves_stay and str(span.names) not in events.ended[place]:
                continue
            found.append(self._asked(timeline.subject, span, moment, events, place))
        return found

    def _asked(self, subject: int, span: Span, moment: int, events: NextEvents, place: int) -> StayQuestion:
        return StayQuestion(
            subject=subject,
            asked=moment,
            curated_from=max(span.start, moment - _WINDOW),
            target=events.names[place],
            settled=max(int(events.known[place]), span.known),
            stay=span.row_id,
            told_late=span.told_late,
            event=int(events.told[place]),
            row_ids=events.rows[place],
        )


def label_rules(
    task: str, rule: DecisionRule, store: Store, policy: Policy, user_codes: Path | None
) -> tuple[LabelRule, ...] | str:
    """Return how a store's rows are events of a sort; a text says why they cannot be."""
    if rule.labels == "table":
        return _tables(store)
    if rule.labels == "atc" and load_drugs(user_codes).kind != "atc":
        return f"no drug has an ATC name; {how_to_add('drug-atc')}"
    if rule.role:
        return _of_role(task, rule, store, policy, user_codes)
    if rule.table not in store.table_names:
        return f"the store has no table {rule.table!r}"
    columns = store.spec.tables[rule.table].all_columns
    if rule.column not in columns:
        return f"table {rule.table!r} has no column {rule.column!r}"
    where, days = rule.where, rule.precision == "day"
    if rule.labels == "atc":
        return (
            LabelRule(
                table=rule.table, columns=(rule.column, rule.drug_code), label=load_drugs(user_codes).label, days=days
            ),
        )
    return (LabelRule(table=rule.table, columns=(rule.column,), label=_itself, where=where, days=days),)


def _of_role(
    task: str, rule: DecisionRule, store: Store, policy: Policy, user_codes: Path | None
) -> tuple[LabelRule, ...] | str:
    role = store.spec.roles.first(rule.role)
    if role is None:
        return unplayed(rule.role)
    if role.table not in store.table_names:
        return f"the store has no table {role.table!r}, which plays the role `{rule.role}`"
    days = role.precision == "day"
    if rule.column:
        if rule.column not in store.spec.tables[role.table].all_columns:
            return f"table {role.table!r} has no column {rule.column!r}"
        where: Conditions = ({rule.column: rule.offered},) if rule.offered else ()
        return (LabelRule(table=role.table, columns=(rule.column,), label=_itself, where=where, days=days),)
    if rule.labels == "titles":
        columns = naming_columns(role, store.spec)
        return (LabelRule(table=role.table, columns=columns[:1], label=_itself, where=role.where, days=days),)
    if rule.labels == "role" and rule.role in _GROUPED and role.group is None:
        return f"the codes of {role.table} have no categories in this source"
    source = label_source(get_task(task), role, store.spec, policy, user_codes)
    return (
        LabelRule(
            table=role.table,
            columns=source.columns,
            label=source.label,
            where=role.where,
            clock=role.clock,
            keep_column=source.keep_column,
            keep=source.keep,
            days=days,
        ),
    )


def _tables(store: Store) -> tuple[LabelRule, ...]:
    """Every table with rows in time, as what its rows are called."""
    spec: SourceSpec = store.spec
    return tuple(
        LabelRule(table=name, columns=(), label=_called(name))
        for name in store.table_names
        if not spec.tables[name].is_static
    )


def _called(name: str) -> Callable[..., str | None]:
    return lambda: name


def _itself(text: str | None) -> str | None:
    return text


def _no_spans(kinds: Sequence[SpanName], store: Store) -> str | None:
    roles = store.spec.roles
    reasons = [unplayed(kind) for kind in kinds if getattr(roles, kind) is None]
    absent = [
        f"the store has no table {role.table!r}, which plays the role `{kind}`"
        for kind in kinds
        if (role := getattr(roles, kind)) is not None and role.table not in store.table_names
    ]
    return (reasons + absent)[0] if len(reasons + absent) == len(kinds) else None
