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
from wardround.tasks.benchmarks.clinseek.decision import DecisionQuestions
from wardround.tasks.benchmarks.clinseek.definitions import (
    CLINSEEK_TASKS,
    FAMILY,
    RULES,
    DecisionRule,
    RiskRule,
    space_name,
)
from wardround.tasks.benchmarks.clinseek.risk import NO, YES, RiskQuestions, led_to
from wardround.tasks.benchmarks.clinseek.timeline import MAX_EVENTS, QuestionSource, StayQuestion, Timelines
from wardround.tasks.benchmarks.drawing import draw_key, group_of, person_id
from wardround.tasks.benchmarks.encounters import NO_TIME
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildOptions, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import SPLITS, Sample
from wardround.tasks.benchmarks.task import Task
from wardround.tools.candidates import CandidateSpace, SeenByGroup, seen_space

# Candidate tables of the decisions: the labels of training subjects' events, and how many subjects have each.
#
# A question has no influence on its own table: neither its target nor its subject is used (a training subject gets the
# table of the other groups). The listed names contain the target, as the published candidates do, or are common names.


Listing = Literal["target", "common"]
"""Which names a question lists: its target among others, or the most common names."""


def listed_names(space: CandidateSpace, target: Sequence[str], limit: int, *seed: object) -> tuple[str, ...]:
    """Return the target among other names, in alphabetical order.

    There are ``limit`` names in all; at least half of them are others. The others are drawn by the seed, with
    probability proportional to the number of training subjects that have them. That a name is listed then says no more
    about the answer than its frequency, which the table shows anyway.
    """
    target_names = {space.labels.resolve(name) or name for name in target}
    uses = (
        dict.fromkeys(space.labels.labels, 1)
        if space.uses is None
        else dict(zip(space.labels.labels, space.uses.tolist(), strict=True))
    )
    others = [name for name, count in uses.items() if count and name not in target_names]
    drawn = sorted(others, key=lambda name: -draw_key(float(uses[name]), *seed, name))
    return tuple(sorted({*target_names, *drawn[: max(limit - len(target_names), limit // 2)]}))


def decision_spaces(
    decisions: Sequence[DecisionQuestions], groups: Mapping[int, int], timelines: Timelines
) -> dict[str, CandidateSpace]:
    """Return a candidate table for every decision that training subjects have events of."""
    seen = {asking.task: SeenByGroup() for asking in decisions}
    for subject, group in groups.items():
        timeline = timelines.of(subject)
        for asking in decisions:
            names = {name for event in asking.events(timeline).names for name in event}
            seen[asking.task].add(group, dict.fromkeys(sorted(names), ()))
    spaces = {
        space_name(decision.rule): seen_space(space_name(decision.rule), seen[decision.task], groups)
        for decision in decisions
    }
    return {name: space for name, space in spaces.items() if space is not None}


# Tables with rows of admitted people only. In a question about the admission such a row would give away the answer.
#
# The source declares them (``roles.kept_for_admitted``) and the build checks them: a table with a row of an emergency
# visit after which the person went home has rows of everybody, and is shown.


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedOnlyTables:
    """Tables whose rows exist for admitted people only.

    ``admitted``: tables without a row of a person who went home. ``everybody``: tables declared so wrongly, with the
    number of rows of people who went home. ``visits``: the number of visits checked.
    """

    admitted: tuple[str, ...]
    everybody: dict[str, int]
    visits: int


def admitted_only_tables(store: Store, timelines: Timelines, subjects: Iterable[int]) -> AdmittedOnlyTables:
    """Check the declared tables on the emergency visits that led to no hospital stay."""
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


# ClinSeek-Bench as a family of the pipeline: one question per subject, subjects in a random order per task.
#
# Answers of decisions come from candidate tables of training subjects. A question lists a hundred names, the same in
# both arms: its target among names drawn in proportion to their frequency in training subjects, so that listing makes a
# rare name no likelier; with ``listing="common"`` the most common names. Risks are drawn so that half the answers are
# yes where there are enough; the manifest holds the number of yes among all questions.


PER_TASK = 40
"""The paper's size: 1,080 decisions and 720 risks."""


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
    """Build the tasks from a store and save them.

    ``tasks``: the tasks to build, with or without ``clinseek.``; empty: all 45. ``per_task`` limits the samples of a
    task in each split (0: no limit). ``balanced``: as many positive as negative risks where there are enough; else
    natural prevalence. ``listing``: the names listed with a decision contain its target among others (``target``), or
    are the most common ones (``common``). UserError: a task offers a class that is never the answer; ``allow_missing``
    notes that in the manifest instead.
    """
    options.setdefault("per_task", PER_TASK)
    names = tuple(sorted({task_name(task) for task in tasks} or set(CLINSEEK_TASKS)))
    family = ClinSeek(
        names=names, balanced=balanced, listing=listing, allow_missing=allow_missing, user_codes=user_codes
    )
    settings = BuildSettings(**options, allow_missing=allow_missing)
    return build_family(family, store, folder, settings, report=report)


def task_name(name: str) -> str:
    """Return the full name of a task; the paper's name is accepted. UserError: unknown task."""
    full_name = name if name in CLINSEEK_TASKS else f"{FAMILY}.{name}"
    if full_name not in CLINSEEK_TASKS:
        known = ", ".join(rule.name for rule in RULES.values())
        raise UserError(f"unknown ClinSeek-Bench task {name!r}; the tasks are {known}")
    return full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinSeek:
    """The family: the tasks to build, and where the user's code tables are."""

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
        """Return the options: tasks, balance, listing, whether an offered class may never be the answer."""
        return {
            "tasks": list(self.names),
            "balanced": self.balanced,
            "listing": self.listing,
            "allow_missing": self.allow_missing,
        }

    def open(self, context: BuildContext) -> _OpenClinSeek:
        """Find the questions' sources in the store and build the candidate tables."""
        sources = {name: question_source(name, context.store, context.settings, self.user_codes) for name in self.names}
        timelines = Timelines(context.store, context.settings.policy)
        training_subjects = [subject for subject, split in context.splits.items() if split == "train"]
        groups = {
            subject: group_of(context.store.person_of(subject), context.settings.seed) for subject in training_subjects
        }
        decisions = [
            source
            for source in sources.values()
            if isinstance(source, DecisionQuestions) and source.unavailable() is None
        ]
        return _OpenClinSeek(
            context=context,
            balanced=self.balanced,
            listing=self.listing,
            sources=sources,
            groups=groups,
            spaces=decision_spaces(decisions, groups, timelines),
            timelines=timelines,
            admitted_only_tables=admitted_only_tables(context.store, timelines, training_subjects)
            if self._is_about_admission
            else None,
        )

    @property
    def _is_about_admission(self) -> bool:
        return any(_is_about_admission(name) for name in self.names)


def _is_about_admission(task: str) -> bool:
    rule = RULES[task]
    return isinstance(rule, RiskRule) and rule.outcome == "admitted"


def question_source(name: str, store: Store, settings: BuildSettings, user_codes: Path | None) -> QuestionSource:
    """Return the source of a task's questions in a store."""
    rule = RULES[name]
    if isinstance(rule, RiskRule):
        return RiskQuestions(task=name, rule=rule, store=store, seed=settings.seed)
    return DecisionQuestions.of(name, rule, store, settings, user_codes)


@dataclass(slots=True, kw_only=True)
class _Questions:
    """The questions found so far, in the order of the subjects.

    ``looked_at`` counts all subjects read.
    """

    found: list[StayQuestion] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    looked_at: int = 0


@dataclass(frozen=True, kw_only=True)
class _OpenClinSeek:
    context: BuildContext
    balanced: bool
    listing: Listing
    sources: Mapping[str, QuestionSource]
    groups: Mapping[int, int]
    spaces: Mapping[str, CandidateSpace]
    timelines: Timelines
    admitted_only_tables: AdmittedOnlyTables | None = None
    """Set where a question is about the admission."""

    def unavailable(self, task: Task) -> str | None:
        reason = self.sources[task.name].unavailable()
        if reason is None and task.answer.spaces and not any(name in self.spaces for name in task.answer.spaces):
            return "no training subject has such an event, so there are no candidates"
        return reason

    def questions(self, task: Task) -> _Questions:
        """Find the question of one subject after the other until every split has enough."""
        source, found, seed = self.sources[task.name], _Questions(), self.context.settings.seed
        order = sorted(self.context.splits, key=lambda subject: derive_seed(seed, task.name, "subject", subject))
        counts: Counter[tuple[str, str]] = Counter()
        for subject in order:
            split = self.context.splits[subject]
            if self._has_enough(task, counts, split):
                continue
            found.looked_at += 1
            question = source.question(self.timelines.of(subject), found.dropped)
            if question is not None:
                counts[split, question.target[0] if self._in_halves(task) else ""] += 1
                found.found.append(question)
            self.context.report(Progress(label=task.name, done=found.looked_at, total=len(order), unit="subjects"))
        return found

    def draw(self, task: Task, questions: _Questions) -> list[StayQuestion]:
        """Draw equal numbers of both answers of a risk where possible, then the rest in order."""
        per_task = self.context.settings.per_task or len(questions.found)
        drawn: list[StayQuestion] = []
        for split in SPLITS:
            pool = [question for question in questions.found if self.context.splits[question.subject] == split]
            halves = _first_of_each(pool, per_task // 2) if self._in_halves(task) else []
            rest = [question for question in pool if question not in halves]
            drawn += (halves + rest)[:per_task]
        return sorted(drawn, key=lambda question: question.subject)

    def samples(self, task: Task, questions: _Questions, drawn: list[StayQuestion]) -> list[Sample]:
        return [self._sample(task, question) for question in drawn]

    def describe(
        self, task: Task, questions: _Questions, drawn: list[StayQuestion], samples: Sequence[Sample]
    ) -> TaskFacts:
        sizes = [(self.groups[sample.subject_id], len(sample.target)) for sample in samples if sample.split == "train"]
        details: dict[str, Any] = {
            "title": task.title,
            "group": task.about,
            "prompt": {"name": task.prompt.name, "version": task.prompt.version, "sha256": task.prompt.sha256},
            "subjects_looked_at": questions.looked_at,
            "questions": len(questions.found),
        }
        if self.admitted_only_tables is not None and _is_about_admission(task.name):
            details["withheld"] = asdict(self.admitted_only_tables)
        if task.answer.label_values:
            details["balance"] = {
                "drawn": "half of each answer where there are enough" if self._in_halves(task) else "as they come",
                "questions_by_class": dict(Counter(one.target[0] for one in questions.found)),
                "samples_by_class": samples_by_class(samples),
            }
        else:
            details["candidate_table"] = self._space(task).name
            details["candidates"] = len(self._space(task).labels)
            # the mean listed share of the targets is the upper bound of an agent without tools
            shares = [sample.facts["listed_share"] for sample in samples]
            details["listed"] = {"names": self.listing, "target_share": round(fmean(shares), 4) if shares else None}
        rule = RULES[task.name]
        offered = rule.offered if isinstance(rule, DecisionRule) else task.answer.label_values
        counts = Counter(name for one in questions.found for name in one.target)
        return TaskFacts(
            rules=AnswerRules.counted(task, sizes).to_json(),
            drops=dict(sorted(questions.dropped.items())) | {"not_drawn": len(questions.found) - len(drawn)},
            details=details,
            answers={name: counts[name] for name in offered},
        )

    def last(self, task: Task, questions: _Questions, drawn: list[StayQuestion], samples: Sequence[Sample]) -> str:
        return "a subject has one question, so there is no earlier answer"

    def facts(self) -> Mapping[str, Any]:
        return {
            "splits": "the data set's own" if self.context.store.splits() else "by hash of seed and person",
            "sampling": "subjects in a random order per task, one question of each",
            "most_curated_events": MAX_EVENTS,
            "balanced": self.balanced,
        }

    def _in_halves(self, task: Task) -> bool:
        return self.balanced and bool(task.answer.label_values)

    def _has_enough(self, task: Task, counts: Counter[tuple[str, str]], split: str) -> bool:
        per_task = self.context.settings.per_task
        if not per_task:
            return False
        if not self._in_halves(task):
            return counts[split, ""] >= per_task
        return all(counts[split, answer] >= (per_task + 1) // 2 for answer in task.answer.label_values)

    def _space(self, task: Task) -> CandidateSpace:
        return next(self.spaces[name] for name in task.answer.spaces if name in self.spaces)

    def _sample(self, task: Task, question: StayQuestion) -> Sample:
        moment = from_microseconds(question.prediction_us)
        return Sample(
            id=f"{task.name}-{question.subject}-{moment:%Y%m%dT%H%M%S}",
            task=task.name,
            subject_id=question.subject,
            person_id=person_id(self.context.store, question.subject),
            prediction_time=moment,
            target=question.target,
            split=self.context.splits[question.subject],
            stratum="any",
            unwinnable=() if self.listing == "target" else self._unwinnable(task, question),
            facts={
                "event_time": None if question.event is None else format_time(from_microseconds(question.event)),
                "row_ids": list(question.row_ids),
                "late_cells": {row: list(columns) for row, columns in question.late_cells.items()},
                "curated_from": format_time(from_microseconds(question.curated_from)),
                "curated_events": MAX_EVENTS,
                **self._withheld(task, question),
                **self._listed(task, question),
            },
        )

    def _listed(self, task: Task, question: StayQuestion) -> dict[str, Any]:
        """Return the names that a decision lists and the share of its target among them."""
        if task.answer.label_values:
            return {}
        space = self._candidates_for(task, question)
        if self.listing == "common":
            common = {normalise_label(name) for name in space.most_used(task.answer.listed)}
            names = [space.labels.resolve(name) or name for name in question.target]
            listed = sum(normalise_label(name) in common for name in names)
            return {"listed_share": round(listed / len(question.target), 4)}
        seed = (self.context.settings.seed, task.name, question.subject, "listed")
        return {"listed": list(listed_names(space, question.target, task.answer.listed, *seed)), "listed_share": 1.0}

    def _candidates_for(self, task: Task, question: StayQuestion) -> CandidateSpace:
        """Return the candidate table of a question; a training subject gets the table of the other groups."""
        space, group = self._space(task), self.groups.get(question.subject)
        return space if group is None else space.without.get(group, space)

    def _withheld(self, task: Task, question: StayQuestion) -> dict[str, Any]:
        """Return the tables hidden from the start of the visit on, where the question is about the admission."""
        if (
            self.admitted_only_tables is None
            or not self.admitted_only_tables.admitted
            or not _is_about_admission(task.name)
        ):
            return {}
        since = format_time(from_microseconds(question.curated_from))
        return {"withheld": {"tables": list(self.admitted_only_tables.admitted), "since": since}}

    def _unwinnable(self, task: Task, question: StayQuestion) -> tuple[str, ...]:
        if task.answer.label_values:
            return ()
        candidates = self._candidates_for(task, question)
        return tuple(name for name in question.target if candidates.labels.resolve(name) is None)


def _first_of_each(pool: Sequence[StayQuestion], half: int) -> list[StayQuestion]:
    """Return the first questions of each answer, at most ``half`` of each."""
    by_answer = {answer: [question for question in pool if question.target == (answer,)] for answer in (YES, NO)}
    return [question for questions in by_answer.values() for question in questions[:half]]
