"""Resamples of patients, drawn once for a set of samples and used for every figure about it.

Many models are judged on the same test samples. Drawing once is what makes a thousand resamples of each cheap, and
what makes their intervals comparable: every figure sees the same patients.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wardround.core import UserError, derive_seed
from wardround.scoring.bootstrap import Floats, Interval, Statistic, sum_by_subject

RESAMPLES = 1_000
"""As EHRSHOT has it."""
_CHUNK_CELLS = 4_000_000

SampleStatistic = Callable[[Floats], Floats]
"""Maps weights of samples, shape (resamples, samples), to one number per resample. NaN where it is not defined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientDraws:
    """How often each patient was drawn in each resample (resamples, patients), and whose each sample is."""

    subjects: Sequence[Hashable]
    times: npt.NDArray[np.uint16] = field(repr=False)
    place: npt.NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, subjects: Sequence[Hashable], *, seed: int, resamples: int = RESAMPLES) -> PatientDraws:
        """Draw patients with replacement; ``subjects`` names the patient of every sample."""
        if not subjects:
            raise UserError("there are no samples to draw patients from")
        order: dict[Hashable, int] = {}
        place = np.fromiter((order.setdefault(one, len(order)) for one in subjects), np.int64, len(subjects))
        count = len(order)
        generator = np.random.default_rng(derive_seed(seed, "bootstrap"))
        times = np.empty((resamples if count > 1 else 0, count), np.uint16)  # about one each, never so many
        chunk = max(1, _CHUNK_CELLS // count)
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
        chunk = max(1, _CHUNK_CELLS // max(len(self.place), 1))
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
