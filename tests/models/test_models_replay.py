"""An episode recorded, replayed without its model, and resumed in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from model_doubles import START, TOOLS, ask

from wardround.core import Message, ProviderError, ToolSchema, UserError
from wardround.log import LOG_SUFFIX, EpisodeLog, EpisodeRecorder, LogReader, ToolRecord
from wardround.models import (
    Model,
    ModelSettings,
    Reply,
    Request,
    ScriptedModel,
    call,
    open_model,
    recorded_replies,
    resumed,
    say,
)

SCRIPT = [call("get_latest_records", table_name=f"t{n}") for n in range(4)] + [say("done")]


async def play(
    model: Model, recorder: EpisodeRecorder | None, *, turns: int = 5, start: tuple[Message, ...] = START
) -> list[Reply]:
    """A little loop: every call is answered with the table's name."""
    messages, replies = start, []
    for ordinal in range(turns):
        request = ask(messages, ordinal=ordinal, tools=TOOLS)
        reply = await model.complete(request)
        replies.append(reply)
        results = [ToolRecord(call=one, result_text=f"rows of {one.arguments}") for one in reply.message.tool_calls]
        if recorder is not None:
            recorder.turn(request, reply, results)
        answers = (Message(role="tool", content=one.result_text, tool_call_id=one.call.id) for one in results)
        messages += (reply.message, *answers)
    if recorder is not None:
        recorder.finish({"answer": ["done"]})
    return replies


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    with EpisodeLog(tmp_path / f"w{LOG_SUFFIX}") as log:
        asyncio.run(play(ScriptedModel(SCRIPT), log.begin("e", {})))
    return tmp_path


def test_a_replay_gives_the_same_replies_and_the_same_log(recorded: Path, tmp_path: Path) -> None:
    cassette = open_model(f"replay:{recorded}")
    again = tmp_path / "again.sqlite"

    async def main() -> list[Reply]:
        await cassette.check()
        with EpisodeLog(again) as log:
            replies = await play(cassette, log.begin("e", {}))
        await cassette.close()
        return replies

    replies = asyncio.run(main())
    with LogReader(recorded) as first, LogReader(again) as second:
        one, two = first.trajectory("e"), second.trajectory("e")
        assert replies == [one.reply for one in recorded_replies(first, "e")]
    assert [replace(turn, ended="") for turn in one.turns] == [replace(turn, ended="") for turn in two.turns]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"messages": (START[0], Message(role="user", content="other"))},
            r"turn 0: message 1 \(user\) differs: requested .*other",
        ),
        ({"messages": START[:1]}, "requested with 1 messages, recorded with 2"),
        ({"tools": ()}, r"the tools differ \(get_latest_records\)"),
        (
            {"tools": (ToolSchema(name=TOOLS[0].name, description="x", parameters={}),)},
            "same names, other descriptions",
        ),
        ({"settings": ModelSettings(temperature=0.1)}, "the settings or the response schema differ"),
        ({"ordinal": 9}, "turn 9: the recording has 5 turns and ends before it"),
        ({"episode": "f"}, "episode 'f' turn 0: no such episode is recorded; recorded are e"),
    ],
)
def test_a_miss_says_which_turn_differs_and_how(recorded: Path, change: Mapping[str, Any], words: str) -> None:
    async def main() -> None:
        cassette = open_model(f"replay:{recorded}")
        try:
            await cassette.complete(replace(ask(tools=TOOLS), **change))
        finally:
            await cassette.close()

    with pytest.raises(ProviderError, match=words) as caught:
        asyncio.run(main())
    assert "\n" not in str(caught.value)


def test_a_miss_shows_both_messages_from_a_little_before_their_difference(tmp_path: Path) -> None:
    """60 bytes before it, 200 in all."""

    def asked(letter: str) -> tuple[Message, ...]:
        return START[0], Message(role="user", content=f"{'a' * 300}{letter}{'b' * 300}")

    with EpisodeLog(tmp_path / f"w{LOG_SUFFIX}") as log:
        asyncio.run(play(ScriptedModel(SCRIPT), log.begin("e", {}), start=asked("Y")))
    cassette = open_model(f"replay:{tmp_path}")
    with pytest.raises(ProviderError) as caught:
        asyncio.run(cassette.complete(ask(asked("X"), tools=TOOLS)))
    asyncio.run(cassette.close())
    around = "...{}{}{}...".format("a" * 60, "{}", "b" * 139)
    assert str(caught.value).endswith(f"differs: requested {around.format('X')}, recorded {around.format('Y')}")


def test_a_cassette_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no episode log"):
        open_model(f"replay:{tmp_path}")


@pytest.mark.parametrize("kept", range(6))
def test_an_interrupted_episode_goes_on_where_it_was(recorded: Path, kept: int) -> None:
    """Whatever number of turns survived, the resumed episode equals the undisturbed one and asks only for the rest."""
    with LogReader(recorded) as reader:
        replies = recorded_replies(reader, "e")[:kept]
        whole = [one.reply for one in recorded_replies(reader, "e")]
    live = ScriptedModel(lambda request: SCRIPT[request.ordinal])
    notes: list[tuple[str, Mapping[str, Any]]] = []
    model = resumed(live, replies, note=lambda kind, detail: notes.append((kind, detail)))
    assert asyncio.run(play(model, None)) == whole
    assert [request.ordinal for request in live.requests] == list(range(kept, 5))
    assert notes == []


def test_at_the_first_difference_the_rest_is_dropped_and_noted(recorded: Path) -> None:
    with LogReader(recorded) as reader:
        replies = recorded_replies(reader, "e")
    live = ScriptedModel(lambda _: "live")
    notes: list[tuple[str, Mapping[str, Any]]] = []
    model = resumed(live, replies, note=lambda kind, detail: notes.append((kind, detail)))

    async def main() -> list[str | None]:
        first = await model.complete(ask(tools=TOOLS))
        second = await model.complete(ask((START[0],), ordinal=1, tools=TOOLS))
        third = await model.complete(ask(tools=TOOLS, ordinal=2))
        return [first.message.content, second.message.content, third.message.content]

    assert asyncio.run(main()) == [None, "live", "live"]
    assert notes == [("recorded_replies_dropped", {"turn": 1, "served": 1, "dropped": 4})]


def test_replies_of_another_model_are_not_served(recorded: Path) -> None:
    with LogReader(recorded) as reader:
        replies = recorded_replies(reader, "e")
        assert recorded_replies(reader, "never begun") == []
    other = ScriptedModel(["from the other"], name="other")
    reply = asyncio.run(resumed(other, replies).complete(ask(tools=TOOLS)))
    assert reply.message.content == "from the other"
    assert resumed(other, []) is other


def test_a_reply_to_a_different_episode_with_the_same_words_is_served_in_order(recorded: Path) -> None:
    """The episode key is not part of the digest: a renamed run still resumes."""
    with LogReader(recorded) as reader:
        replies = recorded_replies(reader, "e")
    request: Request = ask(tools=TOOLS, episode="renamed")
    assert asyncio.run(resumed(ScriptedModel([]), replies).complete(request)) == replies[0].reply


def test_keys_that_name_their_model_find_the_recorded_one(tmp_path: Path) -> None:
    """As runs do: the same episode under ``agent|model|...`` keys, recorded with another model in the key."""
    with EpisodeLog(tmp_path / f"w{LOG_SUFFIX}") as log:
        for key in ("react|openai/m|t|s1|0", "react|openai/m|t|s2|0", "react|offline|t|s2|0"):
            asyncio.run(play(ScriptedModel(SCRIPT), log.begin(key, {}), turns=2))
    name = f"replay:{tmp_path}"

    async def main() -> list[Any]:
        cassette = open_model(name)
        asked = (
            cassette.complete(ask(tools=TOOLS, episode=f"react|{name}|t|{sample}|0")) for sample in ("s1", "s2", "s3")
        )
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        await cassette.close()
        return outcomes

    found, ambiguous, missing = asyncio.run(main())
    assert found.message.tool_calls[0].name == "get_latest_records"
    assert "several recorded episodes could be meant: react|offline|t|s2|0, react|openai/m|t|s2|0" in str(ambiguous)
    assert "no such episode is recorded" in str(missing)
