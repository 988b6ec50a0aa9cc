"""What an answer kind must do, and a question in parts (never its answer)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Self

import numpy as np

from wardround.clinical.codes import LabelSet
from wardround.core import PromptFile

# What a kind of answers owns: how it is explained in a prompt, read out of a reply and written into a manifest.
#
# Scoring has a scorer for every kind, under the same name: agents must not see it.


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One question that a statistical predictor can answer with a class.

    ``name`` is ``classes`` for the task as it is, and ``short`` then empty; ``positive`` are the task's labels that
    mean the second class, None where the classes are the task's own.
    """

    name: str
    short: str
    classes: tuple[str, ...]
    class_names: tuple[str, ...]
    positive: frozenset[str] | None = None


def ranked_names(targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names of some targets, the commonest first, those as common by name."""
    counts = Counter(name for target in targets for name in target)
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))


def best_count(names: Sequence[str], targets: Sequence[Sequence[str]]) -> int:
    """Return how many of some ranked names have the best mean F1 against some targets."""
    if not targets:
        return 0
    held = np.array([[name in set(target) for name in names] for target in targets], float)
    sizes = np.array([len(set(target)) for target in targets], float)
    given = np.arange(1, len(names) + 1)
    f1 = 2 * held.cumsum(axis=1) / (given[None, :] + sizes[:, None])
    return int(f1.mean(axis=0).argmax()) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerKind(ABC):
    """What one task's answers are. A subclass is a kind; its fields are what a task declares of it.

    An answer is a tuple of texts, None where a reply holds none.
    """

    name: ClassVar[str]
    """Under which the kind is registered, and its scorer."""

    @property
    def spaces(self) -> tuple[str, ...]:
        """The candidate tables that answers come from, best first; none where they come from no table."""
        return ()

    @property
    def label_values(self) -> tuple[str, ...]:
        """The answers there are, the negative one first; none where they are not declared."""
        return ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """What the label values mean."""
        return ()

    @property
    def class_names(self) -> Mapping[str, str]:
        """The meanings by value."""
        return dict(zip(self.label_values, self.label_names, strict=True))

    @property
    def several(self) -> bool:
        """Whether an answer may hold more than one text."""
        return True

    @property
    def by_steps(self) -> bool:
        """Whether it is asked after every bundle of a stay, and not once of a chart."""
        return False

    @property
    def judged(self) -> bool:
        """Whether nobody can say without a judge what an answer is worth: it is in words of one's own."""
        return False

    @property
    def views(self) -> tuple[View, ...]:
        """What predictors can be asked; none where the answer is no class."""
        return ()

    @property
    def short(self) -> str:
        """What answers come from, in a few words of a listing."""
        return self.name

    @property
    def listed(self) -> int:
        """How many names of its candidate table a question lists, those in most use."""
        return 0

    @property
    def loss_of_an_extra_name(self) -> bool:
        """Whether a prompt says how many names are usual and that one too many counts against the answer."""
        return False

    @property
    def success(self) -> float:
        """The least score of an answer that counts as a success: half of the names right, a class right."""
        return 0.5 if self.several else 1.0

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of an answer, which a reply can be bound to; None where answers are not declared."""
        return None

    def labels(self, name: str, space: LabelSet | None) -> LabelSet | None:
        """Return the labels and spellings an answer may have. ``space``: those of the candidate table, if any."""
        return space

    def problem_of(self, target: Collection[str]) -> str | None:
        """Say why a target cannot be one of this kind; None if it can."""
        return None if target else "it is empty"

    def asked(self, facts: Mapping[str, Any]) -> AnswerKind:
        """Return the kind as one question has it, by the ``facts`` of its sample: the same, unless a question lists
        options of its own."""
        return self

    @property
    @abstractmethod
    def prompt(self) -> PromptFile:
        """The template of this kind's parts of prompts."""

    def explain(self, *, part: str, **values: Any) -> str:
        """Return a part of a prompt that tells what an answer is.

        ``part`` is ``task`` (the end of the question, which also has ``candidate_table``, ``instructions``, the
        ``listed`` names and whether they were ``chosen`` for this question) or of an agent's system prompt:
        ``reading`` (where answers come from), ``finish`` (how to call finish) or ``line`` (how to write the last line
        without tools).
        """
        known = {"candidate_table": "", "instructions": "", "listed": (), "chosen": False} | values
        return self.prompt.render(part=part, kind=self, **known)

    @abstractmethod
    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        """Return the answer in a reply's text. ``about``: the question's own words; not ``whole``: it was cut off."""

    def settle(self, given: Sequence[str], *, about: str = "") -> tuple[str, ...] | None:
        """Return what was given to the finish tool as an answer; None where it is none."""
        return tuple(given)

    def constant(self, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return the same answer for every question: here the name that most training targets hold."""
        return ranked_names(targets)[:1]

    def prior(self, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return what the frequencies of training targets say: their commonest names, as many as score best there."""
        names = ranked_names(targets)
        return names[: best_count(names, targets)]

    def to_json(self) -> dict[str, Any]:
        """Return what a manifest or a task's file says of it."""
        return {"kind": self.name} | {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` wrote, without its ``kind``; TypeError or ValueError where it is something else."""
        return cls(**body)


# A question in parts: what a method may know of a task besides its prompt. Never its answer.


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
