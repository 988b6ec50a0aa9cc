"""A bundle as text: gaps as tokens, abnormal values spelled out, normal panels folded."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from itertools import count, groupby

import numpy as np
import numpy.typing as npt

from wardround.clinical.bundles.events import (
    MEASURED,
    STOPS,
    Bundle,
    BundleEvent,
    BundleEvents,
    EventKind,
    ValueLevel,
    is_amendment,
)

GAP_HOURS = 2
"""Gaps of at least this many hours are written (the paper prints no threshold; this is our choice)."""
SECTIONS: Mapping[str, tuple[EventKind, ...]] = {
    "Stay": (EventKind.ADMISSION, EventKind.TRANSFER, EventKind.DISCHARGE),
    "Diagnoses": (EventKind.DIAGNOSIS,),
    "Allergies": (EventKind.ALLERGY, EventKind.CODED_ALLERGY),
    "Medications": (EventKind.MEDICATION_START, EventKind.MEDICATION_STOP),
    "Given": (EventKind.ADMINISTRATION,),
    "Labs": (EventKind.LAB,),
    "Cultures": (EventKind.CULTURE_TAKEN, EventKind.CULTURE),
    "Vitals": (EventKind.VITAL,),
    "Intake": (EventKind.INTAKE, EventKind.INFUSION_START, EventKind.INFUSION_STOP),
    "Output": (EventKind.OUTPUT,),
    "Procedures": (EventKind.PROCEDURE, EventKind.PROCEDURE_STOP),
    "Corrections": (EventKind.RETRACTION,),
}
"""The sections of a bundle's text, in order, with their kinds of events."""
_SECTION_OF_KIND = {kind: section for section, kinds in SECTIONS.items() for kind in kinds}
VERBS = {
    EventKind.MEDICATION_START: "start",
    EventKind.MEDICATION_STOP: "stop",
    EventKind.INFUSION_START: "run",
    EventKind.INFUSION_STOP: "end of",
    EventKind.PROCEDURE_STOP: "end of",
    EventKind.CULTURE_TAKEN: "taken",
    EventKind.ADMISSION: "admitted",
    EventKind.DISCHARGE: "discharged",
    EventKind.RETRACTION: "withdrawn",
}
ENDED = (*STOPS.values(), EventKind.RETRACTION)
LEVEL_WORDS = {
    ValueLevel.LOW: "Low",
    ValueLevel.HIGH: "High",
    ValueLevel.BELOW_BASELINE: "below own baseline",
    ValueLevel.ABOVE_BASELINE: "above own baseline",
}
MANY_NORMAL = 3
"""A panel of at least this many normal results is folded into one word."""


def bundle_text(bundle: Bundle) -> str:
    """Return a bundle as lines: the gap before it if there is one, the hour, and a line per section."""
    lines = []
    if bundle.gap_hours is not None and bundle.gap_hours >= GAP_HOURS:
        lines.append(f"[TIME_DELTA: +{bundle.gap_hours} hours]")
    lines.append(f"[{bundle.hour:%Y-%m-%d %H:00}]")
    for section, events in _by_section(bundle.events).items():
        lines.append(f"{section}: {'; '.join(_section(events))}")
    return "\n".join(lines)


def _by_section(events: Iterable[BundleEvent]) -> Mapping[str, list[BundleEvent]]:
    """Return the sections that have events, in their order."""
    found: dict[str, list[BundleEvent]] = {section: [] for section in SECTIONS}
    for event in events:
        found[_SECTION_OF_KIND[event.kind]].append(event)
    return {section: several for section, several in found.items() if several}


def _section(events: Sequence[BundleEvent]) -> Iterator[str]:
    folded = list(_folded(events))
    hidden = {name for _, names, _ in folded for name in names}
    yield from dict.fromkeys(
        _series(list(several))
        for (_, concept), several in groupby(sorted(events, key=_place), key=_place)
        if concept not in hidden
    )
    yield from (f"{panel}: {word} normal ({len(names)})" for panel, names, word in folded)


def _place(event: BundleEvent) -> tuple[int, str]:
    return int(event.kind), event.concept


def _folded(events: Iterable[BundleEvent]) -> Iterator[tuple[str, set[str], str]]:
    """Yield panels with normal tests, with the names of these, and whether all tests done are normal."""
    labs = [event for event in events if event.kind is EventKind.LAB]
    abnormal = {event.concept for event in labs if event.level is not ValueLevel.NORMAL or event.revision}
    by_panel: dict[str, set[str]] = {}
    for event in labs:
        panel = panel_of(event.concept)
        if panel is not None:
            by_panel.setdefault(panel, set()).add(event.concept)
    for panel, names in by_panel.items():
        normal = names - abnormal
        if len(normal) >= MANY_NORMAL:
            yield panel, normal, "all" if normal == names else "others"


@cache
def panel_of(concept: str) -> str | None:
    folded = concept.strip().casefold()
    fits = (panel for panel, names in _panels().items() if any(fnmatchcase(folded, name) for name in names))
    return next(fits, None)


@cache
def _panels() -> Mapping[str, Sequence[str]]:
    text = files("wardround.clinical.bundles").joinpath("data/panels.toml").read_text(encoding="utf-8")
    panels: Mapping[str, Sequence[str]] = tomllib.loads(text)["panels"]
    return panels


def _series(events: Sequence[BundleEvent]) -> str:
    """Format the events of one concept: the last in full, earlier values in brackets."""
    last = events[-1]
    text = event_text(last)
    before = [f"{event.value:g}" for event in events[:-1] if event.value is not None]
    if before and last.value is not None:
        return f"{text} [before: {', '.join(before)}]"
    return f"{text} (x{len(events)})" if len(events) > 1 else text


def event_text(event: BundleEvent) -> str:
    """Format one event: ``Creatinine 2.1 mg/dL (High)``, ``start Vancomycin 1000 mg``."""
    words = [VERBS.get(event.kind, ""), event.concept]
    if event.kind not in ENDED:
        words += [f"{event.value:g}" if event.value is not None else event.text or ""]
        words += [event.unit or ""] if event.value is not None or event.text else []
    words += [f"({LEVEL_WORDS[event.level]})"] if event.level in LEVEL_WORDS else []
    words += ["(corrected)"] if event.revision and event.kind not in ENDED else []
    return " ".join(word for word in words if word)


# Levels of values: low, normal or high against the limits of the row, usual limits, or the person's own first value.
#
# Later values are not read: a person's own baseline is the first value that became known.


BASELINE_RISE = 1.5
"""A value above this multiple of the first is above the baseline, below its inverse is below it (our choice; KDIGO's
first stage is 1.5 times the baseline creatinine)."""
Floats = npt.NDArray[np.float64]


def with_levels(events: BundleEvents) -> BundleEvents:
    """Return events with the level of every measured value."""
    level, alone = levels_by_limits(events)
    if alone.any():
        level[alone] = _against_own(events, np.flatnonzero(alone))
        for subject in np.unique(events.subject[is_amendment(events)]).tolist():
            start, stop = np.searchsorted(events.subject, [subject, subject + 1]).tolist()
            _against_amended(events, alone, start, stop, level)
    return replace(events, level=level)


def levels_by_limits(events: BundleEvents) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Return the levels against the limits of the rows or usual limits, and which values have neither."""
    measured = np.isin(events.kind, MEASURED) & ~np.isnan(events.value)
    limits = np.array([usual_range(name) for name in events.names] or [(np.nan, np.nan)])
    own = np.isnan(events.low) & np.isnan(events.high)
    low = np.where(own, limits[events.concept, 0], events.low)
    high = np.where(own, limits[events.concept, 1], events.high)
    level = _against(events.value, low, high, ValueLevel.LOW)
    alone = measured & np.isnan(low) & np.isnan(high)
    return np.where(measured & ~alone, level, ValueLevel.UNKNOWN).astype(np.int8), alone


def _against(value: Floats, low: Floats, high: Floats, first: ValueLevel) -> npt.NDArray[np.int8]:
    """Return ``first`` for values below the limits, the next level between them, the one after it above."""
    return (first + 1 + (value > high).astype(np.int8) - (value < low).astype(np.int8)).astype(np.int8)


def _against_own(events: BundleEvents, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    order = rows[np.lexsort((rows, events.concept[rows], events.subject[rows]))]
    subject, concept, value = events.subject[order], events.concept[order], events.value[order]
    fresh = np.r_[True, (subject[1:] != subject[:-1]) | (concept[1:] != concept[:-1])]
    base = value[np.flatnonzero(fresh)[np.cumsum(fresh) - 1]]
    least, most = (
        np.minimum(base / BASELINE_RISE, base * BASELINE_RISE),
        np.maximum(base / BASELINE_RISE, base * BASELINE_RISE),
    )
    level = _against(value, least, most, ValueLevel.BELOW_BASELINE)
    level[fresh] = ValueLevel.UNKNOWN
    back = np.empty_like(level)
    back[np.searchsorted(rows, order)] = level
    return back


def _against_amended(
    events: BundleEvents, alone: npt.NDArray[np.bool_], start: int, stop: int, level: npt.NDArray[np.int8]
) -> None:
    """Set the levels of a subject with amended rows: the baseline is the first value as known at each time."""
    some = events.slice(start, stop)
    columns = zip(
        some.row_id.to_pylist(),
        *(each.tolist() for each in (some.kind, alone[start:stop], some.hour, some.event, some.concept, some.value)),
        strict=True,
    )
    known = _FirstValues()
    for place, (row, kind, is_alone, hour, event, concept, value) in enumerate(columns):
        if kind == EventKind.RETRACTION:
            known.drop(row)
        if is_alone:
            first, base = known.add(row, hour, event, concept, value)
            level[start + place] = ValueLevel.UNKNOWN if first == row else level_against(value, base)


class _FirstValues:
    """A subject's values as they become known, row by row.

    The first value of a concept is searched again only if it changed or was withdrawn; otherwise a long record would be
    read once for every value."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, tuple[tuple[int, int, int], float]]] = defaultdict(dict)
        self._concept: dict[str, int] = {}
        self._first: dict[int, str] = {}
        self._place = count()

    def drop(self, row: str) -> tuple[int, int, int] | None:
        """Remove a withdrawn row; return its place in time, None if it was not known."""
        concept = self._concept.pop(row, None)
        if concept is None:
            return None
        if self._first.get(concept) == row:
            del self._first[concept]
        return self._rows[concept].pop(row)[0]

    def add(self, row: str, hour: int, event: int, concept: int, value: float) -> tuple[str, float]:
        """Set a row's value; it keeps the hour it became known. Return row and value of its concept's first."""
        before = self.drop(row)
        key = (hour if before is None else before[0], event, next(self._place))
        own = self._rows[concept]
        own[row] = (key, value)
        self._concept[row] = concept
        first = self._first.get(concept)
        if first is None:
            first = min(own, key=own.__getitem__)
        elif key < own[first][0]:
            first = row
        self._first[concept] = first
        return first, own[first][1]


def level_against(value: float, base: float) -> ValueLevel:
    """Return a value's level against the person's own first value."""
    least, most = sorted((base / BASELINE_RISE, base * BASELINE_RISE))
    if value > most:
        return ValueLevel.ABOVE_BASELINE
    return ValueLevel.BELOW_BASELINE if value < least else ValueLevel.AT_BASELINE


@cache
def usual_range(name: str) -> tuple[float, float]:
    """Return the usual limits of a measurement by its name, NaN if none are known."""
    folded = name.strip().casefold()
    fits = (limits for names, limits in _usual_ranges() if any(fnmatchcase(folded, pattern) for pattern in names))
    return next(fits, (np.nan, np.nan))


@cache
def _usual_ranges() -> Sequence[tuple[tuple[str, ...], tuple[float, float]]]:
    text = files("wardround.clinical.bundles").joinpath("data/usual_ranges.toml").read_text(encoding="utf-8")
    return [(tuple(each["names"]), (float(each["low"]), float(each["high"]))) for each in tomllib.loads(text)["range"]]
