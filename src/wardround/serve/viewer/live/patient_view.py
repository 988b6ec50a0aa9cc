"""What the page of a live patient shows: what is proposed now and why, the state, and the bundles as they were told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wardround.bundles import PatientState
from wardround.bundles.events import HOUR
from wardround.core import from_microseconds, to_microseconds
from wardround.serve.viewer.live.patient_query import REFRESHES
from wardround.serve.viewer.live.shown_bundle import ShownBundle, shown_bundle
from wardround.serve.viewer.live.state_view import row_words, state_sections
from wardround.serve.viewer.live.viewed_stream import PatientLine, ViewedStream
from wardround.serve.viewer.viewed_run import NotThere
from wardround.stream import ToldBundle, patient_events, patient_state

BUNDLES = 24
"""Bundles of one page."""
MOST_SAID = 20
"""Things of one bundle that are abnormal or changed: the rest is counted."""


def patient_view(stream: ViewedStream, subject: int, *, refresh: str = "") -> dict[str, Any]:
    """Return what a patient's first page shows: the state, and the latest bundles, the newest first."""
    line, places = stream.patient(subject)
    first = max(0, len(places) - BUNDLES)
    read = _read(stream, subject, places[first:], first)
    state = read.state
    return {
        **_shared(stream, line, len(places)),
        "bundles": read.bundles[::-1],
        "state": state,
        "words": row_words(state),
        "sections": state_sections(state),
        "open_hours": _open_hours(stream, subject),
        "refresh": refresh,
        "refreshes": REFRESHES,
        "number": 0,
    }


def bundles_view(stream: ViewedStream, subject: int, number: int) -> dict[str, Any]:
    """Return what a page of a patient's bundles shows, from 1, oldest first: once it is full it changes no more.
    NotThere: there are not so many."""
    line, places = stream.patient(subject)
    pages = bundle_pages(len(places))
    if not 1 <= number <= pages:
        raise NotThere(f"the patient has {pages} pages of bundles, not {number}")
    first = (number - 1) * BUNDLES
    read = _read(stream, subject, places[first : first + BUNDLES], first)
    return {**_shared(stream, line, len(places)), "bundles": read.bundles, "number": number}


def bundle_pages(bundles: int) -> int:
    """How many pages hold so many bundles."""
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


def _open_hours(stream: ViewedStream, subject: int) -> Sequence[str]:
    with stream.ledger() as ledger:
        return [f"{from_microseconds(hour * HOUR):%Y-%m-%d %H:00}" for hour in ledger.open_hours(subject)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Some bundles, and the state now."""

    bundles: list[ShownBundle]
    state: PatientState


def _read(stream: ViewedStream, subject: int, places: Sequence[int], first: int) -> _Read:
    """Return the bundles at some places, numbered after the ``first`` so many."""
    numbered = list(enumerate(stream.bundles(places), first + 1))
    with stream.ledger() as ledger:
        events = patient_events(ledger, subject, [_hour(one) for _, one in numbered])
        state = patient_state(ledger, subject)
    shown = [shown_bundle(stream.rules, one, number, events.get(_hour(one))) for number, one in numbered]
    return _Read(bundles=shown, state=state)


def _hour(told: ToldBundle) -> int:
    return to_microseconds(datetime.strptime(told.hour, "%Y-%m-%d %H:%M")) // HOUR
