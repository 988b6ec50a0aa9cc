"""The record as of a moment: its events in their last version, and rows in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite

from wardround.clinical.bundles import BundleEvent, EventKind, bundles_of, event_text
from wardround.core import UserError
from wardround.records import Chart, Event, SourceSpec

# The record as of a moment: each event in its version at that time, none that happened or was known later.


_LONGEST = 240
"""Characters of a row in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingEvent:
    """An event with the reference limits of its own row, None if it has none."""

    event: BundleEvent
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRecord:
    """The record of a subject as of a moment: events of tables with a role, rows in words by their ids, notes and
    images. ``missing``: why there are no events, None if there are. ``moments``: tables of procedures that have no
    end."""

    as_of: datetime
    events: Sequence[StandingEvent]
    rows: Mapping[str, str]
    documents: Sequence[Event] = ()
    missing: str | None = None
    moments: frozenset[str] = frozenset()


def standing_record(chart: Chart, wanted: frozenset[str]) -> StandingRecord:
    """Return the record on a chart under the policy ``known_at``; rows in ``wanted`` are given in words."""
    rows: dict[str, str] = {}
    documents: list[Event] = []
    tables = document_tables(chart.spec)
    for event in chart.events():
        if event.row_id in wanted:
            rows[event.row_id] = row_text(event)
        if any(event.table in some for some in tables):
            documents.append(event)
    moments = frozenset(role.table for role in chart.spec.roles.procedure if role.stop is None)
    found = StandingRecord(as_of=chart.as_of, events=(), rows=rows, documents=documents, moments=moments)
    try:
        return replace(found, events=_standing(chart))
    except UserError as error:
        return replace(found, missing=str(error))


def document_tables(spec: SourceSpec) -> tuple[set[str], set[str]]:
    """Return the tables of texts and of images."""
    notes = {role.table for role in (*spec.roles.note, *spec.roles.summary)}
    reports = {role.report for role in spec.roles.image if role.report is not None}
    return notes | reports, {role.table for role in spec.roles.image}


def row_text(event: Event) -> str:
    """Write one row in words: time, name, value."""
    value = event.text_value if event.numeric_value is None else f"{event.numeric_value:g}"
    when = "" if event.time is None else f"{event.time:%Y-%m-%d %H:%M}"
    said = " ".join(part for part in (when, event.description or event.code, value, event.unit) if part)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]} …"


def event_label(event: BundleEvent) -> str:
    """Write an event with both of its times."""
    return f"{event_text(event)}, {event.time:%Y-%m-%d %H:%M} (known {event.known:%Y-%m-%d %H:%M})"


def _standing(chart: Chart) -> Sequence[StandingEvent]:
    """Apply the bundles in order: the last version of a row counts, a withdrawn row is removed."""
    columns = bundles_of(chart).columns
    limits = zip(columns.low.tolist(), columns.high.tolist(), strict=True)
    events = [
        StandingEvent(event=event, low=low if isfinite(low) else None, high=high if isfinite(high) else None)
        for event, (low, high) in zip(columns, limits, strict=True)
        if max(event.time, event.known) <= chart.as_of
    ]
    latest: dict[tuple[str, EventKind], StandingEvent] = {}
    for one in sorted(events, key=lambda event: (event.event.known, event.event.revision)):
        if one.event.kind is EventKind.RETRACTION:
            latest = {key: other for key, other in latest.items() if key[0] != one.event.row_id}
        else:
            latest[one.event.row_id, one.event.kind] = one
    return sorted(latest.values(), key=lambda one: one.event.time)
