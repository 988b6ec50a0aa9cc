"""Facts of one patient for conditions of rules, from state and clock; facts that are not charted are unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, lru_cache

import msgspec

from wardround.agents.loop.steps import ChartScore
from wardround.clinical.bundles import NOTHING_KNOWN, ActiveProblem, Carried, EventKind, PatientState, Trend, ValueLevel
from wardround.clinical.bundles.fold import DRUGS, PROCEDURES, TESTS
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
    DoneKey,
    HeldFor,
    HoursSince,
    InWindow,
    Level,
    Moving,
    ReadingCourse,
    Stated,
    TimesBaseline,
    done_keys,
    is_allergic,
    is_allergy,
    is_problem,
    lookup_done_keys,
)
from wardround.clinical.vocabulary import (
    Bounds,
    clinical_name,
    convert,
    find_concept,
    is_drug,
    is_lasting,
    is_test_and_drug,
    names_a_drug,
    reading_unit,
)

# Readings, actions and problems are those of this encounter: a culture, a baseline or a weight of last year's admission
# does not count. A rule with ``ever``, or with a number of last hours, reads further back.


LEVELS: Mapping[ValueLevel, Level] = {
    ValueLevel.LOW: "low",
    ValueLevel.BELOW_BASELINE: "low",
    ValueLevel.NORMAL: "normal",
    ValueLevel.AT_BASELINE: "normal",
    ValueLevel.HIGH: "high",
    ValueLevel.ABOVE_BASELINE: "high",
}
_HOUR = timedelta(hours=1)


def kinds_of_action(action: str) -> frozenset[EventKind]:
    """Return the kinds of events that record whether an action was done."""
    if names_a_drug(action):
        return DRUGS
    return TESTS if find_concept(action, "lab") is not None else PROCEDURES


def meanings_of_action(action: str) -> tuple[tuple[frozenset[EventKind], bool | None], ...]:
    """Return what an action's name may mean: the kinds of events that record it, and whether it is a drug.

    Two meanings if one word is a test's and a drug's: what they do not agree on is unknown.
    """
    return ((TESTS, False), (DRUGS, True)) if is_test_and_drug(action) else ((kinds_of_action(action), None),)


class StateFacts:
    """A state as facts at the end of a bundle's hour.

    ``window_hours``: older values and trends are not used (the router's last 6 hours); ``suspected``: problems that
    rules made suspect; ``began``: the stay's first hour; ``carried``: what the source records, other kinds of events
    are unknown until one was seen; ``courses``, ``counts``: memory beyond the state (``lookback``); ``is_over``: the
    encounter has ended.
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
        self._last_done: dict[tuple[str, bool | None], datetime | None] = {}

    @property
    def names(self) -> list[str]:
        """All names with a known fact, for the lookup in the index of rules."""
        recent = [name for name, trend in self._trends.items() if trend.last.time >= self._oldest]
        running = [medication.concept for medication in self.state.medications.values()]
        return [HOUR_OF_DAY, STAY, *recent, *running, *(concept for _, concept in self.state.actions)]

    def value(self, concept: str) -> ChartedValue | None:
        """Return the newest number within the window; the clock's hour for ``hour of day``."""
        if concept == HOUR_OF_DAY:
            return ChartedValue(value=self.hour.hour)
        trend = self._recent(concept)
        return None if trend is None else ChartedValue(value=trend.last.value, unit=trend.unit)

    def level(self, concept: str) -> Level | None:
        """Return the row of the newest number."""
        trend = self._recent(concept)
        return None if trend is None else LEVELS.get(trend.last.level)

    def trend(self, concept: str) -> Direction | None:
        """Return the direction of a trend; unknown from one reading."""
        trend = self._recent(concept)
        return None if trend is None or len(trend.readings) < 2 else trend.direction

    def course(self, concept: str) -> ReadingCourse | None:
        """Return the remembered readings, else those of the trends' window."""
        name = clinical_name(concept)
        if self._courses is not None and name in self._courses:
            found = tuple(self._courses[name])
        else:
            trends = [trend for trend in self.state.trends.values() if clinical_name(trend.concept) == name]
            readings = (
                CourseReading(of.time, of.value, trend.unit, of.row_id) for trend in trends for of in trend.readings
            )
            found = tuple(sorted(readings, key=lambda reading: (reading.time, reading.row_id)))
        found = tuple(reading for reading in found if reading.time > self._since)
        if not found:
            return None
        recent, charted = found[-1].time >= self._oldest, self.charted_units(concept)
        return ReadingCourse(now=self.now, readings=found, recent=recent, charted=charted)

    def charted_units(self, concept: str) -> frozenset[str]:
        """Return the units that the source uses for it in other subjects."""
        return self._carried.units_of(concept, self.state.subject_id)

    def taking(self, drug: str) -> bool | None:
        """Whether an order or infusion of a drug or class is running; unknown if the source records no drugs (a feed of
        laboratory results alone)."""
        if any(is_drug(medication.concept, drug) for medication in self.state.medications.values()):
            return True
        return False if self._carries(DRUGS) else None

    def rate(self, drug: str, unit: str) -> float | None:
        """Return the rate of the running infusion, the highest of several; unknown if a rate cannot be converted."""
        running = [medication for medication in self.state.medications.values() if is_drug(medication.concept, drug)]
        if not running:
            return 0.0 if self.taking(drug) is False else None
        weight = self._trends.get(clinical_name("weight"))
        charted = self.charted_units("weight")
        kilograms = None if weight is None else kilograms_of(weight.last.value, weight.unit, charted)
        rates = [rate_in(order.dose, order.unit, unit, kilograms) for order in running]
        known = [rate for rate in rates if rate is not None]
        return max(known) if len(known) == len(rates) else None

    def score(self, name: str, hours: float | None = None) -> Bounds | None:
        """Return a clinical score from the stay's chart at the end of the hour; unknown in a live feed."""
        if self._score is None:
            return None
        if (name, hours) not in self._scores:
            self._scores[name, hours] = self._score(name, hours, self.now - timedelta(microseconds=1))
        return self._scores[name, hours]

    def _carries(self, kinds: frozenset[EventKind]) -> bool:
        return not kinds.isdisjoint(self._carried.kinds) or not kinds.isdisjoint(self._seen)

    @cached_property
    def _seen(self) -> frozenset[EventKind]:
        """The kinds of events seen of this subject."""
        running = (medication.kind for medication in self.state.medications.values())
        return frozenset((*(kind for kind, _ in self.state.actions), *running))

    def has_problem(self, problem: str, *, ever: bool = False) -> bool | None:
        """Whether a problem is known in this encounter, lasts since an earlier one, or is suspected; otherwise unknown,
        since diagnoses are coded late."""
        known = (*(charted.concept for charted in self._problems(ever=ever)), *self.suspected)
        return True if any(is_problem(name, problem) for name in known) else None

    def allergic_to(self, substance: str) -> bool | None:
        """Whether a charted allergy forbids a substance; unknown without a list of allergies, or if one cannot be
        judged."""
        known = self.state.allergies.values()
        truth = is_allergic(tuple(allergy.concept for allergy in known), substance)
        return truth if truth or any(allergy.is_listed for allergy in known) else None

    def unclear_allergies(self, substance: str) -> tuple[str, ...]:
        """Return the charted allergies for which it is unknown whether they forbid a substance."""
        known = (allergy.concept for allergy in self.state.allergies.values())
        return tuple(sorted({name for name in known if is_allergy(name, substance) is None}))

    def done(self, action: str, hours: float | None = None, *, ever: bool = False) -> bool | None:
        """Whether an action was ordered, started, given or performed in this encounter, or in the last hours; unknown
        if the source records no such actions, or if the name is a test's and a drug's and only one of them was done."""
        truths = {
            self._done_as(action, kinds, hours, is_drug=is_drug, ever=ever)
            for kinds, is_drug in meanings_of_action(action)
        }
        return truths.pop() if len(truths) == 1 else None

    def _done_as(
        self,
        action: str,
        kinds: frozenset[EventKind],
        hours: float | None,
        *,
        is_drug: bool | None,
        ever: bool,
    ) -> bool | None:
        last = self.last_done(action, is_drug=is_drug, ever=ever or hours is not None)
        if last is not None and (hours is None or last >= self.now - timedelta(hours=hours)):
            return True
        return False if self._carries(kinds) else None

    def times_done(self, action: str, hours: float) -> tuple[int, int] | None:
        """Return how often an action was done in the last hours: lower and upper bound."""
        bounds = [
            self._times_as(action, kinds, hours, is_drug=is_drug) for kinds, is_drug in meanings_of_action(action)
        ]
        known = [bound for bound in bounds if bound is not None]
        if len(known) < len(bounds):
            return None
        return min(least for least, _ in known), max(most for _, most in known)

    def _times_as(
        self, action: str, kinds: frozenset[EventKind], hours: float, *, is_drug: bool | None
    ) -> tuple[int, int] | None:
        keys, since = lookup_done_keys(action, is_drug=is_drug), self.now - timedelta(hours=hours)
        noted = [
            each for name, some in self._counts.items() if not keys.isdisjoint(_counted_keys(name)) for each in some
        ]
        if not noted and not self._carries(kinds):
            return None
        least = sum(time is not None and time >= since for time, _ in noted)
        return least, least + sum(time is None and known >= since for time, known in noted)

    def hours_since(self, action: str) -> float | None:
        """Return hours from the last time to the end of the bundle's hour; for ``stay`` from its begin."""
        if action == STAY:
            return (self.now - self._began) / _HOUR
        last = self.last_done(action)
        return None if last is None else max(0.0, (self.now - last) / _HOUR)

    def last_done(self, action: str, *, is_drug: bool | None = None, ever: bool = False) -> datetime | None:
        """Return when an action was last done in this encounter; None if the state has none.

        ``is_drug``: whether it is a drug; None: what its name means first.
        """
        place = action, is_drug
        if place not in self._last_done:
            moments = [self._done[key] for key in lookup_done_keys(action, is_drug=is_drug) if key in self._done]
            self._last_done[place] = max(moments, default=None)
        last = self._last_done[place]
        return None if last is None or (last <= self._since and not ever) else last

    def rows(self, condition: Condition) -> tuple[str, ...]:
        """Return the rows that make a condition hold: none for the clock, nor for suspected problems."""
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
                return tuple(
                    medication.row_id
                    for medication in self.state.medications.values()
                    if is_drug(medication.concept, concept)
                )
            case AtScore():
                return ()
            case Stated():
                return self._rows_stated(condition)

    def _rows_stated(self, condition: Stated) -> tuple[str, ...]:
        state, asked = self.state, condition.concept
        match condition.what:
            case "on":
                return tuple(
                    medication.row_id for medication in state.medications.values() if is_drug(medication.concept, asked)
                )
            case "problem":
                named = (
                    problem for problem in self._problems(ever=condition.ever) if is_problem(problem.concept, asked)
                )
                return tuple(row for problem in named for row in problem.row_ids)
            case "allergy":
                return tuple(
                    allergy.row_id for allergy in state.allergies.values() if is_allergy(allergy.concept, asked)
                )
            case "done":
                return self._rows_done(asked, ever=condition.ever or condition.hours is not None)

    def _rows_over(self, condition: HeldFor | InWindow | TimesBaseline | ChangedBy) -> tuple[str, ...]:
        """Return the rows of the first and last reading within the hours of a condition, or of the one that decides."""
        course = self.course(condition.concept)
        if course is None:
            return ()
        end = course.now if isinstance(condition, InWindow) else course.readings[-1].time
        inside = [reading for reading in course.readings if reading.time >= end - timedelta(hours=condition.hours)]
        if isinstance(condition, InWindow) and condition.how == "any":
            inside = [reading for reading in inside if condition.value.holds_of(reading, course.charted)][-1:]
        return tuple(dict.fromkeys(reading.row_id for reading in (inside[:1] + inside[-1:])))

    def _rows_done(self, action: str, *, ever: bool = False) -> tuple[str, ...]:
        last, keys = self.last_done(action, ever=ever), lookup_done_keys(action)
        done = (each for each in self.state.actions.values() if each.last == last)
        return tuple(each.row_id for each in done if not keys.isdisjoint(_keys(each.kind, each.concept)))

    def _problems(self, *, ever: bool) -> Iterator[ActiveProblem]:
        return (
            problem
            for problem in self.state.problems.values()
            if ever or problem.last > self._since or is_lasting(problem.concept)
        )

    def _recent(self, concept: str) -> Trend | None:
        trend = self._trends.get(clinical_name(concept))
        return trend if trend is not None and trend.last.time >= self._oldest else None

    def _of_encounter(self, trend: Trend) -> Trend | None:
        """Return a trend with its readings of this encounter; None without any."""
        if trend.readings[0].time > self._since:
            return trend
        own = tuple(reading for reading in trend.readings if reading.time > self._since)
        return msgspec.structs.replace(trend, readings=own) if own else None

    @cached_property
    def _trends(self) -> Mapping[str, Trend]:
        """By clinical name: the trend with the newest reading (a pressure is charted by line and by cuff)."""
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
    def _done(self) -> Mapping[DoneKey, datetime]:
        """By key: when it was last done."""
        found: dict[DoneKey, datetime] = {}
        for action in self.state.actions.values():
            for key in _keys(action.kind, action.concept):
                held = found.get(key)
                if held is None or held < action.last:
                    found[key] = action.last
        return found


def rate_in(dose: str | None, given: str | None, unit: str, kilograms: float | None) -> float | None:
    """Return a running order's dose as a rate in a unit; None if it is no rate ("1000 mg") or cannot be converted."""
    try:
        amount = float(dose) if dose is not None else None
    except ValueError:
        return None
    return None if amount is None or not given else convert(amount, given, unit, weight=kilograms)


def kilograms_of(value: float, unit: str | None, charted: Collection[str]) -> float | None:
    """Return a weight in kilograms; None if its unit is unknown. ``charted``: the source's units."""
    charted_unit = reading_unit(value, unit, "weight", charted)
    return None if charted_unit is None else convert(value, charted_unit, "kg")


# Memory of rules beyond a state's window: readings by name, and times of actions.


KEPT_HOURS = 24.0
"""How much longer readings are kept than rules look back."""
Counts = dict[str, list[tuple[datetime | None, datetime]]]


def remember_courses(courses: dict[str, list[CourseReading]], state: PatientState, hours: Mapping[str, float]) -> None:
    """Add a state's new readings of the names that rules look back on, and drop readings that are too old."""
    if not hours:
        return
    for trend in state.trends.values():
        name = clinical_name(trend.concept)
        if name not in hours:
            continue
        held = courses.get(name, [])
        known = {(reading.row_id, reading.time) for reading in held}
        new = [each for each in trend.readings if (each.row_id, each.time) not in known]
        if new:
            read = (CourseReading(each.time, each.value, trend.unit, each.row_id) for each in new)
            held = sorted([*held, *read], key=lambda reading: (reading.time, reading.row_id))
            oldest = held[-1].time - timedelta(hours=hours[name] + KEPT_HOURS)
            courses[name] = [reading for reading in held if reading.time >= oldest]


def _keys(kind: EventKind, concept: str) -> frozenset[DoneKey]:
    return done_keys(concept, is_drug=kind in DRUGS)


@lru_cache(maxsize=4_096)
def _counted_keys(name: str) -> frozenset[DoneKey]:
    """The keys of what is counted under a kind's number and a concept."""
    kind, _, concept = name.partition(" ")
    return _keys(EventKind(int(kind)), concept)


def remember_counts(
    counts: Counts, counted: dict[str, int], state: PatientState, hour: datetime, hours: Mapping[DoneKey, float]
) -> None:
    """Record actions since the last bundle, by the keys that rules count.

    The state has only their number and the last time: of others only the hour in which they became known."""
    if not hours:
        return
    for (kind, concept), action in state.actions.items():
        key = f"{int(kind)} {concept}"
        new = action.count - counted.get(key, 0)
        if new <= 0 or _counted_keys(key).isdisjoint(hours):
            continue
        counted[key] = action.count
        held = counts.get(key, [])
        is_newest = all(time is None or time < action.last for time, _ in held)
        counts[key] = [*held, *((action.last if is_newest and place == 0 else None, hour) for place in range(new))]
