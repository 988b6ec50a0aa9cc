"""A sample's question in parts, for methods that search with its queries and tell labels from other words."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from wardround.answers import CuratedWindow, Question
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.task import QuestionText, Task
from wardround.core import UserError, content_hash, parse_time


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
    return resources.files("wardround.benchmarks").joinpath("questions.toml").read_text(encoding="utf-8")


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(_source())
