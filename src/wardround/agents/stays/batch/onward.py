"""Effects of events on later bundles: the newest of some events, whether one occurred, and which orders still run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from wardround.clinical.bundles import BundleStream
from wardround.clinical.bundles.events import STOPS, EventKind, Integers
from wardround.clinical.bundles.fold import DONE, RUNNING

Mask = npt.NDArray[np.bool_]
_KINDS = max(EventKind) + 1


@cache
def mask_of(*kinds: EventKind) -> Mask:
    """Return by number of every kind whether it is among some kinds."""
    return np.isin(np.arange(_KINDS), kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """A stream of n events in b bundles.

    ``bundle``: (n,) the bundle of each event; ``subject``: (b,) the number of each bundle's subject, from 0;
    ``places``: by concept, its events."""

    stream: BundleStream
    bundle: Integers
    subject: Integers
    ordered: Integers
    starts: Integers

    @classmethod
    def of(cls, stream: BundleStream) -> Onward:
        """Index a stream."""
        concept = stream.columns.concept
        ordered = np.argsort(concept, kind="stable")
        return cls(
            stream=stream,
            bundle=np.repeat(np.arange(len(stream)), np.diff(stream.starts)),
            subject=np.unique(stream.subjects, return_inverse=True)[1].astype(np.int64),
            ordered=ordered,
            starts=np.searchsorted(concept[ordered], np.arange(len(stream.columns.names) + 1)),
        )

    def places(self, concepts: Iterable[int], kinds: Mask) -> Integers:
        """Return the events of some concepts and kinds; ``kinds``: by number whether it is wanted."""
        of_each = [self.ordered[self.starts[each] : self.starts[each + 1]] for each in concepts]
        found = np.concatenate(of_each) if of_each else np.empty(0, np.int64)
        return found[kinds[self.stream.columns.kind[found]]]

    def greatest(self, places: Integers, score: Integers) -> Integers:
        """Return for every bundle the greatest score among these events of the subject until its end, 0 without any;
        ``score``: above 0, one for each place."""
        most = int(score.max(initial=0)) + 1
        found = self.subject * most
        np.maximum.at(found, self.bundle[places], found[self.bundle[places]] + score)
        np.maximum.accumulate(found, out=found)
        found -= self.subject * most
        return found

    def by_then(self, places: Integers) -> Mask:
        """Return for every bundle whether one of these events occurred by its end."""
        return self.greatest(places, np.ones(len(places), np.int64)) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Orders and infusions (m,): the event that begins each, the first bundle after which it runs, and the first after
    which it no longer does."""

    event: Integers
    concept: Integers
    first: Integers
    stop: Integers
    bundles: int

    @classmethod
    def of(cls, onward: Onward) -> Runs:
        """Find the end of each: its own end, a new start of the same row, the discharge, or the record's end."""
        events = onward.stream.columns
        subject = onward.subject[onward.bundle]
        rows = events.row_id.dictionary_encode()
        row = subject * (len(rows.dictionary) + 1) + np.asarray(rows.indices, np.int64)
        starts = np.flatnonzero(np.isin(events.kind, RUNNING))
        of_row = np.flatnonzero(np.isin(events.kind, [*RUNNING, *(STOPS[kind] for kind in RUNNING)]))
        discharges = np.flatnonzero(events.kind == EventKind.DISCHARGE)
        stop = np.minimum(_next(row, of_row, starts), _next(subject, discharges, starts))
        last = np.searchsorted(onward.subject, onward.subject[onward.bundle[starts]], side="right")
        bundle = np.append(onward.bundle, len(onward.stream))
        return cls(
            event=starts,
            concept=events.concept[starts],
            first=onward.bundle[starts],
            stop=np.minimum(bundle[stop], last),
            bundles=len(onward.stream),
        )

    def count(self, chosen: Mask) -> Integers:
        """Return how many of some orders run after every bundle."""
        begun = np.bincount(self.first[chosen], minlength=self.bundles + 1)
        ended = np.bincount(self.stop[chosen], minlength=self.bundles + 1)
        return np.cumsum(begun - ended)[: self.bundles]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Actions that a state drops: it keeps a limited number of names, and drops those changed longest ago (``fold``).

    ``gone``: (n,) the bundle after which each event no longer counts; the number of bundles if it always counts."""

    onward: Onward
    gone: Integers

    @classmethod
    def of(cls, onward: Onward, limit: int) -> Forgotten:
        """Compute drops for the subjects with more names than are kept."""
        events, bundles = onward.stream.columns, len(onward.stream)
        gone = np.full(len(events), bundles)
        places = np.flatnonzero(mask_of(*DONE)[events.kind])
        name = events.concept[places] * _KINDS + events.kind[places]
        size = len(events.names) * _KINDS
        each = np.unique(onward.subject[onward.bundle[places]] * size + name) // size
        owners, counts = np.unique(each, return_counts=True)
        for owner in owners[counts > limit].tolist():
            own = onward.subject[onward.bundle[places]] == owner
            held: dict[int, list[int]] = {}
            touched = zip(onward.bundle[places[own]].tolist(), name[own].tolist(), places[own].tolist(), strict=True)
            for bundle, together in groupby(touched, key=itemgetter(0)):
                for _, key, place in together:
                    held[key] = held.pop(key, [])
                    held[key].append(place)
                for key in [*held][: max(len(held) - limit, 0)]:
                    gone[held.pop(key)] = bundle
        return cls(onward=onward, gone=gone)

    def greatest(self, places: Integers, score: Integers) -> Integers:
        """Return the result of ``Onward.greatest`` for those of these events that are not dropped yet."""
        gone, stream, bundle = self.gone[places], self.onward.stream, self.onward.bundle
        stays = gone == len(stream)
        found = self.onward.greatest(places[stays], score[stays])
        for end in np.unique(gone[~stays]).tolist():
            own = np.flatnonzero(gone == end)
            start = int(bundle[places[own]].min())
            until = np.zeros(end - start, np.int64)
            np.maximum.at(until, bundle[places[own]] - start, score[own])
            found[start:end] = np.maximum(found[start:end], np.maximum.accumulate(until))
        return found


def afterwards(held: Mask, stay: Integers) -> Mask:
    """Return for every bundle whether a condition held after an earlier bundle of the same stay."""
    found = stay * 2
    found[1:] += held[:-1] & (stay[1:] == stay[:-1])
    before: Mask = np.maximum.accumulate(found) - stay * 2 > 0
    return before


def _next(group: Integers, marks: Integers, places: Integers) -> Integers:
    """Return for every place the first mark of its group after it; the number of events without one."""
    most = len(group) + 1
    keys = np.sort(group[marks] * most + marks)
    at = np.searchsorted(keys, group[places] * most + places, side="right")
    found = np.append(keys, -1)[at]
    return np.where(found // most == group[places], found % most, len(group))
