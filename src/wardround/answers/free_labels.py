"""Answers that are names of a closed vocabulary, which a question may show or keep to itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from wardround.answers.free_text import parse_answer
from wardround.answers.kind import AnswerKind
from wardround.codes import LabelSet
from wardround.core import PromptFile, load_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeLabels(AnswerKind):
    """Names out of ``vocabulary``, as many as hold. ``shown``: the question lists them, to whoever is asked."""

    name: ClassVar[str] = "free-labels"
    vocabulary: tuple[str, ...]
    shown: bool = True

    def __post_init__(self) -> None:
        if not self.vocabulary:
            raise ValueError("answers of the kind 'free-labels' need a vocabulary")

    @property
    def short(self) -> str:
        return f"{len(self.vocabulary)} names"

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.answers", "free_labels")

    def labels(self, name: str, space: LabelSet | None) -> LabelSet:
        return LabelSet(name=name, labels=self.vocabulary)

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        return parse_answer(text)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(**{**body, "vocabulary": tuple(body["vocabulary"])})
