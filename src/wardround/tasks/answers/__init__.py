"""Answers: what a task asks for, how a prompt explains it, how a reply is read. No target and no score is here."""

from wardround.tasks.answers.kind import AnswerKind, CuratedWindow, Question, View
from wardround.tasks.answers.kinds import (
    ANSWER_KINDS,
    AnswerClass,
    Candidates,
    CareUnits,
    Classes,
    FreeLabels,
    JudgedText,
    ListedCandidates,
    ListedServices,
    OneClass,
    OneOption,
    SeveralClasses,
    StepAction,
    StepActions,
    answer_kind,
)
from wardround.tasks.answers.reading import parse_answer

__all__ = [
    "ANSWER_KINDS",
    "AnswerClass",
    "AnswerKind",
    "Candidates",
    "CareUnits",
    "Classes",
    "CuratedWindow",
    "FreeLabels",
    "JudgedText",
    "ListedCandidates",
    "ListedServices",
    "OneClass",
    "OneOption",
    "Question",
    "SeveralClasses",
    "StepAction",
    "StepActions",
    "View",
    "answer_kind",
    "parse_answer",
]
