"""Build a benchmark from a store: the steps that all families of tasks share.

Splits and groups are prepared once. Then for each task: check that the store has it, find the questions, draw among
them, make the samples. A family implements these steps; checks, counts and the manifest are the same for all families.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypedDict, TypeVar

from wardround import __version__
from wardround.core import Progress, Reporter, UserError, loaded_plugins, silent
from wardround.core.executors import EXECUTORS, each
from wardround.records import Policy, Store
from wardround.tasks.benchmarks.benchmark import CLOCKS, Benchmark, LastAnswers, must_be_new, source_facts
from wardround.tasks.benchmarks.drawing import DEFAULT_FRACTIONS, Fractions, check_fractions, split_of
from wardround.tasks.benchmarks.leaks import hindsight_facts
from wardround.tasks.benchmarks.sample import SPLITS, Sample, Split
from wardround.tasks.benchmarks.task import Task
from wardround.tasks.benchmarks.without_reading import MomentReader, WithoutReading, without_reading
from wardround.tools.candidates import CandidateSpace

Questions = TypeVar("Questions")
"""The questions of a task, as its family holds them."""
Drawn = TypeVar("Drawn")
"""The questions drawn to become samples."""
_OWN_SPLITS: Mapping[str, Split] = {"train": "train", "tuning": "dev", "held_out": "test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """Settings of a build of any family.

    ``per_task`` and ``per_subject`` limit the samples (None or 0: no limit). ``workers`` build shares of the tasks in
    parallel on ``executor``; the result is the same. ``allow_missing``: a task may offer a class that is the answer to
    none of its questions.
    """

    seed: int = 0
    policy: Policy = "known_at"
    per_task: int = 600
    per_subject: int | None = None
    fractions: Fractions = DEFAULT_FRACTIONS
    workers: int = 1
    executor: str = "processes"
    allow_missing: bool = True

    @property
    def is_built_here(self) -> bool:
        """Whether this process builds all tasks."""
        return self.workers == 1 and not EXECUTORS.get(self.executor).spans_machines

    def recipe(self) -> dict[str, Any]:
        """Return the settings that decide the samples; workers and executor do not."""
        return {
            "seed": self.seed,
            "policy": self.policy,
            "per_task": self.per_task,
            "per_subject": self.per_subject,
            "fractions": list(self.fractions),
        }

    def check(self) -> None:
        """Raise UserError for an invalid setting."""
        check_fractions(self.fractions)
        if self.policy not in CLOCKS:
            raise UserError(f"unknown clock policy {self.policy!r}; known are {', '.join(CLOCKS)}")
        if self.per_task < 0 or (self.per_subject is not None and self.per_subject < 1):
            raise UserError("per_task must be 0 (all) or more, per_subject at least 1")
        if self.workers < 1:
            raise UserError(f"workers must be at least 1, not {self.workers!r}")
        EXECUTORS.get(self.executor)


class BuildOptions(TypedDict, total=False):
    """The settings that every family uses, as keywords of its builder."""

    seed: int
    policy: Policy
    per_task: int
    fractions: Fractions
    workers: int
    executor: str


class BoundedOptions(BuildOptions, total=False):
    """The limit on one subject's samples, for families with many questions per subject."""

    per_subject: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The shared data of all tasks of one build: the store, the settings, and the split of every subject."""

    store: Store
    settings: BuildSettings
    splits: Mapping[int, Split]
    report: Reporter = silent


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What the manifest says of one task.

    ``drops``: dropped questions by reason. ``rules``: facts about the answers that a prompt may state. ``details``:
    the rest. ``answers`` counts, for every offered class, the questions with that answer; empty where answers are
    names from a long list.
    """

    drops: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, int] = field(default_factory=dict)

    @property
    def never_answers(self) -> list[str]:
        """The offered classes that are the answer to no question; empty without questions."""
        return [name for name, count in self.answers.items() if not count] if any(self.answers.values()) else []


class OpenFamily(Protocol[Questions, Drawn]):
    """A family opened on a store: per task its questions, the drawn ones, and their samples."""

    @property
    def spaces(self) -> Mapping[str, CandidateSpace]:
        """The candidate tables of its tasks."""

    def unavailable(self, task: Task) -> str | None:
        """Return why a task cannot be built here; None if it can.

        UserError: the build must stop.
        """

    def questions(self, task: Task) -> Questions:
        """Return every possible question of a task."""

    def draw(self, task: Task, questions: Questions) -> Drawn:
        """Return the questions that become samples.

        An answer may influence which questions are drawn, but not the prompt of another question.
        """

    def samples(self, task: Task, questions: Questions, drawn: Drawn) -> Sequence[Sample]:
        """Return the samples of the drawn questions."""

    def describe(self, task: Task, questions: Questions, drawn: Drawn, samples: Sequence[Sample]) -> TaskFacts:
        """Return the task's entry in the manifest."""

    def last(self, task: Task, questions: Questions, drawn: Drawn, samples: Sequence[Sample]) -> LastAnswers | str:
        """Return, by sample, the answer that the chart last showed; samples without one are left out.

        A text gives the reason why no earlier answer is known.
        """

    def facts(self) -> Mapping[str, Any]:
        """Return what the manifest says of this family beyond what it says of every family."""


class Family(Protocol[Questions, Drawn]):
    """A family of tasks.

    ``kind``: its name in a manifest. ``has_own_splits``: the data set's own splits are used.
    """

    kind: ClassVar[str]
    paper: ClassVar[str]
    has_own_splits: ClassVar[bool]

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks to build, in name order."""

    def options(self) -> Mapping[str, Any]:
        """Return the build's options besides its settings, by the keywords of its builder.

        Values are JSON-ready; files appear as name and hash. Equal options, settings and records give equal samples.
        """

    def open(self, context: BuildContext) -> OpenFamily[Questions, Drawn]:
        """Read what the tasks share. UserError: the store cannot have these tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    samples: Sequence[Sample]
    facts: TaskFacts
    last: LastAnswers | str
    when: LastAnswers | str = "the task has no questions"
    without_reading: Mapping[str, Any] = field(default_factory=dict)


def build_family(
    family: Family[Questions, Drawn], store: Store, folder: Path, settings: BuildSettings, *, report: Reporter = silent
) -> Benchmark:
    """Build a family's tasks and save them.

    The same store and settings give the same samples, byte for byte. UserError: a setting is wrong, the folder is not
    empty, or no task has a question (then nothing is written).
    """
    must_be_new(folder)
    settings.check()
    context = BuildContext(store=store, settings=settings, splits=_splits(family, store, settings), report=report)
    opened = family.open(context)
    built = _all_built(family, opened, context)
    samples = tuple(sample for one in built.values() for sample in one.samples)
    facts = {name: one.facts for name, one in built.items()}
    fitted = {name: dict(one.without_reading) for name, one in built.items()}
    if not samples:
        raise UserError(f"no task has a question in this store; nothing was written{_drop_reasons(facts)}")
    never = [f"{name}: {', '.join(one.never_answers)}" for name, one in facts.items() if one.never_answers]
    if never and not settings.allow_missing:
        raise UserError(
            f"offered answers that no question has ({'; '.join(never)}): choose other tasks with --task, include more "
            "people, or build with --allow-missing, which notes them in the manifest; nothing was written"
        )
    splits = list(context.splits.values())
    manifest = {
        "kind": family.kind,
        "name": family.kind,
        "paper": family.paper,
        "wardround": __version__,
        "plugins": [plugin.to_json() for plugin in loaded_plugins()],
        "policy": settings.policy,
        "clocks": CLOCKS[settings.policy],
        "seed": settings.seed,
        "fractions": list(settings.fractions),
        "per_task": settings.per_task,
        **opened.facts(),
        "recipe": settings.recipe() | {"options": dict(family.options())},
        "source": source_facts(store),
        "subjects": {"total": len(splits)} | {str(split): splits.count(split) for split in SPLITS},
        "tasks": {name: {**one.facts.details, **_absent_classes(one), **fitted[name]} for name, one in built.items()},
        "hindsight": hindsight_facts(family.tasks, store.spec.name),
        "answer_rules": {name: dict(one.rules) for name, one in facts.items()},
        "drops": {name: dict(one.drops) for name, one in facts.items()},
    }
    spaces = dict(sorted(opened.spaces.items()))
    last, when = ({name: getattr(one, what) for name, one in built.items()} for what in ("last", "when"))
    return Benchmark(manifest=manifest, all_samples=samples, spaces=spaces, last=last, when=when).save(folder)


def _splits(family: Family[Questions, Drawn], store: Store, settings: BuildSettings) -> dict[int, Split]:
    """Return the split of each subject: the data set's own where used, else by hash of seed and person."""
    own = store.splits() if family.has_own_splits else {}
    return {
        subject: _OWN_SPLITS.get(own.get(subject, ""))
        or split_of(store.person_of(subject), settings.seed, settings.fractions)
        for subject in store.subjects.tolist()
    }


def _all_built(
    family: Family[Questions, Drawn], opened: OpenFamily[Questions, Drawn], context: BuildContext
) -> dict[str, _Built]:
    """Build every task of a family, in this process or in shares on the executor."""
    settings, names = context.settings, [task.name for task in family.tasks]
    if settings.is_built_here or len(names) < 2:
        reader = MomentReader(context.store)
        return {task.name: _build(opened, task, context, reader) for task in family.tasks}
    shares = [names[start :: settings.workers] for start in range(min(settings.workers, len(names)))]
    work = partial(_build_share, family, str(context.store.path.resolve()), settings)
    context.report(Progress(label="build tasks", done=0, total=len(shares), unit="shares"))
    results = each(work, shares, executor=settings.executor, workers=settings.workers)
    built = {name: one for share in results for name, one in share.items()}
    return {name: built[name] for name in names}


def _build_share(
    family: Family[Questions, Drawn], store: str, settings: BuildSettings, names: Sequence[str]
) -> dict[str, _Built]:
    """Build some tasks of a family in another process, which reads the shared parts itself."""
    opened_store = Store.open(Path(store))
    context = BuildContext(store=opened_store, settings=settings, splits=_splits(family, opened_store, settings))
    opened = family.open(context)
    reader = MomentReader(opened_store)
    return {task.name: _build(opened, task, context, reader) for task in family.tasks if task.name in names}


def _build(opened: OpenFamily[Questions, Drawn], task: Task, context: BuildContext, reader: MomentReader) -> _Built:
    reason = opened.unavailable(task)
    if reason is not None:
        return _Built(samples=(), facts=TaskFacts(details={"title": task.title, "unavailable": reason}), last=reason)
    questions = opened.questions(task)
    drawn = opened.draw(task, questions)
    samples = opened.samples(task, questions, drawn)
    fitted = WithoutReading(when="fitted on the clocks known_at only")
    if context.settings.policy == "known_at":
        fitted = without_reading(reader, task, samples)
    return _Built(
        samples=samples,
        facts=opened.describe(task, questions, drawn, samples),
        last=opened.last(task, questions, drawn, samples),
        when=fitted.when,
        without_reading=fitted.facts,
    )


def _absent_classes(built: _Built) -> dict[str, list[str]]:
    """Return the offered classes that no question has, and those that questions have but no drawn one."""
    drawn = {name for sample in built.samples for name in sample.target}
    answers = built.facts.answers.items() if built.samples else ()
    absent = {
        "never_the_answer": built.facts.never_answers,
        "never_drawn": [name for name, count in answers if count and name not in drawn],
    }
    return {what: names for what, names in absent.items() if names}


def _drop_reasons(facts: Mapping[str, TaskFacts]) -> str:
    """Return the main reasons why there are no questions, in brackets; empty without any."""
    reasons = [
        f"{name}: {one.details.get('unavailable') or ', '.join(f'{n:,} {what}' for what, n in one.drops.items() if n)}"
        for name, one in facts.items()
        if one.details.get("unavailable") or any(one.drops.values())
    ]
    return f" ({'; '.join(reasons[:3])})" if reasons else ""
