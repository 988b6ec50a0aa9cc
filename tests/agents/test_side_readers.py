"""Whoever reads beside the actor (summariser, critic, chooser): what servers accept, what replies hold, what is cut."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from doubles import ListRecorder, PaperChart, play, settings_of
from memory_charts import chart_of, filled_memory

from wardround.agents import Limits, Memory, ReflexionSettings, SummarySettings, get_agent, list_agents
from wardround.models import Request, ScriptedModel, call, say
from wardround.models.replay import Line
from wardround.records import Store

SETTINGS = {"window": 2, "final_summary": True}
MORE = ": fever since the second day, no growth in two blood cultures"


@pytest.fixture(scope="module")
def memory(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return filled_memory(synthetic_store, tmp_path_factory.mktemp("bank") / "bank.sqlite")


def speaking(request: Request) -> Line:
    if request.tool_choice == "none":
        return say("Choice: 2")
    if not request.tools:
        return say(f"Written at call {request.ordinal}.")
    if len(request.tools) == 1:
        return call("finish", response=["x"])
    return call("get_rows", table_name=f"t{request.ordinal}")


@pytest.mark.parametrize("name", ["react", "reflexion", "resum", "retrosum-evolved", "reasoningbank", "reflectool-cs"])
def test_no_request_shows_tool_calls_without_tools(name: str, memory: Memory, synthetic_store: Store) -> None:
    """Endpoints in front of Anthropic's and Amazon's protocols answer 400 to that."""
    assert name in {method.name for method in list_agents()}
    environment = PaperChart()
    environment.chart = chart_of(synthetic_store)  # type: ignore[attr-defined]
    model = ScriptedModel(speaking)
    play(
        model,
        agent=get_agent(name, settings_of(name, **SETTINGS), memory=memory),
        environment=environment,
        limits=Limits(turns=5),
    )
    for request in model.requests:
        called = any(message.tool_calls or message.role == "tool" for message in request.messages)
        assert request.tools or not called


@pytest.mark.parametrize(
    "reply",
    [
        "<think>S9</think><summary>S1 kept</summary>",
        "S9 was thought by a template that opens the tag itself.</think>\n<summary>S1 kept</summary>",
        "Here is the summary:\n<summary>\nS1 kept\n</summary>\nS9: shall I go on?",
        f"S1 kept{MORE}",
        f"<summary>S1 kept{MORE}",
    ],
)
def test_a_summary_is_what_stands_between_its_tags(reply: str) -> None:
    script = [call("get_rows", table_name="a"), say(reply), call("finish", response=["x"])]
    model, recorder = ScriptedModel(script), ListRecorder()
    play(model, agent=get_agent("retrosum", SummarySettings(window=1)), recorder=recorder)
    carried = model.requests[2].messages[-1].content or ""
    assert re.search(rf"\n\nS1 kept(?:{MORE})?\n\n", carried)
    assert "S9" not in carried
    assert "summary>" not in carried


TEN_WORDS = "I will now go on and look at laboratory values."
TOOL_CALL = call("get_rows", table_name="a")


@pytest.mark.parametrize("useless", [say(TEN_WORDS), TOOL_CALL, say(""), say('<tool_call>{"name": "get_rows"}')])
@pytest.mark.parametrize("second", [say("<summary>S1 kept</summary>"), say(TEN_WORDS)], ids=["used", "useless too"])
def test_what_is_no_summary_is_asked_for_again_once_and_not_used(useless: Line, second: Line) -> None:
    script = [call("get_rows", table_name="a"), useless, second, call("finish", response=["x"])]
    model, recorder = ScriptedModel(script), ListRecorder()
    play(model, agent=get_agent("retrosum", SummarySettings(window=1)), recorder=recorder)
    assert "could not be used" in (model.requests[2].messages[-1].content or "")
    acted = "\n".join(message.content or "" for message in model.requests[3].messages)
    assert ("S1 kept" in acted) == (second != say(TEN_WORDS))
    assert TEN_WORDS not in acted
    assert "could not be used" not in acted
    assert [purpose for *_, purpose in recorder.turns] == ["act", "summarise", "summarise", "act"]
    assert [note["role"] for note in recorder.of("asked_again")] == ["summarise"]


def test_many_long_critiques_leave_room_for_the_trials() -> None:
    """Critiques are pinned: together they must not fill the window, or the answer there is would be lost."""

    def wordy(request: Request) -> Line:
        if not request.tools:
            return say("Look again. " * 4000)
        return call("finish", response=[f"x{request.ordinal}"])

    recorder = ListRecorder()
    agent = get_agent("reflexion", ReflexionSettings(trials=12))
    limits = Limits(context_tokens=8000, reply_tokens=1000)
    outcome = play(ScriptedModel(wordy), agent=agent, recorder=recorder, limits=limits)
    assert (outcome.finish, outcome.answer) == ("finish", ("x22",))
    assert [note["cut"] for note in recorder.of("critique")] == [True] * 11, "what was cut is noted"


def test_what_was_said_beside_a_critique_that_is_cut_off_is_noted_too() -> None:
    short = replace(say("Look at b."), finish_reason="length")
    script = [call("finish", response=["x"]), short, call("finish", response=["y"])]
    recorder = ListRecorder()
    assert play(ScriptedModel(script), agent=get_agent("reflexion"), recorder=recorder).answer == ("y",)
    assert len(recorder.of("critique")) == 1
