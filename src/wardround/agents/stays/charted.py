"""Facts that rules ask of one patient, answered from state and clock; what is not charted is unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, lru_cache

import msgspec

from wardround.agents.loop.steps import ChartScore
from wardround.clinical.bundles import NOTHING_KNOWN, ActiveProblem, Carried, EventKind, PatientState, Trend, ValueLevel
from wardround.clinical.protocols import (
    HOUR_OF_DAY,
    STAY,
    AtLevel,
    AtRate,
    AtScore,
    AtValue,
    ChangedBy,
    ChartedValue,
    Condition,
    CountedActions,
    CourseReading,
    Direction,
    HeldFor,
    HoursSince,
    InWindow,
    Level,
    Moving,
    ReadingCourse,
    Stated,
    TimesBaseline,
    is_allergic,
    is_allergy,
    is_problem,
    keys_of,
    lookup_keys,
)
from wardround.clinical.vocabulary import (
    Bounds,
    clinical_name,
    convert,
    find_concept,
    is_drug,
    is_lasting,
    reading_unit,
)

# Readings, what was done, and problems are those of this encounter: a culture, a baseline or a weight of last year's
# admission is none of this one's. A rule that says ``ever``, or in how many last hours something was done, means it.


LEVELS: Mapping[ValueLevel, Level] = {
    ValueLevel.LOW: "low",
    ValueLevel.BELOW_BASELINE: "low",
    ValueLevel.NORMAL: "normal",
    ValueLevel.AT_BASELINE: "normal",
    ValueLevel.HIGH: "high",
    ValueLevel.ABOVE_BASELINE: "high",
}
_HOUR = timedelta(hours=1)
DRUGS = frozenset({EventKind.MEDICATION_START, EventKind.INFUSION_START, EventKind.ADMINISTRATION})
TESTS = frozenset({EventKind.LAB})
PROCEDURES = frozenset({EventKind.PROCEDURE, EventKind.CULTURE_TAKEN, EventKind.CULTURE})


@lru_cache(maxsize=4_096)
def kinds_of_action(action: str) -> frozenset[EventKind]:
    """Return the kinds of events that tell whether something was done."""
    concept = find_concept(action)
    if concept is not None and concept.kind in ("drug", "drug_class"):
        return DRUGS
    return TESTS if concept is not None and concept.kind == "lab" else PROCEDURES


class StateFacts:
    """A state as facts at the end of a bundle's hour. ``window_hours``: an older value or trend is no longer asked
    about (the router's last 6 hours); ``suspected``: problems that rules made suspect; ``began``: when the stay did.

    ``carried``: what the source has; of other kinds of events nothing is known until one was seen. ``courses``,
    ``counts``: what is remembered beyond the state (``lookback``). ``is_over``: the encounter has ended.
    """

    def __init__(
        self,
        state: PatientState,
        hour: datetime,
        *,
        window_hours: float,
        suspected: Iterable[str] = (),
        began: datetime | None = None,
        carried: Carried = NOTHING_KNOWN,
        courses: Mapping[str, Sequence[CourseReading]] | None = None,
        counts: Mapping[str, Sequence[tuple[datetime | None, datetime]]] | None = None,
        score: ChartScore | None = None,
    ) -> None:
        self.state = state
        self.hour = hour
        self.suspected = tuple(suspected)
        self.now = hour + _HOUR
        self._oldest = hour - timedelta(hours=window_hours)
        self._began = began or hour
        self.is_over = state.encounter is not None and state.encounter.ended is not None
        self._since = datetime.min if state.encounter is None else state.encounter.since
        self._carried = carried
        self._courses = courses
        self._counts = counts or {}
        self._score = score
        self._scores: dict[tuple[str, float | None], Bounds | None] = {}

    @property
    def names(self) -> list[str]:
        """Everything that something is known of: what the index of rules is asked with."""
        recent = [name for name, trend in self._trends.items() if trend.last.time >= self._oldest]
        running = [medication.concept for medication in self.state.medications.values()]
        return [HOUR_OF_DAY, STAY, *recent, *running, *(concept for _, concept in self.state.actions)]

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

    def course(self, concept: str) -> ReadingCourse | None:
        """The readings that are remembered, else those of the trends' window."""
        name = clinical_name(concept)
        if self._courses is not None and name in self._courses:
            found = tuple(self._courses[name])
        else:
            trends = [one for one in self.state.trends.values() if clinical_name(one.concept) == name]
            readings = (CourseReading(of.time, of.value, one.unit, of.row_id) for one in trends for of in one.readings)
            found = tuple(sorted(readings, key=lambda one: (one.time, one.row_id)))
        found = tuple(one for one in found if one.time > self._since)
        if not found:
            return None
        recent, charted = found[-1].time >= self._oldest, self.charted_units(concept)
        return ReadingCourse(now=self.now, readings=found, recent=recent, charted=charted)

    def charted_units(self, concept: str) -> frozenset[str]:
        """The units in which the source has it of others."""
        return self._carried.units_of(concept, self.state.subject_id)

    def taking(self, drug: str) -> bool | None:
        """Whether a running order or infusion is of that drug or class; unknown where nothing shows that drugs are
        carried at all (a feed of laboratory results alone)."""
        if any(is_drug(medication.concept, drug) for medication in self.state.medications.values()):
            return True
        return False if self._carries(DRUGS) else None

    def rate(self, drug: str, unit: str) -> float | None:
        """The rate of what runs, the highest where several do; unknown where one has no rate that can be converted."""
        running = [one for one in self.state.medications.values() if is_drug(one.concept, drug)]
        if not running:
            return 0.0 if self.taking(drug) is False else None
        weight = self._latest("weight")
        charted = self.charted_units("weight")
        kilograms = None if weight is None else kilograms_of(weight.last.value, weight.unit, charted)
        rates = [rate_in(one.dose, one.unit, unit, kilograms) for one in running]
        known = [rate for rate in rates if rate is not None]
        return max(known) if len(known) == len(rates) else None

    def score(self, name: str, hours: float | None = None) -> Bounds | None:
        """A score where the stay's chart is at hand, as of the end of the hour; unknown to a live feed."""
        if self._score is None:
            return None
        if (name, hours) not in self._scores:
            self._scores[name, hours] = self._score(name, hours, self.now - timedelta(microseconds=1))
        return self._scores[name, hours]

    def _carries(self, kinds: frozenset[EventKind]) -> bool:
        return not kinds.isdisjoint(self._carried.kinds) or not kinds.isdisjoint(self._seen)

    @cached_property
    def _seen(self) -> frozenset[EventKind]:
        """The kinds of events that this subject has had."""
        running = (one.kind for one in self.state.medications.values())
        return frozenset((*(kind for kind, _ in self.state.actions), *running))

    def _latest(self, concept: str) -> Trend | None:
        return self._trends.get(clinical_name(concept))

    def has_problem(self, problem: str, *, ever: bool = False) -> bool | None:
        """Whether a problem is known in this encounter, lasts since an earlier one, or is suspected; diagnoses come
        late: else it is unknown."""
        known = (*(one.concept for one in self._problems(ever=ever)), *self.suspected)
        return True if any(is_problem(one, problem) for one in known) else None

    def allergic_to(self, substance: str) -> bool | None:
        """Whether an allergy is charted that forbids it; without a list of allergies, or with one that cannot be
        judged, it is unknown."""
        known = self.state.allergies.values()
        truth = is_allergic(tuple(one.concept for one in known), substance)
        return truth if truth or any(one.is_listed for one in known) else None

    def unclear_allergies(self, substance: str) -> tuple[str, ...]:
        """The charted allergies of which nobody can say whether they forbid it."""
        known = (one.concept for one in self.state.allergies.values())
        return tuple(sorted({one for one in known if is_allergy(one, substance) is None}))

    def done(self, action: str, hours: float | None = None, *, ever: bool = False) -> bool | None:
        """Whether it was ordered, started, given, taken or performed in this encounter, or in the last hours; unknown
        where nothing shows that such things are carried at all."""
        last = self.last_done(action, ever=ever or hours is not None)
        if last is not None and (hours is None or last >= self.now - timedelta(hours=hours)):
            return True
        return False if self._carries(kinds_of_action(action)) else None

    def times_done(self, action: str, hours: float) -> tuple[int, int] | None:
        """How often it was done in the last hours: at least, and at most."""
        asked, since = lookup_keys(action), self.now - timedelta(hours=hours)
        noted = [each for name, some in self._counts.items() if not asked.isdisjoint(keys_of(name)) for each in some]
        if not noted and not self._carries(kinds_of_action(action)):
            return None
        least = sum(time is not None and time >= since for time, _ in noted)
        return least, least + sum(time is None and known >= since for time, known in noted)

    def hours_since(self, action: str) -> float | None:
        """Hours since it last was, from the end of the bundle's hour; of the ``stay`` since it began."""
        if action == STAY:
            return (self.now - self._began) / _HOUR
        last = self.last_done(action)
        return None if last is None else max(0.0, (self.now - last) / _HOUR)

    def last_done(self, action: str, *, ever: bool = False) -> datetime | None:
        """When an action was last done in this encounter; None where the state remembers none."""
        moments = [self._done[key] for key in lookup_keys(action) if key in self._done]
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
            case HeldFor() | InWindow() | TimesBaseline() | ChangedBy():
                return self._rows_over(condition)
            case HoursSince(concept=concept) | CountedActions(concept=concept):
                return self._rows_done(concept)
            case AtRate(concept=concept):
                return tuple(one.row_id for one in self.state.medications.values() if is_drug(one.concept, concept))
            case AtScore():
                return ()
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
                return self._rows_done(asked, ever=condition.ever or condition.hours is not None)

    def _rows_over(self, condition: HeldFor | InWindow | TimesBaseline | ChangedBy) -> tuple[str, ...]:
        """The readings of the hours looked back on, the first and the last; where one decides, that one."""
        course = self.course(condition.concept)
        if course is None:
            return ()
        end = course.now if isinstance(condition, InWindow) else course.readings[-1].time
        inside = [one for one in course.readings if one.time >= end - timedelta(hours=condition.hours)]
        if isinstance(condition, InWindow) and condition.how == "any":
            inside = [one for one in inside if condition.value.holds_of(one, course.charted)][-1:]
        return tuple(dict.fromkeys(one.row_id for one in (inside[:1] + inside[-1:])))

    def _rows_done(self, action: str, *, ever: bool = False) -> tuple[str, ...]:
        last, asked = self.last_done(action, ever=ever), lookup_keys(action)
        done = (one for one in self.state.actions.values() if one.last == last)
        return tuple(one.row_id for one in done if not asked.isdisjoint(keys_of(one.concept)))

    def _problems(self, *, ever: bool) -> Iterator[ActiveProblem]:
        return (
            one for one in self.state.problems.values() if ever or one.last > self._since or is_lasting(one.concept)
        )

    def _recent(self, concept: str) -> Trend | None:
        trend = self._trends.get(clinical_name(concept))
        return trend if trend is not None and trend.last.time >= self._oldest else None

    def _of_encounter(self, trend: Trend) -> Trend | None:
        """A trend's readings of this encounter; None where it has none."""
        if trend.readings[0].time > self._since:
            return trend
        own = tuple(one for one in trend.readings if one.time > self._since)
        return msgspec.structs.replace(trend, readings=own) if own else None

    @cached_property
    def _trends(self) -> Mapping[str, Trend]:
        """By clinical name the trend with the newest reading: a pressure is charted by line and by cuff."""
        found: dict[str, Trend] = {}
        for held_trend in self.state.trends.values():
            trend = self._of_encounter(held_trend)
            if trend is None:
                continue
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


def rate_in(dose: str | None, given: str | None, unit: str, kilograms: float | None) -> float | None:
    """A running order's dose as a rate in a unit; None where it is no rate ("1000 mg") or cannot be converted."""
    try:
        amount = float(dose) if dose is not None else None
    except ValueError:
        return None
    return None if amount is None or not given else convert(amount, given, unit, weight=kilograms)


def kilograms_of(value: float, unit: str | None, charted: Collection[str]) -> float | None:
    """A weight in kilograms; None where nothing says its unit. ``charted``: the units that the source has."""
    said = reading_unit(value, unit, "weight", charted)
    return None if said is None else convert(value, said, "kg")


# What rules look back on beyond a state's window: readings by name, and how often something was done when.


KEPT_HOURS = 24.0
"""Readings are kept so much longer than rules look back."""
Counts = dict[str, list[tuple[datetime | None, datetime]]]


def remember_courses(courses: dict[str, list[CourseReading]], state: PatientState, hours: Mapping[str, float]) -> None:
    """Add a state's new readings of the names that rules look back on, and forget those older than they look."""
    if not hours:
        return
    for trend in state.trends.values():
        name = clinical_name(trend.concept)
        if name not in hours:
            continue
        held = courses.get(name, [])
        known = {(one.row_id, one.time) for one in held}
        new = [each for each in trend.readings if (each.row_id, each.time) not in known]
        if new:
            read = (CourseReading(each.time, each.value, trend.unit, each.row_id) for each in new)
            held = sorted([*held, *read], key=lambda one: (one.time, one.row_id))
            oldest = held[-1].time - timedelta(hours=hours[name] + KEPT_HOURS)
            courses[name] = [one for one in held if one.time >= oldest]


def remember_counts(
    counts: Counts, counted: dict[str, int], state: PatientState, hour: datetime, hours: Mapping[str, float]
) -> None:
    """Note what was done since the last bundle, by the keys that rules count. The state tells how often and when last:
    the time of any other is unknown, but for the hour in which it became known."""
    if not hours:
        return
    for (kind, concept), action in state.actions.items():
        key = f"{int(kind)} {concept}"
        new = action.count - counted.get(key, 0)
        if new <= 0 or keys_of(concept).isdisjoint(hours):
            continue
        counted[key] = action.count
        held = counts.get(concept, [])
        is_newest = all(time is None or time < action.last for time, _ in held)
        counts[concept] = [*held, *((action.last if is_newest and place == 0 else None, hour) for place in range(new))]
