"""Answers in words of one's own, which a judge compares with the right one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from wardround.answers.kind import AnswerKind
from wardround.core import PromptFile, load_prompt, without_thinking

_MARK = re.compile(r"^[ \t>*_#]*(?:final\s+)?answer[ \t*_]*[:：][ \t*_]*", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedText(AnswerKind):
    """One text: a diagnosis, a plan. ``wanted`` says in a few words what is to be given."""

    name: ClassVar[str] = "judged-text"
    wanted: str = "answer"

    @property
    def several(self) -> bool:
        return False

    @property
    def judged(self) -> bool:
        return True

    @property
    def short(self) -> str:
        return "judged text"

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.answers", "judged_text")

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        """What stands behind the last ``Answer:``; a reply without one gives no answer, nor does one that was cut off
        before it."""
        spoken = without_thinking(text or "")
        marks = list(_MARK.finditer(spoken))
        said = spoken[marks[-1].end() :].strip() if marks else ""
        return (said,) if said else None
