"""Parts of the methods as functions: what a choice, an action, a written text and a summary's note are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from doubles import ListRecorder, play

from wardround.agents import Limits, SummarySettings, get_agent
from wardround.agents.loop.episode import Ending, Episode, Exchange
from wardround.agents.loop.loop import Hooks
from wardround.agents.loop.side_reader import Transcript, read_text
from wardround.agents.methods.reflectool import _action_text, _brief, _called, _choice, _identity, _seeded
from wardround.core import Message, ToolCall
from wardround.models import Reply, Request, ScriptedModel, call, calls, say
from wardround.models.protocol import ModelSettings


def asked(reply: Reply) -> Exchange:
    return Exchange(request=Request(messages=(), settings=ModelSettings()), reply=reply)


@pytest.mark.parametrize(
    ("text", "most", "number"),
    [
        ("2", 3, 2),
        (" **3**. ", 3, 3),
        ("4", 3, None),
        ("0", 3, None),
        ("I like 2 of them", 3, None),
        ("", 3, None),
        ("1", 1, 1),
    ],
)
def test_a_bare_number_is_a_choice_among_those_there_are(text: str, most: int, number: int | None) -> None:
    assert _choice(text, most) == number


def test_actions_are_the_same_by_their_calls_however_the_arguments_are_written() -> None:
    one = asked(call("get", arguments='{"a": 1, "b": 2}'))
    same, other = asked(call("get", arguments='{"b":2,"a":1}')), asked(call("get", arguments='{"a": 2}'))
    assert _identity(one) == _identity(same) != _identity(other)
    assert _identity(asked(call("get", arguments="{"))) == (("get", "{"),)
    assert _identity(asked(say(" text \n"))) == "text"
    assert _identity(asked(calls(("a", "{}"), ("b", "{}")))) != _identity(asked(calls(("b", "{}"), ("a", "{}"))))
    distinct = [other, one]
    assert [_called(reply, distinct) for reply in (same, other, asked(call("x")), asked(say("2")))] == [
        2,
        1,
        None,
        None,
    ]


def test_an_action_is_told_by_its_words_and_calls() -> None:
    both = Message(role="assistant", content=" I look. ", tool_calls=(ToolCall(id="c", name="get", arguments="{}"),))
    assert _action_text(both) == "I look.\nget({})"
    assert _action_text(Message(role="assistant", content=None)) == "(no tool call: this would be the final text)"


def test_every_sample_has_another_seed_and_a_choice_is_short() -> None:
    settings = ModelSettings(seed=7, max_output_tokens=9_000)
    assert [_seeded(settings, number).seed for number in range(3)] == [7, 8, 9]
    assert _seeded(ModelSettings(seed=None), 2).seed is None
    assert _seeded(ModelSettings(seed=2**31 - 1), 1).seed == 0
    brief = _brief(settings).max_output_tokens
    assert brief < 9_000
    assert _brief(ModelSettings(max_output_tokens=brief - 1)).max_output_tokens == brief - 1


@pytest.mark.parametrize(
    ("text", "reason", "read"),
    [
        (" a text ", "stop", ("a text", None)),
        ("<think>hm</think>said", "stop", ("said", None)),
        ("so: <summary>\none\n</summary> and <summary>two</summary>.", "stop", ("two", None)),
        ("<summary>cut of", "length", ("cut of", None)),
        ("<tool_call>{}", "stop", ("", "it called a tool instead")),
        ("text", "content_filter", ("", "it was withheld by the endpoint's content filter")),
        (" ", "stop", ("", "it was empty")),
    ],
)
def test_what_a_reply_says_without_thinking_and_frame(text: str, reason: str, read: tuple[str, str | None]) -> None:
    assert read_text(Message(role="assistant", content=text), reason) == read


def test_a_call_is_no_text() -> None:
    assert read_text(call("think").message, "tool_calls") == ("", "it called a tool instead")


def summing(request: Request) -> Reply:
    if not request.tools:
        return say("<summary>kept</summary>")
    done = sum(message.role == "tool" for message in request.messages)
    return call("finish", response=["x"]) if done == 4 else call("get_rows", table_name=f"t{done}", lines=1)


def test_a_summary_notes_what_it_read() -> None:
    recorder = ListRecorder()
    agent = get_agent("retrosum", SummarySettings(window=2, final_summary=True))
    play(ScriptedModel(summing), agent=agent, recorder=recorder)
    shared = {"trial": 1, "by": "calls", "recent_calls": 2, "recent_turns": 2, "cut": False}
    assert recorder.of("summary") == [
        {**shared, "turn": 2, "distant_turns": 0, "previous_summary": False},
        {**shared, "turn": 4, "distant_turns": 2, "previous_summary": True},
        {**shared, "turn": 5, "by": "answer", "recent_calls": 1, "recent_turns": 1, "distant_turns": 4}
        | {"previous_summary": True},
    ]


def test_a_failed_summary_notes_what_is_kept() -> None:
    def failing(request: Request) -> Reply:
        return summing(request) if request.tools else say("")

    recorder = ListRecorder()
    play(ScriptedModel(failing), agent=get_agent("retrosum", SummarySettings(window=2)), recorder=recorder)
    failed = [(note["failed"], note["kept"], note["failures"]) for note in recorder.of("summary")]
    assert failed == [("it was empty", "the history", 1), ("it was empty", "the history", 2)]


@pytest.mark.parametrize(("window", "turns"), [(1, [1, 2, 3, 4]), (3, [3]), (4, [4]), (5, [])])
def test_a_summary_is_due_when_its_window_is_full(window: int, turns: list[int]) -> None:
    recorder = ListRecorder()
    play(ScriptedModel(summing), agent=get_agent("retrosum", SummarySettings(window=window)), recorder=recorder)
    assert [note["turn"] for note in recorder.of("summary")] == turns


def test_settings_of_the_papers_stand_unless_they_are_changed() -> None:
    settings = SummarySettings()
    assert (settings.window, settings.window_share, settings.final_summary) == (10, 0.7, False)
    limits = Limits()
    assert (limits.turns, limits.context_tokens, limits.reply_tokens) == (100, 64_000, 4_096)
    assert (limits.total_tokens, limits.seconds) == (None, None)


class Letters:
    def count(self, text: str) -> int:
        return len(text)


def test_a_transcript_writes_turns_as_text() -> None:
    transcript = Transcript(Letters())
    question = Message(role="user", content="q")
    acted: Any = call("get", table="a").message
    transcript.number(acted, 7)
    result = Message(role="tool", content="rows", tool_call_id=acted.tool_calls[0].id)
    messages, tokens = transcript.write((question, acted, result))
    assert [message.role for message in messages] == ["user", "user"]
    assert messages[0] is question
    assert messages[1].content == '[turn 7]\n[call] get({"table": "a"})\n[result]\nrows'
    assert tokens == sum(len(message.content or "") + 5 for message in messages)


class OnceMore(Hooks):
    """Plays a second trial."""

    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        if episode.trial == 1:
            episode.new_trial()
        return episode.trial == 2 and ending.answer == ("first",)


def test_a_new_trial_is_summarised_afresh() -> None:
    given = iter(["first", "second"])

    def acting(request: Request) -> Reply:
        if not request.tools:
            return say("<summary>kept</summary>")
        done = sum(message.role == "tool" for message in request.messages)
        return call("finish", response=[next(given)]) if done == 3 else call("get_rows", table_name="t", lines=1)

    agent, recorder = get_agent("retrosum", SummarySettings(window=2)), ListRecorder()
    model = ScriptedModel(acting)
    outcome = play(model, agent=replace(agent, hooks=(*agent.hooks, OnceMore)), recorder=recorder)
    assert outcome.answer == ("second",)
    told = [(note["trial"], note["turn"], note["previous_summary"]) for note in recorder.of("summary")]
    assert told == [(1, 2, False), (2, 6, False)]
    second = next(request for request in model.requests if request.ordinal == 5)
    assert len(second.messages) == 2, "the summary of the first trial is withdrawn with it"
