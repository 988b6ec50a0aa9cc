"""Questions of tools: recorded on the loop of their episode, and not at all once it is over."""

from __future__ import annotations

import asyncio
import json

import pytest

from wardround.core import Message, ToolFailure
from wardround.models import EpisodeQuestions, Reply, Request, ScriptedModel, ask_alone, beside, resumed, say

ASKED = Request(messages=(Message(role="user", content="How many?"),))
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Booked:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str | None]] = []

    def __call__(self, request: Request, reply: Reply) -> None:
        self.calls.append((request.episode, request.ordinal, reply.message.content))


def questions(booked: Booked) -> EpisodeQuestions:
    return EpisodeQuestions("e", player=None, ordinal=lambda: 7 + len(booked.calls), record=booked)


@pytest.mark.anyio
async def test_a_question_and_its_repair_take_the_next_numbers_of_the_episode() -> None:
    booked, model = Booked(), ScriptedModel(["many", json.dumps({"n": 3})])
    found = await asyncio.to_thread(questions(booked), model, ASKED, NUMBER)
    assert found == {"n": 3}
    assert booked.calls == [("e", 7, "many"), ("e", 8, json.dumps({"n": 3}))]


@pytest.mark.anyio
async def test_what_is_still_asked_when_the_episode_ends_is_broken_off_and_not_recorded() -> None:
    booked, model = Booked(), ScriptedModel([json.dumps({"n": 3})] * 2, seconds=3600)
    asking = questions(booked)
    waiting = asyncio.create_task(asyncio.to_thread(asking, model, ASKED, NUMBER))
    while not model.requests:
        await asyncio.sleep(0.001)
    asking.end()
    with pytest.raises(ToolFailure, match="over"):
        await waiting
    with pytest.raises(ToolFailure, match="over"):
        await asyncio.to_thread(asking, model, ASKED, NUMBER)
    assert len(model.requests) == 1
    assert not booked.calls


def test_without_an_episode_it_is_asked_on_a_loop_of_its_own() -> None:
    assert ask_alone(ScriptedModel([json.dumps({"n": 1})]), ASKED, NUMBER) == {"n": 1}


@pytest.mark.anyio
async def test_replies_of_another_model_are_kept_beside_those_of_the_player() -> None:
    kept: list[str] = []
    player, other = ScriptedModel([say("a")], name="player"), ScriptedModel([say("b")], name="other")
    playing = resumed(player, [], keep=lambda request, reply: kept.append(reply.message.content or ""))
    asked = beside(playing, other)
    assert asked.identity == "other"
    await playing.complete(ASKED)
    await asked.complete(ASKED)
    assert kept == ["a", "b"]
    assert beside(player, other) is other
