"""Whether an experience applies to a patient: conditions and exclusions, and where it was learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

from wardround.memory.experience import Experience
from wardround.memory.phrases import Check, Findings, read_phrase, split_phrases
from wardround.memory.places import PLACES, places_of

# Whether an experience applies to a patient: its condition and its exclusions, phrase by phrase, before it is used.
#
# An exclusion that holds, or a phrase of the condition that is contradicted, bars the experience. What the findings do
# not say is unchecked, and is shown so.


Checked = Literal["holds", "fails", "unchecked"]
_read = lru_cache(maxsize=100_000)(read_phrase)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPhrase:
    """One phrase, and what the findings say of it."""

    text: str
    checked: Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The condition and exclusions of an experience, checked for one patient."""

    condition: tuple[CheckedPhrase, ...] = ()
    exclusions: tuple[CheckedPhrase, ...] = ()

    @property
    def excluded_by(self) -> str:
        """The first exclusion that holds; empty if none does."""
        return next((phrase.text for phrase in self.exclusions if phrase.checked == "holds"), "")

    @property
    def contradicted_by(self) -> str:
        """The first phrase of the condition that does not hold; empty if none fails."""
        return next((phrase.text for phrase in self.condition if phrase.checked == "fails"), "")

    @property
    def applies(self) -> bool:
        """Return whether nothing that is known speaks against it."""
        return not self.excluded_by and not self.contradicted_by

    @property
    def wholly_unchecked(self) -> bool:
        """Return whether it has a condition and nothing of its limits could be checked."""
        phrases = (*self.condition, *self.exclusions)
        return bool(self.condition) and all(phrase.checked == "unchecked" for phrase in phrases)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The phrases of which the findings say nothing."""
        return tuple(phrase.text for phrase in (*self.condition, *self.exclusions) if phrase.checked == "unchecked")


def scope_of(experience: Experience, findings: Findings) -> Scope:
    """Check the scope of an experience against a patient's findings."""
    return Scope(
        condition=_checked(split_phrases(experience.condition), findings),
        exclusions=_checked(experience.exclusions, findings),
    )


def _checked(phrases: Sequence[str], findings: Findings) -> tuple[CheckedPhrase, ...]:
    return tuple(CheckedPhrase(text=phrase, checked=_standing(_read(phrase), findings)) for phrase in phrases)


def _standing(check: Check | None, findings: Findings) -> Checked:
    holds = None if check is None else check(findings)
    return "unchecked" if holds is None else "holds" if holds else "fails"


# Which patient an experience was learnt from, in a few names that another record can be compared with.


_PROBLEMS = frozenset({"diagnosis", "problem", "condition", "triage"})
_PROCEDURES = frozenset({"procedure"})
_DRUGS = frozenset({"prescription", "medication", "drug"})
_LONGEST_NAME = 60
_MOST_OF_A_KIND = 2


class SettingChart(Protocol):
    """A chart as it is needed here; ``records.Chart`` is one."""

    def events(self) -> Iterator[Any]: ...


def setting_of(chart: SettingChart) -> tuple[str, ...]:
    """Return the service and the unit that a chart ends in, and its latest problems and procedures, without identifiers
    and times. Drugs are returned only if there is none of these, since half a hospital shares them."""
    events = [event for event in chart.events() if ";" not in str(event.description)]
    places = places_of(events)
    parts = [f"{kind}: {places[kind]}" for kind in PLACES if kind in places]
    parts += _latest(events, _PROBLEMS) + _latest(events, _PROCEDURES)
    return tuple(parts or _latest(events, _DRUGS))


def _latest(events: Sequence[Any], kinds: frozenset[str]) -> list[str]:
    names = [
        str(event.description)
        for event in events
        if event.kind in kinds and len(str(event.description)) <= _LONGEST_NAME
    ]
    return list(dict.fromkeys(reversed(names)))[:_MOST_OF_A_KIND]
