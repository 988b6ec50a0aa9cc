"""A question in parts: what a method may know of a task besides its prompt. Never its answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from wardround.answers.kind import AnswerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedWindow:
    """What a curated input shows of the events: from when on, and at most how many, the latest."""

    start: datetime
    most_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One task as of one moment (EHR-RAG, table 5).

    ``factual_query`` seeks evidence for the outcome, ``counterfactual_query`` for its absence. ``answer`` says what may
    be answered. ``curated``: what the evidence package of the question shows, where its benchmark has one;
    ``images``: the handles of the pictures that are linked to it. Without a ``prediction_time`` the prompt tells the
    case in words, and there is no chart.
    """

    name: str
    title: str
    category: str
    description: str
    factual_query: str
    counterfactual_query: str
    prediction_time: datetime | None
    answer: AnswerKind
    instructions: str = ""
    curated: CuratedWindow | None = None
    images: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """Its own words: a reply that repeats them says nothing more."""
        return f"{self.title} {self.description}"

    @property
    def told(self) -> bool:
        """Whether the prompt tells the case in words, and there is no chart."""
        return self.prediction_time is None

    @property
    def label_values(self) -> tuple[str, ...]:
        """The answers there are, the negative one first; none where any text may be one."""
        return self.answer.label_values

    @property
    def label_names(self) -> tuple[str, ...]:
        """What the label values mean."""
        return self.answer.label_names

    @property
    def several(self) -> bool:
        """Whether more than one label may hold."""
        return self.answer.several
