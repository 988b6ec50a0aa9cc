"""The loop turn by turn: what was in the prompt, what was answered, how it ended."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest
from doubles import ListRecorder, PaperChart, check_wire, play

from wardround.agents import Limits, Prompt, get_agent
from wardround.agents.loop.calls import with_written_calls
from wardround.agents.loop.episode import Ending, Episode
from wardround.agents.loop.loop import Hooks, LoopSettings
from wardround.core import Message, ProviderError, Usage
from wardround.models.protocol import Reply
from wardround.models.replay import ScriptedModel, call, calls, say
from wardround.tasks.answers import OneClass, Question

REACT = get_agent("react")
PLAIN = replace(get_agent("react"), loop=LoopSettings(written_calls=False))


def finish(*answers: str) -> Reply:
    return call("finish", response=list(answers))


def test_an_episode_from_the_prompt_to_the_finish() -> None:
    model = ScriptedModel([call("get_rows", table_name="labevents"), finish("Acute renal failure")])
    recorder = ListRecorder()
    outcome = play(model, recorder=recorder)
    assert (outcome.answer, outcome.finish, outcome.turns) == (("Acute renal failure",), "finish", 2)
    first, second = (request.messages for request in model.requests)
    assert [message.role for message in first] == ["system", "user"]
    assert second[:2] == first
    assert [message.role for message in second[2:]] == ["assistant", "tool"]
    assert "labevents:2" in (second[3].content or "")
    assert [(len(results), purpose) for _, _, results, purpose in recorder.turns] == [(1, "act"), (1, "act")]
    assert [request.ordinal for request in model.requests] == [0, 1]


def test_two_calls_at_once_run_side_by_side_and_keep_their_order() -> None:
    environment = PaperChart()
    both = calls(("get_rows", '{"table_name": "a"}'), ("get_rows", '{"table_name": "b"}'))
    model = ScriptedModel([both, finish("x")])
    play(model, environment=environment)
    check_wire(model.requests[1].messages)
    assert [message.content.split(":")[0] for message in model.requests[1].messages[3:]] == ["a", "b"]  # type: ignore[union-attr]
    assert environment.most_side_by_side == 2


def test_a_tool_that_writes_runs_alone() -> None:
    environment = PaperChart()
    wanted = ("get_rows", '{"table_name": "a"}'), ("write", "{}"), ("get_rows", '{"table_name": "b"}')
    play(ScriptedModel([calls(*wanted), finish("x")]), environment=environment)
    assert [name for name, _ in environment.calls] == ["get_rows", "write", "get_rows", "finish"]
    assert environment.most_side_by_side == 1


def test_finish_beside_other_calls_runs_last_and_everything_is_answered() -> None:
    environment, recorder = PaperChart(), ListRecorder()
    wanted = ("finish", '{"response": ["x"]}'), ("get_rows", '{"table_name": "a"}'), ("finish", '{"response": ["y"]}')
    outcome = play(ScriptedModel([calls(*wanted)]), environment=environment, recorder=recorder)
    assert outcome.answer == ("x",)
    assert [name for name, _ in environment.calls] == ["get_rows", "finish"]
    results = recorder.turns[0][2]
    assert [(result.call.name, result.is_error) for result in results] == [
        ("finish", False),
        ("get_rows", False),
        ("finish", True),
    ]
    assert [result.seconds > 0 for result in results] == [True, True, False], "what was not run took no time"
    assert results[2].seconds == 0


def test_a_refused_finish_is_not_the_end() -> None:
    model = ScriptedModel([call("finish", response=[]), finish("x")])
    outcome = play(model)
    assert (outcome.turns, outcome.answer) == (2, ("x",))
    assert "response is empty" in (model.requests[1].messages[-1].content or "")


def test_malformed_arguments_are_answered_and_later_prompts_carry_valid_json() -> None:
    model = ScriptedModel([call("get_rows", arguments='{"table_name": "a"'), finish("x")])
    recorder = ListRecorder()
    play(model, recorder=recorder)
    check_wire(model.requests[1].messages)
    assert "arguments are wrong" in (model.requests[1].messages[-1].content or "")
    assert json.loads(model.requests[1].messages[2].tool_calls[0].arguments) == {"unreadable": '{"table_name": "a"'}
    assert recorder.turns[0][1].message.tool_calls[0].arguments == '{"table_name": "a"'
    assert len(recorder.of("arguments")) == 1


def test_arguments_encoded_twice_or_left_empty_are_mended_for_the_wire() -> None:
    wanted = ("get_rows", json.dumps('{"table_name": "a"}')), ("think", "")
    model = ScriptedModel([calls(*wanted), finish("x")])
    play(model)
    assert [one.arguments for one in model.requests[1].messages[2].tool_calls] == ['{"table_name": "a"}', "{}"]


def test_an_unknown_tool_is_answered_with_the_nearest() -> None:
    model = ScriptedModel([call("get_row"), finish("x")])
    play(model)
    assert "'get_rows'" in (model.requests[1].messages[-1].content or "")


def test_text_is_sent_back_once_and_then_taken() -> None:
    model = ScriptedModel([say("It is probably sepsis."), say('My answer: ["Septicemia", "Shock"]')])
    recorder = ListRecorder()
    outcome = play(model, recorder=recorder)
    assert (outcome.finish, outcome.answer) == ("text", ("Septicemia", "Shock"))
    assert "no tool call" in (model.requests[1].messages[-1].content or "")
    assert recorder.of("reminder") == [{"turn": 1, "reason": "no_call"}]


def test_a_call_after_the_reminder_counts_reminders_from_zero_again() -> None:
    model = ScriptedModel([say("Hm."), call("think"), say("Hm."), finish("x")])
    assert play(model).finish == "finish"


def test_an_empty_reply_gets_a_reminder_and_leaves_no_empty_message() -> None:
    model = ScriptedModel([Message(role="assistant", content=None), Message(role="assistant", content=" ")])
    outcome = play(model, agent=PLAIN)
    check_wire(model.requests[1].messages)
    assert "empty" in (model.requests[1].messages[-1].content or "")
    assert (outcome.finish, outcome.answer) == ("text", None)


def test_an_empty_reply_is_never_the_answer() -> None:
    thought = Message(role="assistant", content="<think>sepsis, I suppose</think>\n")
    empty = Message(role="assistant", content=None)
    model = ScriptedModel([empty, thought, finish("sepsis")])
    outcome = play(model)
    assert (outcome.finish, outcome.answer, outcome.turns) == ("finish", ("sepsis",), 3)


def test_empty_replies_end_in_the_forced_call() -> None:
    empty = Message(role="assistant", content=" ")
    model = ScriptedModel([empty, empty, empty, empty, finish("sepsis")])
    outcome = play(model)
    assert (outcome.finish, outcome.answer, outcome.forced) == ("text", ("sepsis",), True)
    assert [tool.name for tool in model.requests[4].tools] == ["finish"]
    silent = ScriptedModel([empty] * 5)
    assert (play(silent).answer, len(silent.requests)) == (None, 5)


@pytest.mark.parametrize(
    "text",
    [
        'I look.\n<tool_call>\n{"name": "get_rows", "arguments": {"table_name": "labevents"}}\n</tool_call>',
        '<think>hm</think><tool_call>{"name": "get_rows", "arguments": "{\\"table_name\\": \\"labevents\\"}"}',
        "<tool_call><function=get_rows><parameter=table_name>\nlabevents\n</parameter></function></tool_call>",
        '```json\n{"name": "get_rows", "parameters": {"table_name": "labevents"}}\n```',
        '{"name": "get_rows", "arguments": {"table_name": "labevents"}}',
    ],
)
def test_a_call_written_as_text_is_run(text: str) -> None:
    environment, recorder = PaperChart(), ListRecorder()
    model = ScriptedModel([Message(role="assistant", content=text), finish("sepsis")])
    outcome = play(model, environment=environment, recorder=recorder)
    assert [(name, json.loads(given)) for name, given in environment.calls[:1]] == [
        ("get_rows", {"table_name": "labevents"})
    ]
    assert (outcome.finish, outcome.turns) == ("finish", 2)
    check_wire(model.requests[1].messages)
    assert recorder.of("written_call") == [{"turn": 1, "calls": 1}]
    asked = ScriptedModel([Message(role="assistant", content=text), finish("sepsis")])
    play(asked, agent=PLAIN, environment=(plain := PaperChart()))
    assert [name for name, _ in plain.calls] == ["finish"]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        "The tool get_rows gave nothing.",
        '{"name": "sepsis"}',
        "<tool_call>" + '{"name": ["' * 200,
        "<tool_call>" * 20_000,
    ],
)
def test_only_a_call_of_an_offered_tool_is_read_out_of_a_text(text: str) -> None:
    message = Message(role="assistant", content=text)
    assert with_written_calls(message, {"get_rows", "finish"}) is message


def test_a_reply_cut_at_the_length_limit_is_told_so() -> None:
    cut = Reply(message=Message(role="assistant", content="I th"), usage=Usage(), finish_reason="length", model="m")
    model = ScriptedModel([cut, finish("x")])
    assert play(model).finish == "finish"
    assert "cut off" in (model.requests[1].messages[-1].content or "")


def test_repeated_call_ids_become_unique() -> None:
    reply = call("think").message
    model = ScriptedModel(lambda request: finish("x") if request.ordinal == 3 else reply)
    fixed = ScriptedModel(model._script)
    fixed._as_reply = lambda line, request: line if isinstance(line, Reply) else _reply(line)  # type: ignore[method-assign]
    play(fixed)
    check_wire(fixed.requests[3].messages)
    assert len({one.id for message in fixed.requests[3].messages for one in message.tool_calls}) == 3


def _reply(message: Message) -> Reply:
    return Reply(message=message, usage=Usage(), finish_reason="tool_calls", model="m")


def test_at_the_turn_limit_one_forced_call_offers_only_finish() -> None:
    model = ScriptedModel([call("think")] * 3 + [finish("x")])
    recorder = ListRecorder()
    outcome = play(model, recorder=recorder, limits=Limits(turns=3))
    assert (outcome.finish, outcome.answer, outcome.forced, outcome.turns) == ("turn_limit", ("x",), True, 3)
    assert [schema.name for schema in model.requests[3].tools] == ["finish"]
    assert "Call finish now" in (model.requests[3].messages[-1].content or "")
    assert recorder.of("limit") == [{"turn": 3, "finish": "turn_limit", "forced_call": True}]


def test_a_forced_call_may_answer_in_text_and_may_not_call_anything_else() -> None:
    model = ScriptedModel([call("think"), say('["x"]')])
    assert play(model, limits=Limits(turns=1)).answer == ("x",)
    environment = PaperChart()
    model = ScriptedModel([call("think"), call("get_rows", table_name="a")])
    outcome = play(model, environment=environment, limits=Limits(turns=1))
    assert (outcome.answer, outcome.finish) == (None, "turn_limit")
    assert [name for name, _ in environment.calls] == ["think"]


def test_an_endpoint_that_fails_is_a_row_not_a_crash() -> None:
    model = ScriptedModel(
        [call("think"), ProviderError("the endpoint answered 500 three times", status=500, attempts=3)]
    )
    outcome = play(model)
    assert (outcome.finish, outcome.answer, outcome.turns) == ("error", None, 2)
    assert outcome.error == "the endpoint answered 500 three times (status 500, 3 attempts)"


def test_the_share_of_a_prefix_is_broken_by_other_tools() -> None:
    """Two turns at the limit: the forced call offers only ``finish``, so nothing of its prompt is a known prefix."""
    turns = [call("get_rows", table_name="a"), call("get_rows", table_name="b")]
    played = play(ScriptedModel([*turns, finish("x")]), limits=Limits(turns=2))
    alone = play(
        ScriptedModel(turns), agent=replace(REACT, loop=LoopSettings(forced_finish=False)), limits=Limits(turns=2)
    )
    assert played.forced
    assert played.prefix_share is not None
    assert alone.prefix_share is not None
    assert played.prefix_share < alone.prefix_share / 1.3


def test_a_hook_that_asks_for_more_without_a_new_trial_does_not_go_on_for_ever() -> None:
    class Insistent(Hooks):
        async def at_answer(self, episode: Episode, ending: Ending) -> bool:
            return True

    model = ScriptedModel([finish("x"), finish("y")])
    outcome = play(model, agent=replace(REACT, hooks=(Insistent,)))
    assert (outcome.answer, len(model.requests)) == (("x",), 1)


YES_OR_NO = OneClass(classes=(("0", "no"), ("1", "yes")))
ASKED = Prompt(
    user="Will the patient be in intensive care?",
    question=Question(
        name="icu",
        title="ICU",
        category="stay",
        description="Will the patient be in intensive care?",
        factual_query="shock",
        counterfactual_query="stable",
        prediction_time=datetime(2150, 1, 1),
        answer=YES_OR_NO,
    ),
)


@pytest.mark.parametrize("unreadable", [finish("perhaps"), say("I would rather not say."), finish("0", "1")])
def test_an_answer_without_a_label_is_asked_for_once_more_bound_to_the_labels(unreadable: Reply) -> None:
    model = ScriptedModel([unreadable, *([say("As I said.")] * (not unreadable.message.tool_calls)), say('["1"]')])
    recorder = ListRecorder()
    outcome = play(model, prompt=ASKED, recorder=recorder)
    assert outcome.answer == ("1",)
    *_, bound = model.requests
    assert bound.response_schema == {
        "type": "array",
        "items": {"type": "string", "enum": ["0", "1"]},
        "minItems": 1,
        "maxItems": 1,
    }
    assert [request.ordinal for request in model.requests] == list(range(len(model.requests)))
    assert recorder.of("answer")[-1]["bound"] == ["1"]
    assert recorder.turns[-1][3] == "bind"
    assert outcome.model_calls == len(model.requests) == len(recorder.turns)


def test_what_cannot_be_bound_stays_without_an_answer_and_every_call_is_counted() -> None:
    model = ScriptedModel([finish("perhaps"), say("no list"), say("nor here")])
    recorder = ListRecorder()
    outcome = play(model, prompt=ASKED, recorder=recorder)
    assert outcome.answer is None
    assert "no usable value" in recorder.of("answer")[-1]["not_bound"]
    assert outcome.model_calls == len(recorder.turns) == 3


def test_without_the_aid_an_unreadable_answer_stays_none() -> None:
    agent = replace(get_agent("react"), loop=LoopSettings(bound_labels=False))
    model = ScriptedModel([finish("perhaps")])
    assert play(model, agent=agent, prompt=ASKED).answer is None
    assert len(model.requests) == 1
