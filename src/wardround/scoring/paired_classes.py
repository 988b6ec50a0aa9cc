"""Is one model's macro-F1 better than another's on the same samples? Macro-F1 is no mean over samples, so the test of
:mod:`wardround.scoring.paired` does not apply: here whole patients swap the two models' answers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np

from wardround.core import UserError, derive_seed
from wardround.scoring.bootstrap import Floats, Statistic, sum_by_subject
from wardround.scoring.classification import count_rows, macro_f1_of
from wardround.scoring.draws import RESAMPLES, PatientDraws
from wardround.scoring.families import Hypothesis
from wardround.scoring.paired import PairedTest

_EXACT_SUBJECTS = 12
_ROUNDING = 1e-12
_CHUNK = 2_000

Labels = Collection[str]


def paired_macro_f1(
    first: Mapping[str, Labels | None],
    second: Mapping[str, Labels | None],
    truth: Mapping[str, Labels],
    subjects: Mapping[str, Hashable],
    *,
    classes: Sequence[str],
    seed: int,
    several: bool = False,
    permutations: int = 10_000,
    resamples: int = RESAMPLES,
) -> PairedTest:
    """Compare answers by sample id; ``difference`` is the macro-F1 of the second minus that of the first.

    The interval is a patient bootstrap of the difference, p that of swapping all answers of a patient at random.
    """
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise UserError("the two have no answered sample in common, so there is nothing to compare")
    wanted = [truth[key] for key in shared]
    owners = [subjects[key] for key in shared]
    rows = [
        count_rows(wanted, [one[key] for key in shared], classes=classes, several=several) for one in (first, second)
    ]
    draws = PatientDraws.of(owners, seed=seed, resamples=resamples)
    width = rows[0].shape[1]
    difference = draws.of_sums(np.hstack(rows), lambda sums: _difference(sums, width, macro_f1_of))
    assert difference is not None
    p_value, exact, tried = _swap_test(
        sum_by_subject(rows[0], owners), sum_by_subject(rows[1], owners), macro_f1_of, seed, permutations
    )
    return PairedTest(
        difference=difference,
        p_value=p_value,
        exact=exact,
        permutations=tried,
        unpaired=len(first.keys() ^ second.keys()),
    )


def macro_hypothesis(
    first: Mapping[str, Labels | None],
    second: Mapping[str, Labels | None],
    truth: Mapping[str, Labels],
    subjects: Mapping[str, Hashable],
    *,
    classes: Sequence[str],
    several: bool = False,
) -> Hypothesis:
    """The same comparison as one of a family: a flip swaps all answers of a patient."""
    shared = sorted(first.keys() & second.keys())
    wanted, owners = [truth[key] for key in shared], [subjects[key] for key in shared]
    one, other = (
        sum_by_subject(count_rows(wanted, [given[key] for key in shared], classes=classes, several=several), owners)
        for given in (first, second)
    )

    def flipped(signs: Floats) -> Floats:
        moved = (1 - signs) / 2 @ (other - one)
        return macro_f1_of(other.sum(axis=0) - moved) - macro_f1_of(one.sum(axis=0) + moved)

    return Hypothesis(subjects=tuple(dict.fromkeys(owners)), flipped=flipped)


def _difference(sums: Floats, width: int, statistic: Statistic) -> Floats:
    return statistic(sums[..., width:]) - statistic(sums[..., :width])


def _swap_test(
    first: Floats, second: Floats, statistic: Statistic, seed: int, permutations: int
) -> tuple[float | None, bool, int]:
    """Return p, whether every pattern was tried, and how many were. The observed pattern counts as one of them."""
    count = len(first)
    if count < 2:
        return None, True, 1
    observed = abs(float(statistic(second.sum(axis=0)) - statistic(first.sum(axis=0))))
    gain = second - first
    exact = count <= _EXACT_SUBJECTS
    tried = 2**count if exact else permutations
    generator = np.random.default_rng(derive_seed(seed, "swap"))
    hits = 0
    for start in range(0, tried, _CHUNK):
        size = min(_CHUNK, tried - start)
        if exact:
            swapped = (np.arange(start, start + size)[:, None] >> np.arange(count) & 1).astype(float)
        else:
            swapped = generator.integers(0, 2, size=(size, count)).astype(float)
        moved = swapped @ gain
        difference = np.abs(statistic(second.sum(axis=0) - moved) - statistic(first.sum(axis=0) + moved))
        hits += int(np.count_nonzero(difference >= observed - _ROUNDING))
    return (hits / tried if exact else (hits + 1) / (tried + 1)), exact, tried
