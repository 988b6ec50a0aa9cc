"""Plan a stay: severity, complications, length, route through the hospital, outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wardround.core import derive_seed
from wardround.synth.catalog import Catalog, Condition
from wardround.synth.person import DAY, HOUR, MINUTE, Dice, Numbers, SyntheticSubject, at_minute

# Courses that a small hospital is without: long stays in intensive care, returns to it, returns to the emergency
# department within days. They are drawn on demand and with dice of their own: without them, a seed makes what it made.


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCourse:
    """The additions to a stay in intensive care: more hours, or hours on a ward and a return."""

    more_hours: float = 0.0
    ward_hours: float = 0.0
    again_hours: float = 0.0


USUAL_COURSE = UnitCourse()


def rarer_dice(seed: int, index: int) -> Dice:
    """Return the dice of a subject's rarer courses."""
    return Dice(derive_seed("wardround.synth.rarer", seed, index))


def draw_course(dice: Dice) -> UnitCourse:
    """Draw the course of a stay: one in eight goes on for two weeks more, one in four leaves and returns."""
    point = dice.unit()
    if point < 0.125:
        return UnitCourse(more_hours=dice.between(14, 22) * 24)
    if point < 0.375:
        return UnitCourse(ward_hours=dice.between(10, 40), again_hours=dice.between(16, 60))
    return USUAL_COURSE


def quick_return(dice: Dice) -> int | None:
    """Return the time until a discharged person returns within three days, as three in five do; None: no return."""
    comes = dice.chance(0.6)
    after = int(dice.between(1, 2) * DAY)
    return after if comes else None


# One stay in hospital as a plan: why, how bad, where, for how long, and how it ends. Rows are drawn from it.


ICU_KINDS = frozenset({"micu", "sicu", "ccu", "cvicu", "neuro_icu"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinicalProblem:
    """A condition at work during the stay. ``role``: principal, complication, chronic or terminal."""

    condition: Condition
    severity: float
    onset: int
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStretch:
    """A stretch of the stay in one care unit; ``event`` is the transfers event type."""

    event: str
    kind: str
    unit: str
    start: int
    end: int
    place_id: int

    @property
    def is_icu(self) -> bool:
        """Return whether it counts as an intensive care stay."""
        return self.kind in ICU_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A procedure done at a moment."""

    key: str
    row: Mapping[str, Any]
    moment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Encounter:
    """The plan of one admission. ``arrival`` is ED registration, or admission where there was no ED."""

    hadm_id: int
    version: int
    age: int
    arrival: int
    admit: int
    ed_out: int | None
    discharge: int
    death: int | None
    principal: ClinicalProblem
    problems: tuple[ClinicalProblem, ...]
    places: tuple[UnitStretch, ...]
    acts: tuple[Act, ...]
    ventilation: tuple[int, int] | None
    complaint: str
    elective: bool
    number: int

    @property
    def icu_places(self) -> list[UnitStretch]:
        """Intensive care stretches, in order."""
        return [place for place in self.places if place.is_icu]

    def in_icu(self, moment: int) -> bool:
        """Return whether the subject lies in intensive care at a moment."""
        return any(place.start <= moment < place.end for place in self.places if place.is_icu)

    def title(self) -> str:
        """Return the principal problem in words."""
        return self.principal.condition.title


# Through the hospital: emergency department, operating room, intensive care, wards, and when a ventilator runs.


_ICU_ACTS = frozenset({"intubation", "arterial_line", "ventilation_brief"})


class _Route:
    """Builds the chain of places, each starting where the last one ended."""

    def __init__(self, dice: Dice, catalog: Catalog, numbers: Numbers, start: int, end: int) -> None:
        self.dice, self.catalog, self.numbers = dice, catalog, numbers
        self.now, self.end = start, end
        self.places: list[UnitStretch] = []

    def go(self, event: str, kind: str, until: float, place_id: int | None = None) -> None:
        until = at_minute(min(until, self.end))
        if until - self.now < 20 * MINUTE:
            return
        unit = self.dice.pick(self.catalog.units[kind])
        self.places.append(
            UnitStretch(
                event=event,
                kind=kind,
                unit=unit,
                start=self.now,
                end=until,
                place_id=self.numbers.place.take() if place_id is None else place_id,
            )
        )
        self.now = until


def plan_places(
    dice: Dice, catalog: Catalog, numbers: Numbers, plan: Mapping[str, Any], condition: Condition, acts: list[Act]
) -> list[UnitStretch]:
    arrival, admit, ed_out, end = plan["arrival"], plan["admit"], plan["ed_out"], plan["end"]
    route = _Route(dice, catalog, numbers, arrival, end)
    if ed_out is not None:
        route.go("ED", "emergency", ed_out)
    route.now = admit if ed_out is None else route.now
    ward = condition.get("ward", "medicine")
    surgery = next((act for act in acts if act.row.get("surgery")), None)
    icu_left = plan["icu_hours"] * HOUR
    if surgery is not None and surgery.moment > route.now:
        if surgery.moment - route.now > 4 * HOUR:
            route.go("admit", ward, surgery.moment)
        route.now = max(route.now, surgery.moment) if not route.places else route.now
        if route.places:
            route.go("transfer", "recovery", surgery.moment + dice.between(3.5, 7) * HOUR)
        else:
            route.now = admit
            route.go("admit", "recovery", surgery.moment + dice.between(3.5, 7) * HOUR)
    elif icu_left and plan["icu_delay"]:
        route.go("admit", ward, route.now + plan["icu_delay"] * HOUR)
    if icu_left:
        icu = condition.get("icu_unit", "micu")
        if icu_left > 60 * HOUR and dice.chance(0.12):
            route.go("transfer", icu, route.now + icu_left * 0.4)
            icu_left *= 0.6
        route.go("transfer", icu, end if plan["dies_in_icu"] else route.now + icu_left)
        course: UnitCourse = plan["course"]
        if course.again_hours:
            route.go("transfer", ward, route.now + course.ward_hours * HOUR)
            route.go("transfer", icu, route.now + course.again_hours * HOUR)
    while end - route.now > 30 * HOUR and dice.chance(0.22):
        route.go("transfer", ward, route.now + (end - route.now) * dice.between(0.3, 0.7))
    lounge = dice.chance(0.08) and not plan["fatal"] and end - route.now > 6 * HOUR
    route.go("transfer", ward, end - 90 * MINUTE if lounge else end)
    if lounge:
        route.go("transfer", "lounge", end)
    return _named_events(route.places, end)


def _named_events(places: list[UnitStretch], end: int) -> list[UnitStretch]:
    """Make the first stretch after the ED the admission and the last one end with the stay."""
    named, admitted = [], False
    for number, place in enumerate(places):
        event = place.event
        if event != "ED":
            event = "transfer" if admitted else "admit"
            admitted = True
        last = number == len(places) - 1
        named.append(
            UnitStretch(
                event=event,
                kind=place.kind,
                unit=place.unit,
                start=place.start,
                end=end if last else place.end,
                place_id=place.place_id,
            )
        )
    return named


def _left_first(icu: list[UnitStretch]) -> int:
    """Return when intensive care is left for the first time."""
    end = icu[0].end
    for place in icu[1:]:
        end = place.end if place.start == end else end
    return end


def settle_acts(
    dice: Dice, catalog: Catalog, acts: list[Act], places: list[UnitStretch], fatal: bool
) -> tuple[list[Act], tuple[int, int] | None]:
    """Bring intensive care procedures into intensive care, or drop them; returns the acts and when a ventilator ran."""
    icu = [place for place in places if place.is_icu]
    if not icu:
        return [act for act in acts if act.key not in _ICU_ACTS], None
    start, end = icu[0].start, _left_first(icu)
    settled, tube = [], None
    for act in acts:
        moment = act.moment
        if act.key in _ICU_ACTS or act.key == "central_line":
            moment = at_minute(start + dice.between(0.2, 2.5) * HOUR) if not start <= moment < end else moment
        settled.append(Act(key=act.key, row=act.row, moment=moment))
        if act.key in ("intubation", "ventilation_brief"):
            tube = moment if act.key == "intubation" else start + 5 * MINUTE
    ventilation = None
    if tube is not None and end - tube > 3 * HOUR:
        brief = any(act.key == "ventilation_brief" for act in acts)
        length = dice.between(4, 14) * HOUR if brief else (end - tube) * dice.between(0.5, 0.85)
        stop = end if fatal and not brief else min(int(tube + length), end - 90 * MINUTE)
        ventilation = (tube, at_minute(stop))
        if not brief:
            key = "ventilation_long" if ventilation[1] - tube > 96 * HOUR else "ventilation"
            settled.append(Act(key=key, row=catalog.procedures[key], moment=tube))
    else:
        settled = [act for act in settled if act.key not in ("intubation", "ventilation_brief")]
    return sorted(settled, key=lambda act: (act.moment, act.key)), ventilation


# Planning a stay: severity, complications, procedures, length, outcome.


def severity(dice: Dice) -> float:
    """Draw how strongly a condition shows, around 1."""
    return min(1.65, max(0.45, dice.normal(1.0, 0.24)))


def _complications(
    dice: Dice, catalog: Catalog, parent: ClinicalProblem, start: int, length: float, seen: set[str]
) -> list[ClinicalProblem]:
    found = []
    for key, share, day in parent.condition.get("complications"):
        at = start + int((day + dice.between(0, 0.3)) * DAY)
        if dice.chance(share * parent.severity) and at < start + 0.8 * length and key not in seen:
            seen.add(key)
            problem = ClinicalProblem(
                condition=catalog.conditions[key], severity=severity(dice), onset=at, role="complication"
            )
            found += [problem, *_complications(dice, catalog, problem, at, length - (at - start), seen)]
    return found


def _problems(
    dice: Dice, catalog: Catalog, subject: SyntheticSubject, principal: ClinicalProblem, length: float
) -> list[ClinicalProblem]:
    found = [principal, *_complications(dice, catalog, principal, principal.onset, length, {principal.condition.key})]
    for ailment in subject.ailments_at(principal.onset):
        if ailment.condition.key not in {p.condition.key for p in found}:
            problem = ClinicalProblem(
                condition=ailment.condition, severity=ailment.severity, onset=principal.onset, role="chronic"
            )
            found.append(problem)
    return found


def _acts(dice: Dice, catalog: Catalog, problems: list[ClinicalProblem], end: int) -> list[Act]:
    acts: dict[str, Act] = {}
    for problem in problems:
        groups = problem.condition.get("one_procedure")
        dropped = {key for group in groups for key in set(group) - {dice.pick(group)}}
        for key, share, day in problem.condition.get("procedures"):
            if key in dropped:
                continue
            share = 1.0 if any(key in group for group in groups) else share
            row = catalog.procedures[key]
            at = problem.onset + int(day * DAY) + int(dice.between(1.5, 7) * HOUR)
            if row.get("surgery") and day >= 1:
                at = at - at % DAY + int(dice.between(8, 14) * HOUR)
            if dice.chance(min(0.98, share * problem.severity**0.5)) and at < end - 3 * HOUR and key not in acts:
                acts[key] = Act(key=key, row=row, moment=at_minute(at))
    return sorted(acts.values(), key=lambda act: act.moment)


def _mortality(condition: Condition, subject: SyntheticSubject, age: int, level: float, burden: float) -> float:
    age_factor = 0.35 if age < 45 else 0.7 if age < 65 else 1.1 if age < 80 else 1.7
    return min(0.6, float(condition.get("mortality", 0.01)) * age_factor * level**2 * 0.75 * (0.75 + 0.06 * burden))


def plan_encounter(
    dice: Dice,
    catalog: Catalog,
    numbers: Numbers,
    *,
    subject: SyntheticSubject,
    condition: Condition,
    arrival: int,
    number: int,
    rarer: Dice | None = None,
) -> Encounter:
    """Plan an admission for a condition, arriving at a moment. ``rarer``: dice of rarer courses, if they are wanted."""
    level = severity(dice)
    age = subject.age(arrival)
    elective = bool(condition.get("elective", False))
    via_ed = dice.chance(condition.get("ed", 0.9))
    burden = len(subject.ailments_at(arrival))
    fatal = dice.chance(_mortality(condition, subject, age, level, burden))
    hours = 24 * dice.skewed(condition.get("los", 4.0) * (0.7 + 0.3 * level) * (0.85 + 0.03 * burden), 0.42)
    hours = max(16.0, min(hours, 24.0 * 34))
    arrival = at_minute(arrival)
    wait = int(dice.between(2.2, 7.5) * HOUR) if via_ed else 0
    admit = at_minute(arrival + wait)
    ed_out = at_minute(admit + dice.between(0.1, 2.6) * HOUR) if via_ed else None
    start = admit if ed_out is None else ed_out
    icu = dice.chance(min(0.97, condition.get("icu", 0.0) * level)) or (fatal and dice.chance(0.6))
    icu_hours = 24 * dice.skewed(condition.get("icu_days", 1.6) * level, 0.4) if icu else 0.0
    course = draw_course(rarer) if rarer is not None and icu and not fatal else USUAL_COURSE
    icu_hours += course.more_hours
    direct = dice.chance(0.78)
    delay = 0.0 if direct or not icu else dice.between(6, 40)
    beyond = course.ward_hours + course.again_hours
    hours = max(hours, icu_hours + delay + beyond + 22) if not fatal else max(14.0, hours * dice.between(0.4, 1.1))
    end = int(start + hours * HOUR)
    if not fatal:
        end = end - end % DAY + int(dice.between(10.5, 18.5) * HOUR)
        end += DAY if end < start + 10 * HOUR else 0
    end = at_minute(end)
    principal = ClinicalProblem(condition=condition, severity=level, onset=arrival, role="principal")
    problems = _problems(dice, catalog, subject, principal, end - arrival)
    if fatal:
        terminal = catalog.conditions["dying"]
        onset = max(start, end - int(dice.between(10, 30) * HOUR))
        problems.append(ClinicalProblem(condition=terminal, severity=1.0, onset=onset, role="terminal"))
    acts = _acts(dice, catalog, problems, end)
    if not icu and any(act.key == "intubation" for act in acts):
        icu, icu_hours = True, min(24 * dice.skewed(2.6, 0.4), (end - start) / HOUR - 8)
        icu = icu_hours > 8
    plan = {
        "arrival": arrival,
        "admit": admit,
        "ed_out": ed_out,
        "end": end,
        "icu_hours": icu_hours if icu else 0.0,
        "icu_delay": delay,
        "course": course,
        "fatal": fatal,
        "dies_in_icu": fatal and icu and dice.chance(0.8),
    }
    places = plan_places(dice, catalog, numbers, plan, condition, acts)
    acts, ventilation = settle_acts(dice, catalog, acts, places, fatal)
    return Encounter(
        hadm_id=numbers.encounter.take(),
        version=10 if subject.real_year(admit) >= 2015.75 else 9,
        age=age,
        arrival=arrival,
        admit=admit,
        ed_out=ed_out,
        discharge=end,
        death=end if fatal else None,
        principal=principal,
        problems=tuple(problems),
        places=tuple(places),
        acts=tuple(acts),
        ventilation=ventilation,
        complaint=dice.pick(condition.get("complaints")),
        elective=elective,
        number=number,
    )
