"""Answers that are names from a candidate table, as many as hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from wardround.answers.free_text import parse_answer
from wardround.answers.kind import AnswerKind
from wardround.core import PromptFile, load_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates(AnswerKind):
    """Names from a candidate table. ``tables``: its name, then those that stand in where it cannot be built.

    ``exactly_one``: one name is right, so nothing is said of how many are usual.
    """

    name: ClassVar[str] = "candidates"
    tables: tuple[str, ...]
    exactly_one: bool = False

    def __post_init__(self) -> None:
        if not self.tables:
            raise ValueError("answers of the kind 'candidates' need the name of a candidate table")

    @property
    def spaces(self) -> tuple[str, ...]:
        return self.tables

    @property
    def short(self) -> str:
        return self.tables[0]

    @property
    def loss_of_an_extra_name(self) -> bool:
        return not self.exactly_one

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.answers", "candidates")

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        return parse_answer(text)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(**{**body, "tables": tuple(body["tables"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCandidates(Candidates):
    """Names from a candidate table, of which the question itself lists those in most use: one who has no tools can
    answer it too. ``shown``: how many are listed."""

    name: ClassVar[str] = "listed-candidates"
    shown: int = 100

    @property
    def listed(self) -> int:
        return self.shown

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.answers", "listed_candidates")
