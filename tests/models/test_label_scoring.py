"""Probabilities of labels against a small language model over real HTTP whose probabilities are known exactly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_doubles import ask, serving

from fake_server import Answer, FakeServer, completion
from wardround.models import LabelScores, Model, score_labels

ALPHABET = '"01ab'


def chance(before: str, letter: str) -> float:
    """The model: letters are tokens, each as probable as its place and what stands before it make it."""
    weights = {one: 1 + (7 * len(before) + 3 * ALPHABET.index(one) + 5 * before.count("1")) % 11 for one in ALPHABET}
    return weights[letter] / sum(weights.values())


def forced(text: str) -> list[float]:
    return [math.log(chance(text[:place], letter)) for place, letter in enumerate(text)]


def answering(logprobs: Callable[[str], Sequence[float] | None], *, binds: bool = True) -> Callable[[Any], Answer]:
    """A server that writes the one label that the schema allows, and says of each letter what ``logprobs`` gives."""

    def answer(asked: Any) -> Answer:
        (label,) = asked["response_format"]["json_schema"]["schema"]["enum"]
        assert asked["logprobs"] is True
        assert asked["temperature"] == 0.0
        text = json.dumps(label) if binds else "I cannot say."
        values = logprobs(text)
        said = None if values is None else {"content": [{"logprob": value} for value in values]}
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return completion({}, choices=[choice | {"logprobs": said}])

    return answer


def scored(answer: Callable[[Any], Answer], labels: Sequence[str]) -> tuple[LabelScores, int]:
    async def use(model: Model, server: FakeServer) -> tuple[LabelScores, int]:
        scores = await score_labels(model, ask(ordinal=4), labels)
        return scores, len(server.requests)

    result: tuple[LabelScores, int] = serving(answer, use)
    return result


def exhaustive(labels: Sequence[str]) -> Mapping[str, float]:
    """Every label's probability as the product of its letters', normalised over the labels."""
    products = {label: math.prod(math.exp(value) for value in forced(json.dumps(label))) for label in labels}
    return {label: product / sum(products.values()) for label, product in products.items()}


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text("01ab", min_size=1, max_size=4), min_size=1, max_size=4, unique=True))
def test_probabilities_are_those_of_exhaustive_scoring(labels: list[str]) -> None:
    scores, calls = scored(answering(forced), labels)
    assert calls == len(labels)
    assert scores.probabilities == pytest.approx(exhaustive(labels), rel=1e-9)
    assert [request.ordinal for request, _ in scores.exchanges] == list(range(4, 4 + len(labels)))


def test_a_label_that_begins_another_is_told_apart_by_its_end() -> None:
    scores, _ = scored(answering(forced), ["1", "10"])
    assert scores.probabilities == pytest.approx(exhaustive(["1", "10"]), rel=1e-9)


@pytest.mark.parametrize(
    ("answer", "reason", "calls"),
    [
        (answering(lambda text: None), "reports no log-probabilities", 1),
        (answering(lambda text: [-1.0], binds=False), "does not bind a reply to a schema", 1),
        (answering(lambda text: [0.0] * len(text)), "from after the schema was applied", 2),
    ],
)
def test_where_they_cannot_be_had_the_reason_is_named(answer: Any, reason: str, calls: int) -> None:
    scores, made = scored(answer, ["0", "1"])
    assert scores.probabilities is None
    assert reason in scores.unavailable
    assert made == calls == len(scores.exchanges)
