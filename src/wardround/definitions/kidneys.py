"""Urine, weight, creatinine and renal replacement on a chart of intensive care."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise

from wardround.definitions.charted import Charted, Reading, window
from wardround.definitions.kidney import UrineRates, kdigo_creatinine, urine_rate

HOUR = timedelta(hours=1)
NEWEST_URINE = timedelta(hours=6)
NEWEST_CREATININE = timedelta(hours=48)
BEFORE_ADMISSION = timedelta(hours=2)


@dataclass(frozen=True)
class Kidneys:
    """What the newest stay charted of the kidneys; creatinine is of any encounter."""

    charted: Charted

    @cached_property
    def urine(self) -> list[Reading]:
        """mL by the minute, irrigation fluid that went in taken off."""
        minutes: dict[datetime, float] = {}
        for name, sign in (("urine", 1.0), ("irrigant_in", -1.0)):
            for time, value in self.charted.readings(name):
                minutes[time] = minutes.get(time, 0.0) + (value if sign > 0 else -abs(value))
        return sorted(minutes.items())

    @cached_property
    def weights(self) -> list[Reading]:
        """kg and from when on each holds: the first weight of the admission holds from its beginning on."""
        admission, stay = self.charted.readings("admission_weight"), self.charted.stay
        first = [(stay.began - BEFORE_ADMISSION, value) for _, value in admission[:1] if stay is not None]
        return sorted([*first, *admission[1:], *self.charted.readings("daily_weight")], key=lambda each: each[0])

    def weight(self, at: datetime) -> float | None:
        """Return the weight in force at a moment, else the first charted later."""
        held = [value for time, value in self.weights if time <= at]
        return held[-1] if held else self.weights[0][1] if self.weights else None

    def rates(self, at: datetime) -> UrineRates:
        """Return the urine of 6, 12 and 24 hours up to the newest charting, which is at most 6 hours old."""
        found = {hours: self.rate(at, hours) for hours in (6, 12, 24)}
        return UrineRates(hours_6=found[6], hours_12=found[12], hours_24=found[24])

    def rate(self, at: datetime, hours: float) -> float | None:
        """Return mL/kg/h: what was charted in the hours up to the newest charting, over the time that it covers."""
        recent = [reading for reading in self.urine if at - NEWEST_URINE <= reading[0] <= at]
        weight = self.weight(recent[-1][0]) if recent else None
        if not weight:
            return None
        amount, covered = self._charted_in(recent[-1][0], timedelta(hours=hours), HOUR)
        return urine_rate(amount, weight, covered) if hours <= covered < 2 * hours else None

    def least_of_a_day(self, after: datetime, until: datetime) -> float | None:
        """Return the least mL of 24 hours that end in a window, where 22 to 30 hours were charted."""
        beats = self.charted.readings("heart_rate")
        found = []
        for end, _ in window(self.urine, after, until):
            first = self.urine[0][0] - beats[0][0] if beats else HOUR
            amount, covered = self._charted_in(end, 23 * HOUR, first)
            found += [amount / covered * 24] if 22 <= covered <= 30 else []
        return min(found, default=None)

    def stage_by_creatinine(self, at: datetime) -> int | None:
        """Return the KDIGO stage of the newest creatinine of 48 hours against those before it."""
        minutes: dict[datetime, list[float]] = {}
        for time, value in self.charted.readings("creatinine"):
            minutes.setdefault(time, []).append(value)
        means = [(time, sum(values) / len(values)) for time, values in minutes.items()]
        recent = window(means, at - NEWEST_CREATININE, at)
        if not recent:
            return None
        time, newest = recent[-1]
        lows = [
            min((value for moment, value in means if time - timedelta(days=days) <= moment < time), default=None)
            for days in (2, 7)
        ]
        return kdigo_creatinine(newest, lowest_48=lows[0], lowest_7=lows[1])

    def replaced(self, after: datetime, until: datetime) -> bool:
        """Whether renal replacement ran in a window: one begun before it and still running counts."""
        for name in ("dialysis", "dialysate"):
            for row in self.charted.rows(name, ("endtime",)):
                if row["starttime"] <= until and (row["endtime"] is None or row["endtime"] > after):
                    return True
        return bool(window(self.charted.texts("dialysis_setting"), after, until))

    def _charted_in(self, end: datetime, span: timedelta, first: timedelta) -> tuple[float, float]:
        """Return mL charted from ``span`` before a charting up to it, and the hours that they cover: each since the
        charting before it, the first of the stay ``first``."""
        times = [time for time, _ in self.urine]
        gaps = [first, *(later - earlier for earlier, later in pairwise(times))]
        inside = [
            (value, gap) for (time, value), gap in zip(self.urine, gaps, strict=True) if end - span <= time <= end
        ]
        return sum(value for value, _ in inside), sum((gap for _, gap in inside), timedelta()) / HOUR
