"""Gate a bank, or a change to it: a task uses it only where paired held-out evidence supports it.

The evidence is one run of each held-out sample of the dev split without it and one with it; the test split is never
used.

By default the evidence must show a benefit. Showing no harm is not enough: with 120 patients a harm of 0.03 to 0.07 of
a score looks like a benefit by chance so often that over 20 seeds of three tasks one series in eleven was
significantly worse than no bank on test samples (400 simulated series); where a benefit was required, none of 400 was.
The price: a benefit of 0.05 opens the gate in four to six of ten such trials, one of 0.1 in nine; more samples open it
for smaller benefits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wardround.tasks.scoring.paired import PairedTest, holm, paired_test

GATE_LEVEL = 0.1
"""The chance that any look at a useless bank opens any task, over all looks."""
LEAST_SUBJECTS = 20
"""Minimum number of patients: with fewer even a large harm could go unseen."""
GateState = Literal["open", "harm", "doubtful", "too_few"]
"""``doubtful``: neither harm nor what the standard requires is shown."""
GateStandard = Literal["benefit", "no_harm"]
"""``benefit``: open where a benefit is shown. ``no_harm``: open where no harm is shown and the difference is not below
0; it lets small harm through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutPairs:
    """Scores of the same samples of one task without and with the bank, and their subjects."""

    without: Sequence[float]
    with_it: Sequence[float]
    subjects: Sequence[Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGate:
    """One task's verdict and its numbers.

    ``difference``: with minus without. ``p_harm`` and ``p_benefit``: one-sided, adjusted over the tasks by Holm.
    ``episodes``: the episodes spent on the evidence.
    """

    state: GateState
    difference: float
    low: float | None
    high: float | None
    p_harm: float
    p_benefit: float
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
    standard: GateStandard = "benefit",
    level: float = GATE_LEVEL,
    least_subjects: int = LEAST_SUBJECTS,
    permutations: int = 20_000,
) -> dict[str, TaskGate]:
    """Judge each task, with Holm's correction over all of them.

    Tasks without pairs are left out and stay closed.
    """
    paired = {task: task_pairs for task, task_pairs in pairs.items() if task_pairs.subjects}
    tests = {
        task: paired_test(one.without, one.with_it, one.subjects, seed=seed, permutations=permutations)
        for task, one in paired.items()
    }
    harm = holm({task: harm_p_value(test) for task, test in tests.items()})
    benefit = holm({task: benefit_p_value(test) for task, test in tests.items()})
    verdicts = {}
    for task, test in tests.items():
        subjects = len(set(paired[task].subjects))
        difference = test.difference.estimate
        is_for = benefit[task] <= level if standard == "benefit" else difference >= 0
        verdicts[task] = TaskGate(
            state=_state(harm[task] <= level, subjects >= least_subjects, is_for),
            difference=difference,
            low=test.difference.low,
            high=test.difference.high,
            p_harm=harm[task],
            p_benefit=benefit[task],
            subjects=subjects,
            episodes=2 * len(paired[task].subjects),
        )
    return verdicts


def look_level(look: int, level: float = GATE_LEVEL) -> float:
    """Return the significance level of look number ``look`` (from 1): ``level`` * 6 / (pi look)^2.

    The levels of all looks add up to ``level``, so that the chance of ever opening a task for a useless bank stays
    below it, however often one looks and whatever changed in between (alpha spending: Lan and DeMets, Biometrika 1983;
    over sequential hypotheses: Tian and Ramdas, Statistical Methods in Medical Research 2021).
    """
    if look < 1:
        raise ValueError(f"looks are counted from 1, not {look}")
    return level * 6.0 / (math.pi * look) ** 2


def harm_p_value(test: PairedTest) -> float:
    """Return the one-sided p-value of "the second is worse".

    Sign flips are symmetric, so it is half of the two-sided p-value; 1 where there is only one patient.
    """
    if test.p_value is None:
        return 1.0
    return test.p_value / 2 if test.difference.estimate < 0 else 1.0 - test.p_value / 2


def benefit_p_value(test: PairedTest) -> float:
    """Return the one-sided p-value of "the second is better"; 1 where there is only one patient."""
    if test.p_value is None:
        return 1.0
    return test.p_value / 2 if test.difference.estimate > 0 else 1.0 - test.p_value / 2


def _state(is_harm: bool, is_enough: bool, is_for: bool) -> GateState:
    if is_harm:
        return "harm"
    if not is_enough:
        return "too_few"
    return "open" if is_for else "doubtful"
