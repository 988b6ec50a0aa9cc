"""The classes of a laboratory concept, in words a reader of the record can apply."""

from __future__ import annotations

from wardround.benchmarks.answer_rules import AnswerRules, Thresholds
from wardround.benchmarks.ehrshot.concepts import SEVERITIES, TaskConcept

_OTHER_UNIT = {"g/L": "g/dL", "mmol/L": "mg/dL"}
_OPERATORS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}


def rules_of(concept: TaskConcept | None) -> AnswerRules:
    """Return what is said of a task's answers: its thresholds, where it is about a result."""
    if concept is None or not concept.steps:
        return AnswerRules()
    steps = (f"{SEVERITIES[step.value]} {_OPERATORS[step.operator]} {step.bound:g}" for step in concept.steps)
    title = f"{concept.title} in {concept.unit}{_also(concept)}"
    return AnswerRules(thresholds=Thresholds(title=title, steps=tuple(steps)))


def _also(concept: TaskConcept) -> str:
    """The other unit that records commonly have, and how it is converted."""
    other = _OTHER_UNIT.get(concept.unit, "")
    factor = concept.factor(other)
    if factor is None:
        return ""
    return f" ({other} {f'times {factor:g}' if factor > 1 else f'divided by {1 / factor:g}'})"
