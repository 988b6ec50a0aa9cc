"""What a prompt says of the answers themselves: what counts as one, how many are usual, where classes begin.

They are counted when a benchmark is built and stand in its manifest. How many names are usual is counted over training
questions, and for a question about a training person over those about others; thresholds are those of the labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from wardround.core import PromptFile, load_prompt
from wardround.tasks.benchmarks.benchmark import Benchmark
from wardround.tasks.benchmarks.sample import Sample, question_of
from wardround.tasks.benchmarks.task import Task, get_task

FEWEST_QUESTIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualCount:
    """The number of names in the answers to some questions: median and middle half."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRules:
    """Facts about a task's answers, counted when a benchmark is built and kept in its manifest.

    ``usual`` is counted over the training questions, ``usual_without`` over those of all groups of training people but
    one, by group (see :func:`~wardround.tasks.benchmarks.drawing.group_of`).
    """

    thresholds: Thresholds | None = None
    usual: UsualCount | None = None
    usual_without: Mapping[int, UsualCount] = field(default_factory=dict)

    @classmethod
    def counted(cls, task: Task, sizes: Sequence[tuple[int, int]]) -> AnswerRules:
        """Count a task's rules; ``sizes`` are the group and the number of names of every training question."""
        if not task.answer.loss_of_an_extra_name:  # its prompt says that the answer is one name
            return cls()
        without = {
            group: UsualCount.of([size for other, size in sizes if other != group])
            for group in sorted({group for group, _ in sizes})
        }
        return cls(
            usual=UsualCount.of([size for _, size in sizes]),
            usual_without={group: usual for group, usual in without.items() if usual is not None},
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {
            "thresholds": None if self.thresholds is None else asdict(self.thresholds),
            "usual": None if self.usual is None else asdict(self.usual),
            "usual_without": {str(group): asdict(usual) for group, usual in self.usual_without.items()},
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> AnswerRules:
        """Read what :meth:`to_json` wrote."""
        thresholds, usual = body.get("thresholds"), body.get("usual")
        return cls(
            thresholds=None
            if thresholds is None
            else Thresholds(title=thresholds["title"], steps=tuple(thresholds["steps"])),
            usual=None if usual is None else UsualCount(**usual),
            usual_without={int(group): UsualCount(**one) for group, one in body.get("usual_without", {}).items()},
        )

    def usual_for(self, group: int | None) -> UsualCount | None:
        """Return the usual number of names for a question about a training group's person (None: no group)."""
        return self.usual if group is None else self.usual_without.get(group)


def rules_prompt() -> PromptFile:
    """The template of the rules."""
    return load_prompt("wardround.tasks.benchmarks", "answer_rules")


def ask(benchmark: Benchmark, sample: Sample, *, rules: bool, outside: bool = False) -> str:
    """Return the first user message of an episode on a sample.

    ``rules``: those of its answers are part of it. ``outside``: so is how to answer, for an agent of another program,
    which has none of our system prompts.
    """
    task = get_task(sample.task)
    parts = [benchmark.prompt(sample)]
    if rules:
        counted = AnswerRules.from_json(benchmark.manifest.get("answer_rules", {}).get(task.name, {}))
        usual = counted.usual_for(benchmark.group_of(sample.person))
        parts.append(render_rules(task, str(sample.facts.get("prompt") or ""), counted.thresholds, usual))
    if outside:
        answers = question_of(task, sample).answer
        how = (answers.explain(part=part).strip() for part in ("reading", "finish"))
        parts.append("\n".join(("How to answer", *how)))
    return "\n\n".join(filter(None, parts))


def render_rules(task: Task, prompt_name: str, thresholds: Thresholds | None, usual: UsualCount | None) -> str:
    """Return the rules of a task's answers; empty where there is nothing to say beyond the prompt."""
    if thresholds is None and not task.answer.spaces:
        return ""
    name = prompt_name or task.template or task.name
    return rules_prompt().render(task=name, thresholds=thresholds, usual=usual)
