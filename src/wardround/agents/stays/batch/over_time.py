"""Conditions over time for every bundle of a stream: courses of readings, counts of actions, rates of infusions.

The same steps as for single bundles (``lookback``), only for the names in such conditions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from wardround.agents.stays.batch.facts import NEVER, BatchFacts, FloatArray, Truths
from wardround.agents.stays.batch.onward import Mask
from wardround.agents.stays.batch.readings import LookedBack
from wardround.agents.stays.charted import kilograms_of, meanings_of_action, rate_in
from wardround.clinical.bundles.events import HOUR, EventKind, Integers
from wardround.clinical.protocols import (
    AtRate,
    AtValue,
    ChangedBy,
    CountedActions,
    HeldFor,
    InWindow,
    TimesBaseline,
    lookup_done_keys,
)
from wardround.clinical.vocabulary import (
    RELATIONS,
    comparison,
    convert,
    find_measurement,
    is_drug,
    reading_unit,
    usual_units,
)
from wardround.clinical.vocabulary.measurements import is_unitless
from wardround.clinical.vocabulary.time import MAX_GAP_MINUTES


def over_time(node: HeldFor | TimesBaseline | ChangedBy, facts: BatchFacts) -> Truths:
    """Return where a course meets a condition by its newest reading, while that one is recent."""
    seen = facts.looked_back(node.concept)
    time = facts.stream.columns.event[seen.places[seen.rows]]
    match node:
        case HeldFor():
            truths = _held_for(node, seen, time, facts)
        case TimesBaseline():
            truths = _against_baseline(node, seen, time, facts)
        case ChangedBy():
            truths = _changed(node, seen, time, facts)
    newest = np.append(time, NEVER)[np.where(seen.starts[1:] > seen.starts[:-1], seen.starts[1:] - 1, len(time))]
    recent = newest[seen.of] >= facts.stream.hours * HOUR - _span(hours=facts.window_hours)
    return Truths(recent & truths.yes[seen.of], recent & truths.no[seen.of])


def within(node: InWindow, facts: BatchFacts) -> Truths:
    """Return where any, or every, reading of the last hours meets a number."""
    seen = facts.looked_back(node.concept)
    truths = _meets(node.value, seen, facts)
    time, since = facts.stream.columns.event[seen.places], facts.now - int(node.hours * HOUR)

    def inside(mask: Mask) -> Mask:
        """Return the bundles after which the newest of some readings is within some hours."""
        newest = np.full(len(seen.starts) - 1, NEVER)
        own = mask[seen.rows]
        np.maximum.at(newest, seen.course[own], time[seen.rows[own]])
        recent: Mask = newest[seen.of] >= since
        return recent

    yes, no, unknown = inside(truths.yes), inside(truths.no), inside(~truths.yes & ~truths.no)
    return Truths(yes, no & ~yes & ~unknown) if node.how == "any" else Truths(yes & ~no & ~unknown, no)


def meets(node: AtValue, places: Integers, bundle: Integers, facts: BatchFacts) -> Truths:
    """Return which events (m,) meet a number; ``bundle``: (m,) the bundle after which each is compared."""
    values, (code, units) = facts.stream.columns.value[places], facts.units
    yes, known = np.zeros(len(places), bool), np.zeros(len(places), bool)
    for here, charted in facts.charted_units(node.concept):
        mine = here[bundle]
        for number in np.unique(code[places[mine]]).tolist():
            own = mine & (code[places] == number)
            way = comparison(units[number] or None, node.relation, node.threshold, node.unit, node.concept, charted)
            yes[own], known[own] = way.holds_of(values[own])
    return Truths.where(known, yes)


def _meets(node: AtValue, seen: LookedBack, facts: BatchFacts) -> Truths:
    return meets(node, seen.places, facts.onward.bundle[seen.places], facts)


def _held_for(node: HeldFor, seen: LookedBack, time: Integers, facts: BatchFacts) -> Truths:
    """Equal to ``held_for``: going back from the newest reading, the first that decides counts."""
    truths = _meets(node.value, seen, facts)
    count, last = len(seen.starts) - 1, np.maximum(seen.starts[1:] - 1, 0)[seen.course]
    long, gap = _span(minutes=node.minutes), _span(minutes=max(node.minutes, MAX_GAP_MINUTES))
    newest, places = time[last], np.arange(len(time))
    after = np.where(places == last, time, np.append(time[1:], 0)[: len(time)])
    reaches, breaks = newest - time >= long, truths.no[seen.rows]
    unknown = ~truths.yes[seen.rows] & ~breaks | (after - time > gap)
    decides = np.full(count, -1)
    says = breaks | unknown | reaches
    np.maximum.at(decides, seen.course[says], places[says])
    at, decided = np.maximum(decides, 0), decides >= 0
    if not len(time):
        return Truths(decided, decided)
    yes = decided & ~breaks[at] & ~unknown[at]
    no = decided & breaks[at] & ((time[at] == newest[at]) | ~reaches[at])
    return Truths(yes, no)


def _against_baseline(node: TimesBaseline, seen: LookedBack, time: Integers, facts: BatchFacts) -> Truths:
    value, known = _in_one_unit(node.concept, None, seen, facts)
    before = _Before.newest(value, time, seen, _span(hours=node.hours))
    lowest = before.least
    known &= before.there & (lowest > 0)
    limits = {value: float(f"{node.times * value:.12g}") for value in np.unique(lowest[known]).tolist()}
    limit = np.array([limits.get(value, np.nan) for value in lowest.tolist()], np.float64)
    newest = np.append(value, np.nan)[np.where(known, seen.starts[1:] - 1, -1)]
    return Truths.where(known, RELATIONS[node.relation](newest, limit))


def _changed(node: ChangedBy, seen: LookedBack, time: Integers, facts: BatchFacts) -> Truths:
    value, known = _in_one_unit(node.concept, node.unit, seen, facts)
    rises, hours = node.direction == "rises", _span(hours=node.hours)
    before = _Before.newest(value if rises else -value, time, seen, hours)
    known &= before.there
    amount = np.full(len(known), node.amount)
    if node.share:
        first = before.least if rises else _highest_before(value, time, seen, hours)
        known &= first > 0
        amount = np.where(known, first, 0.0) * node.amount / 100
    # equal to ``rises_by``
    return Truths.where(known, before.newest_value - before.least >= amount - 1e-9 * np.maximum(1.0, np.abs(amount)))


@dataclass(frozen=True, slots=True)
class _Before:
    """(c,) the newest value of each course, the lowest of the hours before it, and whether there is one."""

    newest_value: FloatArray
    least: FloatArray
    there: Mask

    @classmethod
    def newest(cls, value: FloatArray, time: Integers, seen: LookedBack, hours: int) -> _Before:
        """Compare courses by time, and at one moment by value."""
        order = np.lexsort((value, time, seen.course))
        value, time = value[order], time[order]
        last = np.where(seen.starts[1:] > seen.starts[:-1], seen.starts[1:] - 1, -1)
        earlier = (np.arange(len(time)) < last[seen.course]) & (time >= time[last[seen.course]] - hours)
        least = np.full(len(last), np.inf)
        np.minimum.at(least, seen.course[earlier], value[earlier])
        return cls(np.append(value, np.nan)[last], least, np.isfinite(least))


def _highest_before(value: FloatArray, time: Integers, seen: LookedBack, hours: int) -> FloatArray:
    """Return the highest value of the hours before each course's newest reading, without the last in order."""
    last = np.maximum(seen.starts[1:] - 1, 0)[seen.course]
    earlier = (np.arange(len(time)) < last) & (time >= time[last] - hours)
    found = np.full(len(seen.starts) - 1, -np.inf)
    np.maximum.at(found, seen.course[earlier], value[earlier])
    return found


def _in_one_unit(concept: str, unit: str | None, seen: LookedBack, facts: BatchFacts) -> tuple[FloatArray, Mask]:
    """Return values (r,) of courses in one unit, that of the condition or of the newest reading, and the courses (c,)
    whose values can all be converted (``_series``)."""
    places, bundle = seen.places, facts.onward.bundle[seen.places]
    value, (code, units) = facts.stream.columns.value[places], facts.units
    numbers: dict[str | None, int] = {None: 0}
    own, wanted = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    several = np.zeros(len(places), bool)
    for here, charted in facts.charted_units(concept):
        mine = here[bundle]
        several |= mine & (len(charted) > 1)
        for number in np.unique(code[places[mine]]).tolist():
            rows = np.flatnonzero(mine & (code[places] == number))
            own[rows] = _units_of(value[rows], units[number] or None, concept, charted, numbers)
        if unit:
            rows = np.flatnonzero(mine)
            wanted[rows] = _units_of(value[rows], unit, concept, charted, numbers)
    newest = np.append(seen.rows, 0)[np.maximum(seen.starts[1:] - 1, 0)]
    known = seen.starts[1:] > seen.starts[:-1]
    if not known.any():
        return value[seen.rows], known
    target_unit = (wanted if unit else own)[newest]
    has_none = any(usual_unit.unit is None for usual_unit in usual_units(concept))
    known &= (target_unit > 0) | ~several[newest] | has_none
    found, spelt = value[seen.rows], [*numbers]
    of, to = own[seen.rows], target_unit[seen.course]
    for row in np.flatnonzero(of != to).tolist():
        source, target = spelt[of[row]], spelt[to[row]]
        converted = None if source is None or target is None else convert(float(found[row]), source, target, concept)
        found[row] = 0.0 if converted is None else converted  # of a course without conversion
        known[seen.course[row]] &= converted is not None
    return found, known


def _units_of(
    values: FloatArray, unit: str | None, concept: str, charted: frozenset[str], numbers: dict[str | None, int]
) -> list[int] | int:
    """Return the number of each value's unit; the same number for all if the unit is given."""
    if not is_unitless(unit, find_measurement(concept)):
        return numbers.setdefault(unit, len(numbers))
    units = (reading_unit(value, unit, concept, charted) for value in values.tolist())
    return [numbers.setdefault(own_unit, len(numbers)) for own_unit in units]


def counted(node: CountedActions, facts: BatchFacts) -> Truths:
    """Return where an action was done a number of times in the last hours."""
    hours, relation = int(node.hours * HOUR), RELATIONS[node.relation]
    found = [_bounds(facts, node.concept, kinds, hours, is_drug) for kinds, is_drug in meanings_of_action(node.concept)]
    least, most = np.minimum.reduce([own for own, _, _ in found]), np.maximum.reduce([own for _, own, _ in found])
    known = np.logical_and.reduce([own for _, _, own in found])
    at_least, at_most = relation(least, node.threshold), relation(most, node.threshold)
    may_equal = (least < node.threshold) & (node.threshold < most) & float(node.threshold).is_integer()  # of "=" alone
    return Truths(known & at_least & at_most, known & ~at_least & ~at_most & ~may_equal)


def _bounds(
    facts: BatchFacts, concept: str, kinds: frozenset[EventKind], hours: int, is_drug: bool | None
) -> tuple[Integers, Integers, Mask]:
    """Return for every bundle how often an action was done in so many microseconds, at least and at most, and whether
    that is known."""
    least, most = np.zeros(len(facts.stream), np.int64), np.zeros(len(facts.stream), np.int64)
    known = facts.carries(kinds).copy()
    for bundle, noted in _counts(facts, concept, is_drug):
        since = int(facts.now[bundle]) - hours
        least[bundle] = sum(time is not None and time >= since for time, _ in noted)
        most[bundle] = least[bundle] + sum(time is None and hour >= since for time, hour in noted)
        known[bundle] = True
    return least, most, known


def at_rate(node: AtRate, facts: BatchFacts) -> Truths:
    """Return where a drug runs at a rate; the highest of several counts."""
    events, runs = facts.stream.columns, facts.runs
    rate, unknown = np.zeros(len(facts.stream)), np.zeros(len(facts.stream), bool)
    names, weight = events.names, _kilograms(facts)
    concepts = {place for place in np.unique(runs.concept).tolist() if is_drug(names[place], node.concept)}
    for run in np.flatnonzero(np.isin(runs.concept, list(concepts))).tolist():
        where = slice(int(runs.first[run]), int(runs.stop[run]))
        event = int(runs.event[run])
        value, unit = float(events.value[event]), events.unit[event].as_py()
        dose = events.text[event].as_py() if np.isnan(value) else f"{value:g}"
        found = _rates(dose, unit, node.unit, weight[where])
        unknown[where] |= np.isnan(found)
        rate[where] = np.fmax(rate[where], found)
    running, none = facts.taking(node.concept)
    known = (running & ~unknown) | none
    met = RELATIONS[node.relation](rate, node.threshold)
    return Truths.where(known, met)


def _counts(
    facts: BatchFacts, concept: str, is_drug: bool | None
) -> Iterator[tuple[int, list[tuple[int | None, int]]]]:
    """Yield for each bundle from the first action on its times and the times they became known."""
    events, places = facts.stream.columns, np.sort(facts.done(lookup_done_keys(concept, is_drug=is_drug)))
    by_bundle = defaultdict(list)
    for place in places.tolist():
        by_bundle[int(facts.onward.bundle[place])].append(place)
    subjects = facts.onward.subject
    noted: list[tuple[int | None, int]] = []
    last: dict[tuple[int, int], int] = {}
    of_action: dict[tuple[int, int], list[int]] = defaultdict(list)
    owner = -1
    for bundle in range(len(facts.stream)) if by_bundle else ():
        if subjects[bundle] != owner:
            owner, noted, last, of_action = int(subjects[bundle]), [], {}, defaultdict(list)
        several = by_bundle.get(bundle, ())
        new: dict[tuple[int, int], int] = {}
        for place in several:
            key = (int(events.kind[place]), int(events.concept[place]))
            last[key] = max(last.get(key, NEVER), int(events.event[place]))
            new[key] = new.pop(key, 0) + 1  # in the order of the last change, as in the state
        for key, number in new.items():
            times = of_action[key]
            is_newest = all(time < last[key] for time in times)
            hour = int(facts.stream.hours[bundle]) * HOUR
            for place in range(number):
                reading = last[key] if is_newest and place == 0 else None
                noted.append((reading, hour))
                if reading is not None:
                    times.append(reading)
        if noted:
            yield bundle, noted


def _kilograms(facts: BatchFacts) -> npt.NDArray[np.float64]:
    last, _ = facts.newest("weight")
    events, code = facts.stream.columns, facts.units[0]
    found = np.full(len(last), np.nan)
    for place in np.unique(last[last >= 0]).tolist():
        charted = facts.carried.units_of("weight", int(events.subject[place]))
        kilograms = kilograms_of(float(events.value[place]), facts.units[1][int(code[place])], charted)
        found[last == place] = np.nan if kilograms is None else kilograms
    return found


def _rates(dose: str | None, given: str | None, unit: str, weight: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rate of one run at each of its bundles, NaN where it is unknown."""
    found = np.full(len(weight), np.nan)
    plain = rate_in(dose, given, unit, None)
    if plain is not None:
        found[:] = plain
        return found
    for kilograms in np.unique(weight[~np.isnan(weight)]).tolist():
        rate = rate_in(dose, given, unit, kilograms)
        if rate is not None:
            found[weight == kilograms] = rate
    return found


def _span(*, hours: float = 0, minutes: float = 0) -> int:
    """Return hours and minutes in microseconds."""
    return timedelta(hours=hours, minutes=minutes) // timedelta(microseconds=1)
