"""What a prompt says of the answers themselves: what counts as one, how many are usual, where classes begin.

How many are usual is counted over the training split, never over the sample's own split; thresholds are those that
the labels were made with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wardround.benchmarks.benchmark import Benchmark
from wardround.benchmarks.ehrshot.concepts import SEVERITIES, Concept, load_concepts
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.task import Task, get_task
from wardround.core import PromptFile, load_prompt

FEWEST_QUESTIONS = 5
_OTHER_UNIT = {"g/L": "g/dL", "mmol/L": "mg/dL"}
_OPERATORS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualCount:
    """How many names the answers to some questions have: the median and the middle half."""

    questions: int
    low: int
    median: int
    high: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> UsualCount | None:
        """None where there are too few questions to say."""
        if len(sizes) < FEWEST_QUESTIONS:
            return None
        low, median, high = (int(value) for value in np.quantile(sizes, (0.25, 0.5, 0.75), method="nearest"))
        return cls(questions=len(sizes), low=low, median=median, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The classes of a result, in words a reader of the record can apply."""

    title: str
    steps: tuple[str, ...]

    @classmethod
    def of(cls, concept: Concept | None) -> Thresholds | None:
        """None where the task is not about a result."""
        if concept is None or not concept.steps:
            return None
        steps = (f"{SEVERITIES[step.value]} {_OPERATORS[step.operator]} {step.bound:g}" for step in concept.steps)
        return cls(title=f"{concept.title} in {concept.unit}{_also(concept)}", steps=tuple(steps))


def _also(concept: Concept) -> str:
    """The other unit that records commonly have, and how it is converted."""
    other = _OTHER_UNIT.get(concept.unit, "")
    factor = concept.factor(other)
    if factor is None:
        return ""
    return f" ({other} {f'times {factor:g}' if factor > 1 else f'divided by {1 / factor:g}'})"


def rules_prompt() -> PromptFile:
    """The template of the rules."""
    return load_prompt("wardround.benchmarks", "answer_rules")


def ask(benchmark: Benchmark, sample: Sample, *, rules: bool) -> str:
    """Return the first user message of an episode on a sample; with ``rules``, those of its answers too."""
    asked = benchmark.prompt(sample)
    if not rules:
        return asked
    task = get_task(sample.task)
    said = render_rules(task, str(sample.facts.get("prompt") or ""), benchmark.training_sizes(task))
    return f"{asked}\n\n{said}" if said else asked


def render_rules(task: Task, prompt_name: str, training_sizes: Sequence[int]) -> str:
    """Return the rules of a task's answers; empty where there is nothing to say beyond the prompt."""
    thresholds = Thresholds.of(load_concepts().get(task.name))
    usual = UsualCount.of(training_sizes) if task.answer.loss_of_an_extra_name else None
    if thresholds is None and not task.answer.spaces:
        return ""
    name = prompt_name or task.template or task.name
    return rules_prompt().render(task=name, thresholds=thresholds, usual=usual)
