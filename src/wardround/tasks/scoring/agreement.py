"""Agreement of reviewers beyond chance: Cohen's kappa of two, Fleiss' of many, with intervals over patients."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from wardround.core import UserError
from wardround.tasks.scoring.bootstrap import Floats, Interval, cluster_bootstrap, ratio


def cohen_kappa(pairs: Sequence[tuple[str, str]], subjects: Sequence[Hashable], *, seed: int) -> Interval:
    """Return Cohen's kappa (1960) of two marks for each item: (p_o - p_e) / (1 - p_e). NaN where both only ever gave
    one and the same mark. Whole patients are resampled."""
    marks = {mark: place for place, mark in enumerate(sorted({one for pair in pairs for one in pair}))}
    size = len(marks)
    rows = np.zeros((len(pairs), size * size))
    for n, (first, second) in enumerate(pairs):
        rows[n, marks[first] * size + marks[second]] = 1.0

    def kappa(sums: Floats) -> Floats:
        table = sums.reshape(*sums.shape[:-1], size, size)
        total = table.sum(axis=(-2, -1))
        observed = ratio(np.trace(table, axis1=-2, axis2=-1), total)
        by_chance = ratio((table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1), total**2)
        return _beyond_chance(observed, by_chance)

    return cluster_bootstrap(rows, subjects, kappa, seed=seed)


def fleiss_kappa(marks: Sequence[Sequence[str]], subjects: Sequence[Hashable], *, seed: int) -> Interval:
    """Return Fleiss' kappa (1971) of items that the same number of people marked, at least two. NaN where only one
    mark was ever given. Whole patients are resampled. UserError: items have different numbers of marks."""
    raters = {len(one) for one in marks}
    if len(raters) != 1 or min(raters) < 2:
        raise UserError("Fleiss' kappa needs items that the same number of people marked, at least two")
    number = raters.pop()
    given = sorted({mark for one in marks for mark in one})
    counts = np.array([[list(one).count(mark) for mark in given] for one in marks], float)
    agreeing = (counts * (counts - 1)).sum(axis=1) / (number * (number - 1))
    rows = np.column_stack([agreeing, counts, np.ones(len(marks))])

    def kappa(sums: Floats) -> Floats:
        items = sums[..., -1]
        shares = sums[..., 1:-1] / (items[..., None] * number)
        return _beyond_chance(ratio(sums[..., 0], items), (shares**2).sum(axis=-1))

    return cluster_bootstrap(rows, subjects, kappa, seed=seed)


def _beyond_chance(observed: Floats, by_chance: Floats) -> Floats:
    return ratio(observed - by_chance, np.where(by_chance > 1 - 1e-12, 0.0, 1 - by_chance))
