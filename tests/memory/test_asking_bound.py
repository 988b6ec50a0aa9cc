"""What a bank is built with is asked for as data: endpoints that bind replies to a schema are given it, twice too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from wardround.core import FormatError, Message, Usage
from wardround.memory.construction.drafts import AskingBudget, ask_value
from wardround.memory.extract import ModelAsker
from wardround.models import Reply, Request

SCHEMA = {"type": "object", "properties": {"step": {"type": "integer"}}, "required": ["step"]}


class Exchange:
    """A model that answers in turn, and the log of what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        message = Message(role="assistant", content=self.answers.pop(0))
        return Reply(message=message, usage=Usage(), finish_reason="stop", model="asked")

    def turn(self, *_: Any, **__: Any) -> None:
        """Nothing is kept."""

    def note(self, *_: Any) -> None:
        """Nothing is kept."""


def ask(model: Exchange, budget: AskingBudget | None = None) -> Any:
    asker = ModelAsker(model=model, recorder=model, episode="e")  # type: ignore[arg-type]
    return asyncio.run(ask_value(asker, "Which step?", SCHEMA, purpose="find", budget=budget))


def test_a_repair_is_bound_as_the_first_call_is() -> None:
    model = Exchange("the third", '{"step": 3}')
    assert ask(model) == {"step": 3}
    assert [request.response_schema for request in model.requests] == [SCHEMA, SCHEMA]
    assert [request.ordinal for request in model.requests] == [0, 1]


def test_what_is_twice_no_value_is_said_by_purpose() -> None:
    with pytest.raises(FormatError, match="find: no usable value after one repair: there is no JSON value in it"):
        ask(Exchange("no", "no"))


def test_a_repair_is_not_asked_for_where_no_call_is_left() -> None:
    model, budget = Exchange("the third", '{"step": 3}'), AskingBudget(left=1)
    with pytest.raises(FormatError, match="find: no call was left"):
        ask(model, budget)
    assert (len(model.requests), budget.calls, budget.refused) == (1, 1, 1)
