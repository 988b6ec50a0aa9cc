"""A trajectory as text within a number of tokens: what goes first, what is said of it, that it always fits."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from memory_doubles import answers, asks, turns

from effort import often
from wardround.core import Message, ToolCall, estimate_tokens
from wardround.log import EpisodeLog, LogReader, ToolRecord
from wardround.memory import reduced_trajectory, trajectory_messages
from wardround.models import ModelSettings, Request, say

LONG = "labevents: 40 of 1,204 rows\n" + "Creatinine 1.2\n" * 200


def test_all_of_a_short_one() -> None:
    calls = (ToolCall(id="a", name="x", arguments="{}"), ToolCall(id="b", name="y", arguments="{}"))
    messages = (
        Message(role="assistant", content="Look.", tool_calls=calls),
        answers("b", "second"),
        answers("a", "first"),
        Message(role="assistant", content="Done."),
    )
    reduced = reduced_trajectory(messages, 1000)
    assert reduced.text.splitlines() == [
        "[turn 1] Look.",
        "call x({})",
        "call y({})",
        "result of y: second",
        "result of x: first",
        "[turn 2] Done.",
    ]
    assert reduced.is_whole


def test_oldest_results_shrink_first_then_oldest_turns_go_then_the_text_is_cut() -> None:
    messages = turns(*[("get_rows", f'{{"n": {number}}}', f"{number} {LONG}") for number in range(10)])
    whole = reduced_trajectory(messages, 10**6)
    some = reduced_trajectory(messages, whole.tokens_whole // 2)
    assert 4 <= some.results_shortened <= 6
    assert (some.turns_left_out, some.characters_cut) == (0, 0)
    assert "result of get_rows: 0 labevents: 40 of 1,204 rows [3" in some.text
    assert f"9 {LONG}".strip() in some.text

    few = reduced_trajectory(messages, 150)
    assert few.turns_left_out > 0
    assert few.text.startswith(f"[turns 1 to {few.turns_left_out} left out for room: get_rows x{few.turns_left_out}]")
    assert few.results_shortened + few.turns_left_out == 10
    assert "characters left out" in few.text

    tiny = reduced_trajectory(messages, 20)
    assert tiny.characters_cut > 0
    assert tiny.text.startswith("[cut in front for room]")
    assert tiny.facts()["tokens_whole"] == whole.tokens


@settings(max_examples=often(50, 150), deadline=None)
@given(st.lists(st.tuples(st.text(max_size=200), st.text(max_size=2000)), max_size=12), st.integers(0, 3000))
def test_it_always_fits_and_says_whether_it_is_whole(played: list[tuple[str, str]], max_tokens: int) -> None:
    messages = turns(*[("tool", arguments, result) for arguments, result in played])
    reduced = reduced_trajectory(messages, max_tokens)
    assert reduced.tokens == estimate_tokens(reduced.text) <= max_tokens
    assert reduced.is_whole == (reduced.text == reduced_trajectory(messages, 10**9).text)
    assert reduced == reduced_trajectory(messages, max_tokens)


def test_from_a_recorded_episode(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path / "w.episodes.sqlite")
    recorder = log.begin("e", {})
    acted = asks("c1", "get_rows", "{}")
    prompt = (Message(role="user", content="Which?"),)
    reply = say("ignored")
    for ordinal, (message, purpose) in enumerate(((acted, "act"), (reply.message, "summarise"))):
        request = Request(messages=prompt, settings=ModelSettings(), episode="e", ordinal=ordinal)
        records = [ToolRecord(call=call, result_text="rows") for call in message.tool_calls]
        recorder.turn(
            request,
            type(reply)(message=message, usage=reply.usage, finish_reason="stop", model="m"),
            records,
            purpose=purpose,
        )
    recorder.finish({})
    log.close()
    with LogReader(tmp_path) as reader:
        messages = trajectory_messages(reader.trajectory("e"))
    assert messages == (acted, answers("c1", "rows"))
