"""Facts for rules after every bundle of a stream, as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from operator import eq

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from wardround.agents.loop.steps import SubjectScore
from wardround.agents.stays.batch.onward import Forgotten, Mask, Onward, Runs, mask_of
from wardround.agents.stays.batch.readings import Courses, LookedBack, NamedReadings, read_trends
from wardround.agents.stays.charted import KEPT_HOURS
from wardround.clinical.bundles import NOTHING_KNOWN, BundleStream, Carried, StateEncounter, StateLimits, encounters
from wardround.clinical.bundles.events import ALLERGIC, DIAGNOSED, HOUR, EventKind, Integers
from wardround.clinical.bundles.fold import DRUGS, PROCEDURES, TESTS, TRENDS
from wardround.clinical.protocols import (
    STAY,
    DoneKey,
    is_allergy,
    is_problem,
    keys_of,
    lookup_done_keys,
    lookup_keys,
)
from wardround.clinical.vocabulary import clinical_name, ingredients, is_drug, is_lasting
from wardround.core import from_microseconds, to_microseconds

# The facts of ``StateFacts`` for every bundle of a stream at once, as columns.


NEVER = int(np.iinfo(np.int64).min)
"""The time of an action that was never done."""
_NEVER_ASKED = -np.inf
FloatArray = npt.NDArray[np.float64]
NOBODY = int(np.iinfo(np.int64).min)
"""A number that no subject has."""


@dataclass(frozen=True, slots=True)
class Truths:
    """(b,) where a condition is known to be true and where it is known to be false; elsewhere it is unknown."""

    yes: Mask
    no: Mask

    @classmethod
    def where(cls, known: Mask, holds: Mask) -> Truths:
        """Return bounds that are known where a mask is true."""
        return cls(known & holds, known & ~holds)

    @classmethod
    def unknown(cls, count: int) -> Truths:
        """Return bounds of ``count`` bundles that are all unknown."""
        return cls(np.zeros(count, dtype=bool), np.zeros(count, dtype=bool))

    def __invert__(self) -> Truths:
        return Truths(self.no, self.yes)

    def __and__(self, other: Truths) -> Truths:
        return Truths(self.yes & other.yes, self.no | other.no)

    def __or__(self, other: Truths) -> Truths:
        return Truths(self.yes | other.yes, self.no & other.no)


@dataclass(kw_only=True)
class BatchFacts:
    """The facts of b bundles, equal to those of the subject's state after each bundle.

    ``suspected``: by problem, the bundles before which a rule had made it suspect; ``carried``: what the source
    records; ``courses``: by name, the hours that rules look back on; ``score``: computes clinical scores on charts."""

    stream: BundleStream
    window_hours: float
    carried: Carried = NOTHING_KNOWN
    courses: Mapping[str, float] = field(default_factory=dict)
    suspected: Mapping[str, Mask] = field(default_factory=dict)
    score: SubjectScore | None = None
    _scores: dict[tuple[str, float | None], tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    _allergic: dict[str, tuple[Mask, Mask]] = field(default_factory=dict)
    _unclear: dict[str, Mapping[str, Mask]] = field(default_factory=dict)
    _carrying: dict[frozenset[EventKind], Mask] = field(default_factory=dict)
    _last_done: dict[frozenset[DoneKey], tuple[Integers, Integers]] = field(default_factory=dict)
    _taking: dict[str, tuple[Mask, Mask]] = field(default_factory=dict)
    _of_kinds: dict[tuple[EventKind, ...], list[int]] = field(default_factory=dict)
    _hours_since: dict[str, FloatArray] = field(default_factory=dict)
    _looked_back: dict[str, LookedBack] = field(default_factory=dict)

    @cached_property
    def onward(self) -> Onward:
        """The stream with indexes for these facts."""
        return Onward.of(self.stream)

    @cached_property
    def runs(self) -> Runs:
        """Running orders and infusions, with begin and end."""
        return Runs.of(self.onward)

    @cached_property
    def forgotten(self) -> Forgotten:
        """Actions that a state no longer keeps."""
        return Forgotten.of(self.onward, StateLimits().actions)

    @cached_property
    def now(self) -> Integers:
        """(b,) the end of each bundle's hour, in microseconds."""
        return (self.stream.hours + 1) * HOUR

    @cached_property
    def began(self) -> Integers:
        """(b,) the hour of the stay's first bundle, in microseconds."""
        first = np.searchsorted(self.stay, self.stay)
        return self.stream.hours[first] * HOUR

    @cached_property
    def stay(self) -> Integers:
        """(b,) the number of each bundle's stay; one begins with the first bundle and with each encounter."""
        subject, since = self.onward.subject, self.since
        another = (since[1:] != since[:-1]) & (since[:-1] != NEVER)
        return np.cumsum(np.append([False], (subject[1:] != subject[:-1]) | another)[: len(subject)])

    @cached_property
    def since(self) -> Integers:
        """(b,) actions after it belong to the bundle's encounter, in microseconds; ``NEVER``: no encounter is known."""
        since = [to_microseconds(encounter.since) for _, encounter in self._encounters]
        return np.array([NEVER, *since])[self._encounter]

    @cached_property
    def is_over(self) -> Mask:
        """(b,) whether the encounter has ended."""
        return np.array([False, *(encounter.ended is not None for _, encounter in self._encounters)])[self._encounter]

    @cached_property
    def _encounters(self) -> list[tuple[int, StateEncounter]]:
        return encounters(self.stream.columns)

    @cached_property
    def _encounter(self) -> Integers:
        """(b,) the number of the encounter after each bundle, from 1; 0: no encounter is known."""
        places = np.array([place for place, _ in self._encounters], np.int64)
        return self.onward.greatest(places, np.arange(len(places)) + 1)

    @cached_property
    def units(self) -> tuple[Integers, tuple[str, ...]]:
        """(n,) the number of each event's unit, and the units; empty: no unit."""
        units = pc.fill_null(self.stream.columns.unit, "").dictionary_encode()
        return np.asarray(units.indices, np.int64), tuple(units.dictionary.to_pylist())

    def charted_units(self, concept: str) -> Iterator[tuple[Mask, frozenset[str]]]:
        """Yield the units of a measurement in other subjects, each with the bundles for which it counts."""
        subject, several = self.stream.subjects, np.ones(len(self.stream), bool)
        for owner in self.carried.only_theirs(concept).intersection(np.unique(subject).tolist()):
            own = subject == owner
            several &= ~own
            yield own, self.carried.units_of(concept, owner)
        yield several, self.carried.units_of(concept, NOBODY)

    def reading(self, concept: str) -> tuple[Integers, Integers]:
        """Return for every bundle the newest reading of a name and the first of its trend's window, as places of
        events; -1 if missing or too old."""
        last, first = self.newest(concept)
        oldest = self.stream.hours * HOUR - timedelta(hours=self.window_hours) // timedelta(microseconds=1)
        recent = (last >= 0) & (self.stream.columns.event[last] >= oldest)
        return np.where(recent, last, -1), np.where(recent, first, -1)

    def newest(self, concept: str) -> tuple[Integers, Integers]:
        """Return the same without a limit of age, within this encounter."""
        chosen, readings, time = self._chosen(concept), self._readings, self.stream.columns.event
        if not len(chosen):
            return self._none, self._none
        at = self.onward.greatest(readings.places[chosen], chosen + 1) - 1
        known = (at >= 0) & (time[readings.last[at]] > self.since)
        first = np.where(known, readings.first[at], -1)
        for bundle in np.flatnonzero(known & (time[first] <= self.since)).tolist():
            first[bundle] = self._first_of_encounter(concept, bundle, int(readings.last[at[bundle]]))
        return np.where(known, readings.last[at], -1), first

    def _first_of_encounter(self, concept: str, bundle: int, last: int) -> int:
        """Return the first reading of this encounter in the trend that ends with a reading."""
        events, (code, _) = self.stream.columns, self.units
        places = self.readings_of(concept)
        places = places[(events.event[places] > self.since[bundle]) & (self.onward.bundle[places] <= bundle)]
        for each in (events.subject, events.kind, events.concept, code):
            places = places[each[places] == each[last]]
        return int(places[np.lexsort((places, events.event[places]))[0]])

    def readings_of(self, concept: str) -> Integers:
        """Return the readings of a name as places of events, by subject and in the order they came."""
        return self._readings.places[self._chosen(concept)]

    def looked_back(self, concept: str) -> LookedBack:
        """Return the remembered readings of a name after every bundle, within this encounter."""
        name = clinical_name(concept)
        if name not in self._looked_back:
            places, kept = self.readings_of(concept), timedelta(hours=self.courses.get(name, 0.0) + KEPT_HOURS)
            bundle, unit = self.onward.bundle[places], self.units[0][places]
            kept_us = kept // timedelta(microseconds=1)
            courses = Courses.of(self.stream.columns, places, bundle, unit, kept_us)
            self._looked_back[name] = LookedBack.since(courses, self.since, self.onward.subject, self.stream.columns)
        return self._looked_back[name]

    def _chosen(self, concept: str) -> Integers:
        readings, number = self._readings, self._names.get(clinical_name(concept))
        return np.arange(0) if number is None else np.arange(readings.starts[number], readings.starts[number + 1])

    def carries(self, kinds: frozenset[EventKind]) -> Mask:
        """Return for every bundle whether the source is known to record actions of some kinds."""
        if not kinds.isdisjoint(self.carried.kinds):
            return np.ones(len(self.stream), dtype=bool)
        if kinds not in self._carrying:
            places = np.flatnonzero(np.isin(self.stream.columns.kind, list(kinds)))
            seen = self.forgotten.greatest(places, np.ones(len(places), np.int64)) > 0
            running = self.runs.count(np.isin(self.stream.columns.kind[self.runs.event], list(kinds))) > 0
            self._carrying[kinds] = seen | running
        return self._carrying[kinds]

    def last_done(self, action: str, *, is_drug: bool | None = None, ever: bool = False) -> Integers:
        """Return for every bundle when an action was last done in its encounter, in microseconds; ``NEVER``: never.

        ``is_drug``: whether it is a drug; None: what its name means first.
        """
        keys = lookup_done_keys(action, is_drug=is_drug)
        if keys not in self._last_done:
            places = self.done(keys)
            order, times = self._times
            newest = self.forgotten.greatest(places, order[places] + 1)
            last = np.append(NEVER, times)[newest]
            self._last_done[keys] = last, np.where(last > self.since, last, NEVER)
        return self._last_done[keys][0 if ever else 1]

    def done(self, keys: frozenset[DoneKey]) -> Integers:
        """Return the events of what was done under one of these keys."""
        drugs = dict.fromkeys(each for is_drug, key in keys if is_drug for each in self._by_key.get(key, ()))
        others = dict.fromkeys(each for is_drug, key in keys if not is_drug for each in self._named_as.get(key, ()))
        of_drugs = self.onward.places(drugs, mask_of(*DRUGS))
        return np.concatenate((of_drugs, self.onward.places(others, mask_of(*TESTS, *PROCEDURES))))

    def hours_since(self, action: str) -> FloatArray:
        """Return for every bundle the hours from the last time of an action to the bundle's end, NaN if never; for
        ``stay`` from its begin."""
        if action not in self._hours_since:
            last = self.began if action == STAY else self.last_done(action)
            hours = (self.now - np.maximum(last, 0)) / HOUR
            hours = hours if action == STAY else np.where(last != NEVER, np.maximum(0.0, hours), np.nan)
            self._hours_since[action] = hours
        return self._hours_since[action]

    def scores(self, name: str, hours: float | None, where: Mask) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bound of a score after the bundles in ``where``, NaN if unlimited or unknown."""
        count = len(self.stream)
        low, high = self._scores.setdefault((name, hours), (np.full(count, _NEVER_ASKED), np.full(count, np.nan)))
        if self.score is None:
            return np.full(count, np.nan), np.full(count, np.nan)
        for place in np.flatnonzero(where & (low == _NEVER_ASKED)).tolist():
            at = from_microseconds(int(self.now[place]) - 1)
            found = self.score(int(self.stream.subjects[place]), name, hours, at)
            low[place], high[place] = (np.nan, np.nan) if found is None else (found.low, found.high)
        told = where & (low != _NEVER_ASKED)
        return np.where(told, low, np.nan), np.where(told, high, np.nan)

    def taking(self, drug: str) -> tuple[Mask, Mask]:
        """Return for every bundle whether an order or infusion of a drug or class is known to run, or known not to."""
        if drug not in self._taking:
            is_asked = np.zeros(len(self._concepts), bool)
            keys = lookup_keys(drug) | ingredients(drug)  # every order of that drug has one of these keys too
            named = self._running.intersection(each for key in keys for each in self._by_key.get(key, ()))
            is_asked[[each for each in named if is_drug(self._concepts[each], drug)]] = True
            running = self.runs.count(is_asked[self.runs.concept]) > 0
            self._taking[drug] = running, ~running & self.carries(DRUGS)
        return self._taking[drug]

    def has_problem(self, problem: str, *, ever: bool = False) -> Mask:
        """Return for every bundle whether a problem is known in its encounter, or suspected."""
        places = self._places(DIAGNOSED, lambda name: is_problem(name, problem))
        times, order = np.unique(self.stream.columns.known[places], return_inverse=True)
        newest = np.append(NEVER, times)[self.onward.greatest(places, order.astype(np.int64) + 1)]
        held = newest > (NEVER if ever else self.since)
        lasting = self._places(DIAGNOSED, lambda name: is_problem(name, problem) and is_lasting(name))
        held |= self.onward.by_then(lasting)
        for name, mask in self.suspected.items():
            held = held | mask if is_problem(name, problem) else held
        return held

    def allergic_to(self, substance: str) -> tuple[Mask, Mask]:
        """Return for every bundle whether a charted allergy forbids a substance, or none is known to."""
        if substance not in self._allergic:
            yes = self._named(ALLERGIC, lambda name: is_allergy(name, substance) is True)
            unclear = self._named(ALLERGIC, lambda name: is_allergy(name, substance) is None)
            known = self._named((EventKind.ALLERGY,), lambda name: True)
            self._allergic[substance] = yes, known & ~yes & ~unclear
        return self._allergic[substance]

    def unclear_allergies(self, substance: str) -> Mapping[str, Mask]:
        """Return by charted allergy that cannot be judged for a substance the bundles after which it is known."""
        if substance not in self._unclear:
            named = [self._concepts[each] for each in self._concepts_of(ALLERGIC)]
            unclear = [name for name in named if is_allergy(name, substance) is None]
            self._unclear[substance] = {name: self._named(ALLERGIC, partial(eq, name)) for name in unclear}
        return self._unclear[substance]

    def _named(self, kinds: tuple[EventKind, ...], is_asked: Callable[[str], bool]) -> Mask:
        return self.onward.by_then(self._places(kinds, is_asked))

    def _places(self, kinds: tuple[EventKind, ...], is_asked: Callable[[str], bool]) -> Integers:
        concepts = [each for each in self._concepts_of(kinds) if is_asked(self._concepts[each])]
        return self.onward.places(concepts, mask_of(*kinds))

    def _concepts_of(self, kinds: tuple[EventKind, ...]) -> list[int]:
        """The concepts of events of some kinds."""
        if kinds not in self._of_kinds:
            events = self.stream.columns
            self._of_kinds[kinds] = np.unique(events.concept[mask_of(*kinds)[events.kind]]).tolist()
        return self._of_kinds[kinds]

    @cached_property
    def _times(self) -> tuple[Integers, Integers]:
        """The rank of every event's time, and the times by rank."""
        times, order = np.unique(self.stream.columns.event, return_inverse=True)
        return order.astype(np.int64), times

    @cached_property
    def _none(self) -> Integers:
        return np.full(len(self.stream), -1, np.int64)

    @cached_property
    def _names(self) -> Mapping[str, int]:
        """By clinical name: its number."""
        return {name: place for place, name in enumerate(dict.fromkeys(map(clinical_name, self._concepts)))}

    @cached_property
    def _readings(self) -> NamedReadings:
        events = self.stream.columns
        names = np.array([self._names[clinical_name(name)] for name in self._concepts], np.int64)
        places = np.flatnonzero(mask_of(*TRENDS)[events.kind] & ~np.isnan(events.value))
        return read_trends(events, places, names, self.units[0], self.onward.subject[self.onward.bundle], StateLimits())

    @cached_property
    def _by_key(self) -> Mapping[str, list[int]]:
        """The concepts of each lookup key."""
        found = defaultdict(list)
        for place, name in enumerate(self._concepts):
            for key in keys_of(name):
                found[key].append(place)
        return found

    @cached_property
    def _named_as(self) -> Mapping[str, list[int]]:
        """The concepts of each clinical name."""
        found = defaultdict(list)
        for place, name in enumerate(self._concepts):
            found[clinical_name(name)].append(place)
        return found

    @cached_property
    def _running(self) -> frozenset[int]:
        """The concepts of orders and infusions that ever run."""
        return frozenset(np.unique(self.runs.concept).tolist())

    @property
    def _concepts(self) -> tuple[str, ...]:
        return self.stream.columns.names
