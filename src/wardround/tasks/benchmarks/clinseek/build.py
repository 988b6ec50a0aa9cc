"""ClinSeek-Bench as a family of the pipeline: tables kept for admitted people, candidate spaces, build."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from wardround.clinical.codes import normalise_label
from wardround.core import Progress, Reporter, UserError, derive_seed, format_time, from_microseconds, silent
from wardround.records import Store
from wardround.tasks.benchmarks.answer_rules import AnswerRules
from wardround.tasks.benchmarks.benchmark import Benchmark, samples_by_class
from wardround.tasks.benchmarks.clinseek.decision import DecisionAsking
from wardround.tasks.benchmarks.clinseek.definitions import (
    CLINSEEK_TASKS,
    FAMILY,
    RULES,
    DecisionRule,
    RiskRule,
    space_name,
)
from wardround.tasks.benchmarks.clinseek.risk import NO, YES, RiskAsking, led_to
from wardround.tasks.benchmarks.clinseek.timeline import MOST_EVENTS, Asking, StayQuestion, Timelines
from wardround.tasks.benchmarks.drawing import draw_key, group_of, person_id
from wardround.tasks.benchmarks.encounters import NO_TIME
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildOptions, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import SPLITS, Sample
from wardround.tasks.benchmarks.task import Task
from wardround.tools.candidates import CandidateSpace, SeenByGroup, seen_space

# The candidate tables of the decisions: the names that training subjects' events have, by how many have them.
#
# Nothing of a question takes part in a table: not its target, not its subject (a training subject is asked with what
# other groups have). What a question lists of it holds its target, as the published candidates do, or common names.


Listing = Literal["target", "common"]
"""Which names a question lists: its target among others, or those in most use."""


def listed_names(space: CandidateSpace, target: Sequence[str], most: int, *seed: object) -> tuple[str, ...]:
    """Return the target among other names, in order of the alphabet: ``most`` in all, but half of them others at least.

    The others are drawn by the seed, each next one in proportion to how many training subjects have it. That a name is
    listed then says nothing of it beyond its use, which everybody is told by the table.
    """
    own = {space.labels.resolve(name) or name for name in target}
    uses = (
        dict.fromkeys(space.labels.labels, 1)
        if space.uses is None
        else dict(zip(space.labels.labels, space.uses.tolist(), strict=True))
    )
    others = [name for name, count in uses.items() if count and name not in own]
    drawn = sorted(others, key=lambda name: -draw_key(float(uses[name]), *seed, name))
    return tuple(sorted({*own, *drawn[: max(most - len(own), most // 2)]}))


def decision_spaces(
    decisions: Sequence[DecisionAsking], groups: Mapping[int, int], timelines: Timelines
) -> dict[str, CandidateSpace]:
    """Return a table for every decision that training subjects have events of."""
    seen = {asking.task: SeenByGroup() for asking in decisions}
    for subject, group in groups.items():
        timeline = timelines.of(subject)
        for asking in decisions:
            names = {name for event in asking.events(timeline).names for name in event}
            seen[asking.task].add(group, dict.fromkeys(sorted(names), ()))
    made = {space_name(one.rule): seen_space(space_name(one.rule), seen[one.task], groups) for one in decisions}
    return {name: space for name, space in made.items() if space is not None}


# Tables that are kept for admitted people only: where the admission is asked about, a row itself would tell it.
#
# Which these are is declared by the source (``roles.kept_for_admitted``) and checked: a table that holds a row of an
# emergency visit after which somebody went home is kept for everybody, and is shown.


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedOnlyTables:
    """``admitted``: tables that no one who went home has a row of; ``everybody``: those declared so wrongly, with the
    rows of people who went home; ``visits``: of how many such visits."""

    admitted: tuple[str, ...]
    everybody: dict[str, int]
    visits: int


def kept_for(store: Store, timelines: Timelines, subjects: Iterable[int]) -> AdmittedOnlyTables:
    """Look at the emergency visits of some subjects that led to no stay in hospital."""
    declared = [name for name in store.spec.roles.kept_for_admitted if name in store.table_names]
    rows: Counter[str] = Counter()
    visits = 0
    for subject in subjects if declared else ():
        timeline = timelines.of(subject)
        for visit in timeline.spans("emergency"):
            if visit.end == NO_TIME or visit.encounter is not None or led_to(timeline, visit) is not None:
                continue
            visits += 1
            for name in declared:
                known = timeline.known(name)
                rows[name] += int(np.count_nonzero((known >= visit.start) & (known <= visit.end)))
    return AdmittedOnlyTables(
        admitted=tuple(name for name in declared if not rows[name]),
        everybody={name: rows[name] for name in declared if rows[name]},
        visits=visits,
    )


# ClinSeek-Bench as a family of the pipeline: one question a subject, subjects in an order of each task's own.
#
# Answers of decisions come from candidate tables that training subjects make. A question lists a hundred names, the
# same in both arms: its target among names drawn in proportion to how many training subjects have them, so that a rare
# name is no likelier for being listed; or, where that is asked for, the commonest ones whatever the target. Risks are
# drawn so that half the answers are yes, where there are enough; how many are yes of those looked at stands in the
# manifest.


PER_TASK = 40
"""Of the paper: 1,080 decisions and 720 risks."""


def build_clinseek(
    store: Store,
    folder: Path,
    *,
    tasks: Sequence[str] = (),
    balanced: bool = True,
    listing: Listing = "target",
    allow_missing: bool = False,
    user_codes: Path | None = None,
    report: Reporter = silent,
    **options: Unpack[BuildOptions],
) -> Benchmark:
    """Build the tasks from a store and save them; all 45 unless some are named, with or without ``clinseek.``.

    ``per_task`` is the most samples of a task in each split (0: all). ``balanced``: as many risks that come about as
    that do not, where there are enough; else as they come. ``listing``: the names that a decision lists hold its target
    among others (``target``), or are the commonest ones (``common``). UserError: a task offers a class that is never
    the answer; ``allow_missing`` notes that in the manifest instead.
    """
    options.setdefault("per_task", PER_TASK)
    names = tuple(sorted({task_name(one) for one in tasks} or set(CLINSEEK_TASKS)))
    family = ClinSeek(
        names=names, balanced=balanced, listing=listing, allow_missing=allow_missing, user_codes=user_codes
    )
    settings = BuildSettings(**options, allow_missing=allow_missing)
    return build_family(family, store, folder, settings, report=report)


def task_name(name: str) -> str:
    """Return a task's name here; the paper's own is understood. UserError: it is none of the family."""
    full = name if name in CLINSEEK_TASKS else f"{FAMILY}.{name}"
    if full not in CLINSEEK_TASKS:
        known = ", ".join(rule.name for rule in RULES.values())
        raise UserError(f"{name!r} is no task of ClinSeek-Bench; its tasks are {known}")
    return full


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinSeek:
    """The family: which of its tasks, and where code tables of the user's own lie."""

    names: tuple[str, ...] = tuple(CLINSEEK_TASKS)
    balanced: bool = True
    listing: Listing = "target"
    allow_missing: bool = False
    user_codes: Path | None = None
    kind: ClassVar[str] = FAMILY
    paper: ClassVar[str] = "ClinSeekAgent, section 3.1 (ClinSeek-Bench, text)"
    has_own_splits: ClassVar[bool] = True

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks to build."""
        return [CLINSEEK_TASKS[name] for name in self.names]

    def options(self) -> Mapping[str, Any]:
        """Its tasks, how risks are drawn, and which names are listed, and whether an offered class may
        never be the answer."""
        return {
            "tasks": list(self.names),
            "balanced": self.balanced,
            "listing": self.listing,
            "allow_missing": self.allow_missing,
        }

    def open(self, ground: BuildContext) -> _OpenClinSeek:
        """Find where the store has what the tasks ask about, and make the candidate tables of training subjects."""
        asking = {name: asking_of(name, ground.store, ground.settings, self.user_codes) for name in self.names}
        timelines = Timelines(ground.store, ground.settings.policy)
        training = [subject for subject, split in ground.splits.items() if split == "train"]
        groups = {one: group_of(ground.store.person_of(one), ground.settings.seed) for one in training}
        decisions = [one for one in asking.values() if isinstance(one, DecisionAsking) and one.unavailable() is None]
        return _OpenClinSeek(
            ground=ground,
            balanced=self.balanced,
            listing=self.listing,
            asking=asking,
            groups=groups,
            spaces=decision_spaces(decisions, groups, timelines),
            timelines=timelines,
            kept_for=kept_for(ground.store, timelines, training) if self._asks_for_admission else None,
        )

    @property
    def _asks_for_admission(self) -> bool:
        return any(_asks_for_admission(name) for name in self.names)


def _asks_for_admission(task: str) -> bool:
    rule = RULES[task]
    return isinstance(rule, RiskRule) and rule.outcome == "admitted"


def asking_of(name: str, store: Store, settings: BuildSettings, user_codes: Path | None) -> Asking:
    """Return how a task is asked of a store."""
    rule = RULES[name]
    if isinstance(rule, RiskRule):
        return RiskAsking(task=name, rule=rule, store=store, seed=settings.seed)
    return DecisionAsking.of(name, rule, store, settings, user_codes)


@dataclass(slots=True, kw_only=True)
class _Questions:
    """The questions of the subjects that were looked at, in that order; ``looked_at`` counts the others too."""

    asked: list[StayQuestion] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    looked_at: int = 0


@dataclass(frozen=True, kw_only=True)
class _OpenClinSeek:
    ground: BuildContext
    balanced: bool
    listing: Listing
    asking: Mapping[str, Asking]
    groups: Mapping[int, int]
    spaces: Mapping[str, CandidateSpace]
    timelines: Timelines
    kept_for: AdmittedOnlyTables | None = None
    """Where the admission is asked about."""

    def unavailable(self, task: Task) -> str | None:
        reason = self.asking[task.name].unavailable()
        if reason is None and task.answer.spaces and not any(name in self.spaces for name in task.answer.spaces):
            return "no training subject has such an event: there is nothing to choose from"
        return reason

    def questions(self, task: Task) -> _Questions:
        """Ask one subject after the other until every split has enough, or there are no more."""
        asking, found = self.asking[task.name], _Questions()
        order = self._order(task)
        held: Counter[tuple[str, str]] = Counter()
        for subject in order:
            split = self.ground.splits[subject]
            if self._has_enough(task, held, split):
                continue
            found.looked_at += 1
            asked = asking.question(self.timelines.of(subject), found.dropped)
            if asked is not None:
                held[split, asked.target[0] if self._in_halves(task) else ""] += 1
                found.asked.append(asked)
            self.ground.report(Progress(label=task.name, done=found.looked_at, total=len(order), unit="subjects"))
        return found

    def draw(self, task: Task, questions: _Questions) -> list[StayQuestion]:
        """As many of each answer of a risk as half the number asks for, the rest as they come."""
        per_task = self.ground.settings.per_task or len(questions.asked)
        drawn: list[StayQuestion] = []
        for split in SPLITS:
            pool = [one for one in questions.asked if self.ground.splits[one.subject] == split]
            first = _halves(pool, per_task // 2) if self._in_halves(task) else []
            rest = [one for one in pool if one not in first]
            drawn += (first + rest)[:per_task]
        return sorted(drawn, key=lambda one: one.subject)

    def samples(self, task: Task, questions: _Questions, drawn: list[StayQuestion]) -> list[Sample]:
        return [self._sample(task, one) for one in drawn]

    def describe(
        self, task: Task, questions: _Questions, drawn: list[StayQuestion], samples: Sequence[Sample]
    ) -> TaskFacts:
        sizes = [(self.groups[one.subject_id], len(one.target)) for one in samples if one.split == "train"]
        said: dict[str, Any] = {
            "title": task.title,
            "group": task.about,
            "prompt": {"name": task.prompt.name, "version": task.prompt.version, "sha256": task.prompt.sha256},
            "subjects_looked_at": questions.looked_at,
            "questions": len(questions.asked),
        }
        if self.kept_for is not None and _asks_for_admission(task.name):
            said["withheld"] = asdict(self.kept_for)
        if task.answer.label_values:
            said["balance"] = {
                "drawn": "half of each answer where there are enough" if self._in_halves(task) else "as they come",
                "questions_by_class": dict(Counter(one.target[0] for one in questions.asked)),
                "samples_by_class": samples_by_class(samples),
            }
        else:
            said["candidate_table"] = self._space(task).name
            said["candidates"] = len(self._space(task).labels)
            said["listed"] = {"names": self.listing, "target_share": _mean_share(samples)}
        return TaskFacts(
            rules=AnswerRules.counted(task, sizes).to_json(),
            drops=dict(sorted(questions.dropped.items())) | {"not_drawn": len(questions.asked) - len(drawn)},
            said=said,
            answers=self._answers(task, questions),
        )

    def _answers(self, task: Task, questions: _Questions) -> dict[str, int]:
        """How many questions have each class as their answer, where classes are offered."""
        rule = RULES[task.name]
        offered = rule.offered if isinstance(rule, DecisionRule) else task.answer.label_values
        counts = Counter(name for one in questions.asked for name in one.target)
        return {name: counts[name] for name in offered}

    def last(self, task: Task, questions: _Questions, drawn: list[StayQuestion], samples: Sequence[Sample]) -> str:
        return "one question of a subject is asked, so what an earlier one was answered with is not known"

    def facts(self) -> Mapping[str, Any]:
        return {
            "splits": "the data set's own" if self.ground.store.splits() else "by hash of seed and person",
            "sampling": "subjects in an order of their own for each task, one question of each",
            "most_curated_events": MOST_EVENTS,
            "balanced": self.balanced,
        }

    def _order(self, task: Task) -> list[int]:
        """Every subject, in an order of the task's own."""
        seed = self.ground.settings.seed
        return sorted(self.ground.splits, key=lambda subject: derive_seed(seed, task.name, "subject", subject))

    def _in_halves(self, task: Task) -> bool:
        return self.balanced and bool(task.answer.label_values)

    def _has_enough(self, task: Task, held: Counter[tuple[str, str]], split: str) -> bool:
        per_task = self.ground.settings.per_task
        if not per_task:
            return False
        if not self._in_halves(task):
            return held[split, ""] >= per_task
        return all(held[split, answer] >= (per_task + 1) // 2 for answer in task.answer.label_values)

    def _space(self, task: Task) -> CandidateSpace:
        return next(self.spaces[name] for name in task.answer.spaces if name in self.spaces)

    def _sample(self, task: Task, one: StayQuestion) -> Sample:
        moment = from_microseconds(one.asked)
        return Sample(
            id=f"{task.name}-{one.subject}-{moment:%Y%m%dT%H%M%S}",
            task=task.name,
            subject_id=one.subject,
            person_id=person_id(self.ground.store, one.subject),
            prediction_time=moment,
            target=one.target,
            split=self.ground.splits[one.subject],
            stratum="any",
            unwinnable=() if self.listing == "target" else self._unwinnable(task, one),
            facts={
                "event_time": None if one.event is None else format_time(from_microseconds(one.event)),
                "row_ids": list(one.row_ids),
                "late_cells": {row: list(columns) for row, columns in one.late_cells.items()},
                "curated_from": format_time(from_microseconds(one.curated_from)),
                "curated_events": MOST_EVENTS,
                **self._withheld(task, one),
                **self._listed(task, one),
            },
        )

    def _listed(self, task: Task, one: StayQuestion) -> dict[str, Any]:
        """The names that a decision lists, where they are its own, and the share of its target among them."""
        if task.answer.label_values:
            return {}
        space = self._asked_with(task, one)
        if self.listing == "common":
            common = {normalise_label(name) for name in space.most_used(task.answer.listed)}
            names = [space.labels.resolve(name) or name for name in one.target]
            found = sum(normalise_label(name) in common for name in names)
            return {"listed_share": round(found / len(one.target), 4)}
        seed = (self.ground.settings.seed, task.name, one.subject, "listed")
        return {"listed": list(listed_names(space, one.target, task.answer.listed, *seed)), "listed_share": 1.0}

    def _asked_with(self, task: Task, one: StayQuestion) -> CandidateSpace:
        """The table of a task, of a training subject as other groups make it."""
        space, group = self._space(task), self.groups.get(one.subject)
        return space if group is None else space.without.get(group, space)

    def _withheld(self, task: Task, one: StayQuestion) -> dict[str, Any]:
        """Where the admission is asked about: the tables of admitted people, from the visit's beginning on."""
        if self.kept_for is None or not self.kept_for.admitted or not _asks_for_admission(task.name):
            return {}
        since = format_time(from_microseconds(one.curated_from))
        return {"withheld": {"tables": list(self.kept_for.admitted), "since": since}}

    def _unwinnable(self, task: Task, one: StayQuestion) -> tuple[str, ...]:
        if task.answer.label_values:
            return ()
        asked_with = self._asked_with(task, one)
        return tuple(name for name in one.target if asked_with.labels.resolve(name) is None)


def _mean_share(samples: Sequence[Sample]) -> float | None:
    """The share of a target that is listed, a mean over samples: nobody without tools can reach more."""
    return round(fmean(one.facts["listed_share"] for one in samples), 4) if samples else None


def _halves(pool: Sequence[StayQuestion], half: int) -> list[StayQuestion]:
    """The first of each answer, as many as a half."""
    by_answer = {answer: [one for one in pool if one.target == (answer,)] for answer in (YES, NO)}
    return [one for found in by_answer.values() for one in found[:half]]
