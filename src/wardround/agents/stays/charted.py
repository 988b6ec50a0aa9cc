"""What rules may ask of a patient, answered from the state and the clock: only what was charted, and not long ago.

What was done, and problems, are those of this encounter: a culture of last year's admission is none of this one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property

from wardround.bundles import ActiveProblem, PatientState, Trend, ValueLevel
from wardround.protocols import (
    AtLevel,
    AtValue,
    ChartedValue,
    Condition,
    Direction,
    HoursSince,
    Level,
    Moving,
    Stated,
    asked_keys,
    is_allergy,
    is_drug,
    is_problem,
    keys_of,
)
from wardround.vocabulary import clinical_name

HOUR_OF_DAY = "hour of day"
STAY = "stay"
LEVELS: Mapping[ValueLevel, Level] = {
    ValueLevel.LOW: "low",
    ValueLevel.BELOW_BASELINE: "low",
    ValueLevel.NORMAL: "normal",
    ValueLevel.AT_BASELINE: "normal",
    ValueLevel.HIGH: "high",
    ValueLevel.ABOVE_BASELINE: "high",
}
_HOUR = timedelta(hours=1)


class StateFacts:
    """A state as facts at the end of a bundle's hour. ``window_hours``: an older value or trend is no longer asked
    about (the router's last 6 hours); ``suspected``: problems that rules made suspect; ``began``: when the stay did.
    """

    def __init__(
        self,
        state: PatientState,
        hour: datetime,
        *,
        window_hours: float,
        suspected: Iterable[str] = (),
        began: datetime | None = None,
    ) -> None:
        self.state = state
        self.hour = hour
        self.suspected = tuple(suspected)
        self.now = hour + _HOUR
        self._oldest = hour - timedelta(hours=window_hours)
        self._began = began or hour
        self._since = datetime.min if state.encounter is None else state.encounter.since

    @property
    def names(self) -> Iterator[str]:
        """Everything that something is known of: what the index of rules is asked with."""
        yield from (HOUR_OF_DAY, STAY)
        yield from (name for name, trend in self._trends.items() if trend.last.time >= self._oldest)
        yield from (medication.concept for medication in self.state.medications.values())
        yield from (concept for _, concept in self.state.actions)

    def value(self, concept: str) -> ChartedValue | None:
        """The newest number within the window; the clock's hour for ``hour of day``."""
        if concept == HOUR_OF_DAY:
            return ChartedValue(value=self.hour.hour)
        trend = self._recent(concept)
        return None if trend is None else ChartedValue(value=trend.last.value, unit=trend.unit)

    def level(self, concept: str) -> Level | None:
        """Where the newest number stands."""
        trend = self._recent(concept)
        return None if trend is None else LEVELS.get(trend.last.level)

    def trend(self, concept: str) -> Direction | None:
        """Where it goes; one reading goes nowhere that is known."""
        trend = self._recent(concept)
        return None if trend is None or len(trend.readings) < 2 else trend.direction

    def taking(self, drug: str) -> bool:
        """Whether a running order or infusion is of that drug or class. The orders are charted: none is none."""
        return any(is_drug(medication.concept, drug) for medication in self.state.medications.values())

    def has_problem(self, problem: str, *, ever: bool = False) -> bool | None:
        """Whether a problem is known in this encounter or suspected; diagnoses come late: else it is unknown."""
        known = (*(one.concept for one in self._problems(ever=ever)), *self.suspected)
        return True if any(is_problem(one, problem) for one in known) else None

    def allergic_to(self, substance: str) -> bool | None:
        """Whether an allergy is charted; without any charted it is unknown."""
        if not self.state.allergies:
            return None
        return any(is_allergy(one.concept, substance) for one in self.state.allergies.values())

    def done(self, action: str, *, ever: bool = False) -> bool:
        """Whether it was ordered, started, given, taken or performed in this encounter, as the state remembers."""
        return self.last_done(action, ever=ever) is not None

    def hours_since(self, action: str) -> float | None:
        """Hours since it last was, from the end of the bundle's hour; of the ``stay`` since it began."""
        if action == STAY:
            return (self.now - self._began) / _HOUR
        last = self.last_done(action)
        return None if last is None else max(0.0, (self.now - last) / _HOUR)

    def last_done(self, action: str, *, ever: bool = False) -> datetime | None:
        """When an action was last done in this encounter; None where the state remembers none."""
        moments = [self._done[key] for key in asked_keys(action) if key in self._done]
        last = max(moments, default=None)
        return None if last is None or (last <= self._since and not ever) else last

    def rows(self, condition: Condition) -> tuple[str, ...]:
        """The rows that a condition that holds stands on: none of the clock's, nor of what is only suspected."""
        match condition:
            case Moving(concept=concept):
                trend = self._recent(concept)
                return () if trend is None else (trend.readings[0].row_id, trend.last.row_id)
            case AtValue(concept=concept) | AtLevel(concept=concept):
                trend = self._recent(concept)
                return () if trend is None else (trend.last.row_id,)
            case HoursSince(concept=concept):
                return self._rows_done(concept)
            case Stated():
                return self._rows_stated(condition)

    def _rows_stated(self, condition: Stated) -> tuple[str, ...]:
        state, asked = self.state, condition.concept
        match condition.what:
            case "on":
                return tuple(one.row_id for one in state.medications.values() if is_drug(one.concept, asked))
            case "problem":
                named = (one for one in self._problems(ever=condition.ever) if is_problem(one.concept, asked))
                return tuple(row for one in named for row in one.row_ids)
            case "allergy":
                return tuple(one.row_id for one in state.allergies.values() if is_allergy(one.concept, asked))
            case "done":
                return self._rows_done(asked, ever=condition.ever)

    def _rows_done(self, action: str, *, ever: bool = False) -> tuple[str, ...]:
        last, asked = self.last_done(action, ever=ever), asked_keys(action)
        done = (one for one in self.state.actions.values() if one.last == last)
        return tuple(one.row_id for one in done if not asked.isdisjoint(keys_of(one.concept)))

    def _problems(self, *, ever: bool) -> Iterator[ActiveProblem]:
        return (one for one in self.state.problems.values() if ever or one.last > self._since)

    def _recent(self, concept: str) -> Trend | None:
        trend = self._trends.get(clinical_name(concept))
        return trend if trend is not None and trend.last.time >= self._oldest else None

    @cached_property
    def _trends(self) -> Mapping[str, Trend]:
        """By clinical name the trend with the newest reading: a pressure is charted by line and by cuff."""
        found: dict[str, Trend] = {}
        for trend in self.state.trends.values():
            name = clinical_name(trend.concept)
            held = found.get(name)
            if held is None or held.last.time <= trend.last.time:
                found[name] = trend
        return found

    @cached_property
    def _done(self) -> Mapping[str, datetime]:
        """When what may be asked for by a name or class was last done."""
        found: dict[str, datetime] = {}
        for action in self.state.actions.values():
            for key in keys_of(action.concept):
                held = found.get(key)
                if held is None or held < action.last:
                    found[key] = action.last
        return found
