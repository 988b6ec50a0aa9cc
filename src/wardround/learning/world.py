"""The world that an outside trainer's policy acts in: one sample, its chart and tools, a limit of calls, a reward.

Every door (TRL, OpenEnv, Harbor, verifiers, Inspect) opens this one world, and the reward is computed here and nowhere
else: the main figure of the task's scorer, as in a report, or what it gains over not reading.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from wardround.core import ToolSchema, UserError
from wardround.records import Store
from wardround.runs import open_environment
from wardround.tasks.benchmarks import Benchmark, Sample, ask, get_task
from wardround.tasks.scoring.episodes import score_answer
from wardround.tasks.scoring.errors import Call, are_similar
from wardround.tools import Aids, Citation, EnvironmentOptions

# What an episode is worth to a trainer: the task's score, or what it gains over an answer that reads nothing.
#
# The score alone pays for not reading: one answer given to everybody earns much of it. The ``gain`` counts the names
# for which the episode cites a row that it read and that speaks for them (of a class, any row that it read), less what
# the best constant earns on the same sample, less a penalty for every repeated call with the same result. A policy that
# reads nothing earns 0 at most.


RewardKind = Literal["score", "gain"]
REPEAT_CHARGE = 0.05
"""Penalty per repeated call: it costs a turn and gives no information."""
FREE_TOOLS = frozenset({"finish", "think"})


class BestConstants:
    """By task, the one answer to everybody that scores best on training people: the commonest name, the commonest
    names, or a class."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._found: dict[str, tuple[str, ...] | None] = {}

    def of(self, task: str) -> tuple[str, ...] | None:
        """Return the best constant of a task; None without training people."""
        if task not in self._found:
            self._found[task] = self._fitted(task)
        return self._found[task]

    def score(self, sample: Sample) -> float:
        """Return the score of the constant on a sample."""
        constant = self.of(sample.task)
        labels = self._benchmark.labels(get_task(sample.task))
        return 0.0 if constant is None else score_answer(constant, sample, labels)

    def _fitted(self, task: str) -> tuple[str, ...] | None:
        training, kind = self._benchmark.samples(task, "train"), get_task(task).answer
        if not training:
            return None
        targets = [one.target for one in training]
        constants = dict.fromkeys(
            [kind.constant(targets), kind.prior(targets), *((value,) for value in kind.label_values)]
        )
        labels = self._benchmark.labels(get_task(task))
        return max(constants, key=lambda one: fmean(score_answer(one, sample, labels) for sample in training))


class Repeats:
    """Counts repeated calls: same tool, similar arguments, same result."""

    def __init__(self) -> None:
        self.count = 0
        self._answered: list[tuple[Call, str]] = []

    def made(self, call: Call, result: str) -> None:
        """Record an answered call."""
        if call.name in FREE_TOOLS:
            return
        if any(text == result and are_similar(call, earlier) for earlier, text in self._answered):
            self.count += 1
        else:
            self._answered.append((call, result))


def shown_names(answer: Sequence[str], citations: Iterable[Citation], label_values: Collection[str]) -> tuple[str, ...]:
    """Return the parts of an answer for which a row is cited that was read and speaks for it; a class is not written
    in rows, so for one any row that was read will do."""
    passing = {one.answer for one in citations if one.passes or (label_values and one.exists and one.read)}
    return tuple(name for name in answer if name in passing)


# The world, and an episode in it.


FINISH = "finish"
MOST_CALLS = 30
_TAKEN_AS_GIVEN = Aids(answer_check=False)
_OVER = "Error: this episode is over; no more calls are answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """``split``: whose samples are played; training by default. ``calls`` bound an episode. ``reward``: the ``score``
    of a report, or the ``gain``, which is what to train with.

    An answer counts as submitted: an adapter that reads it from a file could not ask again.
    """

    split: str = "train"
    tasks: tuple[str, ...] = ()
    calls: int = MOST_CALLS
    result_tokens: int = 1000
    aids: Aids = _TAKEN_AS_GIVEN
    reward: RewardKind = "score"


class WorldEpisode:
    """One episode. ``reward`` is 0 until an answer was given, a ``gain`` until the episode is over; ``done`` once there
    is an answer, or no call is left."""

    def __init__(self, world: World, sample: Sample) -> None:
        settings = world.settings
        self.sample = sample
        self.prompt = world.question(sample)
        self.answer: tuple[str, ...] | None = None
        self.calls = 0
        self._most = settings.calls
        self._labels = world.benchmark.labels(get_task(sample.task))
        self._gains = settings.reward == "gain"
        self._constant = world.constants.score(sample) if self._gains else 0.0
        self._repeats = Repeats()
        self._shown: tuple[str, ...] = ()
        options = EnvironmentOptions(max_result_tokens=settings.result_tokens, aids=settings.aids)
        self._environment = open_environment(world.store, world.benchmark, sample, options)

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        """The available tools, including ``finish``."""
        return self._environment.schemas

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.answer is not None or self.calls >= self._most

    @property
    def reward(self) -> float:
        """The score of the answer (0 to 1), or the gain (at most 1, may be negative)."""
        if self._gains:
            return self._gain if self.done else 0.0
        return self._score(self.answer)

    @property
    def _gain(self) -> float:
        earned = min(self._score(self.answer), self._score(self._shown or None))
        return earned - self._constant - REPEAT_CHARGE * self._repeats.count

    def _score(self, answer: tuple[str, ...] | None) -> float:
        return 0.0 if answer is None else score_answer(answer, self.sample, self._labels)

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> str:
        """Answer one call. A mistake gives the text of an error, never an exception."""
        if self.done:
            return _OVER
        self.calls += 1
        if self.calls >= self._most:
            self._environment.accept_any_answer()
        result = self._environment.call(name, arguments)
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
        self._repeats.made(Call.of(name, text), result.text)
        if result.answer is not None:
            self.answer = tuple(result.answer)
            citations = self._environment.check_evidence(self.answer, result.evidence)
            self._shown = shown_names(self.answer, citations, get_task(self.sample.task).answer.label_values)
        return result.text

    def answer_with(self, value: Any) -> str:
        """Submit an answer from elsewhere, any JSON value; it is parsed like a call of ``finish``."""
        return self.call(FINISH, {"response": value})

    def close(self) -> None:
        """Free the resources of the episode."""
        self._environment.close()


class World:
    """The samples of one split of a benchmark; each can be run any number of times."""

    def __init__(self, store: Store, benchmark: Benchmark, settings: WorldSettings | None = None) -> None:
        self.store = store
        self.benchmark = benchmark
        self.settings = settings or WorldSettings()
        self.constants = BestConstants(benchmark)
        wanted = set(self.settings.tasks)
        samples = [sample for sample in benchmark.all_samples if sample.split == self.settings.split]
        self.samples = {sample.id: sample for sample in samples if not wanted or sample.task in wanted}
        if not self.samples:
            raise UserError(f"the benchmark has no samples of the {self.settings.split} split for these tasks")

    @classmethod
    def open(cls, store: Path, benchmark: Path, settings: WorldSettings | None = None) -> World:
        """Open a world from its folders."""
        return cls(Store.open(store), Benchmark.open(benchmark), settings)

    @staticmethod
    def split_of(benchmark: Path, sample: str) -> str:
        """Return the split of a sample. UserError: the benchmark has no such sample."""
        for one in Benchmark.open(benchmark).all_samples:
            if one.id == sample:
                return one.split
        raise UserError(f"the benchmark has no sample {sample!r}")

    @property
    def ids(self) -> Sequence[str]:
        """The ids of its samples, in order."""
        return tuple(self.samples)

    def question(self, sample: Sample) -> str:
        """Return the question of a sample, with how to answer it."""
        return ask(self.benchmark, sample, rules=self.settings.aids.answer_rules, outside=True)

    def begin(self, sample: str) -> WorldEpisode:
        """Begin an episode. UserError: there is no such sample."""
        if sample not in self.samples:
            raise UserError(f"this world has no sample {sample!r}")
        return WorldEpisode(self, self.samples[sample])
