"""Bootstrap intervals over patients, and Student's t where a paper prints it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import NormalDist, stdev
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wardround.core import UserError, derive_seed

# Intervals over patients: whole patients are drawn with replacement, never single samples, because two questions about
# one patient are not two independent observations. Everything is one matrix product; every draw has a seed.


Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""Maps column sums, shape (..., columns), to one number each, shape (...). NaN where it is not defined."""

Method = Literal["bca", "percentile"]
FEWEST_SUBJECTS = 5
"""Tables and charts leave out intervals over fewer patients."""
_CHUNK_CELLS = 4_000_000
_DRAWN_AT_ONCE = 500
_PRODUCT_CELLS = 15_000
"""Cells per multiplication: 120 kB, small enough that the system need not allocate new pages each time."""
_PRODUCT_STEPS = 200_000
"""Multiplications done at once: for more, the library starts threads, and waiting for them takes longer."""
_LANES = 4
"""Rows that the library multiplies together; remaining rows are rounded in another way."""
_NORMAL = NormalDist()
_POWER_FACTOR = _NORMAL.inv_cdf(0.975) + _NORMAL.inv_cdf(0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate and its interval. ``low`` and ``high`` are None where fewer than two subjects stand behind it.
    ``undefined`` resamples are left out: in them there was nothing to compute (one class only, say).
    ``standard_error`` is the spread of the resamples. ``of_one``: every mean in it is that of one patient."""

    estimate: float
    low: float | None
    high: float | None
    n: int
    subjects: int
    confidence: float = 0.95
    method: str = "bca"
    undefined: int = 0
    standard_error: float | None = None
    of_one: bool = False

    @property
    def detectable(self) -> float | None:
        """The smallest true value that this many patients would tell from 0 in four of five studies (80 % power, two-
        sided p < 0.05), were this a difference: 2.80 standard errors. None over too few patients, or where nothing
        varies."""
        if not self.standard_error or self.subjects < FEWEST_SUBJECTS:
            return None
        return _POWER_FACTOR * self.standard_error * math.sqrt(self.subjects / (self.subjects - 1))

    @property
    def missing(self) -> str | None:
        """Why no interval is printed, None if one is: over few patients it looks far too certain, over equal values it
        has no width."""
        if self.subjects == 1 or self.of_one:
            return "one patient: no interval"
        if self.low is None or self.subjects < FEWEST_SUBJECTS:
            return "few patients"
        return "no variation: no interval" if self.low == self.high else None

    @property
    def is_telling(self) -> bool:
        """Whether there is an interval to print."""
        return self.missing is None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Both ends to draw; None where there is no interval to print."""
        return (self.low, self.high) if self.is_telling else (None, None)

    def __format__(self, form: str) -> str:
        """Return the estimate alone, as a column of numbers has it."""
        return format(self.estimate, form)

    def as_text(self, form: str = ".3f") -> str:
        """Return the interval as tables have it, or why there is none."""
        return self.missing or f"{self.low:{form}} to {self.high:{form}}"


def mean_of_rows(sums: Floats) -> Floats:
    """The statistic of a plain mean: columns are the value and a one per row."""
    return ratio(sums[..., 0], sums[..., 1])


def ratio(part: Floats, whole: Floats) -> Floats:
    """Divide, NaN where the denominator is 0."""
    result: Floats = np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole != 0)
    return result


def patient_bootstrap(
    values: Sequence[float],
    subjects: Sequence[Hashable],
    *,
    seed: int,
    resamples: int = 10_000,
    confidence: float = 0.95,
    method: Method = "bca",
) -> Interval:
    """Return the mean of ``values`` and its interval, resampling the patients they belong to."""
    rows = np.column_stack([np.asarray(values, float), np.ones(len(values))])
    return cluster_bootstrap(
        rows, subjects, mean_of_rows, seed=seed, resamples=resamples, confidence=confidence, method=method
    )


def cluster_bootstrap(
    rows: Floats,
    subjects: Sequence[Hashable],
    statistic: Statistic,
    *,
    seed: int,
    resamples: int = 10_000,
    confidence: float = 0.95,
    method: Method = "bca",
) -> Interval:
    """Return a statistic of column sums and its interval over patients.

    ``bca`` is Efron's bias-corrected and accelerated interval (jackknife over patients), ``percentile`` the plain one.
    Resamples in which the statistic is undefined are left out.
    """
    if len(rows) != len(subjects) or not len(rows):
        raise UserError(
            f"{len(rows)} values for {len(subjects)} subjects: an interval needs as many of both, at least one"
        )
    if not 0 < confidence < 1:
        raise UserError(f"confidence must lie between 0 and 1, not {confidence!r}")
    sums = sum_by_subject(rows, subjects)
    estimate = float(statistic(sums.sum(axis=0)))
    low, high, error, undefined = None, None, None, 0
    if len(sums) > 1:
        drawn = _resample(sums, statistic, seed, resamples)
        undefined = resamples - len(drawn)
        tail = (1 - confidence) / 2
        levels = (tail, 1 - tail)
        if method == "bca":
            levels = _bca_levels(sums, statistic, drawn, estimate, levels)
        if len(drawn):
            low, high = (float(edge) for edge in np.quantile(drawn, levels))
            error = float(drawn.std())
    return Interval(
        estimate=estimate,
        low=low,
        high=high,
        n=len(rows),
        subjects=len(sums),
        confidence=confidence,
        method=method,
        undefined=undefined,
        standard_error=error,
    )


def mean_of_task_means(values: Sequence[float], tasks: Sequence[str]) -> float:
    """Return the mean over tasks of the mean over their samples: what the papers print as their average (RetroSum,
    tables 2 to 4). Every task weighs alike, however many samples it has."""
    rows, statistic = task_rows(values, tasks)
    return float(statistic(rows.sum(axis=0)))


def task_mean_interval(
    values: Sequence[float], tasks: Sequence[str], subjects: Sequence[Hashable], *, seed: int, **how: Any
) -> Interval:
    """Return the mean of task means with its interval over patients, who are drawn across tasks. A resample without a
    task says nothing of it and is left out (``undefined``); where every task has one patient, none is left but the
    sample itself."""
    rows, statistic = task_rows(values, tasks)
    found = cluster_bootstrap(rows, subjects, statistic, seed=seed, **how)
    one_each = len(set(zip(tasks, subjects, strict=True))) == len(set(tasks))
    return replace(found, of_one=True) if one_each else found


def task_rows(values: Sequence[float], tasks: Sequence[str]) -> tuple[Floats, Statistic]:
    """Return, per sample, its value and a one in the columns of its task, and the statistic of their sums."""
    order = {task: place for place, task in enumerate(dict.fromkeys(tasks))}
    rows = np.zeros((len(values), 2 * len(order)))
    for row, value, task in zip(rows, values, tasks, strict=True):
        row[2 * order[task] : 2 * order[task] + 2] = value, 1.0
    return rows, lambda sums: np.asarray(ratio(sums[..., 0::2], sums[..., 1::2]).mean(axis=-1))


def task_weights(tasks: Sequence[str]) -> Floats:
    """Return what each sample weighs in the mean of task means: 1 / (tasks x samples of its task)."""
    counts = {task: tasks.count(task) for task in dict.fromkeys(tasks)}
    return np.array([1.0 / (len(counts) * counts[task]) for task in tasks])


def sum_by_subject(rows: Floats, subjects: Sequence[Hashable]) -> Floats:
    """Add up the rows of each subject; subjects in order of first appearance."""
    order: dict[Hashable, int] = {}
    index = np.fromiter((order.setdefault(subject, len(order)) for subject in subjects), np.int64, len(subjects))
    sums = np.zeros((len(order), rows.shape[1]))
    np.add.at(sums, index, rows)
    return sums


def _resample(sums: Floats, statistic: Statistic, seed: int, resamples: int) -> Floats:
    count = len(sums)
    chunk = max(1, _CHUNK_CELLS // count)
    if resamples <= chunk:
        drawn = statistic(product(_draw(seed, count, resamples), sums))
    else:
        generator = np.random.default_rng(derive_seed(seed, "bootstrap"))
        shares = np.full(count, 1 / count)
        parts = [
            statistic(product(generator.multinomial(count, shares, size=min(chunk, resamples - done)), sums))
            for done in range(0, resamples, chunk)
        ]
        drawn = np.concatenate(parts)
    return drawn[~np.isnan(drawn)]


def product(whole: npt.NDArray[np.integer[Any]], columns: Floats) -> Floats:
    """Multiply many rows of whole numbers with a few columns, block by block: a tenth of the time of all at once."""
    rows = rows_at_once(*columns.shape)
    blocks = [whole[start : start + rows].astype(float) @ columns for start in range(0, len(whole), rows)]
    return np.concatenate(blocks)


def rows_at_once(count: int, columns: int = 1) -> int:
    """Return how many rows of ``count`` cells are best multiplied at once with so many columns."""
    most = min(_PRODUCT_CELLS // count, _PRODUCT_STEPS // (count * columns))
    return max(_LANES, most - most % _LANES)


@lru_cache(maxsize=32)
def _draw(seed: int, count: int, resamples: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """How often each patient is drawn in each resample: the same for every figure over as many patients.

    As many are kept as a table has tasks and strata, in a few megabytes each.
    """
    generator, shares = np.random.default_rng(derive_seed(seed, "bootstrap")), np.full(count, 1 / count)
    drawn = np.empty((resamples, count), np.uint8 if count <= np.iinfo(np.uint8).max else np.uint16)
    for start in range(0, resamples, _DRAWN_AT_ONCE):
        part = drawn[start : start + _DRAWN_AT_ONCE]
        part[:] = generator.multinomial(count, shares, size=len(part))
    return drawn


def _bca_levels(
    sums: Floats, statistic: Statistic, drawn: Floats, estimate: float, levels: tuple[float, float]
) -> tuple[float, float]:
    """Shift the two quantile levels for bias and skew (Efron 1987); unchanged where nothing varies."""
    if not len(drawn) or np.ptp(drawn) == 0:
        return levels
    below = (np.count_nonzero(drawn < estimate) + np.count_nonzero(drawn == estimate) / 2) / len(drawn)
    edge = 0.5 / len(drawn)
    bias = _NORMAL.inv_cdf(min(max(below, edge), 1 - edge))
    left_out = statistic(sums.sum(axis=0) - sums)
    spread = np.nanmean(left_out) - left_out[~np.isnan(left_out)]
    scale = float(np.sum(spread**2)) ** 1.5
    skew = float(np.sum(spread**3)) / (6 * scale) if scale else 0.0
    shifted = [bias + _NORMAL.inv_cdf(level) for level in levels]
    low, high = (_NORMAL.cdf(bias + z / (1 - skew * z)) for z in shifted)
    return low, high


# Resamples of patients, drawn once for a set of samples and used for every figure about it.
#
# Many models are judged on the same test samples. Drawing once is what makes a thousand resamples of each cheap, and
# what makes their intervals comparable: every figure sees the same patients.


RESAMPLES = 1_000
"""The value of EHRSHOT."""
_DRAW_CHUNK_CELLS = 4_000_000

SampleStatistic = Callable[[Floats], Floats]
"""Maps weights of samples, shape (resamples, samples), to one number per resample. NaN where it is not defined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientDraws:
    """Draw counts (resamples, patients), and the patient of each sample."""

    subjects: Sequence[Hashable]
    times: npt.NDArray[np.uint16] = field(repr=False)
    place: npt.NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, subjects: Sequence[Hashable], *, seed: int, resamples: int = RESAMPLES) -> PatientDraws:
        """Draw patients with replacement; ``subjects`` names the patient of every sample."""
        if not subjects:
            raise UserError("there are no samples to draw patients from")
        order: dict[Hashable, int] = {}
        place = np.fromiter((order.setdefault(subject, len(order)) for subject in subjects), np.int64, len(subjects))
        count = len(order)
        generator = np.random.default_rng(derive_seed(seed, "bootstrap"))
        times = np.empty((resamples if count > 1 else 0, count), np.uint16)  # about one each, never so many
        chunk = max(1, _DRAW_CHUNK_CELLS // count)
        for start in range(0, len(times), chunk):
            part = times[start : start + chunk]
            part[:] = generator.multinomial(count, np.full(count, 1 / count), size=len(part))
        return cls(subjects=tuple(subjects), times=times, place=place)

    def of_sums(self, rows: Floats, statistic: Statistic) -> Interval | None:
        """Return a statistic of column sums of the samples' rows, and its interval; None where it is not defined."""
        sums = sum_by_subject(rows, self.subjects)
        estimate = float(statistic(sums.sum(axis=0)))
        return self._interval(estimate, lambda times: statistic(times @ sums))

    def of_weights(self, statistic: SampleStatistic) -> Interval | None:
        """Return a statistic of weighted samples, and its interval; None where it is not defined."""
        estimate = float(statistic(np.ones((1, len(self.place))))[0])
        return self._interval(estimate, lambda times: statistic(times[:, self.place]))

    def _interval(self, estimate: float, statistic: Callable[[Floats], Floats]) -> Interval | None:
        """The percentile interval: with a thousand resamples, as EHRSHOT has it, BCa's far tails would be noise."""
        if np.isnan(estimate):
            return None
        chunk = max(1, _DRAW_CHUNK_CELLS // max(len(self.place), 1))
        starts = range(0, len(self.times), chunk)
        parts = [statistic(self.times[start : start + chunk].astype(float)) for start in starts]
        drawn = np.concatenate(parts) if parts else np.empty(0)
        defined = drawn[~np.isnan(drawn)]
        low, high = (float(edge) for edge in np.quantile(defined, (0.025, 0.975))) if len(defined) else (None, None)
        return Interval(
            estimate=estimate,
            low=low,
            high=high,
            n=len(self.place),
            subjects=self.times.shape[1],
            method="percentile",
            undefined=len(drawn) - len(defined),
            standard_error=float(defined.std()) if len(defined) else None,
        )


# Student's t: the interval of a mean that the ClinSeekAgent paper prints (appendix B), over samples and unpaired.


_STEPS = 200
_TINY = 1e-300
_PRECISION = 1e-15


def student_radius(values: Sequence[float], confidence: float = 0.95) -> float | None:
    """Return half the width of the two-sided interval of a mean; None of fewer than two values."""
    if len(values) < 2:
        return None
    return student_quantile((1 + confidence) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def student_quantile(probability: float, degrees: int) -> float:
    """Return the t below which a share ``probability`` (at least one half) of the distribution lies."""
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError("a quantile of Student's t needs a probability from 0.5 to 1 and a degree of freedom or more")
    low, high = 0.0, 1.0
    while student_share(high, degrees) < probability:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def student_share(t: float, degrees: int) -> float:
    """Return the share of the distribution below a ``t`` that is not negative."""
    return 1 - _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by the continued fraction on the side where it converges fast."""
    if x in (0.0, 1.0):
        return x
    scale = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return scale * _fraction(x, a, b) / a
    return 1 - scale * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation of the continued fraction of the incomplete beta function."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for step in (even, odd):
            d = 1 / _not_zero(1 + step * d)
            c = _not_zero(1 + step / c)
            value *= c * d
            change = c * d
        if abs(change - 1) < _PRECISION:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
