"""Answer kinds by their names: those of the house, and what a plug-in adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wardround.answers.candidates import Candidates, ListedCandidates
from wardround.answers.classes import OneClass, SeveralClasses
from wardround.answers.free_labels import FreeLabels
from wardround.answers.judged_text import JudgedText
from wardround.answers.kind import AnswerKind
from wardround.answers.options import OneOption
from wardround.answers.steps import StepActions
from wardround.core import Registry, UserError

ANSWER_KINDS: Registry[type[AnswerKind]] = Registry("answers", one="answer kind", of=type)
"""Classes of answers; each has a scorer of the same name in ``wardround.scoring``."""

for _kind in (Candidates, ListedCandidates, OneClass, SeveralClasses, FreeLabels, OneOption, JudgedText, StepActions):
    ANSWER_KINDS.add(_kind.name, _kind)


def answer_kind(body: Mapping[str, Any]) -> AnswerKind:
    """Return the kind that a manifest or a task's file declares; UserError where it is none."""
    kind = ANSWER_KINDS.get(str(body.get("kind", "")))
    try:
        return kind.from_json({key: value for key, value in body.items() if key != "kind"})
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"answer of the kind {kind.name!r}: {error}") from error
