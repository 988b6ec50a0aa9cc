"""What one reply and one episode may take: calls, wall time; and the endings of texts that were cut off or withheld."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from doubles import ListRecorder, PaperChart, play

from wardround.agents import Limits
from wardround.core import PromptWithheld
from wardround.models import Reply, Request, ScriptedModel, call, calls, say
from wardround.models.wire import MOST_CALLS

THINKING = ("think", "{}")
DONE = call("finish", response=["Gout"])


@pytest.mark.parametrize("left_out", [0, 19_935])
def test_of_calls_without_end_the_first_are_run_one_more_is_refused_and_all_are_counted(left_out: int) -> None:
    many = replace(calls(*[THINKING] * (MOST_CALLS + 1)), calls_left_out=left_out and left_out + 1)
    chart, recorder = PaperChart(), ListRecorder()
    model = ScriptedModel([many, DONE])
    outcome = play(model, environment=chart, recorder=recorder)
    assert outcome.finish == "finish"
    assert [name for name, _ in chart.calls] == ["think"] * MOST_CALLS + ["finish"]
    results = [message for message in model.requests[1].messages if message.role == "tool"]
    assert len(results) == MOST_CALLS + 1, "every call that is kept has its answer"
    assert f"only the first {MOST_CALLS} calls" in (results[-1].content or "")
    assert recorder.of("calls") == [{"turn": 1, "most": MOST_CALLS, "not_run": left_out + 1}]


class Slow(ScriptedModel):
    """Never answers its second request."""

    async def complete(self, request: Request) -> Reply:
        if len(self.requests) == 1:
            await asyncio.Event().wait()
        return await super().complete(request)


def test_an_episode_ends_at_its_limit_of_wall_time() -> None:
    outcome = play(Slow([calls(THINKING), DONE]), limits=Limits(seconds=0.05))
    assert outcome.finish == "time_limit"
    assert outcome.error == "the episode took longer than 0.05 s"
    assert outcome.turns == 2
    assert play(ScriptedModel([calls(THINKING), DONE]), limits=Limits(seconds=600.0)).finish == "finish"


class Impatient(ScriptedModel):
    """Has a timeout of its own, which is no limit of the episode's."""

    async def complete(self, request: Request) -> Reply:
        raise TimeoutError("its own")


def test_a_timeout_that_is_not_the_episodes_is_not_called_one() -> None:
    with pytest.raises(TimeoutError, match="its own"):
        play(Impatient([]), limits=Limits(seconds=600.0))


@pytest.mark.parametrize("content", ["Gout, I thi", ""])
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_text_that_was_cut_off_or_withheld_is_an_ending_of_its_own(reason: Any, content: str) -> None:
    cut = replace(say(content), finish_reason=reason)
    outcome = play(ScriptedModel(lambda request: cut))
    assert outcome.finish == reason
    assert play(ScriptedModel([say("Gout."), say("Gout.")])).finish == "text"


class Filtered(ScriptedModel):
    """Behind a content filter that refuses the second prompt."""

    async def complete(self, request: Request) -> Reply:
        if len(self.requests) == 1:
            raise PromptWithheld("m at http://x: 400: content_filter: filtered", status=400)
        return await super().complete(request)


def test_a_prompt_that_a_filter_refuses_is_an_ending_of_its_own() -> None:
    outcome = play(Filtered([calls(THINKING), DONE]))
    assert outcome.finish == "content_filter"
    assert outcome.error == "m at http://x: 400: content_filter: filtered (status 400, 1 attempts)"
    assert outcome.answer is None
