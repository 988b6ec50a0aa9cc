"""A user's own tasks as a family of the pipeline, and their check in another future."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from wardround.audits import Compared
from wardround.core import Reporter, UserError, derive_seed, format_time, silent
from wardround.records import Store
from wardround.tasks.benchmarks.answer_rules import AnswerRules
from wardround.tasks.benchmarks.benchmark import Benchmark, LastAnswers, samples_by_class
from wardround.tasks.benchmarks.drawing import group_of, person_id
from wardround.tasks.benchmarks.own.labelling import (
    END_OF_TIME,
    AfterRows,
    Label,
    Moment,
    OwnTask,
    QuestionRule,
    RuleLabel,
    last_answers,
    no_row_matches,
)
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import Task, declare, must_be_free
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces

# A user's own tasks as a family of the pipeline: the chart decides the questions; labels are read after the draw.


_HINDSIGHT = "questions without a label are left out, and what comes later decides which have none"


def build_own(
    tasks: Sequence[OwnTask],
    store: Store,
    folder: Path,
    settings: BuildSettings,
    *,
    user_codes: Path | None = None,
    report: Reporter = silent,
) -> Benchmark:
    """Build a user's own tasks and save them.

    UserError: two tasks have the same name, or a table or column is missing.
    """
    names = [own.task.name for own in tasks]
    if len(set(names)) < len(names):
        raise UserError(f"two tasks have the same name among {', '.join(names)}; rename one")
    for own in tasks:
        must_be_free(own.task)
    family = OwnTasks(own=tuple(tasks), user_codes=user_codes)
    built = build_family(family, store, folder, settings, report=report)
    for own in tasks:
        declare(own.task)
    return built


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTasks:
    """The family: the tasks in name order."""

    own: tuple[OwnTask, ...]
    user_codes: Path | None = None
    kind: ClassVar[str] = "own"
    paper: ClassVar[str] = "none: tasks of a user's own"
    has_own_splits: ClassVar[bool] = True

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks to build."""
        return sorted((one.task for one in self.own), key=lambda task: task.name)

    def options(self) -> Mapping[str, Any]:
        """Return what each task was read from; a plug-in's task appears by its name."""
        return {"tasks": [dict(own_task.built_from) or {"plugin": own_task.task.name} for own_task in self.own]}

    def open(self, context: BuildContext) -> _OpenOwnTasks:
        """Build the candidate spaces of the answers, from training subjects only."""
        names = {name for task in self.tasks for name in task.answer.spaces}
        groups = _groups(context)
        return _OpenOwnTasks(
            context=context,
            own={one.task.name: one for one in self.own},
            spaces=build_candidate_spaces(context.store, groups, self.user_codes, names) if names else {},
            groups=groups,
        )


@dataclass(slots=True, kw_only=True)
class _Questions:
    """The moments of a task; ``labels`` are those of the drawn moments, set after the draw."""

    moments: list[Moment]
    dropped: Counter[str]
    labels: dict[Moment, Label] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenOwnTasks:
    context: BuildContext
    own: Mapping[str, OwnTask]
    spaces: Mapping[str, CandidateSpace]
    groups: Mapping[int, int]

    def unavailable(self, task: Task) -> str | None:
        if task.answer.spaces and not any(name in self.spaces for name in task.answer.spaces):
            return f"no candidate space {' or '.join(task.answer.spaces)}"
        return None

    def questions(self, task: Task) -> _Questions:
        dropped: Counter[str] = Counter()
        with self._named(task):
            moments = self.own[task.name].question_rule.moments(
                self.context.store, self.context.settings.policy, dropped
            )
            return _Questions(moments=list(moments), dropped=dropped)

    def draw(self, task: Task, questions: _Questions) -> list[Moment]:
        """Draw uniformly, before any label is read: the outcome has no influence on which questions exist."""
        settings = self.context.settings

        def number(moment: Moment) -> int:
            time = format_time(moment.prediction_time)
            return derive_seed(settings.seed, task.name, "draw", moment.subject_id, time)

        order = sorted(questions.moments, key=number)
        drawn: list[Moment] = []
        subject_counts: Counter[int] = Counter()
        split_counts: Counter[str] = Counter()
        for moment in order:
            split = self.context.splits[moment.subject_id]
            is_full = bool(settings.per_task) and split_counts[split] >= settings.per_task
            if is_full or subject_counts[moment.subject_id] >= (settings.per_subject or len(order)):
                continue
            subject_counts[moment.subject_id] += 1
            split_counts[split] += 1
            drawn.append(moment)
        return sorted(drawn, key=lambda moment: (moment.subject_id, moment.prediction_time))

    def samples(self, task: Task, questions: _Questions, drawn: list[Moment]) -> list[Sample]:
        samples = []
        for moment in drawn:
            future = self.context.store.chart(moment.subject_id, END_OF_TIME, policy=self.context.settings.policy)
            with self._named(task):
                label = self.own[task.name].labelling.label(moment, future)
                problem = None if label is None else task.answer.problem_of(label.target)
                if problem:
                    raise UserError(f"the label of subject {moment.subject_id} is invalid: {problem}")
            if label is None:
                questions.dropped["no_label"] += 1
            else:
                samples.append(self._sample(task, moment, label))
        return samples

    @contextmanager
    def _named(self, task: Task) -> Iterator[None]:
        """Add the task and its file to the message of an error."""
        try:
            yield
        except UserError as error:
            files = "".join(f"{name}: " for name, _ in self.own[task.name].sources)
            raise UserError(f"{files}task {task.name!r}: {error}") from error

    def describe(self, task: Task, questions: _Questions, drawn: list[Moment], samples: Sequence[Sample]) -> TaskFacts:
        own = self.own[task.name]
        sizes = [(self.groups[sample.subject_id], len(sample.target)) for sample in samples if sample.split == "train"]
        by_class = {"samples_by_class": samples_by_class(samples)} if task.answer.label_values else {}
        return TaskFacts(
            rules=AnswerRules.counted(task, sizes).to_json() if task.answer.loss_of_an_extra_name else {},
            drops={reason: n for reason, n in sorted(questions.dropped.items()) if n}
            | {"not_drawn": len(questions.moments) - len(drawn)},
            details={
                "title": task.title,
                "declared": task.to_json(),
                "questions": len(questions.moments),
                "asked": own.question_rule.facts(),
                "label": own.labelling.facts(),
                "files": dict(own.sources),
                **({"hindsight": _HINDSIGHT} if questions.dropped["no_label"] else {}),
                **self._unmatched(own),
                **by_class,
            },
            answers=dict.fromkeys(task.answer.label_values, 0)
            | Counter(name for sample in samples for name in sample.target)
            if task.answer.label_values
            else {},
        )

    def _unmatched(self, own: OwnTask) -> dict[str, list[str]]:
        """Return the conditions of the file that no row of the store meets."""
        parts = {"asked": own.question_rule, "label": own.labelling}
        unmatched = [
            f"{part}: {line}"
            for part, one in parts.items()
            if isinstance(one, AfterRows | RuleLabel)
            for line in no_row_matches(self.context.store, one.table, one.where)
        ]
        return {"matches_no_row": unmatched} if unmatched else {}

    def last(
        self, task: Task, questions: _Questions, drawn: list[Moment], samples: Sequence[Sample]
    ) -> LastAnswers | str:
        labelling, policy = self.own[task.name].labelling, self.context.settings.policy
        with self._named(task):
            return last_answers(labelling, questions.moments, samples, self.context.store, policy)

    def facts(self) -> Mapping[str, Any]:
        return {
            "splits": "the data set's own" if self.context.store.splits() else "by hash of seed and person",
            "per_subject": self.context.settings.per_subject,
            "sampling": "uniform within each split, before labels are looked at",
        }

    def _sample(self, task: Task, moment: Moment, label: Label) -> Sample:
        subject, prediction_time = moment.subject_id, moment.prediction_time
        return Sample(
            id=f"{task.name}-{subject}-{prediction_time:%Y%m%dT%H%M%S}",
            task=task.name,
            subject_id=subject,
            person_id=person_id(self.context.store, subject),
            prediction_time=prediction_time,
            target=label.target,
            split=self.context.splits[subject],
            stratum="any",
            unwinnable=self._unwinnable(task, subject, label.target),
            facts={
                "event_time": None if label.event_time is None else format_time(label.event_time),
                "row_ids": list(label.row_ids),
            },
        )

    def _unwinnable(self, task: Task, subject: int, target: Sequence[str]) -> tuple[str, ...]:
        space = next((self.spaces[name] for name in task.answer.spaces if name in self.spaces), None)
        group = self.groups.get(subject)
        if space is not None and group is not None:
            space = space.without.get(group, space)
        return () if space is None else tuple(name for name in target if space.labels.resolve(name) is None)


def _groups(context: BuildContext) -> dict[int, int]:
    training = (subject for subject, split in context.splits.items() if split == "train")
    return {subject: group_of(context.store.person_of(subject), context.settings.seed) for subject in training}


# Compare the questions of a user's own tasks in two futures of the same past.


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingMoments:
    """Compare, by task, the questions of two stores up to each subject's moment.

    Every difference is a finding.
    """

    rules: Mapping[str, QuestionRule]

    def __call__(self, store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
        found = Compared()
        for task, rule in self.rules.items():
            here, there = (_moments_until(rule, future, moments) for future in (store, other))
            found.compared[f"questions of {task}"] += len(here | there)
            for moment in here ^ there:
                where = "only here" if moment in here else "only in the other future"
                found.differences.append(f"{moment.subject_id}: {task} at {moment.prediction_time} exists {where}")
                found.places[f"own: {task}"] += 1
        return found


def moment_comparison(benchmark: Benchmark) -> DifferingMoments:
    """Return the comparison for a benchmark's tasks whose manifest has a question rule over rows."""
    rules_by_task = {
        name: task_facts["asked"]
        for name, task_facts in benchmark.manifest.get("tasks", {}).items()
        if "asked" in task_facts
    }
    return DifferingMoments(
        rules={name: AfterRows.from_facts(facts) for name, facts in rules_by_task.items() if "table" in facts}
    )


def _moments_until(rule: QuestionRule, store: Store, moments: Mapping[int, datetime]) -> set[Moment]:
    all_moments = rule.moments(store, "known_at", Counter())
    return {moment for moment in all_moments if moment.prediction_time <= moments.get(moment.subject_id, datetime.min)}
