"""Read the case of a question for recall: its subject, the conditions that hold, its description.

The case comes from a chart, or from a text case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wardround.memory.experience import Subject
from wardround.memory.keys import Key, chart_key, text_key
from wardround.memory.phrases import Findings, findings_of_chart, findings_of_text
from wardround.memory.scope import setting_of
from wardround.records import TEXT_CASE_SOURCE, Chart, TextCaseRecord
from wardround.tools.retrieval import Encoder, describe_recent_events


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
