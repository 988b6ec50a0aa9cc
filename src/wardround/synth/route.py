"""Through the hospital: emergency department, operating room, intensive care, wards, and when a ventilator runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wardround.synth.catalog import Catalog, Condition
from wardround.synth.clock import HOUR, MINUTE, at_minute
from wardround.synth.dice import Dice
from wardround.synth.encounter import Act, UnitStretch
from wardround.synth.ids import Numbers
from wardround.synth.rarer import UnitCourse

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
    """When intensive care is left for the first time."""
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
