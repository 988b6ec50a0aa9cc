"""Is one agent better than another on the same questions? Differences are taken per sample and judged per patient."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wardround.core import UserError, derive_seed
from wardround.scoring.bootstrap import Floats, Interval, patient_bootstrap, rows_at_once, sum_by_subject
from wardround.scoring.task_means import task_mean_interval, task_weights

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
    p_value = (_exact_p(sums) if exact else _sampled_p(sums, flips, seed)) if len(sums) > 1 else None
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
    return PairedTest(
        difference=test.difference,
        p_value=test.p_value,
        exact=test.exact,
        permutations=test.permutations,
        unpaired=len(first.keys() ^ second.keys()),
    )


def patients_parts(
    first: Mapping[str, float],
    second: Mapping[str, float],
    subjects: Mapping[str, Hashable],
    *,
    tasks: Mapping[str, str] | None = None,
) -> dict[Hashable, float]:
    """Return what each patient adds to the difference over the shared samples: what a sign flip turns."""
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


def _exact_p(sums: Floats) -> float:
    patterns = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1
    return float(np.mean(_at_least(np.abs((1 - 2 * patterns) @ sums), sums)))


def _sampled_p(sums: Floats, permutations: int, seed: int) -> float:
    """The observed pattern counts as one of the patterns, so that p is never 0."""
    several = permutations * len(sums) > _CHUNK_CELLS
    draws = _sign_flips(seed, len(sums), permutations) if several else iter([_few_flips(seed, len(sums), permutations)])
    hits = 0
    for flips in draws:
        rows = rows_at_once(len(sums))
        for start in range(0, len(flips), rows):
            flipped = (1.0 - 2.0 * flips[start : start + rows]) @ sums
            hits += int(np.count_nonzero(_at_least(np.abs(flipped), sums)))
    return (hits + 1) / (permutations + 1)


def _sign_flips(seed: int, subjects: int, permutations: int) -> Iterator[npt.NDArray[np.int8]]:
    generator = np.random.default_rng(derive_seed(seed, "sign-flip"))
    chunk = max(1, _CHUNK_CELLS // subjects)
    for done in range(0, permutations, chunk):
        yield generator.integers(0, 2, size=(min(chunk, permutations - done), subjects), dtype=np.int8)


@lru_cache(maxsize=8)
def _few_flips(seed: int, subjects: int, permutations: int) -> npt.NDArray[np.int8]:
    """Who is flipped in each pattern: the same in every test over as many patients, as the tasks of a table often have.

    A few megabytes each.
    """
    [flips] = _sign_flips(seed, subjects, permutations)
    return flips


def _at_least(flipped: Floats, sums: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    observed = abs(float(sums.sum()))
    return np.asarray(flipped >= observed - _ROUNDING * max(1.0, float(np.abs(sums).sum())))
