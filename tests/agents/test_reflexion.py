"""Reflexion, turn by turn."""

from __future__ import annotations

import re

import pytest
from doubles import TASK, ListRecorder, check_wire, play

from wardround.agents import Limits, ReflexionSettings, get_agent
from wardround.core import ProviderError
from wardround.models import Request, ScriptedModel, call, say
from wardround.models.replay import Line

TWO_TRIALS = [call("get_rows", table_name="a"), call("finish", response=["x"]), say("Look at b."),
              call("get_rows", table_name="b"), call("finish", response=["y"])]  # fmt: skip


def texts(request: Request) -> list[str]:
    return [message.content or "" for message in request.messages]


def purposes(recorder: ListRecorder) -> list[str]:
    return [purpose for *_, purpose in recorder.turns]


def test_the_second_trial_starts_from_the_question_and_the_critique() -> None:
    model, recorder = ScriptedModel(TWO_TRIALS), ListRecorder()
    outcome = play(model, agent=get_agent("reflexion"), recorder=recorder)
    assert (outcome.answer, outcome.turns, outcome.finish) == (("y",), 4, "finish")
    assert purposes(recorder) == ["act", "act", "reflect", "act", "act"], "all trials are in the log"
    second = model.requests[3]
    assert [message.role for message in second.messages] == ["system", "user", "user"]
    assert texts(second)[1] == TASK.user
    assert "Look at b." in texts(second)[2]
    assert "attempt 1" in texts(second)[2]
    assert "Your answer then was:\n- x\n" in texts(second)[2], "its own answer is not forgotten"
    assert recorder.of("trial") == [{"trial": 2, "turn": 2, "acts": 2}]
    for request in model.requests:
        check_wire(request.messages)


def test_the_critic_reads_the_whole_trial_and_no_truth() -> None:
    model = ScriptedModel(TWO_TRIALS)
    play(model, agent=get_agent("reflexion"))
    critique = model.requests[2]
    assert critique.tools == ()
    assert [message.role for message in critique.messages] == ["system", *["user"] * 4], "text: it has no tools"
    assert texts(critique)[1] == TASK.user
    assert texts(critique)[2].startswith('[turn 1]\n[call] get_rows({"table_name": "a"})\n[result]\na: showing 3')
    assert "- x" in texts(critique)[-1]
    assert texts(critique)[-1].startswith("Your task now: criticise.")


def test_the_turn_limit_holds_for_each_trial() -> None:
    script = [call("think"), call("think"), call("finish", response=["x"]), say("Be quicker."), call("think"),
              call("think"), call("finish", response=["y"])]  # fmt: skip
    recorder = ListRecorder()
    outcome = play(ScriptedModel(script), agent=get_agent("reflexion"), recorder=recorder, limits=Limits(turns=2))
    assert (outcome.answer, outcome.finish, outcome.turns) == (("y",), "turn_limit", 4)
    assert purposes(recorder) == ["act"] * 3 + ["reflect"] + ["act"] * 3


def test_three_trials_carry_two_critiques_and_each_critic_reads_its_own_trial() -> None:
    def scripted(request: Request) -> Line:
        trial = 1 + sum(text.startswith("You have answered this question before") for text in texts(request))
        if not request.tools:
            return say("Critique.")
        acted = any(message.role == "tool" for message in request.messages)
        return call("finish", response=[str(trial)]) if acted else call("get_rows", table_name=f"t{trial}")

    model = ScriptedModel(scripted)
    outcome = play(model, agent=get_agent("reflexion", ReflexionSettings(trials=3)))
    assert outcome.answer == ("3",)
    critics = [request for request in model.requests if not request.tools]
    shown = [re.findall(r"^\[result\]\n(\w+)", "\n".join(texts(request)), re.MULTILINE) for request in critics]
    assert shown == [["t1", "finished"], ["t2", "finished"]]
    assert all("[turn 1]" in texts(request)[2] for request in critics), "turns are counted within the trial"


@pytest.mark.parametrize("bad", [ProviderError("gone", status=503), say(""), call("think")])
def test_a_critique_that_fails_does_not_cost_the_answer(bad: Line) -> None:
    recorder = ListRecorder()
    outcome = play(
        ScriptedModel([call("finish", response=["x"]), bad, bad]), agent=get_agent("reflexion"), recorder=recorder
    )
    assert (outcome.answer, outcome.finish) == (("x",), "finish")
    assert len(recorder.of("trial")) == 1
    assert "skipped" in recorder.of("trial")[0]


def test_no_second_trial_when_the_budget_of_the_episode_is_spent() -> None:
    model = ScriptedModel(lambda request: call("finish", response=["x"]))
    outcome = play(model, agent=get_agent("reflexion"), limits=Limits(total_tokens=0))
    assert (outcome.finish, outcome.answer, len(model.requests)) == ("budget", ("x",), 1)
