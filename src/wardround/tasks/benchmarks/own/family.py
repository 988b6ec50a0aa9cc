"""Own tasks as a family of the pipeline, and their check in another future."""

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
from wardround.records import Chart, Store
from wardround.tasks.benchmarks.answer_rules import AnswerRules
from wardround.tasks.benchmarks.benchmark import Benchmark, LastAnswers, samples_by_class
from wardround.tasks.benchmarks.drawing import group_of, person_id
from wardround.tasks.benchmarks.own.labelling import (
    END_OF_TIME,
    AfterRows,
    AskingRule,
    Label,
    Moment,
    OwnTask,
    RuleLabel,
    last_answers,
)
from wardround.tasks.benchmarks.own.rows import no_row_matches
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import Task, declare, must_be_free
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces

# Tasks of a user's own as a family of the pipeline: asked by what a chart shows, drawn, and only then labelled.


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
    """Build tasks of a user's own and save them. UserError: two have one name, or a table or column is not there."""
    names = [own.task.name for own in tasks]
    if len(set(names)) < len(names):
        raise UserError(f"two tasks have one name among {', '.join(names)}; rename one")
    for own in tasks:
        must_be_free(own.task)
    family = OwnTasks(own=tuple(tasks), user_codes=user_codes)
    built = build_family(family, store, folder, settings, report=report)
    for own in tasks:
        declare(own.task)
    return built


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTasks:
    """The family: the tasks as they were read, in name order."""

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
        """What each task was read from; one of a plug-in goes by its name."""
        return {"tasks": [dict(one.made_of) or {"plugin": one.task.name} for one in self.own]}

    def open(self, ground: BuildContext) -> _OpenOwnTasks:
        """Make the candidate spaces that answers come from, of training subjects alone."""
        names = {name for task in self.tasks for name in task.answer.spaces}
        groups = _groups(ground)
        return _OpenOwnTasks(
            ground=ground,
            own={one.task.name: one for one in self.own},
            spaces=build_candidate_spaces(ground.store, groups, self.user_codes, names) if names else {},
            groups=groups,
        )


@dataclass(slots=True, kw_only=True)
class _Questions:
    """The moments of a task; ``labels`` are those of the drawn, filled in when they are."""

    moments: list[Moment]
    dropped: Counter[str]
    labels: dict[Moment, Label] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenOwnTasks:
    ground: BuildContext
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
            asked = self.own[task.name].asked.moments(self.ground.store, self.ground.settings.policy, dropped)
            return _Questions(moments=list(asked), dropped=dropped)

    def draw(self, task: Task, questions: _Questions) -> list[Moment]:
        """Uniformly, before anything is labelled: no outcome has a part in which questions there are."""
        settings = self.ground.settings
        order = sorted(questions.moments, key=lambda one: self._key(task, one))
        taken: list[Moment] = []
        of_subject: Counter[int] = Counter()
        of_split: Counter[str] = Counter()
        for moment in order:
            split = self.ground.splits[moment.subject_id]
            full = bool(settings.per_task) and of_split[split] >= settings.per_task
            if full or of_subject[moment.subject_id] >= (settings.per_subject or len(order)):
                continue
            of_subject[moment.subject_id] += 1
            of_split[split] += 1
            taken.append(moment)
        return sorted(taken, key=lambda one: (one.subject_id, one.prediction_time))

    def samples(self, task: Task, questions: _Questions, drawn: list[Moment]) -> list[Sample]:
        made = []
        for moment in drawn:
            future = self.ground.store.chart(moment.subject_id, END_OF_TIME, policy=self.ground.settings.policy)
            with self._named(task):
                label = self._labelled(task, moment, future)
            if label is None:
                questions.dropped["no_label"] += 1
            else:
                made.append(self._sample(task, moment, label))
        return made

    def _labelled(self, task: Task, moment: Moment, future: Chart) -> Label | None:
        label = self.own[task.name].labelling.label(moment, future)
        problem = None if label is None else task.answer.problem_of(label.target)
        if problem:
            raise UserError(f"the label of subject {moment.subject_id} is none: {problem}")
        return label

    @contextmanager
    def _named(self, task: Task) -> Iterator[None]:
        """Say of an error which task it is of, and the file that must be mended."""
        try:
            yield
        except UserError as error:
            files = "".join(f"{name}: " for name, _ in self.own[task.name].sources)
            raise UserError(f"{files}task {task.name!r}: {error}") from error

    def describe(self, task: Task, questions: _Questions, drawn: list[Moment], samples: Sequence[Sample]) -> TaskFacts:
        own = self.own[task.name]
        sizes = [(self.groups[one.subject_id], len(one.target)) for one in samples if one.split == "train"]
        by_class = {"samples_by_class": samples_by_class(samples)} if task.answer.label_values else {}
        return TaskFacts(
            rules=AnswerRules.counted(task, sizes).to_json() if task.answer.loss_of_an_extra_name else {},
            drops={reason: n for reason, n in sorted(questions.dropped.items()) if n}
            | {"not_drawn": len(questions.moments) - len(drawn)},
            said={
                "title": task.title,
                "declared": task.to_json(),
                "questions": len(questions.moments),
                "asked": own.asked.facts(),
                "label": own.labelling.facts(),
                "files": dict(own.sources),
                **({"hindsight": _HINDSIGHT} if questions.dropped["no_label"] else {}),
                **self._unmatched(own),
                **by_class,
            },
            answers=dict.fromkeys(task.answer.label_values, 0) | Counter(name for one in samples for name in one.target)
            if task.answer.label_values
            else {},
        )

    def _unmatched(self, own: OwnTask) -> dict[str, list[str]]:
        """Conditions of the file that no row of the whole store meets."""
        parts = {"asked": own.asked, "label": own.labelling}
        said = [
            f"{part}: {line}"
            for part, one in parts.items()
            if isinstance(one, AfterRows | RuleLabel)
            for line in no_row_matches(self.ground.store, one.table, one.where)
        ]
        return {"matches_no_row": said} if said else {}

    def last(
        self, task: Task, questions: _Questions, drawn: list[Moment], samples: Sequence[Sample]
    ) -> LastAnswers | str:
        labelling, policy = self.own[task.name].labelling, self.ground.settings.policy
        with self._named(task):
            return last_answers(labelling, questions.moments, samples, self.ground.store, policy)

    def facts(self) -> Mapping[str, Any]:
        return {
            "splits": "the data set's own" if self.ground.store.splits() else "by hash of seed and person",
            "per_subject": self.ground.settings.per_subject,
            "sampling": "uniform within each split, before labels are looked at",
        }

    def _key(self, task: Task, moment: Moment) -> int:
        time = format_time(moment.prediction_time)
        return derive_seed(self.ground.settings.seed, task.name, "draw", moment.subject_id, time)

    def _sample(self, task: Task, moment: Moment, label: Label) -> Sample:
        subject, asked = moment.subject_id, moment.prediction_time
        return Sample(
            id=f"{task.name}-{subject}-{asked:%Y%m%dT%H%M%S}",
            task=task.name,
            subject_id=subject,
            person_id=person_id(self.ground.store, subject),
            prediction_time=asked,
            target=label.target,
            split=self.ground.splits[subject],
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


def _groups(ground: BuildContext) -> dict[int, int]:
    training = (subject for subject, split in ground.splits.items() if split == "train")
    return {subject: group_of(ground.store.person_of(subject), ground.settings.seed) for subject in training}


# Whether the questions of a user's own tasks are the same in another future of the same past.


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingMoments:
    """Compares, by task, the moments asked of two stores by each subject's own; there is no excuse for a difference."""

    asked: Mapping[str, AskingRule]

    def __call__(self, store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
        found = Compared()
        for task, asked in self.asked.items():
            here, there = (_asked_by_then(asked, each, moments) for each in (store, other))
            found.compared[f"questions of {task}"] += len(here | there)
            for one in here ^ there:
                where = "only here" if one in here else "only in the other future"
                found.differences.append(f"{one.subject_id}: {task} at {one.prediction_time} is asked {where}")
                found.places[f"own: {task}"] += 1
        return found


def asked_of(benchmark: Benchmark) -> DifferingMoments:
    """Return the comparison for the tasks of a benchmark whose manifest says when they are asked by the record."""
    said = {name: told["asked"] for name, told in benchmark.manifest.get("tasks", {}).items() if "asked" in told}
    return DifferingMoments(
        asked={name: AfterRows.from_facts(facts) for name, facts in said.items() if "table" in facts}
    )


def _asked_by_then(asked: AskingRule, store: Store, moments: Mapping[int, datetime]) -> set[Moment]:
    every = asked.moments(store, "known_at", Counter())
    return {one for one in every if one.prediction_time <= moments.get(one.subject_id, datetime.min)}
