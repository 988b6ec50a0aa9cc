"""Planning a stay: severity, complications, procedures, length, outcome."""

from __future__ import annotations

from wardround.synth.catalog import Catalog, Condition
from wardround.synth.clock import DAY, HOUR, at_minute
from wardround.synth.dice import Dice
from wardround.synth.encounter import Act, ClinicalProblem, Encounter
from wardround.synth.ids import Numbers
from wardround.synth.person import SyntheticSubject
from wardround.synth.rarer import USUAL_COURSE, draw_course
from wardround.synth.route import plan_places, settle_acts


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
