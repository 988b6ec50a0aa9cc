"""Answers that are one of the options which a question lists: every question has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from wardround.answers.classes import AnswerClass
from wardround.answers.kind import AnswerKind
from wardround.answers.label_phrases import Labels
from wardround.answers.label_reading import read_labels, settle_labels
from wardround.codes import LabelSet
from wardround.core import PromptFile, load_prompt

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOption(AnswerKind):
    """Exactly one of the options that the question lists, by its letter.

    ``options`` are those of one question, letter and text; a task by itself has none, so that no table counts what the
    letters of different questions would have in common.
    """

    name: ClassVar[str] = "one-option"
    options: tuple[AnswerClass, ...] = ()

    def asked(self, facts: Mapping[str, Any]) -> OneOption:
        """The kind with the options of one question."""
        return replace(self, options=tuple((letter, text) for letter, text in facts["options"]))

    @property
    def label_values(self) -> tuple[str, ...]:
        return tuple(letter for letter, _ in self.options)

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(text for _, text in self.options)

    @property
    def several(self) -> bool:
        return False

    @property
    def short(self) -> str:
        return "an option"

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.answers", "options")

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """A list of one letter."""
        if not self.options:
            return None
        label = {"type": "string", "enum": list(self.label_values)}
        return {"type": "array", "items": label, "minItems": 1, "maxItems": 1}

    def labels(self, name: str, space: LabelSet | None) -> LabelSet:
        """The letters: what an option says is another thing in every question."""
        return LabelSet(name=name, labels=tuple(LETTERS))

    def problem_of(self, target: Sequence[str]) -> str | None:  # type: ignore[override]
        return None if len(target) == 1 and target[0] in LETTERS else f"{target!r} is not the letter of an option"

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        return read_labels(text, self._labels(about), whole=whole)

    def settle(self, given: Sequence[str], *, about: str = "") -> tuple[str, ...] | None:
        return settle_labels(given, self._labels(about))

    def _labels(self, about: str) -> Labels:
        return Labels(values=self.label_values, names=self.label_names, several=False, about=about)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(options=tuple((str(letter), str(text)) for letter, text in body.get("options", ())))
