"""The case of a question, from its chart or its words, and whether an experience applies to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

from wardround.clinical.vocabulary.care_units import PLACES, places_of
from wardround.memory.experience import Experience, Subject
from wardround.memory.keys import Key, chart_key, text_key
from wardround.memory.phrases import Findings, findings_of_chart, findings_of_text, read_phrase, split_phrases
from wardround.records import TEXT_CASE_SOURCE, Chart, TextCaseRecord
from wardround.tools.retrieval import Encoder, describe_recent_events

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
    checked = []
    for phrase in phrases:
        check = _read(phrase)
        holds = None if check is None else check(findings)
        said: Checked = "unchecked" if holds is None else "holds" if holds else "fails"
        checked.append(CheckedPhrase(text=phrase, checked=said))
    return tuple(checked)


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


# The case of a question for recall: its subject, its findings, its description; from a chart or a text case.


class KnownCase(Protocol):
    """The case that a question is about. Reading may block."""

    @property
    def subject(self) -> Subject:
        """Whose own experiences are never served."""
        ...

    def findings(self) -> Findings:
        """Return what conditions and exclusions are checked against."""
        ...

    def key(self, encoder: Encoder) -> Key:
        """Return the key by which experiences are found."""
        ...

    def description(self, max_tokens: int) -> str:
        """Return what the case looks like if the question does not state it; empty if it does."""
        ...

    def setting(self) -> tuple[str, ...]:
        """Phrases that say which patient this was, without identity."""
        ...


@dataclass(frozen=True, slots=True)
class ChartedCase:
    """A case by its chart."""

    chart: Chart

    @property
    def subject(self) -> Subject:
        """The chart's subject."""
        return Subject.of_chart(self.chart)

    def findings(self) -> Findings:
        """Return the findings on the chart."""
        return findings_of_chart(self.chart)

    def key(self, encoder: Encoder) -> Key:
        """Return the most recent events of the chart."""
        return chart_key(encoder, self.chart)

    def description(self, max_tokens: int) -> str:
        """Return the most recent events of the chart."""
        return describe_recent_events(self.chart, max_tokens=max_tokens)

    def setting(self) -> tuple[str, ...]:
        """Return the latest problems and drugs."""
        return setting_of(self.chart)


@dataclass(frozen=True, slots=True)
class WordedCase:
    """A case by the words of its question."""

    text_case: TextCaseRecord

    @property
    def subject(self) -> Subject:
        """The report, or the question, that the words are from."""
        return Subject(source=TEXT_CASE_SOURCE, subject_id=self.text_case.subject_id)

    def findings(self) -> Findings:
        """Return the findings in the words."""
        return findings_of_text(self.text_case.text)

    def key(self, encoder: Encoder) -> Key:
        """Return the words."""
        return text_key(encoder, self.text_case.text)

    def description(self, max_tokens: int) -> str:
        """Nothing: the question tells the case."""
        return ""

    def setting(self) -> tuple[str, ...]:
        """None: a question's words are not cut into phrases here."""
        return ()


def known_case(chart: Chart | None, text_case: TextCaseRecord | None) -> KnownCase | None:
    """Return the case of a chart, else the text case; None without either."""
    if chart is not None:
        return ChartedCase(chart)
    return None if text_case is None else WordedCase(text_case)
