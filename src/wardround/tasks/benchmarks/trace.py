"""The TRACE family: one sample per stay, with targets after every bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from wardround.clinical.bundles import BundleStream, EventKind, StepTargets, step_targets, store_bundles, untimed_types
from wardround.clinical.bundles.events import HOUR
from wardround.clinical.bundles.targets import DECIDED
from wardround.core import Reporter, UserError, from_microseconds, silent
from wardround.records import SpanRole, Store, unplayed
from wardround.records.specs import CodedRows
from wardround.tasks.answers import StepAction
from wardround.tasks.benchmarks.benchmark import Benchmark
from wardround.tasks.benchmarks.drawing import person_id, unit_draw
from wardround.tasks.benchmarks.encounters import NO_TIME, Spans, event_times, read_spans
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildOptions, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import SPLITS, Sample
from wardround.tasks.benchmarks.task import TRACE_TASK, Task
from wardround.tools.candidates import CandidateSpace

# The stays of a store as ranges of bundles, and the paper's statistics of them (section 5).


Unit = Literal["icu", "hospital"]
MIN_BUNDLES = 2
"""Minimum number of bundles: a shorter stay has no step to predict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStay:
    """One stay: the bundles from ``first`` up to ``stop`` (excluded), as indices in its subject's stream.

    ``start``: the hour of its first bundle, in hours since 1970. ``target``: the decisions, step by step. ``last``: at
    each step the latest names of each type on the chart.
    """

    subject_id: int
    start: int
    first: int
    stop: int
    target: tuple[StepAction, ...]
    last: tuple[StepAction, ...]
    events: int
    by_kind: Mapping[EventKind, int]

    @property
    def bundles(self) -> int:
        """The number of bundles, one more than steps."""
        return self.stop - self.first


def stay_role(store: Store, unit: Unit) -> SpanRole:
    """Return the role of the cohort's unit. UserError: no table in the store has it."""
    name = "stay" if unit == "icu" else "admission"
    role: SpanRole | None = getattr(store.spec.roles, name)
    other = "hospital" if unit == "icu" else "icu"
    if role is None:
        raise UserError(f"no stays: {unplayed(name)}; try --unit {other}, or see docs/roles.md")
    if role.table not in store.table_names:
        raise UserError(f"no stays: the store has no table {role.table!r}; try --unit {other}")
    return role


def played_stays(store: Store, unit: Unit, *, most: int, dropped: dict[str, int]) -> Iterator[PlayedStay]:
    """Yield every stay with a step and a target, subject by subject.

    ``most``: limit on names of a type in ``last``. ``dropped`` counts the others by reason.
    """
    role = stay_role(store, unit)
    spans = {
        subject: read_spans(role, event_times(batch), CodedRows(batch=batch))
        for subject, batch in store.scan(role.table)
    }
    for stream in store_bundles(store):
        targets = step_targets(stream)
        subjects = stream.subjects
        edges = np.flatnonzero(np.r_[True, subjects[1:] != subjects[:-1], True])
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            subject = int(subjects[begin])
            for start, stop in _ranges(stream, begin, end, spans.get(subject, Spans.none())):
                stay = _stay(stream, targets, begin, start, stop, most)
                if stay.bundles < MIN_BUNDLES:
                    dropped["of fewer than two bundles"] = dropped.get("of fewer than two bundles", 0) + 1
                elif not stay.target:
                    dropped["without a decision to foretell"] = dropped.get("without a decision to foretell", 0) + 1
                else:
                    yield stay


def _ranges(stream: BundleStream, begin: int, end: int, spans: Spans) -> Iterator[tuple[int, int]]:
    """Yield the index range of each stay's bundles: from the hour of its start to the hour of its end."""
    hours = stream.hours[begin:end]
    for start, stop in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
        last = hours[-1] if stop == NO_TIME else stop // HOUR
        yield begin + int(np.searchsorted(hours, start // HOUR)), begin + int(np.searchsorted(hours, last, "right"))


def _stay(stream: BundleStream, targets: StepTargets, begin: int, start: int, stop: int, most: int) -> PlayedStay:
    events = stream.columns.slice(int(stream.starts[start]), int(stream.starts[stop])) if stop > start else None
    kinds = np.bincount(events.kind, minlength=max(EventKind) + 1) if events is not None else np.zeros(1, np.int64)
    steps = range(start, stop - 1)
    return PlayedStay(
        subject_id=int(stream.subjects[begin]),
        start=int(stream.hours[start]) if stop > start else 0,
        first=start - begin,
        stop=max(stop, start) - begin,
        target=tuple(action for index in steps for action in _target(targets, index, index - start)),
        last=tuple(_last(stream, begin, start, stop, most)),
        events=int(kinds.sum()),
        by_kind={EventKind(kind): int(count) for kind, count in enumerate(kinds) if count},
    )


def _target(targets: StepTargets, index: int, step: int) -> Iterator[StepAction]:
    for kind, names in targets.of(index).items():
        yield from (StepAction(step=step, kind=str(kind), name=name) for name in names)


def _last(stream: BundleStream, begin: int, start: int, stop: int, most: int) -> Iterator[StepAction]:
    """Yield, for every step of a stay, the latest visible decisions of each type, newest first."""
    columns = stream.columns
    decided = np.isin(columns.kind, list(DECIDED))
    newest: dict[str, dict[str, None]] = {}
    for index in range(begin, stop - 1):
        rows = slice(int(stream.starts[index]), int(stream.starts[index + 1]))
        kinds, concepts = columns.kind[rows][decided[rows]], columns.concept[rows][decided[rows]]
        for kind, concept in zip(kinds.tolist(), concepts.tolist(), strict=True):
            names = newest.setdefault(str(DECIDED[EventKind(kind)]), {})
            names.pop(columns.names[concept], None)
            names[columns.names[concept]] = None
        if index >= start:
            yield from _newest(newest, index - start, most)


def _newest(newest: Mapping[str, Mapping[str, None]], step: int, most: int) -> Iterator[StepAction]:
    for kind, names in newest.items():
        yield from (StepAction(step=step, kind=kind, name=name) for name in list(names)[: -most - 1 : -1])


# Build the family ``trace``: stays, splits and targets per step (TRACE, sections 4 and 5).


Stays = Sequence[PlayedStay]


def build_trace(
    store: Store,
    folder: Path,
    *,
    unit: Unit = "icu",
    report: Reporter = silent,
    **options: Unpack[BuildOptions],
) -> Benchmark:
    """Build the stays of a store and save them; at most ``per_task`` stays in each split (0: no limit).

    ``unit``: a stay in intensive care, or in hospital. UserError: the source has none.
    """
    return build_family(TraceFamily(unit=unit), store, folder, BuildSettings(**options), report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFamily:
    """The family: its cohort unit."""

    unit: Unit = "icu"
    kind: ClassVar[str] = "trace"
    paper: ClassVar[str] = "TRACE, sections 4 and 5"
    has_own_splits: ClassVar[bool] = False

    @property
    def tasks(self) -> Sequence[Task]:
        """The only task."""
        return [TRACE_TASK]

    def options(self) -> Mapping[str, Any]:
        """Return the unit."""
        return {"unit": self.unit}

    def open(self, context: BuildContext) -> _OpenTrace:
        """Check that the store has stays and availability times."""
        if context.settings.policy != "known_at":
            raise UserError("a bundle needs availability times, which the papers' clocks do not have")
        stay_role(context.store, self.unit)
        return _OpenTrace(context=context, unit=self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenTrace:
    context: BuildContext
    unit: Unit
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def spaces(self) -> Mapping[str, CandidateSpace]:
        return {}

    def unavailable(self, task: Task) -> str | None:
        return None

    def questions(self, task: Task) -> Stays:
        most: int = task.answer.most  # type: ignore[attr-defined]
        return list(played_stays(self.context.store, self.unit, most=most, dropped=self.dropped))

    def draw(self, task: Task, questions: Stays) -> Stays:
        """Draw at most ``per_task`` of each split, by seed, subject and start only."""
        settings = self.context.settings
        keyed = sorted(questions, key=lambda stay: unit_draw(settings.seed, "trace", stay.subject_id, stay.start))
        drawn: list[PlayedStay] = []
        for split in SPLITS:
            split_stays = [stay for stay in keyed if self.context.splits[stay.subject_id] == split]
            drawn += split_stays[: settings.per_task or None]
        return sorted(drawn, key=lambda stay: (stay.subject_id, stay.start))

    def samples(self, task: Task, questions: Stays, drawn: Stays) -> Sequence[Sample]:
        return [self._sample(task, stay) for stay in drawn]

    def _sample(self, task: Task, stay: PlayedStay) -> Sample:
        begins = from_microseconds(stay.start * HOUR)
        return Sample(
            id=_name(task, stay),
            task=task.name,
            subject_id=stay.subject_id,
            person_id=person_id(self.context.store, stay.subject_id),
            prediction_time=begins + timedelta(minutes=59, seconds=59),
            target=tuple(map(str, stay.target)),
            split=self.context.splits[stay.subject_id],
            stratum="any",
            facts={"first": stay.first, "stop": stay.stop, "unit": self.unit},
        )

    def describe(self, task: Task, questions: Stays, drawn: Stays, samples: Sequence[Sample]) -> TaskFacts:
        details: dict[str, Any] = {
            "title": task.title,
            "unit": f"stays in {'intensive care' if self.unit == 'icu' else 'hospital'}",
            "stays": len(questions),
            "subjects": len({stay.subject_id for stay in questions}),
            "statistics": stay_statistics(questions),
            "untimed": {str(kind): why for kind, why in untimed_types(self.context.store.spec).items()},
        }
        return TaskFacts(details=details, drops=self.dropped | {"not_drawn": len(questions) - len(drawn)})

    def last(self, task: Task, questions: Stays, drawn: Stays, samples: Sequence[Sample]) -> dict[str, tuple[str, ...]]:
        """Return the copy-last baseline: at every step the latest names of each type that the chart showed."""
        return {_name(task, stay): tuple(map(str, stay.last)) for stay in drawn if stay.last}

    def facts(self) -> Mapping[str, Any]:
        return {"unit": self.unit, "splits": "by hash of seed and person"}


def stay_statistics(stays: Stays) -> dict[str, float]:
    """Return the figures that the paper prints of its corpus (section 5), over some stays."""
    if not stays:
        return {}
    bundles, people = sum(stay.bundles for stay in stays), len({stay.subject_id for stay in stays})

    def each(*kinds: EventKind) -> float:
        return round(sum(stay.by_kind.get(kind, 0) for stay in stays for kind in kinds) / bundles, 2)

    return {
        "bundles": bundles,
        "events": sum(stay.events for stay in stays),
        "bundles_per_stay": round(fmean(stay.bundles for stay in stays), 1),
        "events_per_bundle": round(sum(stay.events for stay in stays) / bundles, 2),
        "labs_per_bundle": each(EventKind.LAB),
        "medications_per_bundle": each(EventKind.MEDICATION_START, EventKind.MEDICATION_STOP),
        "events_per_subject": round(sum(stay.events for stay in stays) / people, 1),
        "targets_per_step": round(fmean(len(stay.target) / (stay.bundles - 1) for stay in stays), 2),
    }


def _name(task: Task, stay: PlayedStay) -> str:
    return f"{task.name}_{stay.subject_id}_{from_microseconds(stay.start * HOUR):%Y%m%dT%H}"
