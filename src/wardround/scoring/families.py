"""Several tests at once: step-down max-T (Westfall and Young, 1993) over the same flips of the same patients.

Asking whether any of eight contenders beats a baseline on any of six tasks is 48 questions; by chance two or three of
them have p < 0.05. The greatest of all statistics under common flips says how great the greatest gets by chance. A
patient is flipped in every test at once: that keeps how much the tests depend on each other, which Holm's correction
throws away.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wardround.core import derive_seed
from wardround.scoring.bootstrap import Floats, rows_at_once

_EXACT_SUBJECTS = 12
_ROUNDING = 1e-9
_CHUNK_CELLS = 4_000_000

Flipped = Callable[[Floats], Floats]
"""Maps signs, shape (patterns, patients), to a difference each: -1 exchanges the two contenders of a patient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """That two contenders do not differ: whose the flips are, in order, and the difference under them."""

    subjects: Sequence[Hashable]
    flipped: Flipped = field(repr=False)


def linear_hypothesis(sums: Mapping[Hashable, float]) -> Hypothesis:
    """A difference that is a sum of patients' parts: a mean, or a mean of task means."""
    parts = np.asarray(list(sums.values()), float)
    return Hypothesis(subjects=tuple(sums), flipped=lambda signs: signs @ parts)


def step_down(hypotheses: Sequence[Hypothesis], *, seed: int, permutations: int = 10_000) -> tuple[float | None, ...]:
    """Return the adjusted two-sided p-value of each hypothesis; None where fewer than two patients stand behind it,
    or where the difference is no number: one such would make every p of the family 0.

    Each statistic is taken in units of its own spread under the flips, so that no test crowds out another by its scale.
    The p of the greatest is against the greatest of all, that of the next against the greatest of the rest, and so on.
    """
    asked = [place for place, one in enumerate(hypotheses) if len(one.subjects) > 1 and _is_defined(one)]
    adjusted: list[float | None] = [None] * len(hypotheses)
    if not asked:
        return tuple(adjusted)
    null, observed, exact = _statistics([hypotheses[place] for place in asked], seed, permutations)
    order = np.argsort(-observed, kind="stable")
    greatest = np.maximum.accumulate(null[:, order[::-1]], axis=1)[:, ::-1]
    hits = (greatest >= observed[order] - _ROUNDING).sum(axis=0)
    values = hits / len(null) if exact else (hits + 1) / (len(null) + 1)
    for place, value in zip(order.tolist(), np.maximum.accumulate(values).tolist(), strict=True):
        adjusted[asked[place]] = float(value)
    return tuple(adjusted)


def _is_defined(hypothesis: Hypothesis) -> bool:
    return bool(np.isfinite(hypothesis.flipped(np.ones((1, len(hypothesis.subjects))))).all())


def _statistics(hypotheses: Sequence[Hypothesis], seed: int, permutations: int) -> tuple[Floats, Floats, bool]:
    """Return the absolute statistics under every pattern, the observed ones, and whether all patterns were tried."""
    places = {subject: place for place, subject in enumerate(dict.fromkeys(s for h in hypotheses for s in h.subjects))}
    columns = [np.asarray([places[subject] for subject in one.subjects]) for one in hypotheses]
    exact = len(places) <= _EXACT_SUBJECTS
    patterns = 2 ** len(places) if exact else permutations
    generator = np.random.default_rng(derive_seed(seed, "max-T"))
    null = np.empty((patterns, len(hypotheses)))
    chunk = max(1, _CHUNK_CELLS // len(places))
    for start in range(0, patterns, chunk):
        size = min(chunk, patterns - start)
        if exact:
            flips = np.arange(start, start + size)[:, None] >> np.arange(len(places)) & 1
        else:
            flips = generator.integers(0, 2, size=(size, len(places)))
        signs = 1.0 - 2.0 * flips.astype(np.float64)
        rows = rows_at_once(len(places))
        for first in range(0, size, rows):
            some = signs[first : first + rows]
            for number, (one, own) in enumerate(zip(hypotheses, columns, strict=True)):
                null[start + first : start + first + len(some), number] = np.abs(one.flipped(some[:, own]))
    observed = np.array([abs(float(one.flipped(np.ones((1, len(one.subjects))))[0])) for one in hypotheses])
    spread = np.sqrt(np.mean(null**2, axis=0))
    spread[spread == 0] = 1.0
    return null / spread, observed / spread, exact
