"""The interface of a kind of answers, and a question in parts (never with its answer)."""

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

# A kind of answers defines how it is explained in a prompt, parsed from a reply and written to a manifest.
#
# Scoring has a scorer per kind, under the same name, which agents must not see.


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One classification question for a statistical predictor.

    ``name`` is ``classes`` for the task as it is, with ``short`` empty. ``positive``: the task's labels that form the
    second class; None where the classes are the task's own.
    """

    name: str
    short: str
    classes: tuple[str, ...]
    class_names: tuple[str, ...]
    positive: frozenset[str] | None = None


def ranked_names(targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names in some targets, most common first, ties by name."""
    counts = Counter(name for target in targets for name in target)
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))


def best_count(names: Sequence[str], targets: Sequence[Sequence[str]]) -> int:
    """Return how many of the ranked names give the best mean F1 against the targets."""
    if not targets:
        return 0
    is_in_target = np.array([[name in set(target) for name in names] for target in targets], float)
    sizes = np.array([len(set(target)) for target in targets], float)
    answer_sizes = np.arange(1, len(names) + 1)
    f1 = 2 * is_in_target.cumsum(axis=1) / (answer_sizes[None, :] + sizes[:, None])
    return int(f1.mean(axis=0).argmax()) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerKind(ABC):
    """A kind of answers; its fields are a task's declaration.

    An answer is a tuple of texts, None where a reply has none.
    """

    name: ClassVar[str]
    """The registered name of the kind and of its scorer."""

    @property
    def spaces(self) -> tuple[str, ...]:
        """The candidate tables of the answers, best first; empty where answers come from no table."""
        return ()

    @property
    def label_values(self) -> tuple[str, ...]:
        """The possible answers, the negative one first; empty where they are not declared."""
        return ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """The meanings of the label values."""
        return ()

    @property
    def class_names(self) -> Mapping[str, str]:
        """The meanings by value."""
        return dict(zip(self.label_values, self.label_names, strict=True))

    @property
    def several(self) -> bool:
        """Whether an answer may have more than one text."""
        return True

    @property
    def by_steps(self) -> bool:
        """Whether there is a question after every bundle of a stay instead of one per chart."""
        return False

    @property
    def judged(self) -> bool:
        """Whether only a judge can score an answer, because it is free text."""
        return False

    @property
    def views(self) -> tuple[View, ...]:
        """The questions for predictors; empty where the answer is no class."""
        return ()

    @property
    def short(self) -> str:
        """The source of the answers, in a few words for a listing."""
        return self.name

    @property
    def listed(self) -> int:
        """The number of names from its candidate table that a question lists, most common first."""
        return 0

    @property
    def loss_of_an_extra_name(self) -> bool:
        """Whether a prompt states the usual number of names and that extra names cost points."""
        return False

    @property
    def success(self) -> float:
        """The minimum score of a success: half of the names, or the right class."""
        return 0.5 if self.several else 1.0

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of an answer, to which a reply can be bound; None where answers are not declared."""
        return None

    def labels(self, name: str, space: LabelSet | None) -> LabelSet | None:
        """Return the labels and spellings of answers. ``space``: those of the candidate table, if any."""
        return space

    def problem_of(self, target: Collection[str]) -> str | None:
        """Return why a target cannot be of this kind; None if it can."""
        return None if target else "it is empty"

    def for_sample(self, facts: Mapping[str, Any]) -> AnswerKind:
        """Return the kind for one question, from the ``facts`` of its sample.

        It is the same object unless the question lists its own options.
        """
        return self

    @property
    @abstractmethod
    def prompt(self) -> PromptFile:
        """The template of this kind's parts of prompts."""

    def explain(self, *, part: str, **values: Any) -> str:
        """Return the part of a prompt that explains the answer.

        ``part`` is ``task`` (the end of the question, which also has ``candidate_table``, ``instructions``, the
        ``listed`` names and whether they were ``chosen`` for this question), or a part of an agent's system prompt:
        ``reading`` (where answers come from), ``finish`` (how to call finish) or ``line`` (how to write the last line
        without tools).
        """
        variables = {"candidate_table": "", "instructions": "", "listed": (), "chosen": False} | values
        return self.prompt.render(part=part, kind=self, **variables)

    @abstractmethod
    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        """Return the answer in a reply's text.

        ``about``: the question's own words. Not ``whole``: the reply was cut off.
        """

    def settle(self, given: Sequence[str], *, about: str = "") -> tuple[str, ...] | None:
        """Return the finish tool's argument as an answer; None where it is invalid."""
        return tuple(given)

    def constant(self, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return one answer for all questions: here the most common name in the training targets."""
        return ranked_names(targets)[:1]

    def prior(self, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return the answer from training frequencies: the most common names, as many as score best there."""
        names = ranked_names(targets)
        return names[: best_count(names, targets)]

    def to_json(self) -> dict[str, Any]:
        """Return the entry for a manifest or task file."""
        return {"kind": self.name} | {field_.name: getattr(self, field_.name) for field_ in fields(self)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read the output of :meth:`to_json` without ``kind``. TypeError or ValueError: it is something else."""
        return cls(**body)


# A question in parts: what a method may know of a task besides its prompt, without the answer.


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedWindow:
    """The events of a curated input: the start time and the limit on the latest events."""

    start: datetime
    most_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One task as of one moment (EHR-RAG, table 5).

    ``factual_query`` looks for evidence for the outcome, ``counterfactual_query`` for its absence. ``answer``: the
    kind of answers. ``curated``: the window of the curated input, where the benchmark has one. ``images``: handles of
    the linked images. Without a ``prediction_time`` the question is a text case without a chart.
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
        """The question's own words: a reply that only repeats them adds nothing."""
        return f"{self.title} {self.description}"

    @property
    def is_text_case(self) -> bool:
        """Whether the prompt describes the case in words, without a chart."""
        return self.prediction_time is None

    @property
    def label_values(self) -> tuple[str, ...]:
        """The possible answers, the negative one first; empty where any text is allowed."""
        return self.answer.label_values

    @property
    def label_names(self) -> tuple[str, ...]:
        """The meanings of the label values."""
        return self.answer.label_names

    @property
    def several(self) -> bool:
        """Whether more than one label may be right."""
        return self.answer.several
