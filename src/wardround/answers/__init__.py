"""Answers: what a task asks for, how a prompt explains it, how a reply is read. No target and no score is here."""

from wardround.answers.candidates import Candidates, ListedCandidates
from wardround.answers.classes import AnswerClass, Classes, OneClass, SeveralClasses
from wardround.answers.free_labels import FreeLabels
from wardround.answers.free_text import parse_answer
from wardround.answers.judged_text import JudgedText
from wardround.answers.kind import AnswerKind, View
from wardround.answers.options import OneOption
from wardround.answers.question import CuratedWindow, Question
from wardround.answers.registry import ANSWER_KINDS, answer_kind
from wardround.answers.steps import StepAction, StepActions

__all__ = [
    "ANSWER_KINDS",
    "AnswerClass",
    "AnswerKind",
    "Candidates",
    "Classes",
    "CuratedWindow",
    "FreeLabels",
    "JudgedText",
    "ListedCandidates",
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
