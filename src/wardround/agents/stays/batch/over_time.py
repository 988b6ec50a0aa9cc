"""What rules look back on, of every bundle of a stream: courses of readings, counts of what was done, rates that run.

The same steps as one bundle after another (``lookback``), taken for the names alone that rules ask so of.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, groupby

import numpy as np
import numpy.typing as npt

from wardround.agents.stays.batch.facts import NEVER, BatchFacts, Mask
from wardround.agents.stays.charted import KEPT_HOURS, kilograms_of, rate_in
from wardround.clinical.bundles import StateLimits
from wardround.clinical.bundles.events import HOUR, Integers
from wardround.clinical.bundles.fold import DONE
from wardround.clinical.protocols import (
    AtRate,
    ChangedBy,
    CountedActions,
    CourseReading,
    HeldFor,
    InWindow,
    ReadingCourse,
    TimesBaseline,
    asked_keys,
)
from wardround.clinical.protocols import keys_of as keys_of_name
from wardround.clinical.vocabulary import RELATIONS, clinical_name, is_drug
from wardround.core import from_microseconds

Told = tuple[Mask, Mask]
"""(b,) where something is known to hold, and where it is known not to."""


def over_time(node: HeldFor | TimesBaseline | ChangedBy, facts: BatchFacts) -> Told:
    """Say where a course meets a condition: as its newest reading has it, while that one is recent."""
    bundles, truths, newest = [], [], []
    for bundle, course in _of_encounter(facts, _courses(facts, node.concept)):
        bundles.append(bundle)
        truths.append({True: 1, False: 0, None: -1}[node.holds_of(course)])
        newest.append(course.readings[-1].time if course is not None else datetime.min)
    at = _filled(np.array(bundles, np.int64), facts)
    told = np.append(np.array(truths, np.int64), -1)[at]
    moments = np.append(np.array(newest, "datetime64[us]").astype(np.int64), NEVER)[at]
    recent = moments >= facts.stream.hours * HOUR - timedelta(hours=facts.window_hours) // timedelta(microseconds=1)
    return recent & (told == 1), recent & (told == 0)


def within(node: InWindow, facts: BatchFacts) -> Told:
    """Say where any, or every, reading of the last hours meets a number."""
    bundles = []
    last: dict[bool | None, list[int]] = {True: [], False: [], None: []}
    for bundle, course in _courses(facts, node.concept):
        bundles.append(bundle)
        newest: dict[bool | None, int] = dict.fromkeys(last, NEVER)
        for one in course.readings:
            newest[node.value.holds_of(one, course.charted)] = _microseconds(one)
        for truth, moments in last.items():
            moments.append(newest[truth])
    at = _filled(np.array(bundles, np.int64), facts)
    since = facts.now - int(node.hours * HOUR)
    newest_of = {truth: np.append(np.array(moments, np.int64), NEVER)[at] for truth, moments in last.items()}
    inside = {truth: (moments >= since) & (moments > facts.since) for truth, moments in newest_of.items()}
    deciding = node.how == "any"
    decided, other = inside[deciding], inside[not deciding] & ~inside[deciding] & ~inside[None]
    return (decided, other) if deciding else (other, decided)


def counted(node: CountedActions, facts: BatchFacts) -> Told:
    """Say where something was done so often in the last hours."""
    yes, no = np.zeros(len(facts.stream), bool), np.zeros(len(facts.stream), bool)
    relation, carried = RELATIONS[node.relation], facts.carries(node.concept)
    none = bool(relation(0, node.threshold))
    yes |= carried & none
    no |= carried & (not none)
    hours = int(node.hours * HOUR)
    for bundle, noted in _counts(facts, node.concept):
        since = int(facts.now[bundle]) - hours
        least = sum(time is not None and time >= since for time, _ in noted)
        most = least + sum(time is None and known >= since for time, known in noted)
        told = {bool(relation(number, node.threshold)) for number in range(least, most + 1)}
        yes[bundle], no[bundle] = told == {True}, told == {False}
    return yes, no


def at_rate(node: AtRate, facts: BatchFacts) -> Told:
    """Say where a drug runs at such a rate; the highest of several counts."""
    events, runs = facts.stream.columns, facts.runs
    rate, unknown = np.zeros(len(facts.stream)), np.zeros(len(facts.stream), bool)
    names, weight = events.names, _kilograms(facts)
    asked = {place for place in np.unique(runs.concept).tolist() if is_drug(names[place], node.concept)}
    for run in np.flatnonzero(np.isin(runs.concept, list(asked))).tolist():
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
    return known & met, known & ~met


def _of_encounter(
    facts: BatchFacts, courses: Iterator[tuple[int, ReadingCourse]]
) -> Iterator[tuple[int, ReadingCourse | None]]:
    """Yield courses without the readings of earlier encounters, None where nothing is left; also after each bundle in
    which another encounter begins."""
    subject, since = facts.onward.subject, facts.since
    begins = (np.flatnonzero((since[1:] != since[:-1]) & (subject[1:] == subject[:-1])) + 1).tolist()
    held: dict[int, ReadingCourse] = {}
    for bundle, course in chain(courses, [(len(since), None)]):
        while begins and begins[0] < bundle:
            begun = begins.pop(0)
            if int(subject[begun]) in held:
                yield begun, _since(held[int(subject[begun])], int(since[begun]))
        if course is None:
            return
        if begins and begins[0] == bundle:
            begins.pop(0)
        held = {int(subject[bundle]): course}
        yield bundle, _since(course, int(since[bundle]))


def _since(course: ReadingCourse, since: int) -> ReadingCourse | None:
    readings = tuple(one for one in course.readings if _microseconds(one) > since)
    return replace(course, readings=readings) if readings else None


def _courses(facts: BatchFacts, concept: str) -> Iterator[tuple[int, ReadingCourse]]:
    """Yield of each bundle that has a reading of a name the course that is remembered after it."""
    name, limits = clinical_name(concept), StateLimits()
    kept = timedelta(hours=facts.courses.get(name, 0.0) + KEPT_HOURS)
    window = timedelta(hours=limits.window_hours)
    events, places = facts.stream.columns, facts.readings_of(concept)
    if not len(places):
        return
    bundle_of, subject_of = facts.onward.bundle, facts.onward.subject
    units = events.unit.take(places).to_pylist()
    rows = events.row_id.take(places).to_pylist()
    times = events.event[places].view("datetime64[us]").tolist()
    keys = zip(events.kind[places].tolist(), events.concept[places].tolist(), units, strict=True)
    bundles = bundle_of[places].tolist()
    values = events.value[places].tolist()
    read = zip(bundles, keys, map(CourseReading, times, values, units, rows), strict=True)
    for _, of_subject in groupby(read, key=lambda one: int(subject_of[one[0]])):
        several = list(of_subject)
        charted = facts.carried.units_of(concept, int(facts.stream.subjects[several[0][0]]))
        trends: dict[tuple[int, int, str], list[CourseReading]] = {}
        course: list[CourseReading] = []
        for bundle, together in groupby(several, key=lambda one: one[0]):
            new: list[CourseReading] = []
            for _, (kind, number, unit), one in together:
                trend = trends.setdefault((kind, number, unit or ""), [])
                trend.insert(bisect_right(trend, one.time, key=lambda each: each.time), one)
                since = trend[-1].time - window
                trends[(kind, number, unit or "")] = [each for each in trend if each.time >= since][-limits.readings :]
                new.append(one)
            held = {(each.row_id, each.time) for each in course}
            visible = {id(each) for trend in trends.values() for each in trend}
            for one in new:
                if id(one) in visible and (one.row_id, one.time) not in held:
                    insort(course, one, key=lambda each: (each.time, each.row_id))
                    held.add((one.row_id, one.time))
            if course:
                oldest = course[-1].time - kept
                course = [each for each in course if each.time >= oldest]
                now = from_microseconds(int(facts.now[bundle]))
                yield bundle, ReadingCourse(now=now, readings=tuple(course), charted=charted)


def _counts(facts: BatchFacts, concept: str) -> Iterator[tuple[int, list[tuple[int | None, int]]]]:
    """Yield of each bundle from the first time on when something was done and when that was known."""
    events, asked = facts.stream.columns, asked_keys(concept)
    names = [place for place, name in enumerate(events.names) if not asked.isdisjoint(keys_of_name(name))]
    wanted = np.isin(events.concept, names) & np.isin(events.kind, DONE)
    by_bundle = defaultdict(list)
    for place in np.flatnonzero(wanted).tolist():
        by_bundle[int(facts.onward.bundle[place])].append(place)
    subjects = facts.onward.subject
    noted: list[tuple[int | None, int]] = []
    last: dict[tuple[int, int], int] = {}
    of_name: dict[int, list[int]] = defaultdict(list)
    owner = -1
    for bundle in range(len(facts.stream)) if by_bundle else ():
        if subjects[bundle] != owner:
            owner, noted, last, of_name = int(subjects[bundle]), [], {}, defaultdict(list)
        several = by_bundle.get(bundle, ())
        new: dict[tuple[int, int], int] = {}
        for place in several:
            key = (int(events.kind[place]), int(events.concept[place]))
            last[key] = max(last.get(key, NEVER), int(events.event[place]))
            new[key] = new.pop(key, 0) + 1  # in the order in which each was last touched, as the state has it
        for key, number in new.items():
            times = of_name[key[1]]
            is_newest = all(time < last[key] for time in times)
            hour = int(facts.stream.hours[bundle]) * HOUR
            for place in range(number):
                told = last[key] if is_newest and place == 0 else None
                noted.append((told, hour))
                if told is not None:
                    times.append(told)
        if noted:
            yield bundle, noted


def _filled(bundles: Integers, facts: BatchFacts) -> Integers:
    """Return of every bundle the place of the subject's newest among some bundles, -1 where there is none."""
    at = np.searchsorted(bundles, np.arange(len(facts.stream)), side="right") - 1
    if not len(bundles):
        return np.full(len(facts.stream), -1, np.int64)
    subject = facts.onward.subject
    found: Integers = np.where((at >= 0) & (subject[bundles[np.maximum(at, 0)]] == subject), at, -1)
    return found


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


def _microseconds(one: CourseReading) -> int:
    return int(np.datetime64(one.time, "us").astype(np.int64))
