"""The page of a live patient: proposals, state, bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wardround.clinical.bundles import BundleEvent, PatientState, Trend, ValueLevel, event_text
from wardround.clinical.bundles.events import HOUR, amends
from wardround.clinical.bundles.text import LEVEL_WORDS
from wardround.core import UserError, from_microseconds, to_microseconds
from wardround.records import SourceSpec
from wardround.serve.viewer.record_lists import NONE_RECORDED, when_empty
from wardround.serve.viewer.run import NotFound
from wardround.serve.viewer.stream import REFRESHES, PatientLine, ViewedStream, findings_of
from wardround.stream import OutputBundle, patient_events, patient_state

# A bundle of a live patient on a page: its record in the ledger, the rows behind it, and these rows in words.


MOST_ROWS = 25
"""Rows of one bundle that are shown, those used by rules first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """A row of a bundle in words."""

    row_id: str
    when: str
    words: str
    is_cited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAction:
    """A proposed action. ``reasons``: each rule that led to it, in words, with the rows that made it true."""

    kind: str
    name: str
    dose: str | None
    reasons: Sequence[tuple[str, str, Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBundle:
    """A bundle as recorded, and its rows. ``amendments``: rows shown before that changed with it, or were withdrawn;
    ``rows_in_all``: None if rows cannot be read here."""

    number: int
    bundle: OutputBundle
    actions: Sequence[ShownAction]
    findings: Sequence[str]
    critique: str
    rows: Sequence[ShownRow] = ()
    rows_in_all: int | None = None
    amendments: Sequence[str] = ()


def shown_bundle(
    rules: Mapping[str, str], bundle: OutputBundle, number: int, events: Sequence[BundleEvent] | None = None
) -> ShownBundle:
    """Return a bundle with its events, None if these cannot be read here."""
    cited = frozenset(row for rows in bundle.rows.values() for row in rows)
    every = sorted(events or (), key=lambda event: (event.time, event.known))
    wanted = sorted(every, key=lambda event: event.row_id not in cited)[:MOST_ROWS]
    kept = {id(event) for event in wanted}
    return ShownBundle(
        number=number,
        bundle=bundle,
        actions=tuple(_action(rules, bundle, one) for one in bundle.predicted),
        findings=findings_of(bundle),
        critique=str(bundle.audit.get("critique", "")),
        rows=tuple(
            ShownRow(
                row_id=event.row_id,
                when=f"{event.time:%Y-%m-%d %H:%M}",
                words=event_text(event),
                is_cited=event.row_id in cited,
            )
            for event in every
            if id(event) in kept
        ),
        rows_in_all=None if events is None else len(every),
        amendments=tuple(dict.fromkeys(f"{event_text(e)} [{e.row_id}]" for e in every if amends(e)))[:MOST_ROWS],
    )


def _action(rules: Mapping[str, str], bundle: OutputBundle, action: Mapping[str, Any]) -> ShownAction:
    because: Sequence[str] = action.get("because") or ()
    dose = action.get("dose")
    return ShownAction(
        kind=str(action.get("kind", "")).lower(),
        name=str(action.get("name", "")),
        dose=None if dose is None else str(dose),
        reasons=[(rule, rules.get(rule, ""), bundle.rows.get(rule, ())) for rule in because],
    )


# A patient's state in words, section by section, each entry with its row.


MOST_ENTRIES = 60
"""Entries of one section that are shown, those touched last, of measurements those out of their limits first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """One entry. ``words``: its name; ``more``: value or dose, direction, since when; ``is_abnormal``: outside limits
    or baseline."""

    words: str
    more: str
    row_id: str
    is_abnormal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSection:
    """A section of the state, of ``total`` entries. ``when_empty``: what it means if there are none."""

    name: str
    entries: Sequence[StateEntry]
    total: int
    when_empty: str


_ROLES = {"allergies": "allergy", "problems": "diagnosis"}


def state_sections(state: PatientState, spec: SourceSpec | None) -> Sequence[StateSection]:
    """Return the sections in a clinician's reading order; empty sections are included. ``spec``: that of the source,
    None if unknown here."""
    found = {
        "allergies": [
            StateEntry(words=one.concept, more=one.reaction or "", row_id=one.row_id)
            for one in state.allergies.values()
        ],
        "problems": [
            StateEntry(words=one.concept, more=f"known since {one.since:%Y-%m-%d %H:%M}", row_id=one.row_ids[-1])
            for one in state.problems.values()
        ],
        "active orders and infusions": list(_medications(state)),
        "measurements": sorted(_trends(state), key=lambda entry: entry.is_abnormal),
        "done": [
            StateEntry(
                words=one.concept,
                more=f"last {one.last:%Y-%m-%d %H:%M}" + (f", {one.count} times" if one.count > 1 else ""),
                row_id=one.row_id,
            )
            for one in state.actions.values()
        ],
    }
    return [
        StateSection(
            name=name,
            entries=entries[::-1][:MOST_ENTRIES],
            total=len(entries),
            when_empty=when_empty(spec, _ROLES[name]) if name in _ROLES else NONE_RECORDED,
        )
        for name, entries in found.items()
    ]


def row_words(state: PatientState) -> Mapping[str, str]:
    """Return the rows behind a state, in words."""
    words = {row: problem.concept for problem in state.problems.values() for row in problem.row_ids}
    words |= {row: one.concept for row, one in state.medications.items()}
    words |= {allergy.row_id: allergy.concept for allergy in state.allergies.values()}
    words |= {action.row_id: action.concept for action in state.actions.values()}
    for trend in state.trends.values():
        unit = f" {trend.unit}" if trend.unit else ""
        words |= {
            reading.row_id: f"{trend.concept} {reading.value:g}{unit}, {reading.time:%Y-%m-%d %H:%M}"
            for reading in trend.readings
        }
    return words


def _medications(state: PatientState) -> Iterator[StateEntry]:
    for medication in state.medications.values():
        dose = " ".join(part for part in (medication.dose, medication.unit) if part)
        since = f"since {medication.since:%Y-%m-%d %H:%M}"
        yield StateEntry(words=medication.concept, more=f"{dose}, {since}" if dose else since, row_id=medication.row_id)


def _trends(state: PatientState) -> Iterator[StateEntry]:
    for trend in state.trends.values():
        last = trend.last
        level = LEVEL_WORDS.get(last.level)
        yield StateEntry(
            words=f"{trend.concept} {last.value:g} {trend.unit or ''}".strip(),
            more=", ".join(part for part in (level, _course(trend), f"{last.time:%Y-%m-%d %H:%M}") if part),
            row_id=last.row_id,
            is_abnormal=last.level in LEVEL_WORDS and last.level is not ValueLevel.NORMAL,
        )


def _course(trend: Trend) -> str:
    if len(trend.readings) < 2:
        return ""
    return f"{trend.direction}, {trend.change:+g} in {trend.hours:.0f} h"


# The content of a live patient's page: current proposals and reasons, the state, and the recorded bundles.


BUNDLES = 24
"""Bundles of one page."""
MOST_SAID = 20
"""Things of one bundle that are abnormal or changed: the rest is counted."""


def patient_view(stream: ViewedStream, subject: int, *, refresh: str = "") -> dict[str, Any]:
    """Return the content of a patient's first page: the state, and the latest bundles, the newest first."""
    line, places = stream.patient(subject)
    first = max(0, len(places) - BUNDLES)
    read = _read(stream, subject, places[first:], first)
    state = read.state
    with stream.ledger() as ledger:
        open_hours = [f"{from_microseconds(hour * HOUR):%Y-%m-%d %H:00}" for hour in ledger.open_hours(subject)]
    return {
        **_shared(stream, line, len(places)),
        "bundles": read.bundles[::-1],
        "state": state,
        "words": row_words(state),
        "sections": state_sections(state, _spec_of(stream)),
        "open_hours": open_hours,
        "refresh": refresh,
        "refreshes": REFRESHES,
        "number": 0,
    }


def _spec_of(stream: ViewedStream) -> SourceSpec | None:
    try:
        return stream.spec
    except UserError:  # the user's own source, whose spec is not here
        return None


def bundles_view(stream: ViewedStream, subject: int, number: int) -> dict[str, Any]:
    """Return the content of a page of a patient's bundles, from 1, oldest first: a full page does not change again.
    NotFound: no such page."""
    line, places = stream.patient(subject)
    pages = bundle_pages(len(places))
    if not 1 <= number <= pages:
        raise NotFound(f"the patient has {pages} pages of bundles, not {number}")
    first = (number - 1) * BUNDLES
    read = _read(stream, subject, places[first : first + BUNDLES], first)
    return {**_shared(stream, line, len(places)), "bundles": read.bundles, "number": number}


def bundle_pages(bundles: int) -> int:
    """Return the number of pages for this number of bundles."""
    return -(-bundles // BUNDLES)


def _shared(stream: ViewedStream, line: PatientLine, bundles: int) -> dict[str, Any]:
    pages = range(1, bundle_pages(bundles) + 1)
    labels = [(f"{(n - 1) * BUNDLES + 1} to {min(n * BUNDLES, bundles)}", n) for n in pages]
    return {
        "stream": stream,
        "line": line,
        "pager": [(label, f"{line.subject}.bundles-{n}.html") for label, n in labels],
        "most_said": MOST_SAID,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Some bundles, and the state now."""

    bundles: list[ShownBundle]
    state: PatientState


def _read(stream: ViewedStream, subject: int, places: Sequence[int], first: int) -> _Read:
    """Return the bundles at some places, numbered after the ``first`` ones."""
    numbered = list(enumerate(stream.bundles(places), first + 1))
    with stream.ledger() as ledger:
        events = patient_events(ledger, subject, [_hour(one) for _, one in numbered])
        state = patient_state(ledger, subject)
    shown = [shown_bundle(stream.rules, one, number, events.get(_hour(one))) for number, one in numbered]
    return _Read(bundles=shown, state=state)


def _hour(bundle: OutputBundle) -> int:
    return to_microseconds(datetime.strptime(bundle.hour, "%Y-%m-%d %H:%M")) // HOUR
