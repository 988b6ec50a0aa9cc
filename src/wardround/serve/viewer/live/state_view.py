"""A patient's state in words, section by section, each entry with the row it stands on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wardround.bundles import PatientState, Trend, ValueLevel
from wardround.bundles.text import LEVEL_WORDS

MOST_ENTRIES = 60
"""Entries of one section that are shown, those touched last, of measurements those out of their limits first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """One entry. ``words``: what it is; ``more``: value or dose, where it goes, since when; ``is_abnormal``: out of
    limits or baseline."""

    words: str
    more: str
    row_id: str
    is_abnormal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSection:
    """A section of the state, of ``total`` entries."""

    name: str
    entries: Sequence[StateEntry]
    total: int


def state_sections(state: PatientState) -> Sequence[StateSection]:
    """Return the sections in the order in which a clinician reads them; none is left out for being empty."""
    found = {
        "allergies": list(_allergies(state)),
        "problems": list(_problems(state)),
        "orders and infusions that run": list(_medications(state)),
        "measurements": sorted(_trends(state), key=lambda entry: entry.is_abnormal),
        "done": list(_actions(state)),
    }
    return [
        StateSection(name=name, entries=entries[::-1][:MOST_ENTRIES], total=len(entries))
        for name, entries in found.items()
    ]


def row_words(state: PatientState) -> Mapping[str, str]:
    """Return the rows that a state stands on, in words."""
    words = {row: one.concept for one in state.problems.values() for row in one.row_ids}
    words |= {row: one.concept for row, one in state.medications.items()}
    words |= {one.row_id: one.concept for one in state.allergies.values()}
    words |= {one.row_id: one.concept for one in state.actions.values()}
    for trend in state.trends.values():
        unit = f" {trend.unit}" if trend.unit else ""
        words |= {
            one.row_id: f"{trend.concept} {one.value:g}{unit}, {one.time:%Y-%m-%d %H:%M}" for one in trend.readings
        }
    return words


def _allergies(state: PatientState) -> Iterator[StateEntry]:
    for one in state.allergies.values():
        yield StateEntry(words=one.concept, more=one.reaction or "", row_id=one.row_id)


def _problems(state: PatientState) -> Iterator[StateEntry]:
    for one in state.problems.values():
        yield StateEntry(words=one.concept, more=f"known since {one.since:%Y-%m-%d %H:%M}", row_id=one.row_ids[-1])


def _medications(state: PatientState) -> Iterator[StateEntry]:
    for one in state.medications.values():
        dose = " ".join(part for part in (one.dose, one.unit) if part)
        since = f"since {one.since:%Y-%m-%d %H:%M}"
        yield StateEntry(words=one.concept, more=f"{dose}, {since}" if dose else since, row_id=one.row_id)


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


def _actions(state: PatientState) -> Iterator[StateEntry]:
    for one in state.actions.values():
        times = f", {one.count} times" if one.count > 1 else ""
        yield StateEntry(words=one.concept, more=f"last {one.last:%Y-%m-%d %H:%M}{times}", row_id=one.row_id)
