"""Paired tests on the same questions: differences, macro-F1, families of tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wardround.core import UserError, derive_seed
from wardround.tasks.scoring.bootstrap import (
    RESAMPLES,
    Floats,
    Interval,
    PatientDraws,
    patient_bootstrap,
    rows_at_once,
    sum_by_subject,
    task_mean_interval,
    task_weights,
)
from wardround.tasks.scoring.classification import count_rows, macro_f1_of

# Is one agent better than another on the same questions? Differences are per sample, the test is per patient.


_EXACT_SUBJECTS = 14
_CHUNK_CELLS = 4_000_000
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """``difference`` is second minus first over the shared samples, with its patient-bootstrap interval.

    ``p_value`` is two-sided, of the sign-flip permutation test over patients: under no difference each patient's
    differences could as well have had the other sign. None where there is only one patient. ``exact`` says that every
    sign pattern was tried. ``unpaired`` samples, scored by one agent only, are left out.
    """

    difference: Interval
    p_value: float | None
    exact: bool
    permutations: int
    unpaired: int = 0


def paired_test(
    first: Sequence[float],
    second: Sequence[float],
    subjects: Sequence[Hashable],
    *,
    seed: int,
    tasks: Sequence[str] | None = None,
    permutations: int = 20_000,
    confidence: float = 0.95,
) -> PairedTest:
    """Compare two agents' scores of the same samples, in the same order.

    With ``tasks``, the task of every sample, the difference is the mean of task means.
    """
    if not len(first) == len(second) == len(subjects):
        raise UserError(f"a paired test needs equal lengths, not {len(first)}, {len(second)} and {len(subjects)}")
    differences = np.asarray(second, float) - np.asarray(first, float)
    values = differences.tolist()
    if tasks is None:
        interval = patient_bootstrap(values, subjects, seed=seed, confidence=confidence)
    else:
        interval = task_mean_interval(values, tasks, subjects, seed=seed, confidence=confidence)
    weighted = differences if tasks is None else differences * task_weights(tasks)
    sums = sum_by_subject(weighted[:, None], subjects)[:, 0]
    exact = len(sums) <= _EXACT_SUBJECTS
    flips = 2 ** len(sums) if exact else permutations
    p_value = None
    if len(sums) > 1 and exact:
        patterns = np.arange(flips)[:, None] >> np.arange(len(sums)) & 1
        p_value = float(np.mean(_at_least(np.abs((1 - 2 * patterns) @ sums), sums)))
    elif len(sums) > 1:
        p_value = _sampled_p(sums, flips, seed)
    return PairedTest(difference=interval, p_value=p_value, exact=exact, permutations=flips)


def paired_test_by_key(
    first: Mapping[str, float],
    second: Mapping[str, float],
    subjects: Mapping[str, Hashable],
    *,
    seed: int,
    tasks: Mapping[str, str] | None = None,
    permutations: int = 20_000,
) -> PairedTest:
    """Compare two agents' scores by sample id; samples that only one of them has are counted as unpaired."""
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise UserError("the two have no scored sample in common, so there is nothing to compare")
    test = paired_test(
        [first[key] for key in shared],
        [second[key] for key in shared],
        [subjects[key] for key in shared],
        seed=seed,
        tasks=None if tasks is None else [tasks[key] for key in shared],
        permutations=permutations,
    )
    return replace(test, unpaired=len(first.keys() ^ second.keys()))


def patients_parts(
    first: Mapping[str, float],
    second: Mapping[str, float],
    subjects: Mapping[str, Hashable],
    *,
    tasks: Mapping[str, str] | None = None,
) -> dict[Hashable, float]:
    """Return each patient's contribution to the difference over the shared samples.

    A sign flip turns one such contribution.
    """
    shared = sorted(first.keys() & second.keys())
    differences = np.array([second[key] - first[key] for key in shared])
    weights = task_weights([tasks[key] for key in shared]) if tasks else np.full(len(shared), 1 / max(len(shared), 1))
    owners = [subjects[key] for key in shared]
    sums = sum_by_subject((differences * weights)[:, None], owners)[:, 0]
    return dict(zip(dict.fromkeys(owners), sums.tolist(), strict=True))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return Holm's step-down adjusted p-values of a family of tests (one per task, say), by name."""
    ordered = sorted(p_values, key=lambda name: (p_values[name], name))
    adjusted: dict[str, float] = {}
    worst = 0.0
    for rank, name in enumerate(ordered):
        worst = max(worst, min(1.0, (len(ordered) - rank) * p_values[name]))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p_values}


def _sampled_p(sums: Floats, permutations: int, seed: int) -> float:
    """The observed pattern counts as one of the patterns, so that p is never 0."""
    needs_chunks = permutations * len(sums) > _CHUNK_CELLS
    draws = (
        (1 - 2 * flips for flips in _sign_flips(seed, len(sums), permutations))
        if needs_chunks
        else iter([_few_flips(seed, len(sums), permutations)])
    )
    hits = 0
    for signs in draws:
        rows = rows_at_once(len(sums))
        for start in range(0, len(signs), rows):
            flipped = signs[start : start + rows].astype(float) @ sums
            hits += int(np.count_nonzero(_at_least(np.abs(flipped), sums)))
    return (hits + 1) / (permutations + 1)


def _sign_flips(seed: int, subjects: int, permutations: int) -> Iterator[npt.NDArray[np.int8]]:
    generator = np.random.default_rng(derive_seed(seed, "sign-flip"))
    chunk = max(1, _CHUNK_CELLS // subjects)
    for done in range(0, permutations, chunk):
        yield generator.integers(0, 2, size=(min(chunk, permutations - done), subjects), dtype=np.int8)


@lru_cache(maxsize=8)
def _few_flips(seed: int, subjects: int, permutations: int) -> npt.NDArray[np.int8]:
    """Return -1 for the patients that are flipped in each pattern, else 1; tests over as many share the patterns.

    A few megabytes each.
    """
    [signs] = _sign_flips(seed, subjects, permutations)
    signs *= -2
    signs += 1
    return signs


def _at_least(flipped: Floats, sums: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    observed = abs(float(sums.sum()))
    return np.asarray(flipped >= observed - _ROUNDING * max(1.0, float(np.abs(sums).sum())))


# Several tests at once: step-down max-T (Westfall and Young, 1993) over the same flips of the same patients.
#
# Asking whether any of eight contenders beats a baseline on any of six tasks is 48 questions; by chance two or three of
# them have p < 0.05. The greatest of all statistics under common flips says how great the greatest gets by chance. A
# patient is flipped in every test at once: that keeps how much the tests depend on each other, which Holm's correction
# throws away.


_FAMILY_EXACT_SUBJECTS = 12
_FAMILY_ROUNDING = 1e-9

Flipped = Callable[[Floats], Floats]
"""Maps signs, shape (patterns, patients), to a difference each: -1 exchanges the two contenders of a patient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """The null hypothesis of one test: the patients that may be flipped, in order, and the difference under flips."""

    subjects: Sequence[Hashable]
    flipped: Flipped = field(repr=False)


def linear_hypothesis(sums: Mapping[Hashable, float]) -> Hypothesis:
    """The hypothesis of a difference that is a sum over patients: a mean, or a mean of task means."""
    parts = np.asarray(list(sums.values()), float)
    return Hypothesis(subjects=tuple(sums), flipped=lambda signs: signs @ parts)


def step_down(hypotheses: Sequence[Hypothesis], *, seed: int, permutations: int = 10_000) -> tuple[float | None, ...]:
    """Return the adjusted two-sided p-value of each hypothesis.

    None with fewer than two patients, or where the difference is no number: one such value would make every p of the
    family 0. Each statistic is scaled by its own spread under the flips, so that no test dominates by its scale. The
    largest statistic is compared with the largest of all, the next with the largest of the rest, and so on.
    """
    testable = [index for index, one in enumerate(hypotheses) if len(one.subjects) > 1 and _is_defined(one)]
    adjusted: list[float | None] = [None] * len(hypotheses)
    if not testable:
        return tuple(adjusted)
    null, observed, exact = _statistics([hypotheses[index] for index in testable], seed, permutations)
    order = np.argsort(-observed, kind="stable")
    null = null[:, order[::-1]]
    greatest = np.maximum.accumulate(null, axis=1, out=null)[:, ::-1]
    hits = (greatest >= observed[order] - _FAMILY_ROUNDING).sum(axis=0)
    values = hits / len(null) if exact else (hits + 1) / (len(null) + 1)
    for index, value in zip(order.tolist(), np.maximum.accumulate(values).tolist(), strict=True):
        adjusted[testable[index]] = float(value)
    return tuple(adjusted)


def _is_defined(hypothesis: Hypothesis) -> bool:
    return bool(np.isfinite(hypothesis.flipped(np.ones((1, len(hypothesis.subjects))))).all())


def _statistics(hypotheses: Sequence[Hypothesis], seed: int, permutations: int) -> tuple[Floats, Floats, bool]:
    """Return the absolute statistics under every pattern, the observed ones, and whether all patterns were tried."""
    places = {subject: place for place, subject in enumerate(dict.fromkeys(s for h in hypotheses for s in h.subjects))}
    columns = [np.asarray([places[subject] for subject in hypothesis.subjects]) for hypothesis in hypotheses]
    exact = len(places) <= _FAMILY_EXACT_SUBJECTS
    patterns = 2 ** len(places) if exact else permutations
    generator = np.random.default_rng(derive_seed(seed, "max-T"))
    null = np.empty((patterns, len(hypotheses)))
    rows = rows_at_once(len(places))
    for start in range(0, patterns, rows):
        size = min(rows, patterns - start)
        if exact:
            flips = np.arange(start, start + size)[:, None] >> np.arange(len(places)) & 1
        else:
            flips = generator.integers(0, 2, size=(size, len(places)))
        signs = 1.0 - 2.0 * flips.astype(np.float64)
        for number, (one, own) in enumerate(zip(hypotheses, columns, strict=True)):
            null[start : start + size, number] = np.abs(one.flipped(signs[:, own]))
    observed = np.array(
        [abs(float(hypothesis.flipped(np.ones((1, len(hypothesis.subjects))))[0])) for hypothesis in hypotheses]
    )
    spread = np.sqrt(np.mean(null**2, axis=0))
    spread[spread == 0] = 1.0
    null /= spread
    return null, observed / spread, exact


# Is one model's macro-F1 better than another's on the same samples? Macro-F1 is no mean over samples, so the test of
# :mod:`wardround.tasks.scoring.paired` does not apply: here whole patients swap the two models' answers.


_CLASSES_EXACT_SUBJECTS = 12
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
    difference = draws.of_sums(
        np.hstack(rows), lambda sums: macro_f1_of(sums[..., width:]) - macro_f1_of(sums[..., :width])
    )
    assert difference is not None
    p_value, exact, tried = _swap_test(
        sum_by_subject(rows[0], owners), sum_by_subject(rows[1], owners), seed, permutations
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


def _swap_test(first: Floats, second: Floats, seed: int, permutations: int) -> tuple[float | None, bool, int]:
    """Return p, whether every pattern was tried, and how many were. The observed pattern counts as one of them."""
    count = len(first)
    if count < 2:
        return None, True, 1
    observed = abs(float(macro_f1_of(second.sum(axis=0)) - macro_f1_of(first.sum(axis=0))))
    gain = second - first
    exact = count <= _CLASSES_EXACT_SUBJECTS
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
        difference = np.abs(macro_f1_of(second.sum(axis=0) - moved) - macro_f1_of(first.sum(axis=0) + moved))
        hits += int(np.count_nonzero(difference >= observed - _ROUNDING))
    return (hits / tried if exact else (hits + 1) / (tried + 1)), exact, tried
