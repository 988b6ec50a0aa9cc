"""Decisions: which event of a kind comes next.

The prediction time is one of the moments of a stay at which the chart changed, drawn by a random number per moment.
The number of later events and their labels have no influence on the draw. The published benchmark asks just before the
event, so that the position itself shows that the event comes next. Here the question says only that such an event
follows within some hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.clinical.codes import how_to_add, load_drugs
from wardround.core import derive_seed
from wardround.records import Policy, Store, unplayed
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
    """Which rows of a table are events of the kind, and their labels. ``days``: rows have only a date."""

    table: str
    columns: tuple[str, ...]
    label: Callable[..., str | None]
    where: Conditions = ()
    clock: str | None = None
    keep_column: str | None = None
    keep: Callable[[str | None], bool] | None = None
    days: bool = False

    def counted(self, batch: pa.RecordBatch) -> Flags:
        """Return which rows count."""
        kept: Flags = CodedRows(batch=batch).meet(self.where)
        if self.clock is not None and self.clock in batch.schema.names:
            kept &= np.asarray(batch.column(self.clock).is_valid())
        if self.keep is not None and self.keep_column in batch.schema.names:
            kept &= np.fromiter(map(self.keep, texts(batch.column(self.keep_column))), bool, batch.num_rows)
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class NextEvents:
    """The events of one subject that a decision predicts.

    ``begins``: start of each event. ``recorded``: when it was recorded. ``known``: when a chart shows all its rows.
    ``names`` and ``rows``: its labels and row ids. ``ended``: the stays that the event ends.
    """

    begins: Ints
    recorded: Ints
    known: Ints
    names: Sequence[tuple[str, ...]]
    rows: Sequence[tuple[str, ...]]
    ended: Sequence[frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedRows:
    """Start, record and availability times of rows; labels; ids; the stay that each row ends ("": none)."""

    times: tuple[Ints, Ints, Ints]
    names: list[str]
    rows: list[str]
    ended: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionQuestions:
    """The questions of one decision task on one store."""

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
    ) -> DecisionQuestions:
        """Find the events of a task in a store; ``reason`` says why there are none."""
        rules = label_rules(task, rule, store, settings.policy, user_codes)
        labels, reason = ((), rules) if isinstance(rules, str) else (rules, None)
        return cls(task=task, rule=rule, store=store, seed=settings.seed, labels=labels, reason=reason)

    def unavailable(self) -> str | None:
        """Return why no subject of this store can have a question; None if one can."""
        return self.reason or _missing_spans(self.rule.spans, self.store)

    @property
    def deciding_columns(self) -> str:
        """The columns that decide whether and when a question exists, as text."""
        return "; ".join(f"{label.table}.{','.join(label.columns) or 'row_id'}" for label in self.labels[:2])

    def question(self, timeline: Timeline, dropped: Counter[str]) -> StayQuestion | None:
        """Return the question at the moment with the lowest random number.

        Only moments that an event follows are eligible.
        """
        questions = self.questions(timeline)
        if not questions:
            dropped["subject_without_such_an_event"] += 1
            return None
        return min(
            questions,
            key=lambda question: derive_seed(self.seed, self.task, question.subject, "moment", question.prediction_us),
        )

    def questions(self, timeline: Timeline) -> list[StayQuestion]:
        """Return a question at every eligible moment of a subject."""
        events = self.events(timeline)
        return [
            question
            for kind in self.rule.spans
            for span in timeline.spans(kind)
            for question in self._span_questions(timeline, span, events)
        ]

    def events(self, timeline: Timeline) -> NextEvents:
        """Return a subject's events of the kind in order; rows less than a minute apart are one event."""
        parts = [self._rows(timeline, place) for place in range(len(self.labels))]
        begins, recorded, known = (
            np.concatenate([np.empty(0, np.int64), *(part.times[n] for part in parts)]) for n in range(3)
        )
        names = [name for part in parts for name in part.names]
        ids = [row for part in parts for row in part.rows]
        ended = [stay for part in parts for stay in part.ended]
        order = np.lexsort((recorded, begins))
        starts = session_starts(begins[order])
        first = np.flatnonzero(np.r_[True, starts[1:] != starts[:-1]]) if len(order) else np.empty(0, np.int64)
        groups = np.split(order, first[1:])[: len(first)]
        return NextEvents(
            begins=starts[first],
            recorded=np.array([recorded[group].min() for group in groups], np.int64),
            known=np.array([known[group].max() for group in groups], np.int64),
            names=[tuple(sorted({names[row] for row in group})) for group in groups],
            rows=[tuple(sorted({ids[row] for row in group})) for group in groups],
            ended=[frozenset(ended[row] for row in group) - {""} for group in groups],
        )

    def _rows(self, timeline: Timeline, rule_index: int) -> _CountedRows:
        """Return the rows that one rule counts."""
        rule = self.labels[rule_index]
        batch = timeline.rows(rule.table)
        times = timeline.happened(rule.table)
        kept = rule.counted(batch) & (times != NO_TIME)
        names = self._names(rule_index, batch)
        index = [row for row in np.flatnonzero(kept).tolist() if names[row] is not None]
        recorded = times[index]
        known = timeline.known(rule.table)[index]
        ids = batch.column("row_id").to_pylist()
        return _CountedRows(
            times=(
                recorded - recorded % DAY if rule.days else recorded,
                recorded,
                np.where(known == NO_TIME, NEVER_TIME, known),
            ),
            names=[str(names[row]) for row in index],
            rows=[ids[row] for row in index],
            ended=self._ended(batch, [(row, str(names[row])) for row in index]),
        )

    def _ended(self, batch: pa.RecordBatch, labels: Sequence[tuple[int, str]]) -> list[str]:
        """Return the stay that each row ends, empty where it ends none."""
        if not self.rule.ending or self.rule.stay_column not in batch.schema.names:
            return [""] * len(labels)
        stays = texts(batch.column(self.rule.stay_column))
        return [stays[row] or "" if name == self.rule.ending else "" for row, name in labels]

    def _names(self, rule_index: int, batch: pa.RecordBatch) -> list[str | None]:
        """Return names with single spaces, each computed once per distinct cells."""
        rule = self.labels[rule_index]
        cells = [
            texts(batch.column(name)) if name in batch.schema.names else [None] * batch.num_rows
            for name in rule.columns
        ]
        names = []
        for key in zip(*cells, strict=True) if cells else [()] * batch.num_rows:
            if (rule_index, key) not in self._known:
                label = rule.label(*key)
                self._known[rule_index, key] = " ".join(label.split()) or None if label else None
            names.append(self._known[rule_index, key])
        return names

    def _span_questions(self, timeline: Timeline, span: Span, events: NextEvents) -> list[StayQuestion]:
        """Return a question at every moment of a stay that an event follows in time.

        The event must come before the stay ends or end the stay; after the stay only where the rule allows it.
        """
        last = span.left if span.left != NO_TIME else np.iinfo(np.int64).max
        moments = timeline.moments
        moments = moments[(moments >= span.start) & (moments < last)]
        following = np.searchsorted(events.begins, moments, side="right")
        found = []
        for moment, event in zip(moments.tolist(), following.tolist(), strict=True):
            if event == len(events.begins) or events.begins[event] > moment + self.rule.within_hours * HOUR:
                continue
            if events.begins[event] > last and not self.rule.leaves_stay and str(span.names) not in events.ended[event]:
                continue
            found.append(
                StayQuestion(
                    subject=timeline.subject,
                    prediction_us=moment,
                    curated_from=max(span.start, moment - _WINDOW),
                    target=events.names[event],
                    settled_us=max(int(events.known[event]), span.known),
                    stay=span.row_id,
                    kind_is_late=span.kind_is_late,
                    event=int(events.recorded[event]),
                    row_ids=events.rows[event],
                )
            )
        return found


def label_rules(
    task: str, rule: DecisionRule, store: Store, policy: Policy, user_codes: Path | None
) -> tuple[LabelRule, ...] | str:
    """Return how a store's rows become events of a kind; a text gives the reason why they cannot."""
    if rule.labels == "table":  # every table with times; its label is the table's name
        names = [name for name in store.table_names if not store.spec.tables[name].is_static]
        return tuple(LabelRule(table=name, columns=(), label=partial(_identity, name)) for name in names)
    if rule.labels == "atc" and load_drugs(user_codes).kind != "atc":
        return f"no drug has an ATC name; {how_to_add('drug-atc')}"
    if rule.role:
        return _role_rules(task, rule, store, policy, user_codes)
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
    return (LabelRule(table=rule.table, columns=(rule.column,), label=_identity, where=where, days=days),)


def _role_rules(
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
        return (LabelRule(table=role.table, columns=(rule.column,), label=_identity, where=where, days=days),)
    if rule.labels == "titles":
        columns = naming_columns(role, store.spec)
        return (LabelRule(table=role.table, columns=columns[:1], label=_identity, where=role.where, days=days),)
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


def _identity(text: str | None) -> str | None:
    return text


def _missing_spans(kinds: Sequence[SpanName], store: Store) -> str | None:
    roles = store.spec.roles
    reasons = [unplayed(kind) for kind in kinds if getattr(roles, kind) is None]
    absent = [
        f"the store has no table {role.table!r}, which plays the role `{kind}`"
        for kind in kinds
        if (role := getattr(roles, kind)) is not None and role.table not in store.table_names
    ]
    return (reasons + absent)[0] if len(reasons + absent) == len(kinds) else None
