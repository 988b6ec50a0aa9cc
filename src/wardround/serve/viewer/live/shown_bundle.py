"""A bundle of a live patient as a page shows it: what was told of it, what it stands on, and its rows in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.bundles import BundleEvent, event_text
from wardround.bundles.events import amends
from wardround.serve.viewer.live.viewed_stream import findings_of
from wardround.stream import ToldBundle

MOST_ROWS = 25
"""Rows of one bundle that are shown, those that rules stand on first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """A row of a bundle in words."""

    row_id: str
    when: str
    words: str
    is_cited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAction:
    """A proposed action. ``reasons``: each rule that it stands on, in words, with the rows that made it hold."""

    kind: str
    name: str
    dose: str | None
    reasons: Sequence[tuple[str, str, Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBundle:
    """A bundle as it was told, and its rows. ``amendments``: rows that were told before and read differently from it
    on, or are withdrawn; ``rows_in_all``: None where rows cannot be read here."""

    number: int
    told: ToldBundle
    actions: Sequence[ShownAction]
    findings: Sequence[str]
    critique: str
    rows: Sequence[ShownRow] = ()
    rows_in_all: int | None = None
    amendments: Sequence[str] = ()


def shown_bundle(
    rules: Mapping[str, str], told: ToldBundle, number: int, events: Sequence[BundleEvent] | None = None
) -> ShownBundle:
    """Return a bundle with its events, None where these cannot be read here."""
    cited = frozenset(row for rows in told.rows.values() for row in rows)
    every = sorted(events or (), key=lambda event: (event.time, event.known))
    wanted = sorted(every, key=lambda event: event.row_id not in cited)[:MOST_ROWS]
    kept = {id(event) for event in wanted}
    return ShownBundle(
        number=number,
        told=told,
        actions=tuple(_action(rules, told, one) for one in told.predicted),
        findings=findings_of(told),
        critique=str(told.audit.get("critique", "")),
        rows=tuple(_row(event, cited) for event in every if id(event) in kept),
        rows_in_all=None if events is None else len(every),
        amendments=tuple(dict.fromkeys(f"{event_text(e)} [{e.row_id}]" for e in every if amends(e)))[:MOST_ROWS],
    )


def _row(event: BundleEvent, cited: frozenset[str]) -> ShownRow:
    when = f"{event.time:%Y-%m-%d %H:%M}"
    return ShownRow(row_id=event.row_id, when=when, words=event_text(event), is_cited=event.row_id in cited)


def _action(rules: Mapping[str, str], told: ToldBundle, action: Mapping[str, Any]) -> ShownAction:
    because: Sequence[str] = action.get("because") or ()
    dose = action.get("dose")
    return ShownAction(
        kind=str(action.get("kind", "")).lower(),
        name=str(action.get("name", "")),
        dose=None if dose is None else str(dose),
        reasons=[(rule, rules.get(rule, ""), told.rows.get(rule, ())) for rule in because],
    )
