"""A sample's question in parts, for methods that search with its queries and tell labels from other words."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from wardround.answers import Question
from wardround.benchmarks.sample import Sample
from wardround.benchmarks.task import Task
from wardround.core import content_hash


def question_of(task: Task, sample: Sample) -> Question:
    """Return what a method may know of a sample's task. Of the sample, only its prediction time is in it."""
    body = _texts()[task.name]
    return Question(
        name=task.name,
        title=task.title,
        category=body["category"],
        description=body["description"],
        factual_query=body["factual_query"],
        counterfactual_query=body["counterfactual_query"],
        prediction_time=sample.prediction_time,
        answer=task.answer,
        instructions=body.get("instructions", ""),
    )


def questions_sha256() -> str:
    """Hash of the texts, for manifests."""
    return content_hash(_source())


def _source() -> str:
    return resources.files("wardround.benchmarks").joinpath("questions.toml").read_text(encoding="utf-8")


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(_source())
