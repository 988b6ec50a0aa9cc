"""What the loop writes down: notes, results and totals, whole; and the sums of windows, budgets and calibration."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from doubles import ListRecorder, PaperChart, play

from wardround.agents import Limits, Prompt, get_agent
from wardround.agents.loop.calls import CallRunner, as_own_calls, as_sent_back
from wardround.agents.loop.context import (
    CALL_OVERHEAD_TOKENS,
    MESSAGE_OVERHEAD_TOKENS,
    Calibration,
    EstimatedTokens,
    count_message,
    count_schemas,
)
from wardround.agents.loop.episode import Ending, Episode, Outcome
from wardround.agents.loop.loop import MOST_TOO_LONG, Hooks, LoopSettings
from wardround.core import Message, PromptTooLong, ProviderError, ToolCall, Usage
from wardround.models.protocol import ModelSettings, Reply
from wardround.models.replay import ScriptedModel, call, calls, say
from wardround.tools import default_toolset

REACT = get_agent("react")


def priced(reply: Reply, *, read: int = 100, written: int = 10, cost: float | None = 0.5) -> Reply:
    return replace(reply, usage=Usage(input_tokens=read, output_tokens=written), cost=cost, unreported=())


def finish(*answers: str) -> Reply:
    return call("finish", response=list(answers))


def test_an_outcome_has_every_total() -> None:
    told = call("finish", response=["x"], evidence={"x": ["labevents:1"]})
    model = ScriptedModel([priced(call("get_rows", table_name="a"), read=900), priced(told, written=7)])
    outcome = play(model)
    assert (outcome.turns, outcome.model_calls, outcome.cost, outcome.forced, outcome.error) == (2, 2, 1.0, False, None)
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (1000, 17)
    assert outcome.evidence == {"x": ("labevents:1",)}
    assert outcome.seconds > 0
    assert outcome.prefix_share is not None
    assert 0 < outcome.prefix_share < 1
    unknown = play(ScriptedModel([priced(call("think")), priced(finish("x"), cost=None), priced(finish("x"))]))
    assert unknown.cost is None


def test_an_outcome_as_json_is_all_of_it() -> None:
    outcome = Outcome(
        answer=("x", "y"),
        evidence={"x": ("a:1", "a:2")},
        finish="budget",
        turns=3,
        model_calls=5,
        usage=Usage(input_tokens=7, output_tokens=2),
        cost=0.25,
        seconds=1.5,
        prefix_share=0.5,
        forced=True,
        error="no room",
    )
    body = outcome.to_json()
    usage = body.pop("usage")
    assert (usage["input_tokens"], usage["output_tokens"]) == (7, 2)
    assert body == {
        "answer": ["x", "y"],
        "evidence": {"x": ["a:1", "a:2"]},
        "citations": [],
        "finish": "budget",
        "turns": 3,
        "model_calls": 5,
        "cost": 0.25,
        "seconds": 1.5,
        "prefix_share": 0.5,
        "forced": True,
        "error": "no room",
    }
    assert replace(outcome, answer=None).to_json()["answer"] is None


def test_a_result_is_recorded_whole() -> None:
    recorder = ListRecorder()
    play(ScriptedModel([call("get_rows", table_name="a", lines=2), call("get_row"), finish("x")]), recorder=recorder)
    (first,), (second,), _ = (results for _, _, results, _ in recorder.turns)
    assert first.call.name == "get_rows"
    assert first.result_text.startswith("a: showing 2 of 1,000 rows")
    assert (first.is_error, first.table, first.rows_total, first.rows_shown, first.cursor) == (
        False,
        "a",
        1000,
        2,
        "c1",
    )
    assert (second.is_error, second.table, second.rows_total, second.cursor) == (True, None, None, None)
    assert first.seconds >= 0


@pytest.mark.parametrize(
    ("script", "limits", "notes"),
    [
        ([finish("x")], Limits(), []),
        ([say("Hm."), say('["x"]')], Limits(), [
            ("reminder", {"turn": 1, "reason": "no_call"}),
            ("text", {"turn": 2, "what": "taken as the final text"}),
        ]),
        ([say('{"arguments": '), finish("x")], Limits(), [("reminder", {"turn": 1, "reason": "written_call"})]),
        ([say("<tool_call>get"), finish("x")], Limits(), [("reminder", {"turn": 1, "reason": "written_call"})]),
        ([say(""), finish("x")], Limits(), [("reminder", {"turn": 1, "reason": "empty"})]),
        ([call("get_rows", arguments="[1]"), finish("x")], Limits(), [
            ("arguments", {"turn": 1, "what": "rewritten as valid JSON for later prompts"}),
        ]),
        ([call("think"), call("think"), finish("x")], Limits(turns=2), [
            ("limit", {"turn": 2, "finish": "turn_limit", "forced_call": True}),
        ]),
        ([priced(call("think"), read=50, written=50), finish("x")], Limits(total_tokens=100), [
            ("limit", {"turn": 1, "finish": "budget", "forced_call": True}),
        ]),
    ],
)  # fmt: skip
def test_every_note_of_an_episode(script: list[Reply], limits: Limits, notes: list[tuple[str, dict[str, Any]]]) -> None:
    recorder = ListRecorder()
    play(ScriptedModel(script), limits=limits, recorder=recorder)
    assert [(kind, detail) for kind, detail in recorder.notes if kind != "calibration"] == notes


@pytest.mark.parametrize(("used", "ends"), [(99, "finish"), (100, "budget"), (101, "budget")])
def test_a_budget_is_spent_when_it_is_reached(used: int, ends: str) -> None:
    model = ScriptedModel([priced(call("think"), read=used - 40, written=40), finish("x")])
    outcome = play(model, limits=Limits(total_tokens=100))
    assert (outcome.finish, outcome.answer, outcome.forced) == (ends, ("x",), ends == "budget")


def test_where_no_call_is_forced_the_episode_ends_at_its_limit() -> None:
    agent = replace(REACT, loop=LoopSettings(forced_finish=False))
    recorder = ListRecorder()
    outcome = play(ScriptedModel([call("think")]), agent=agent, limits=Limits(turns=1), recorder=recorder)
    assert (outcome.finish, outcome.answer, outcome.forced, outcome.model_calls) == ("turn_limit", None, False, 1)
    assert recorder.of("limit") == [{"turn": 1, "finish": "turn_limit", "forced_call": False}]


class Accepting(PaperChart):
    """Notes when it is told to refuse no answer any more."""

    def __init__(self) -> None:
        super().__init__()
        self.accepts: list[int] = []

    def accept_any_answer(self) -> None:
        self.accepts.append(len(self.calls))


def test_the_last_answer_that_can_be_given_is_refused_by_nobody() -> None:
    forced = Accepting()
    play(ScriptedModel([call("think"), call("think"), finish("x")]), environment=forced, limits=Limits(turns=2))
    assert forced.accepts == [2], "before the forced call"
    plain = Accepting()
    agent = replace(REACT, loop=LoopSettings(forced_finish=False))
    play(ScriptedModel([call("think"), finish("x")]), environment=plain, agent=agent, limits=Limits(turns=2))
    assert plain.accepts == [1], "before the last turn's calls"


class TwoTrials(Hooks):
    """Asks for one more trial after the first, and notes when it is asked."""

    async def before_episode(self, episode: Episode) -> None:
        episode.pin("stays")

    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        if episode.trial == 1:
            episode.new_trial()
            return True
        return False


def test_a_new_trial_counts_turns_afresh_and_keeps_what_was_pinned() -> None:
    recorder = ListRecorder()
    model = ScriptedModel([call("think"), finish("x"), call("think"), call("think"), finish("y")])
    outcome = play(model, agent=replace(REACT, hooks=(TwoTrials,)), limits=Limits(turns=3), recorder=recorder)
    assert (outcome.answer, outcome.turns, outcome.finish) == (("y",), 5, "finish")
    assert recorder.of("trial") == [{"trial": 2, "turn": 2, "acts": 2}]
    assert [len(request.messages) for request in model.requests] == [3, 5, 3, 5, 7]
    assert all(request.messages[2].content == "stays" for request in model.requests)


class Failing(Hooks):
    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        raise ProviderError("no reflection", status=500, attempts=1)


def test_an_endpoint_that_fails_after_the_answer_does_not_cost_it_and_later_hooks_are_asked() -> None:
    recorder = ListRecorder()
    agent = replace(REACT, hooks=(Failing, TwoTrials))
    outcome = play(ScriptedModel([finish("x"), finish("y")]), agent=agent, recorder=recorder)
    assert outcome.answer == ("y",)
    assert recorder.of("trial") == [
        {"turn": 1, "skipped": "no reflection"},
        {"trial": 2, "turn": 1, "acts": 1},
        {"turn": 2, "skipped": "no reflection"},
    ]


def too_long(window: int | None = None, prompt: int | None = None) -> PromptTooLong:
    return PromptTooLong("too long", window_tokens=window, prompt_tokens=prompt)


def test_a_prompt_that_is_too_long_is_asked_again_a_few_times_and_then_the_error_stands() -> None:
    refusals = [too_long(window=50_000 - 1_000 * place) for place in range(MOST_TOO_LONG + 1)]
    assert play(ScriptedModel([*refusals[:-1], finish("x")])).answer == ("x",)
    assert play(ScriptedModel(refusals)).finish == "error"


def episode_of(*, recorder: ListRecorder | None = None, limits: Limits | None = None) -> Episode:
    return Episode(
        agent=REACT,
        model=ScriptedModel([]),
        environment=PaperChart(),
        prompt=Prompt(user="u", system="added"),
        limits=limits or Limits(turns=7, context_tokens=10_000, reply_tokens=1_000),
        settings=ModelSettings(),
        recorder=recorder or ListRecorder(),
        counter=EstimatedTokens(),
        episode="e1",
    )


def test_the_room_is_the_window_less_reply_and_schemas_by_the_calibration() -> None:
    episode = episode_of()
    schemas = count_schemas(EstimatedTokens(), episode.schemas)
    assert episode.room() == 9_000 - schemas
    assert episode.room(episode.schemas[:1]) == 9_000 - count_schemas(EstimatedTokens(), episode.schemas[:1])
    assert episode.room(()) == 9_000
    episode.calibration.factor = 1.5
    assert episode.room(()) == 6_000
    assert episode.settings.max_output_tokens == 1_000


@pytest.mark.parametrize(
    ("refused", "window", "factor"),
    [
        (too_long(window=8_000), 8_000, 1.0),
        (too_long(window=20_000), 10_000, 1.25),
        (too_long(window=1_000), 10_000, 1.25),
        (too_long(window=10_000), 10_000, 1.25),
    ],
)
def test_a_refusal_says_how_long_prompts_may_be(refused: PromptTooLong, window: int, factor: float) -> None:
    recorder = ListRecorder()
    episode = episode_of(recorder=recorder)
    episode.render()
    episode.fit(refused)
    assert (episode.limits.context_tokens, episode.calibration.factor) == (window, factor)
    assert recorder.of("too_long") == [
        {
            "turn": 0,
            "prompt": None,
            "window": refused.window_tokens,
            "context_tokens": window,
            "factor": factor,
        }
    ]


def test_a_refusal_that_counts_the_prompt_raises_the_calibration() -> None:
    episode = episode_of()
    episode.render()
    counted = episode.rendered_tokens + episode.schema_tokens(episode.schemas)
    episode.fit(too_long(window=9_000, prompt=2 * counted))
    assert episode.calibration.factor == pytest.approx(2.0)
    assert episode.limits.context_tokens == 9_000


@pytest.mark.parametrize("reported", [1.0, 2.0])
def test_a_question_beside_the_actor_is_counted_by_its_own_messages(reported: float) -> None:
    """The actor's prompt, which is a few words long, was rendered before it."""
    question = (Message(role="user", content="Is it so? " * 500),)
    counted = sum(count_message(EstimatedTokens(), message) for message in question)
    usage = Usage(input_tokens=int(reported * counted), output_tokens=1)
    episode = episode_of()
    episode.model = ScriptedModel(
        [Reply(message=Message(role="assistant", content="yes"), usage=usage, finish_reason="stop", model="m")] * 2
    )
    episode.render()
    asyncio.run(episode.ask(question, schemas=()))
    assert episode.calibration.factor == pytest.approx(reported, abs=0.01)
    asyncio.run(episode.ask(question, schemas=(), counted=2 * counted))
    assert episode.calibration.factor == pytest.approx(reported, abs=0.01), "twice as many by the caller's count"


def test_a_refusal_without_a_number_leaves_three_quarters_of_what_was_sent() -> None:
    episode = episode_of(limits=Limits(context_tokens=100_000, reply_tokens=10))
    episode.render()
    counted = episode.rendered_tokens + episode.schema_tokens(episode.schemas)
    episode.fit(too_long())
    assert episode.limits.context_tokens == int(counted * 0.75) + 10


def test_the_system_prompt_is_the_agents_and_the_tasks_with_the_turns_there_are() -> None:
    episode = episode_of()
    system, user = episode.render()
    assert (system.content or "").endswith("\n\nadded")
    assert "7" in (system.content or "")
    assert user.content == "u"
    bare = Prompt(user="u")
    model = ScriptedModel([finish("x")])
    play(model, prompt=bare)
    assert not (model.requests[0].messages[0].content or "").endswith("\n")


@pytest.mark.parametrize(
    ("factor", "counted", "reported", "rose", "after"),
    [
        (1.0, 100, 150, True, 1.5),
        (1.5, 100, 150, False, 1.5),
        (1.5, 100, 120, False, 1.5),
        (1.0, 100, 900, True, 3.0),
        (1.0, 0, 100, False, 1.0),
        (1.0, 100, 0, False, 1.0),
        (1.0, 1, 1, False, 1.0),
        (1.0, 1, 2, True, 2.0),
    ],
)
def test_a_calibration_only_rises_and_up_to_three(
    factor: float, counted: int, reported: int, rose: bool, after: float
) -> None:
    calibration = Calibration()
    calibration.factor = factor
    assert calibration.observe(counted, reported) is rose
    assert calibration.factor == after
    calibration.tighten()
    assert calibration.factor == min(after * 1.25, 3.0)


class Letters:
    def count(self, text: str) -> int:
        return len(text)


def test_a_message_is_its_text_its_calls_and_what_a_template_writes_round_them() -> None:
    plain = Message(role="user", content="four")
    assert count_message(Letters(), plain) == MESSAGE_OVERHEAD_TOKENS + 4 == 9
    called = ToolCall(id="c", name="ab", arguments="{}")
    empty = Message(role="assistant", content=None, tool_calls=(called, called))
    assert count_message(Letters(), empty) == MESSAGE_OVERHEAD_TOKENS + 2 * (CALL_OVERHEAD_TOKENS + 4) == 37


def message_of(*wanted: tuple[str, str, str]) -> Message:
    made = tuple(ToolCall(id=key, name=name, arguments=text) for key, name, text in wanted)
    return Message(role="assistant", content=None, tool_calls=made)


def own_calls(message: Message, used: set[str]) -> Message:
    return as_own_calls(message, default_toolset(), used)


def test_ids_are_made_unique_over_an_episode() -> None:
    used: set[str] = set()
    first = own_calls(message_of(("a", "x", "{}"), ("a", "x", "{}"), ("", "x", "{}")), used)
    assert [one.id for one in first.tool_calls] == ["a", "a_2", "call_2"]
    second = own_calls(message_of(("a", "x", "{}"), ("b", "x", "{}")), used)
    assert [one.id for one in second.tool_calls] == ["a_3", "b"]
    same = message_of(("c", "x", "{}"))
    assert own_calls(same, used) is same


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ("", {}),
        ("  ", {}),
        ("[1]", {"unreadable": "[1]"}),
        ("{" * 600, {"unreadable": "{" * 500}),
        ('"text"', {"unreadable": '"text"'}),
        ('{"ä": 1', {"unreadable": '{"ä": 1'}),
    ],
)
def test_arguments_go_back_as_an_object(arguments: str, sent: dict[str, Any]) -> None:
    message = message_of(("a", "get", arguments))
    back = as_sent_back(message)
    assert json.loads(back.tool_calls[0].arguments) == sent
    assert (back is message) == (arguments == '{"a": 1}')
    assert "\\u" not in back.tool_calls[0].arguments


def test_a_call_without_a_name_gets_one() -> None:
    (back,) = as_sent_back(message_of(("a", "", '{"b": 2}'))).tool_calls
    assert (back.name, back.arguments, back.id) == ("unnamed", '{"b": 2}', "a")


@pytest.mark.parametrize(("guard", "run"), [(None, 4), (3, 2), (2, 1)])
def test_the_same_call_again_and_again_is_run_up_to_the_guard(guard: int | None, run: int) -> None:
    environment = PaperChart()
    agent = replace(REACT, loop=LoopSettings(repeat_guard=guard))
    model = ScriptedModel([*[call("get_rows", table_name="a")] * 4, finish("x")])
    play(model, agent=agent, environment=environment)
    assert [name for name, _ in environment.calls].count("get_rows") == run
    if guard is not None:
        assert f"the same call {guard} times in a row" in (model.requests[guard].messages[-1].content or "")


def test_another_call_in_between_starts_the_count_again() -> None:
    environment = PaperChart()
    runner_calls = [call("get_rows", table_name=name) for name in "aabaa"]
    agent = replace(REACT, loop=LoopSettings(repeat_guard=3))
    play(ScriptedModel([*runner_calls, finish("x")]), agent=agent, environment=environment)
    assert len(environment.calls) == 6
    assert CallRunner(environment)._guard is None


def test_a_tool_that_is_not_offered_now_is_refused_by_name() -> None:
    model = ScriptedModel([call("think"), calls(("get_rows", "{}"), ("write", "{}"))])
    recorder = ListRecorder()
    outcome = play(model, limits=Limits(turns=1), recorder=recorder)
    assert outcome.answer is None
    texts = [result.result_text for result in recorder.turns[1][2]]
    assert texts == ["Error: only finish can be called now."] * 2
    assert all(result.is_error and result.seconds == 0.0 for result in recorder.turns[1][2])
