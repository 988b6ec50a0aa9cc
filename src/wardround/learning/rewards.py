"""What an episode is worth to a trainer: the task's score, or what it gains over an answer that reads nothing.

The score alone pays for not reading: one answer given to everybody earns much of it. The ``gain`` counts the names for
which the episode cites a row that it read and that speaks for them (of a class, any row that it read), less what the
best constant earns on the same sample, less a penalty for every repeated call with the same result. A policy
that reads nothing earns 0 at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from statistics import fmean
from typing import Literal

from wardround.tasks.benchmarks import Benchmark, Sample, get_task
from wardround.tasks.scoring.episodes import score_answer
from wardround.tasks.scoring.errors import Call, are_similar
from wardround.tools import Citation

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
