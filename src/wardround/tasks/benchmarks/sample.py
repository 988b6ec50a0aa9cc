"""One sample: subject, prediction time, target, its question in parts and its prompt."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from wardround.core import RecordError, UserError, format_time, parse_time
from wardround.records import Chart, Policy, Store, Withheld
from wardround.tasks.answers import CuratedWindow, Question
from wardround.tasks.benchmarks.task import QuestionText, Task
from wardround.tools.candidates import CandidateSpace

# One question: subject, prediction time and target. Targets are here and never in an agent's input.


Split = Literal["train", "dev", "test"]
Stratum = Literal["common", "rare", "other-source", "any"]
SPLITS: tuple[Split, ...] = get_args(Split)
STRATA: tuple[Stratum, ...] = get_args(Stratum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question of a benchmark.

    ``target`` is sorted without duplicates; for a task with classes it is the correct label value. The stratum is
    ``any`` where a family has no strata. ``unwinnable`` is the part of the target that is missing in the task's
    candidate space: no answer can reach it. ``facts`` record where the sample comes from: encounter, event time, row
    ids of the label, number of codes without a label, the weight of eq. 11, the prompt if it differs from the task's.
    ``person_id``: the person, where a source keeps several records of one person.

    A text case has no ``prediction_time``: its question describes the case in words, there is no chart, and its
    subject is the report or question that the words come from.
    """

    id: str
    task: str
    subject_id: int
    prediction_time: datetime | None
    target: tuple[str, ...]
    split: Split
    stratum: Stratum
    person_id: int | None = None
    unwinnable: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.target:
            raise ValueError(f"sample {self.id!r} has no target")
        if self.split not in SPLITS or self.stratum not in STRATA:
            raise ValueError(f"sample {self.id!r} has split {self.split!r} and stratum {self.stratum!r}")

    @property
    def person(self) -> int:
        """The person: samples of one person are in one split and are drawn together."""
        return self.subject_id if self.person_id is None else self.person_id

    @property
    def is_text_case(self) -> bool:
        """Whether its question describes the case in words, without a chart."""
        return self.prediction_time is None

    @property
    def moment(self) -> datetime:
        """The prediction time. UserError: the sample has no chart."""
        if self.prediction_time is None:
            raise UserError(f"sample {self.id!r} is a text case: it has no chart and no prediction time")
        return self.prediction_time

    @property
    def withheld(self) -> Withheld | None:
        """The tables whose rows would give away the answer from a moment on; None for most samples."""
        entry = self.facts.get("withheld")
        return entry and Withheld(tables=frozenset(entry["tables"]), since=parse_time(entry["since"]))

    def chart(self, store: Store, policy: Policy = "known_at") -> Chart:
        """Return the chart of the question."""
        return store.chart(self.subject_id, self.moment, policy=policy, withheld=self.withheld)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {
            "id": self.id,
            "task": self.task,
            "subject_id": self.subject_id,
            **({} if self.person_id is None else {"person_id": self.person_id}),
            **({} if self.is_text_case else {"prediction_time": format_time(self.moment)}),
            "target": list(self.target),
            "split": self.split,
            "stratum": self.stratum,
            "unwinnable": list(self.unwinnable),
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Sample:
        """Read the output of :meth:`to_json`. RecordError: it is something else."""
        try:
            return cls(
                id=str(body["id"]),
                task=str(body["task"]),
                subject_id=int(body["subject_id"]),
                person_id=None if body.get("person_id") is None else int(body["person_id"]),
                prediction_time=parse_time(body["prediction_time"]) if "prediction_time" in body else None,
                target=tuple(body["target"]),
                split=body["split"],
                stratum=body["stratum"],
                unwinnable=tuple(body.get("unwinnable", ())),
                facts=dict(body.get("facts", {})),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"not a sample: {_problem(error)}") from error


def _problem(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


# A sample's question in parts, for methods that search with its queries and separate labels from other words.


def question_of(task: Task, sample: Sample) -> Question:
    """Return what a method may know of a sample's task.

    From the sample it contains only the prediction time, the start of the curated input, the linked images and the
    listed options.
    """
    words = task.words or _words(task.name)
    return Question(
        name=task.name,
        title=task.title,
        category=words.category,
        description=words.description,
        factual_query=words.factual_query or words.description,
        counterfactual_query=words.counterfactual_query or words.description,
        prediction_time=sample.prediction_time,
        answer=task.answer.for_sample(sample.facts),
        instructions=words.instructions,
        curated=_curated(sample),
        images=tuple(sample.facts.get("images", ())),
    )


def _curated(sample: Sample) -> CuratedWindow | None:
    """Return the window of the curated input, in the past; None where the sample has none."""
    start = sample.facts.get("curated_from")
    if start is None:
        return None
    return CuratedWindow(start=parse_time(start), most_events=int(sample.facts["curated_events"]))


def _words(task: str) -> QuestionText:
    if task not in _texts():
        raise UserError(f"task {task!r} has no question text; give it words=QuestionText(...)")
    return QuestionText(**_texts()[task])


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(
        resources.files("wardround.tasks.benchmarks").joinpath("questions.toml").read_text(encoding="utf-8")
    )


# A sample's prompt: the task's template with subject and time, then the explanation of its kind of answers.


def render_prompt(task: Task, sample: Sample, space: CandidateSpace | None) -> str:
    """Return the first user message of an episode.

    ``space``: the candidate table for questions about this person; None where answers come from no table. Of the
    target only one thing can appear: where a sample lists its own names, the target is among them.
    """
    question = question_of(task, sample)
    question_part = task.prompt_named(sample.facts.get("prompt")).render(
        subject_id=sample.subject_id,
        current_time="" if sample.is_text_case else format_time(sample.moment),
        question=question,
        asked=sample.facts.get("asked", ""),
        images=question.images,
    )
    table = "" if space is None else space.name
    listed_names = sample.facts.get("listed")
    listed = listed_names or (() if space is None else space.most_used(task.answer.listed))
    answer_part = question.answer.explain(
        part="task",
        candidate_table=table,
        instructions=question.instructions,
        listed=listed,
        chosen=listed_names is not None,
    )
    return f"{question_part}\n\n{answer_part}"
