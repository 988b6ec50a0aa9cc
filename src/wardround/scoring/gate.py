"""The gate before a bank, or a change to it: it is used for a task only where paired held-out evidence shows no harm.

The evidence is one play of each held-out sample without it and one with it, of the dev split; the test split never.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wardround.scoring.paired import PairedTest, holm, paired_test

GATE_LEVEL = 0.1
LEAST_SUBJECTS = 20
"""With fewer patients even a large harm could hide: such evidence opens nothing."""
GateState = Literal["open", "harm", "doubtful", "too_few"]
"""``doubtful``: the difference is below 0, though chance could have made it. Small harms let through on every task add
up, and a change that does nothing loses nothing by waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutPairs:
    """Scores of the same samples of one task without and with what is judged, and whose samples they are."""

    without: Sequence[float]
    with_it: Sequence[float]
    subjects: Sequence[Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGate:
    """One task's verdict and its numbers: the difference with minus without, the one-sided p of harm as Holm adjusts
    it over the tasks, patients, and the episodes that were spent on it."""

    state: GateState
    difference: float
    low: float | None
    high: float | None
    p_harm: float
    subjects: int
    episodes: int

    @property
    def is_open(self) -> bool:
        """Whether the task may use it."""
        return self.state == "open"


def gate(
    pairs: Mapping[str, HeldOutPairs],
    *,
    seed: int,
    level: float = GATE_LEVEL,
    least_subjects: int = LEAST_SUBJECTS,
    permutations: int = 20_000,
) -> dict[str, TaskGate]:
    """Judge each task; Holm over all of them. A task without pairs is not in the answer: nothing is open for it."""
    held = {task: one for task, one in pairs.items() if one.subjects}
    tests = {
        task: paired_test(one.without, one.with_it, one.subjects, seed=seed, permutations=permutations)
        for task, one in held.items()
    }
    adjusted = holm({task: harm_p_value(test) for task, test in tests.items()})
    verdicts = {}
    for task, test in tests.items():
        subjects = len(set(held[task].subjects))
        verdicts[task] = TaskGate(
            state=_state(test.difference.estimate, adjusted[task] <= level, subjects >= least_subjects),
            difference=test.difference.estimate,
            low=test.difference.low,
            high=test.difference.high,
            p_harm=adjusted[task],
            subjects=subjects,
            episodes=2 * len(held[task].subjects),
        )
    return verdicts


def harm_p_value(test: PairedTest) -> float:
    """The one-sided p-value of "the second is worse": sign flips are symmetric, so half of the two-sided one; 1 where
    there is only one patient, who shows nothing."""
    if test.p_value is None:
        return 1.0
    return test.p_value / 2 if test.difference.estimate < 0 else 1.0 - test.p_value / 2


def _state(difference: float, is_harm: bool, is_enough: bool) -> GateState:
    if is_harm:
        return "harm"
    if not is_enough:
        return "too_few"
    return "open" if difference >= 0 else "doubtful"
