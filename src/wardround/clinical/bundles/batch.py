"""States and texts of many bundles at once, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.clinical.bundles.events import (
    ALLERGIC,
    DIAGNOSED,
    HOUR,
    STOPS,
    BundleEvents,
    BundleStream,
    EventKind,
    Integers,
    ValueLevel,
    in_order,
    is_amendment,
)
from wardround.clinical.bundles.fold import DONE, ROWS_KEPT, RUNNING, TRENDS
from wardround.clinical.bundles.state import (
    ActiveMedication,
    ActiveProblem,
    DoneAction,
    KnownAllergy,
    PatientState,
    StateEncounter,
    StateLimits,
    Trend,
    TrendReading,
    admitted_at,
    as_if_always_so,
    joined,
)
from wardround.clinical.bundles.text import (
    ENDED,
    GAP_HOURS,
    LEVEL_WORDS,
    MANY_NORMAL,
    SECTIONS,
    VERBS,
    panel_of,
    with_levels,
)
from wardround.core import from_microseconds

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Entries of one section, by subject and the order in which they were last changed.

    ``first``, ``last``: places of the events that made and last changed each entry; ``members``: the places of its
    valid events; entry e has those from ``starts[e]`` to ``starts[e + 1]``.
    """

    first: Integers
    last: Integers
    members: Integers
    starts: Integers

    def of(self, subject: int, events: BundleEvents) -> range:
        """Return the entries of one subject."""
        low, high = np.searchsorted(events.subject[self.last], [subject, subject + 1])
        return range(int(low), int(high))

    def rows(self, entry: int) -> list[int]:
        """Return the places of an entry's events."""
        return [int(place) for place in self.members[self.starts[entry] : self.starts[entry + 1]]]


@dataclass(frozen=True, kw_only=True)
class BatchStates:
    """The states of a stream's subjects after their last bundles, without history and evictions.

    A subject with more entries than the limits has to be folded. ``events``: the valid ones; amended rows read as they
    do at the end.
    """

    stream: BundleStream = field(repr=False)
    events: BundleEvents = field(repr=False)
    limits: StateLimits
    problems: Entries
    medications: Entries
    trends: Entries
    allergies: Entries
    actions: Entries

    @cached_property
    def last_hours(self) -> dict[int, int]:
        """The hour of each subject's last bundle."""
        return dict(zip(self.stream.subjects.tolist(), self.stream.hours.tolist(), strict=True))

    def of(self, subject: int) -> PatientState:
        """Return one subject's state. KeyError: it has no bundle."""
        hour = from_microseconds(self.last_hours[subject] * HOUR)
        return PatientState(
            subject_id=subject,
            hour=hour,
            problems={each.concept: each for each in map(self._problem, self.problems.of(subject, self.events))},
            medications={
                each.row_id: each for each in map(self._medication, self.medications.of(subject, self.events))
            },
            trends={
                (each.kind, each.concept, each.unit or ""): each
                for each in map(self._trend, self.trends.of(subject, self.events))
            },
            allergies={each.concept: each for each in map(self._allergy, self.allergies.of(subject, self.events))},
            actions={
                (each.kind, each.concept): each for each in map(self._action, self.actions.of(subject, self.events))
            },
            limits=self.limits,
            encounter=self._encounters.get(subject),
        )

    @cached_property
    def _encounters(self) -> dict[int, StateEncounter]:
        found = encounters(self.events)
        return {int(self.events.subject[place]): encounter for place, encounter in found}

    def _concept(self, place: int) -> str:
        return self.events.names[int(self.events.concept[place])]

    def _row_id(self, place: int) -> str:
        return str(self.events.row_id[place].as_py())

    def _problem(self, entry: int) -> ActiveProblem:
        rows = self.problems.rows(entry)
        return ActiveProblem(
            concept=self._concept(rows[0]),
            since=from_microseconds(int(self.events.known[rows[0]])),
            last=from_microseconds(int(self.events.known[rows[-1]])),
            row_ids=tuple(map(self._row_id, rows[-ROWS_KEPT:])),
        )

    def _medication(self, entry: int) -> ActiveMedication:
        place = int(self.medications.last[entry])
        value = float(self.events.value[place])
        return ActiveMedication(
            concept=self._concept(place),
            dose=self.events.text[place].as_py() if np.isnan(value) else f"{value:g}",
            unit=self.events.unit[place].as_py(),
            since=from_microseconds(int(self.events.event[place])),
            kind=EventKind(int(self.events.kind[place])),
            row_id=self._row_id(place),
        )

    def _trend(self, entry: int) -> Trend:
        rows = self.trends.rows(entry)
        unit = self.events.unit[rows[-1]].as_py()
        kind = EventKind(int(self.events.kind[rows[-1]]))
        readings = tuple(map(self._reading, rows))
        return Trend(concept=self._concept(rows[-1]), unit=unit, kind=kind, readings=readings)

    def _reading(self, place: int) -> TrendReading:
        event = next(iter(self.events.slice(place, place + 1)))
        assert event.value is not None
        return TrendReading(time=event.time, value=event.value, level=event.level, row_id=event.row_id)

    def _allergy(self, entry: int) -> KnownAllergy:
        rows = self.allergies.rows(entry)
        return KnownAllergy(
            concept=self._concept(rows[-1]),
            reaction=self.events.text[rows[-1]].as_py(),
            since=from_microseconds(int(self.events.known[rows[0]])),
            row_id=self._row_id(rows[-1]),
            is_listed=bool((self.events.kind[rows] == EventKind.ALLERGY).any()),
        )

    def _action(self, entry: int) -> DoneAction:
        rows = self.actions.rows(entry)
        newest = max(rows, key=self.events.event.__getitem__)
        place = max(row for row in rows if self.events.event[row] == self.events.event[newest])
        return DoneAction(
            concept=self._concept(place),
            kind=EventKind(int(self.events.kind[place])),
            last=from_microseconds(int(self.events.event[place])),
            count=len(rows),
            row_id=self._row_id(place),
        )


def batch_states(stream: BundleStream, limits: StateLimits | None = None) -> BatchStates:
    """Return the states of all subjects of a stream after their last bundles."""
    limits = StateLimits() if limits is None else limits
    events = _as_they_read(stream.columns)
    subject = np.unique(events.subject, return_inverse=True)[1].astype(np.int64)
    named = subject * len(events.names) + events.concept
    by_kind = named * (max(EventKind) + 1) + events.kind
    return BatchStates(
        stream=stream,
        events=events,
        limits=limits,
        problems=_entries(events, np.isin(events.kind, DIAGNOSED), named),
        medications=_running(events, subject),
        trends=_trends(events, by_kind, limits),
        allergies=_entries(events, np.isin(events.kind, ALLERGIC), named),
        actions=_entries(events, np.isin(events.kind, DONE), by_kind),
    )


def encounters(events: BundleEvents) -> list[tuple[int, StateEncounter]]:
    """Return the encounter of its subject after each event that begins or ends one, with the event's place."""
    found: list[tuple[int, StateEncounter]] = []
    current: dict[int, StateEncounter] = {}
    for place in np.flatnonzero(np.isin(events.kind, [EventKind.ADMISSION, EventKind.DISCHARGE])).tolist():
        subject, time = int(events.subject[place]), from_microseconds(int(events.event[place]))
        before = current.get(subject)
        if events.kind[place] == EventKind.ADMISSION:
            current[subject] = admitted_at(time, before)
        elif before is not None:
            current[subject] = before.ended_at(time)
        if subject in current:
            found.append((place, current[subject]))
    return found


def _as_they_read(events: BundleEvents) -> BundleEvents:
    """Return the events with amended rows as they read at the end."""
    amended = np.unique(events.subject[is_amendment(events)])
    if not len(amended):
        return events
    changed = np.isin(events.subject, amended)
    return in_order(joined([events.take(~changed), with_levels(as_if_always_so(events.take(changed)))]))


def _entries(events: BundleEvents, mask: Mask, key: Integers) -> Entries:
    places = np.flatnonzero(mask)
    return _grouped(events, places[np.lexsort((places, key[places]))], key)


def _grouped(events: BundleEvents, places: Integers, key: Integers, touched: Integers | None = None) -> Entries:
    """Return one entry for each run of equal keys; ``touched``: its last change, if that is not its last event."""
    fresh = np.append([True], key[places[1:]] != key[places[:-1]])[: len(places)]
    heads = np.flatnonzero(fresh)
    sizes = np.diff(np.append(heads, len(places)))
    last = places[heads + sizes - 1]
    order = np.lexsort((last if touched is None else touched, events.subject[last]))
    starts = np.append([0], np.cumsum(sizes[order]))
    members = np.repeat(heads[order] - starts[:-1], sizes[order]) + np.arange(starts[-1])
    return Entries(first=places[heads][order], last=last[order], members=places[members], starts=starts)


def _trends(events: BundleEvents, key: Integers, limits: StateLimits) -> Entries:
    units = events.unit.dictionary_encode()
    unit = np.asarray(units.indices.fill_null(len(units.dictionary)).to_numpy(zero_copy_only=False), np.int64)
    key = key * (len(units.dictionary) + 1) + unit
    places = np.flatnonzero(np.isin(events.kind, TRENDS) & ~np.isnan(events.value))
    places = places[np.lexsort((places, events.event[places], key[places]))]
    fresh = np.append([True], key[places[1:]] != key[places[:-1]])[: len(places)]
    group = np.cumsum(fresh) - 1
    ends = np.append(np.flatnonzero(fresh)[1:], len(places))
    touched = np.maximum.reduceat(places, np.flatnonzero(fresh)) if len(places) else places
    newest = events.event[places[ends - 1]][group] if len(places) else places
    kept = events.event[places] >= newest - limits.window_hours * HOUR
    kept &= ends[group] - np.arange(len(places)) <= limits.readings if len(places) else kept
    return _grouped(events, places[kept], key, touched)


def _running(events: BundleEvents, subject: Integers) -> Entries:
    """Return the orders and infusions that neither their own end nor a discharge follows."""
    row = np.asarray(events.row_id.dictionary_encode().indices.to_numpy(), np.int64)
    starts = np.flatnonzero(np.isin(events.kind, RUNNING))
    own = _last_of(row, np.isin(events.kind, [STOPS[kind] for kind in RUNNING]))[row[starts]]
    left = _last_of(subject, events.kind == EventKind.DISCHARGE)[subject[starts]]
    places = starts[(own < starts) & (left < starts)]
    return _grouped(events, places, np.arange(len(events)))


def _last_of(group: Integers, mask: Mask) -> Integers:
    """Return the last place under a mask of every group, -1 where there is none."""
    last = np.full(int(group.max(initial=-1)) + 1, -1, np.int64)
    places = np.flatnonzero(mask)
    np.maximum.at(last, group[places], places)
    return last


# The texts of many bundles at once, as columns: equal to ``bundle_text``, without a Python step per event.


_KINDS = max(EventKind) + 1
_PLACES = {name: place for place, name in enumerate(SECTIONS)}
_SECTION = np.array([next((_PLACES[n] for n, kinds in SECTIONS.items() if k in kinds), 0) for k in range(_KINDS)])


def bundle_texts(stream: BundleStream) -> list[str]:
    """Return the texts of a stream's bundles, equal to ``bundle_text``, in order."""
    if not len(stream):
        return []
    pieces = _pieces(stream)
    # Join the pieces of every section into its line
    heads = _heads(pieces.bundle * len(SECTIONS) + pieces.section)
    section = pieces.section[heads[:-1]]
    names = pa.array(list(SECTIONS)).take(pa.array(section))
    text = pc.binary_join_element_wise(names, _joined(pieces.text, heads, "; "), ": ")
    lines = _Pieces(bundle=pieces.bundle[heads[:-1]], section=section, text=text)
    bundle = np.concatenate([np.arange(len(stream)), lines.bundle])
    order = np.argsort(bundle, kind="stable")
    hours = np.char.replace(np.datetime_as_string(stream.hours.astype("datetime64[h]")), "T", " ")
    hours_text = pc.binary_join_element_wise("[", pa.array(hours), ":00]", "")
    gaps = pc.binary_join_element_wise("[TIME_DELTA: +", pa.array(stream.gaps).cast(pa.string()), " hours]\n", "")
    texts = pa.concat_arrays(
        [
            pc.binary_join_element_wise(pc.if_else(pa.array(stream.gaps >= GAP_HOURS), gaps, ""), hours_text, ""),
            lines.text,
        ]
    ).take(pa.array(order))
    whole: list[str] = _joined(texts, _heads(bundle[order]), "\n").to_pylist()
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """Parts of texts (n,), in order. ``bundle``, ``section``: of each part; ``text``: an Arrow array."""

    bundle: Integers
    section: Integers
    text: Any

    def take(self, places: Integers) -> _Pieces:
        return replace(
            self, bundle=self.bundle[places], section=self.section[places], text=self.text.take(pa.array(places))
        )


def _pieces(stream: BundleStream) -> _Pieces:
    """Return the text of every concept of a bundle, then of the folded panels, section by section."""
    events = stream.columns
    bundle = np.repeat(np.arange(len(stream)), np.diff(stream.starts))
    rank = np.unique(np.array([*events.names, ""], dtype=object), return_inverse=True)[1][events.concept]
    hidden, panels = _folded(events, bundle)
    series = _series(events, bundle, rank, ~hidden)
    both = _Pieces(
        bundle=np.concatenate([series.bundle, panels.bundle]),
        section=np.concatenate([series.section, panels.section]),
        text=pa.concat_arrays([series.text, panels.text]),
    )
    return both.take(np.lexsort((both.section, both.bundle)))


def _series(events: BundleEvents, bundle: Integers, rank: Integers, shown: Mask) -> _Pieces:
    """Return one piece for the events of each kind and concept in a bundle; equal texts in a section only once."""
    section = _SECTION[events.kind]
    order = np.lexsort((rank, events.kind, section, bundle))
    order = order[shown[order]]
    same = (bundle[order] * _KINDS + events.kind[order]) * (len(events.names) + 1) + rank[order]
    heads = _heads(same)
    last = order[heads[1:] - 1]
    pieces = _Pieces(
        bundle=bundle[last],
        section=section[last],
        text=_with_earlier(events.take(order), heads, _event_texts(events.take(last))),
    )
    words = pieces.text.dictionary_encode()
    code = np.asarray(words.indices, np.int64)
    key = (pieces.bundle * len(SECTIONS) + pieces.section) * max(len(words.dictionary), 1) + code
    first = np.unique(key, return_index=True)[1]
    return pieces if len(first) == len(key) else pieces.take(np.sort(first))


def _with_earlier(events: BundleEvents, heads: Integers, texts: Any) -> Any:
    """Add to the text of every group's last event the earlier values, or their number."""
    sizes = np.diff(heads)
    last = heads[1:] - 1
    valued = ~np.isnan(events.value)
    before = valued.copy()
    before[last] = False
    counts = np.add.reduceat(before, heads[:-1]) if len(last) else sizes
    starts = np.append(0, np.cumsum(counts))
    listed = _joined(_numbers(events.value[before]), starts, ", ")
    earlier = pc.binary_join_element_wise(" [before: ", listed, "]", "")
    often = pc.binary_join_element_wise(" (x", pa.array(sizes).cast(pa.string()), ")", "")
    more = pc.if_else(pa.array(sizes > 1), often, "")
    return pc.binary_join_element_wise(texts, pc.if_else(pa.array((counts > 0) & valued[last]), earlier, more), "")


def _event_texts(events: BundleEvents) -> Any:
    """Return the text of every event, equal to ``event_text``."""
    ended = np.isin(events.kind, ENDED)
    valued = ~np.isnan(events.value)
    text, unit = _filled(events.text), _filled(events.unit)
    value = pc.if_else(pa.array(valued), _numbers(events.value), text)
    has_unit = pc.or_(pa.array(valued), pc.is_valid(text))
    words = (
        _verbs().take(pa.array(events.kind)),
        _filled(pa.array([*events.names], pa.string())).take(pa.array(events.concept)),
        _where(~ended, value),
        _where(~ended, pc.if_else(has_unit, unit, pa.scalar(None, pa.string()))),
        _levels().take(pa.array(events.level)),
        _where((events.revision != 0) & ~ended, "(corrected)"),
    )
    # Arrow drops a row of nulls only: an empty word first prevents such rows
    return pc.utf8_slice_codeunits(pc.binary_join_element_wise("", *words, " ", null_handling="skip"), start=1)


@cache
def _verbs() -> Any:
    """The word before an event's concept, by kind. Not made on import, since Arrow's first array imports pandas."""
    words = {int(kind): verb for kind, verb in VERBS.items()}
    return pa.array([words.get(kind) for kind in range(_KINDS)], pa.string())


@cache
def _levels() -> Any:
    words = {int(level): f"({word})" for level, word in LEVEL_WORDS.items()}
    return pa.array([words.get(int(level)) for level in ValueLevel], pa.string())


def _folded(events: BundleEvents, bundle: Integers) -> tuple[Mask, _Pieces]:
    """Return which events are folded into panels, and the texts of these panels."""
    panels = [panel_of(name) for name in events.names]
    known = [*dict.fromkeys(name for name in panels if name is not None)]
    panel = np.array([-1 if name is None else known.index(name) for name in panels] or [-1])[events.concept]
    rows = np.flatnonzero((events.kind == EventKind.LAB) & (panel >= 0))
    tests, test = np.unique(bundle[rows] * len(events.names) + events.concept[rows], return_inverse=True)
    abnormal = np.zeros(len(tests), dtype=bool)
    np.logical_or.at(abnormal, test, (events.level[rows] != ValueLevel.NORMAL) | (events.revision[rows] != 0))
    groups, first, group = np.unique(
        bundle[rows] * max(len(known), 1) + panel[rows], return_index=True, return_inverse=True
    )
    of_test = np.zeros(len(tests), np.int64)
    of_test[test] = group
    normal = np.bincount(of_test[~abnormal], minlength=len(groups))
    folds = normal >= MANY_NORMAL
    hidden = np.zeros(len(events), dtype=bool)
    hidden[rows] = ~abnormal[test] & folds[group]
    chosen = np.flatnonzero(folds)[np.argsort(first[folds], kind="stable")]
    whole = normal == np.bincount(of_test, minlength=len(groups))
    return hidden, _panel_pieces(groups[chosen], normal[chosen], whole[chosen], known)


def _panel_pieces(groups: Integers, normal: Integers, whole: Mask, known: list[str]) -> _Pieces:
    count = max(len(known), 1)
    word = pc.if_else(pa.array(whole), "all", "others")
    names = pa.array(known, pa.string()).take(pa.array(groups % count))
    numbers = pa.array(normal).cast(pa.string())
    text = pc.binary_join_element_wise(names, ": ", word, " normal (", numbers, ")", "")
    return _Pieces(bundle=groups // count, section=np.full(len(groups), _PLACES["Labs"]), text=text)


def _numbers(values: npt.NDArray[np.float64]) -> Any:
    """Return numbers as text; equal numbers are formatted once."""
    words = pa.array(values).dictionary_encode()
    written = pa.array([f"{value:g}" for value in words.dictionary.to_pylist()], pa.string())
    return written.take(words.indices)


def _filled(words: Any) -> Any:
    """Return words, null instead of empty ones."""
    return _where(np.asarray(pc.fill_null(pc.not_equal(words, ""), False)), words)


def _where(mask: Mask, words: Any) -> Any:
    return pc.if_else(pa.array(mask), words, pa.scalar(None, pa.string()))


def _heads(key: Integers) -> Integers:
    """Return where each run of equal keys begins, and the end of the last."""
    fresh = np.append([True], key[1:] != key[:-1])[: len(key)]
    return np.append(np.flatnonzero(fresh), len(key))


def _joined(words: Any, starts: Integers, between: str) -> Any:
    """Join the words of each run, from one start to the next."""
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(starts, pa.int32()), words), between)
