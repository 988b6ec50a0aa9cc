"""Lists of a record as of a moment: problems, allergies, cultures, doses given, fluid balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from wardround.clinical.bundles import BundleEvent, EventKind
from wardround.records import SourceSpec
from wardround.reports.standing import StandingEvent

MOST_LISTED = 40
"""Entries of a list at most, the latest."""
_ALLERGIES = (EventKind.ALLERGY, EventKind.CODED_ALLERGY)
_MILLILITRES = ("ml", "milliliter", "millilitre")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEntry:
    """A line of a list: a name, its first or last time, and further facts."""

    what: str
    when: datetime
    more: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLists:
    """The lists of a record as of its moment. ``balance``: sums of fluids in millilitres within the window, by kind,
    with the number of entries."""

    problems: tuple[ListedEntry, ...]
    allergies: tuple[ListedEntry, ...]
    cultures: tuple[ListedEntry, ...]
    doses: tuple[ListedEntry, ...]
    observed: tuple[ListedEntry, ...]
    balance: tuple[tuple[str, float, int], ...]


LISTED_ROLES = ("diagnosis", "allergy", "culture")
NONE_RECORDED = "none recorded by then"


def when_empty(spec: SourceSpec | None, role: str) -> str:
    """Return what an empty list of a role means: nothing recorded, or nothing that the source could record."""
    if spec is not None and not spec.roles.rows(role):
        return f"unknown: the source {spec.name} has no rows of the role {role}"
    return NONE_RECORDED


def record_lists(events: Sequence[StandingEvent], start: datetime) -> RecordLists:
    """Return the lists; doses, observations in words and the balance are of the window from ``start`` on."""
    every = [event.event for event in events]
    recent = [event for event in every if event.time >= start]
    return RecordLists(
        problems=_first_of_each(event for event in every if event.kind is EventKind.DIAGNOSIS),
        allergies=_first_of_each(event for event in every if event.kind in _ALLERGIES),
        cultures=_cultures(every),
        doses=_doses(event for event in recent if event.kind is EventKind.ADMINISTRATION),
        observed=_last_of_each(event for event in recent if event.kind is EventKind.VITAL and event.value is None),
        balance=tuple(_balance(recent)),
    )


def _first_of_each(events: Iterable[BundleEvent]) -> tuple[ListedEntry, ...]:
    """Return each concept with the time when it was first recorded, the latest first."""
    found: dict[str, ListedEntry] = {}
    for event in events:
        found.setdefault(event.concept, ListedEntry(what=event.concept, when=event.time, more=event.text or ""))
    return tuple(reversed(found.values()))[:MOST_LISTED]


def _last_of_each(events: Iterable[BundleEvent]) -> tuple[ListedEntry, ...]:
    found = {event.concept: event for event in events if event.text}
    return tuple(
        ListedEntry(what=name, when=event.time, more=event.text or "") for name, event in sorted(found.items())
    )[:MOST_LISTED]


def _cultures(events: Sequence[BundleEvent]) -> tuple[ListedEntry, ...]:
    """Return specimens by the time when they were taken, the latest first; one without any result is pending."""
    results = {event.row_id: event for event in events if event.kind is EventKind.CULTURE}
    taken = {event.row_id: event for event in events if event.kind is EventKind.CULTURE_TAKEN}
    rows = sorted({**taken, **results}.values(), key=lambda event: (event.time, event.row_id), reverse=True)
    return tuple(
        ListedEntry(what=event.concept, when=event.time, more=_result(results.get(event.row_id))) for event in rows
    )[:MOST_LISTED]


def _result(event: BundleEvent | None) -> str:
    if event is None:
        return "pending"
    return f"{event.text or 'resulted, no organism named'} (known {event.known:%Y-%m-%d %H:%M})"


def _doses(events: Iterable[BundleEvent]) -> tuple[ListedEntry, ...]:
    """Return each drug with the number of its doses, the latest first."""
    by_drug: dict[str, list[BundleEvent]] = {}
    for event in events:
        by_drug.setdefault(event.concept, []).append(event)
    found = []
    for name, several in by_drug.items():
        counts = Counter(event.text or "recorded" for event in several)
        said = ", ".join(f"{text} × {count}" for text, count in counts.most_common())
        found.append(ListedEntry(what=name, when=max(event.time for event in several), more=said))
    return tuple(sorted(found, key=lambda one: (one.when, one.what), reverse=True))[:MOST_LISTED]


def _balance(events: Sequence[BundleEvent]) -> Iterable[tuple[str, float, int]]:
    """Sum amounts in millilitres; infusions are rates and are left out."""
    for title, kind in (("intake", EventKind.INTAKE), ("output", EventKind.OUTPUT)):
        amounts = [
            event.value
            for event in events
            if event.kind is kind and event.value is not None and (event.unit or "").casefold() in _MILLILITRES
        ]
        if amounts:
            yield title, sum(amounts), len(amounts)
