"""One sample: subject, time, target, its question in parts and its rendered prompt."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from wardround.core import RecordError, UserError, content_hash, format_time, parse_time
from wardround.records import Chart, Policy, Store, Withheld
from wardround.tasks.answers import CuratedWindow, Question
from wardround.tasks.benchmarks.task import QuestionText, Task
from wardround.tools.candidates import CandidateSpace

# One question: whose chart, as of when, what the answer was. Targets live here and never in what an agent is given.


Split = Literal["train", "dev", "test"]
Stratum = Literal["common", "rare", "other-source", "any"]
SPLITS: tuple[Split, ...] = get_args(Split)
STRATA: tuple[Stratum, ...] = get_args(Stratum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question of a benchmark.

    ``target`` is sorted and free of duplicates; of a task with classes it is the label value that holds. Where a family
    has no strata, the stratum is ``any``. ``unwinnable`` is the part of it that is not in the task's candidate
    space, so that no answer can reach it. ``facts`` say where the sample came from: encounter, event time, the row ids
    of the label, how many of its codes had no label, the weight of eq. 11, the prompt if it is not the task's own.
    ``person_id`` is whose record it is where a source keeps several records of one person apart.

    A sample without a ``prediction_time`` is about a case that its question tells in words: there is no chart, and its
    subject is the report or the question that the words are from.
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
        """Who it is about: samples of one person are in one split and never drawn apart."""
        return self.subject_id if self.person_id is None else self.person_id

    @property
    def told(self) -> bool:
        """Whether its question tells the case in words, and no chart does."""
        return self.prediction_time is None

    @property
    def moment(self) -> datetime:
        """The prediction time; UserError of a sample that has no chart."""
        if self.prediction_time is None:
            raise UserError(f"sample {self.id!r} is about a case told in words: it has no chart and no time")
        return self.prediction_time

    @property
    def withheld(self) -> Withheld | None:
        """The tables whose rows, from a moment on, would tell the answer by being there; None of most samples."""
        said = self.facts.get("withheld")
        return said and Withheld(tables=frozenset(said["tables"]), since=parse_time(said["since"]))

    def chart(self, store: Store, policy: Policy = "known_at") -> Chart:
        """Return the chart that the question is asked on."""
        return store.chart(self.subject_id, self.moment, policy=policy, withheld=self.withheld)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {
            "id": self.id,
            "task": self.task,
            "subject_id": self.subject_id,
            **({} if self.person_id is None else {"person_id": self.person_id}),
            **({} if self.told else {"prediction_time": format_time(self.moment)}),
            "target": list(self.target),
            "split": self.split,
            "stratum": self.stratum,
            "unwinnable": list(self.unwinnable),
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Sample:
        """Read what :meth:`to_json` wrote; RecordError when it is something else."""
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
            raise RecordError(f"not a sample: {_wrong(error)}") from error


def _wrong(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


# A sample's question in parts, for methods that search with its queries and tell labels from other words.


def question_of(task: Task, sample: Sample) -> Question:
    """Return what a method may know of a sample's task. Of the sample, only its prediction time is in it, from when on
    a curated input shows events, which pictures are linked to it, and which options it lists."""
    words = task.words or _words(task.name)
    return Question(
        name=task.name,
        title=task.title,
        category=words.category,
        description=words.description,
        factual_query=words.factual_query or words.description,
        counterfactual_query=words.counterfactual_query or words.description,
        prediction_time=sample.prediction_time,
        answer=task.answer.asked(sample.facts),
        instructions=words.instructions,
        curated=_curated(sample),
        images=tuple(sample.facts.get("images", ())),
    )


def _curated(sample: Sample) -> CuratedWindow | None:
    """The window of the evidence package, of a sample that has one: it lies in the past."""
    start = sample.facts.get("curated_from")
    if start is None:
        return None
    return CuratedWindow(start=parse_time(start), most_events=int(sample.facts["curated_events"]))


def _words(task: str) -> QuestionText:
    if task not in _texts():
        raise UserError(f"task {task!r} does not say what it asks; give it words=QuestionText(...)")
    return QuestionText(**_texts()[task])


def questions_sha256() -> str:
    """Hash of the texts, for manifests."""
    return content_hash(_source())


def _source() -> str:
    return resources.files("wardround.tasks.benchmarks").joinpath("questions.toml").read_text(encoding="utf-8")


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(_source())


# A sample's prompt: the task's template with the subject and the time, then what its kind of answers says of them.


def render_prompt(task: Task, sample: Sample, space: CandidateSpace | None) -> str:
    """Return the first user message of an episode. ``space`` is the table that its answers come from as questions about
    its person are asked with, None where they come from none.

    Nothing of the target reaches it but, where a sample lists names of its own, that it is among them: only the
    subject, the prediction time and names that all samples share.
    """
    question = question_of(task, sample)
    asked = task.prompt_named(sample.facts.get("prompt")).render(
        subject_id=sample.subject_id,
        current_time="" if sample.told else format_time(sample.moment),
        question=question,
        asked=sample.facts.get("asked", ""),
        images=question.images,
    )
    table = "" if space is None else space.name
    own = sample.facts.get("listed")
    listed = own or (() if space is None else space.most_used(task.answer.listed))
    explained = question.answer.explain(
        part="task", candidate_table=table, instructions=question.instructions, listed=listed, chosen=own is not None
    )
    return f"{asked}\n\n{explained}"
