"""Building the family ``trace``: which stays, in which split, with what at each step (TRACE, sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from wardround.benchmarks.benchmark import Benchmark
from wardround.benchmarks.pipeline import BuildSettings, Ground, TaskFacts, build_family
from wardround.benchmarks.sample import SPLITS, Sample
from wardround.benchmarks.split import DEFAULT_FRACTIONS, Fractions, person_id, unit_draw
from wardround.benchmarks.task import TRACE_TASK, Task
from wardround.benchmarks.trace.stays import PlayedStay, Unit, played_stays, stay_role
from wardround.bundles import EventKind, untimed_types
from wardround.bundles.events import HOUR
from wardround.core import Reporter, UserError, from_microseconds, silent
from wardround.records import Store
from wardround.tools.candidates import CandidateSpace

Stays = Sequence[PlayedStay]


def build_trace(
    store: Store,
    folder: Path,
    *,
    seed: int = 0,
    per_task: int = 600,
    unit: Unit = "icu",
    fractions: Fractions = DEFAULT_FRACTIONS,
    workers: int = 1,
    executor: str = "processes",
    report: Reporter = silent,
) -> Benchmark:
    """Build the stays of a store and save them; at most ``per_task`` stays in each split (0: all).

    ``unit`` is what a stay is: one in intensive care, or one in hospital. UserError: the source keeps none.
    """
    settings = BuildSettings(seed=seed, per_task=per_task, fractions=fractions, workers=workers, executor=executor)
    return build_family(TraceFamily(unit=unit), store, folder, settings, report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFamily:
    """The family: its unit of a cohort."""

    unit: Unit = "icu"
    kind: ClassVar[str] = "trace"
    paper: ClassVar[str] = "TRACE, sections 4 and 5"
    has_own_splits: ClassVar[bool] = False

    @property
    def tasks(self) -> Sequence[Task]:
        """The one task."""
        return [TRACE_TASK]

    def options(self) -> Mapping[str, Any]:
        """Its unit."""
        return {"unit": self.unit}

    def open(self, ground: Ground) -> _OpenTrace:
        """See that there are stays, and clocks of knowledge."""
        if ground.settings.policy != "known_at":
            raise UserError("a bundle is what became known within an hour: the papers' clocks have none")
        stay_role(ground.store, self.unit)
        return _OpenTrace(ground=ground, unit=self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenTrace:
    ground: Ground
    unit: Unit
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def spaces(self) -> Mapping[str, CandidateSpace]:
        return {}

    def unavailable(self, task: Task) -> str | None:
        return None

    def questions(self, task: Task) -> Stays:
        most: int = task.answer.most  # type: ignore[attr-defined]
        return list(played_stays(self.ground.store, self.unit, most=most, dropped=self.dropped))

    def draw(self, task: Task, questions: Stays) -> Stays:
        """At most so many of each split, decided by seed, subject and start alone."""
        settings = self.ground.settings
        keyed = sorted(questions, key=lambda stay: unit_draw(settings.seed, "trace", stay.subject_id, stay.start))
        drawn: list[PlayedStay] = []
        for split in SPLITS:
            held = [stay for stay in keyed if self.ground.splits[stay.subject_id] == split]
            drawn += held[: settings.per_task or None]
        return sorted(drawn, key=lambda stay: (stay.subject_id, stay.start))

    def samples(self, task: Task, questions: Stays, drawn: Stays) -> Sequence[Sample]:
        return [self._sample(task, stay) for stay in drawn]

    def _sample(self, task: Task, stay: PlayedStay) -> Sample:
        begins = from_microseconds(stay.start * HOUR)
        return Sample(
            id=_name(task, stay),
            task=task.name,
            subject_id=stay.subject_id,
            person_id=person_id(self.ground.store, stay.subject_id),
            prediction_time=begins + timedelta(minutes=59, seconds=59),
            target=tuple(map(str, stay.target)),
            split=self.ground.splits[stay.subject_id],
            stratum="any",
            facts={"first": stay.first, "stop": stay.stop, "unit": self.unit},
        )

    def describe(self, task: Task, questions: Stays, drawn: Stays, samples: Sequence[Sample]) -> TaskFacts:
        said: dict[str, Any] = {
            "title": task.title,
            "unit": f"stays in {'intensive care' if self.unit == 'icu' else 'hospital'}",
            "stays": len(questions),
            "subjects": len({stay.subject_id for stay in questions}),
            "statistics": stay_statistics(questions),
            "untimed": {str(kind): why for kind, why in untimed_types(self.ground.store.spec).items()},
        }
        return TaskFacts(said=said, drops=self.dropped | {"not_drawn": len(questions) - len(drawn)})

    def last(self, task: Task, questions: Stays, drawn: Stays, samples: Sequence[Sample]) -> dict[str, tuple[str, ...]]:
        """Copy-last: at every step the newest names of each type that the chart showed."""
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
        "targets_per_step": round(fmean(_targets_per_step(stay) for stay in stays), 2),
    }


def _targets_per_step(stay: PlayedStay) -> float:
    return len(stay.target) / (stay.bundles - 1)


def _name(task: Task, stay: PlayedStay) -> str:
    return f"{task.name}_{stay.subject_id}_{from_microseconds(stay.start * HOUR):%Y%m%dT%H}"
