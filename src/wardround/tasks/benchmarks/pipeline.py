"""From a store to a benchmark: the way that every family of tasks goes.

What all tasks share is prepared once (splits, groups). Then each task: is it there at all? its questions, the draw
among them, the samples. A family says how for its own; what is checked, counted and written down is the same for all.
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

Q = TypeVar("Q")
"""What a family asks."""
D = TypeVar("D")
"""What it draws of that."""
_OWN_SPLITS: Mapping[str, Split] = {"train": "train", "tuning": "dev", "held_out": "test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """What a build of any family takes. ``per_task`` and ``per_subject`` bound the samples (None or 0: all).

    ``workers`` build shares of the tasks at once, where ``executor`` names; what is built is the same.
    ``allow_missing``: a task may offer a class that is the answer to none of its questions.
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
        """Whether this process builds all tasks itself."""
        return self.workers == 1 and not EXECUTORS.get(self.executor).spans_machines

    def recipe(self) -> dict[str, Any]:
        """What decides the samples: who builds them, and in how many shares, does not."""
        return {
            "seed": self.seed,
            "policy": self.policy,
            "per_task": self.per_task,
            "per_subject": self.per_subject,
            "fractions": list(self.fractions),
        }

    def check(self) -> None:
        """Raise UserError where a setting is none."""
        check_fractions(self.fractions)
        if self.policy not in CLOCKS:
            raise UserError(f"unknown clock policy {self.policy!r}; known are {', '.join(CLOCKS)}")
        if self.per_task < 0 or (self.per_subject is not None and self.per_subject < 1):
            raise UserError("per_task must be 0 (all) or more, per_subject at least 1")
        if self.workers < 1:
            raise UserError(f"workers must be at least 1, not {self.workers!r}")
        EXECUTORS.get(self.executor)


class BuildOptions(TypedDict, total=False):
    """Those of :class:`BuildSettings` that every family heeds, as keywords of its builder."""

    seed: int
    policy: Policy
    per_task: int
    fractions: Fractions
    workers: int
    executor: str


class BoundedOptions(BuildOptions, total=False):
    """And the bound on one subject's samples, for families that ask a subject often."""

    per_subject: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """What all tasks of one build stand on: the store, the settings, and the split of every subject."""

    store: Store
    settings: BuildSettings
    splits: Mapping[int, Split]
    report: Reporter = silent


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What the manifest says of one task: why its samples are not more (``drops``), the ``rules`` of its answers that a
    prompt may tell, and the rest. ``answers`` counts, for every class that is offered, the questions whose answer it
    is; empty where answers are names of a long list."""

    drops: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, int] = field(default_factory=dict)

    @property
    def never_answers(self) -> list[str]:
        """The classes that are offered and are the answer to no question; none where nothing is asked."""
        return [name for name, count in self.answers.items() if not count] if any(self.answers.values()) else []


class OpenFamily(Protocol[Q, D]):
    """A family on a store: for one task after the other its questions, which of them are drawn, and their samples."""

    @property
    def spaces(self) -> Mapping[str, CandidateSpace]:
        """The candidate tables of its tasks."""

    def unavailable(self, task: Task) -> str | None:
        """Say why a task cannot be built here, None if it can. UserError: that is not allowed to be passed over."""

    def questions(self, task: Task) -> Q:
        """Return every question of a task that could be asked."""

    def draw(self, task: Task, questions: Q) -> D:
        """Return those that become samples. An answer may weigh a draw, never say what stands in another's prompt."""

    def samples(self, task: Task, questions: Q, drawn: D) -> Sequence[Sample]:
        """Return the samples of what was drawn."""

    def describe(self, task: Task, questions: Q, drawn: D, samples: Sequence[Sample]) -> TaskFacts:
        """Return what the manifest says of the task."""

    def last(self, task: Task, questions: Q, drawn: D, samples: Sequence[Sample]) -> LastAnswers | str:
        """Return, by sample, the answer that the chart last showed; where it showed none the sample is not there. Or
        say why that cannot be told."""

    def facts(self) -> Mapping[str, Any]:
        """What the manifest says of the family's build beyond what all say."""


class Family(Protocol[Q, D]):
    """One family of tasks. ``kind`` is what a manifest declares; ``has_own_splits``: those of the data set hold."""

    kind: ClassVar[str]
    paper: ClassVar[str]
    has_own_splits: ClassVar[bool]

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks to build, in name order."""

    def options(self) -> Mapping[str, Any]:
        """What a build was told besides its settings, by the names its function has for it: ready for JSON, files by
        name and hash. The same options, settings and records give the same samples."""

    def open(self, ground: BuildContext) -> OpenFamily[Q, D]:
        """Read what its tasks share. UserError: the store cannot have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    samples: Sequence[Sample]
    facts: TaskFacts
    last: LastAnswers | str
    when: LastAnswers | str = "nothing of it is asked"
    without_reading: Mapping[str, Any] = field(default_factory=dict)


def build_family(
    family: Family[Q, D], store: Store, folder: Path, settings: BuildSettings, *, report: Reporter = silent
) -> Benchmark:
    """Build a family's tasks and save them; the same store and settings give the same samples, byte for byte.

    UserError: a setting is wrong, the folder holds something, or no question could be asked (then nothing is written).
    """
    must_be_new(folder)
    settings.check()
    ground = BuildContext(store=store, settings=settings, splits=_splits(family, store, settings), report=report)
    opened = family.open(ground)
    built = _all_built(family, opened, ground)
    samples = tuple(sample for one in built.values() for sample in one.samples)
    told = {name: one.facts for name, one in built.items()}
    fitted = {name: dict(one.without_reading) for name, one in built.items()}
    if not samples:
        raise UserError(f"no question of any task could be asked in this store; nothing was written{_why(told)}")
    _refuse_never_answers(told, settings)
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
        "subjects": _subjects(ground),
        "tasks": {name: {**one.said, **_never(one), **fitted[name]} for name, one in told.items()},
        "hindsight": hindsight_facts(family.tasks, store.spec.name),
        "answer_rules": {name: dict(one.rules) for name, one in told.items()},
        "drops": {name: dict(one.drops) for name, one in told.items()},
    }
    spaces = dict(sorted(opened.spaces.items()))
    last, when = ({name: getattr(one, what) for name, one in built.items()} for what in ("last", "when"))
    return Benchmark(manifest=manifest, all_samples=samples, spaces=spaces, last=last, when=when).save(folder)


def _splits(family: Family[Q, D], store: Store, settings: BuildSettings) -> dict[int, Split]:
    """By hash of seed and person; the data set's own where a family goes by them and it has some."""
    own = store.splits() if family.has_own_splits else {}
    return {
        subject: _OWN_SPLITS.get(own.get(subject, ""))
        or split_of(store.person_of(subject), settings.seed, settings.fractions)
        for subject in store.subjects.tolist()
    }


def _all_built(family: Family[Q, D], opened: OpenFamily[Q, D], ground: BuildContext) -> dict[str, _Built]:
    """Every task of a family by name, built here or in shares elsewhere."""
    settings, names = ground.settings, [task.name for task in family.tasks]
    if settings.is_built_here or len(names) < 2:
        reader = MomentReader(ground.store)
        return {task.name: _build(opened, task, ground, reader) for task in family.tasks}
    shares = [names[start :: settings.workers] for start in range(min(settings.workers, len(names)))]
    work = partial(_build_share, family, str(ground.store.path.resolve()), settings)
    ground.report(Progress(label="build tasks", done=0, total=len(shares), unit="shares"))
    found = each(work, shares, executor=settings.executor, workers=settings.workers)
    built = {name: one for share in found for name, one in share.items()}
    return {name: built[name] for name in names}


def _build_share(family: Family[Q, D], store: str, settings: BuildSettings, names: Sequence[str]) -> dict[str, _Built]:
    """Build some tasks of a family in a process of its own, which reads by itself what tasks share."""
    opened_store = Store.open(Path(store))
    ground = BuildContext(store=opened_store, settings=settings, splits=_splits(family, opened_store, settings))
    opened = family.open(ground)
    reader = MomentReader(opened_store)
    return {task.name: _build(opened, task, ground, reader) for task in family.tasks if task.name in names}


def _build(opened: OpenFamily[Q, D], task: Task, ground: BuildContext, reader: MomentReader) -> _Built:
    reason = opened.unavailable(task)
    if reason is not None:
        return _Built(samples=(), facts=TaskFacts(said={"title": task.title, "unavailable": reason}), last=reason)
    questions = opened.questions(task)
    drawn = opened.draw(task, questions)
    samples = opened.samples(task, questions, drawn)
    fitted = _without_reading(ground, reader, task, samples)
    return _Built(
        samples=samples,
        facts=opened.describe(task, questions, drawn, samples),
        last=opened.last(task, questions, drawn, samples),
        when=fitted.when,
        without_reading=fitted.facts,
    )


def _without_reading(
    ground: BuildContext, reader: MomentReader, task: Task, samples: Sequence[Sample]
) -> WithoutReading:
    if ground.settings.policy != "known_at":
        return WithoutReading(when="fitted on the clocks known_at only")
    return without_reading(reader, task, samples)


def _refuse_never_answers(told: Mapping[str, TaskFacts], settings: BuildSettings) -> None:
    """Raise UserError where a task offers a class that is never the answer, and that is not allowed."""
    never = [f"{name}: {', '.join(one.never_answers)}" for name, one in told.items() if one.never_answers]
    if never and not settings.allow_missing:
        raise UserError(
            f"offered answers that no question has ({'; '.join(never)}): choose other tasks with --task, take more "
            "people, or build with --allow-missing, which notes them in the manifest; nothing was written"
        )


def _never(facts: TaskFacts) -> dict[str, list[str]]:
    return {"never_the_answer": facts.never_answers} if facts.never_answers else {}


def _why(told: Mapping[str, TaskFacts]) -> str:
    """What kept questions from being asked, where anything is known of it."""
    reasons = [
        f"{name}: {one.said.get('unavailable') or ', '.join(f'{n:,} {what}' for what, n in one.drops.items() if n)}"
        for name, one in told.items()
        if one.said.get("unavailable") or any(one.drops.values())
    ]
    return f" ({'; '.join(reasons[:3])})" if reasons else ""


def _subjects(ground: BuildContext) -> dict[str, int]:
    taken = list(ground.splits.values())
    return {"total": len(taken)} | {str(split): taken.count(split) for split in SPLITS}
