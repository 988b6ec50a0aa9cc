"""The budget: what is taken out of a prompt, in what order, with what note; and that the wire stays correct."""

from __future__ import annotations

import json

import pytest
from doubles import ListRecorder, PaperChart, check_wire, play
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import often
from wardround.agents import EstimatedTokens, FullContext, History, Limits, Observation
from wardround.agents.loop.context import count_message
from wardround.core import LimitReached, Message, ToolCall, Usage
from wardround.models.protocol import Reply, Request
from wardround.models.replay import ScriptedModel, call, say
from wardround.tools import ToolResult

COUNTER = EstimatedTokens()
LINE = "labevents:{n} | 2150-01-01 08:00:00 | Creatinine | 1.2 | mg/dL | abnormal | Chemistry"


def counted(messages: tuple[Message, ...]) -> int:
    return sum(count_message(COUNTER, message) for message in messages)


def history_of(turns: int, *, characters: int = 3000, calls: int = 1) -> History:
    history = History(
        [Message(role="system", content="You are a clinician."), Message(role="user", content="Diagnose.")]
    )
    for turn in range(1, turns + 1):
        add_turn(history, turn, characters=characters, calls=calls)
    return history


def add_turn(history: History, turn: int, *, characters: int, calls: int = 1) -> None:
    text = "labevents: showing 40 of 1,204 rows\n" + "x 1.5 | " * (characters // 8)
    seen = []
    for n in range(calls):
        wanted = ToolCall(
            id=f"t{turn}_{n}", name="get_rows", arguments=json.dumps({"table_name": "labevents", "n": turn})
        )
        result = ToolResult(text=text, table="labevents", rows_total=1204, rows_shown=40, cursor=f"c{turn}")
        seen.append(Observation(call=wanted, result=result, seconds=0.0))
    history.add(
        Message(role="assistant", content=None, tool_calls=tuple(one.call for one in seen)),
        *(Message(role="tool", content=text, tool_call_id=one.call.id) for one in seen),
        turn=turn,
        kind="turn",
        observations=tuple(seen),
    )


def test_nothing_is_touched_while_it_fits_and_the_prompt_only_grows() -> None:
    history = history_of(0)
    context = FullContext(COUNTER)
    before = context.render(history, 100_000)
    for turn in range(1, 20):
        add_turn(history, turn, characters=800)
        now = context.render(history, 100_000)
        assert now.messages[: len(before.messages)] == before.messages
        assert now.shared_tokens == before.tokens
        assert now.decisions == ()
        assert now.tokens == counted(now.messages)
        before = now


def test_the_oldest_observations_collapse_first_in_a_block_and_keep_call_count_and_handle() -> None:
    history = history_of(12)
    context = FullContext(COUNTER)
    room = counted(history.prompt) + 8 * count_message(COUNTER, history.blocks[0].messages[1])
    rendered = context.render(history, room)
    check_wire(rendered.messages)
    assert rendered.tokens <= room * 0.7
    observations = [message.content or "" for message in rendered.messages if message.role == "tool"]
    stubs = [text.startswith("[collapsed for room]") for text in observations]
    assert stubs == sorted(stubs, reverse=True), "the oldest go first"
    assert 0 < sum(stubs) <= 9
    assert not any(stubs[-3:]), "the last three turns stay whole"
    assert observations[0] == (
        "[collapsed for room] get_rows on labevents gave 40 of 1,204 rows. "
        "Repeat the call to read them again; cursor=c1 goes on after them."
    )
    (decision,) = rendered.decisions
    assert decision.step == "collapse"
    assert decision.detail["calls"] == [f"t{turn}_0" for turn in range(1, sum(stubs) + 1)]
    assert decision.detail["tokens_after"] == rendered.tokens


def test_after_a_reduction_the_prompt_grows_again_for_several_turns() -> None:
    """Hysteresis: what one reduction freed is used up before the next one breaks the prefix again."""
    history = history_of(12)
    context = FullContext(COUNTER)
    room = 12_000
    context.render(history, room)
    reductions = 0
    for turn in range(13, 43):
        add_turn(history, turn, characters=3000)
        reductions += bool(context.render(history, room).decisions)
    assert 0 < reductions <= 12


def test_whole_turns_fold_into_a_digest_when_stubs_are_too_many() -> None:
    history = history_of(100, characters=1000)
    rendered = FullContext(COUNTER).render(history, 3500)
    check_wire(rendered.messages)
    assert rendered.tokens <= 3500
    digest = rendered.messages[2].content or ""
    assert digest.startswith("[left out for room")
    assert "get_rows labevents x " in digest
    assert "get_rows(table_name=labevents, n=" in digest
    assert [decision.step for decision in rendered.decisions] == ["collapse", "fold"]
    assert rendered.messages[:2] == history.prompt


def test_one_observation_larger_than_the_room_is_cut_at_whole_lines_and_says_so() -> None:
    history = history_of(2, characters=400)
    text = "labevents: 900 rows\n" + "\n".join(LINE.format(n=n) for n in range(900))
    wanted = ToolCall(id="big", name="get_rows", arguments="{}")
    seen = Observation(call=wanted, result=ToolResult(text=text), seconds=0.0)
    history.add(
        Message(role="assistant", content=None, tool_calls=(wanted,)),
        Message(role="tool", content=text, tool_call_id="big"),
        turn=3,
        kind="turn",
        observations=(seen,),
    )
    rendered = FullContext(COUNTER).render(history, 4000)
    shown = (rendered.messages[-1].content or "").splitlines()
    assert rendered.tokens <= 4000
    assert shown[0] == "labevents: 900 rows"
    assert all(line == LINE.format(n=n) for n, line in enumerate(shown[1:-1]))
    assert shown[-1] == f"[cut for room: {len(shown) - 1} of 901 lines are left; repeat the call with a narrower range]"
    assert [decision.step for decision in rendered.decisions] == ["cut"]


def test_pinned_messages_stay_and_a_prompt_that_cannot_fit_is_a_limit() -> None:
    history = history_of(5)
    history.add(Message(role="user", content="Summary: " + "renal failure " * 100), turn=5, kind="pinned")
    rendered = FullContext(COUNTER).render(history, 700)
    assert any((message.content or "").startswith("Summary:") for message in rendered.messages)
    assert rendered.tokens <= 700
    with pytest.raises(LimitReached, match="raise context_tokens"):
        FullContext(COUNTER).render(history, 100)


def test_withdrawn_blocks_leave_the_prompt_and_the_rest_keeps_its_form() -> None:
    history = history_of(6)
    context = FullContext(COUNTER)
    first = history.add(Message(role="user", content="Summary one"), turn=6, kind="pinned")
    context.render(history, 100_000)
    history.withdraw([first.number, 0, 1])
    history.add(Message(role="user", content="Summary two"), turn=6, kind="pinned")
    rendered = context.render(history, 100_000)
    check_wire(rendered.messages)
    assert len([message for message in rendered.messages if message.role == "tool"]) == 4
    assert [message.content for message in rendered.messages if message.role == "user"] == ["Diagnose.", "Summary two"]


def test_a_hundred_turns_of_8000_characters_at_8k_lose_nothing_without_a_note() -> None:
    environment, recorder = PaperChart(line=LINE), ListRecorder()
    lines = 8000 // len(LINE) + 1
    script = [call("get_rows", table_name=f"table_{turn}", lines=lines) for turn in range(100)]
    model = ScriptedModel([*script, call("finish", response=["x"])])
    limits = Limits(turns=100, context_tokens=8000, reply_tokens=1024)
    outcome = play(model, environment=environment, recorder=recorder, limits=limits)
    assert (outcome.finish, outcome.turns, outcome.answer) == ("turn_limit", 100, ("x",))
    whole: dict[str, str] = {}
    noted: set[str] = set()
    notes = recorder.of("context")
    for request, _, results, _ in recorder.turns:
        check_wire(request.messages)
        assert counted(request.messages) <= 8000 - 1024
        noted |= {call_id for note in notes if note["turn"] <= request.ordinal + 1 for call_id in note["calls"]}
        shown = {message.tool_call_id: message.content for message in request.messages if message.role == "tool"}
        lost = {call_id for call_id, text in whole.items() if shown.get(call_id) != text}
        assert lost <= noted
        whole |= {result.call.id: result.result_text for result in results}
    assert len(noted) > 90
    assert outcome.prefix_share is not None
    assert outcome.prefix_share > 0.3


def test_reported_usage_raises_the_estimate_and_never_lowers_it() -> None:
    def reply(request: Request) -> Reply:
        reported = Usage(input_tokens=2 * (counted(request.messages) + 200), output_tokens=10)
        message = call("get_rows", table_name="a", lines=60).message
        return Reply(message=message, usage=reported, finish_reason="tool_calls", model="m")

    recorder = ListRecorder()
    model = ScriptedModel(reply)
    limits = Limits(turns=30, context_tokens=16_000, reply_tokens=1000)
    play(model, environment=PaperChart(line=LINE), recorder=recorder, limits=limits)
    factors = [note["factor"] for note in recorder.of("calibration")]
    assert factors == sorted(factors)
    assert 1.5 < factors[-1] <= 3
    assert all(counted(request.messages) * factors[-1] <= 15_000 for request in model.requests[2:])


def test_a_token_budget_for_the_whole_episode_ends_it() -> None:
    message = call("think").message
    spent = Reply(
        message=message, usage=Usage(input_tokens=600, output_tokens=5), finish_reason="tool_calls", model="m"
    )
    model = ScriptedModel([spent, spent, call("finish", response=["x"])])
    outcome = play(model, limits=Limits(total_tokens=1000))
    assert (outcome.finish, outcome.answer, outcome.turns, outcome.forced) == ("budget", ("x",), 2, True)


def test_a_window_too_small_for_the_prompt_ends_at_the_budget_with_the_reason() -> None:
    outcome = play(ScriptedModel([]), limits=Limits(context_tokens=1100, reply_tokens=1000))
    assert outcome.finish == "budget"
    assert "raise context_tokens" in (outcome.error or "")


_arguments = st.one_of(
    st.just('{"table_name": "labevents"}'),
    st.builds(lambda n: json.dumps({"table_name": "labevents", "lines": n}), st.integers(0, 400)),
    st.text(max_size=30),
    st.sampled_from(['"{}"', "[]", "null", '{"a": ', "", "{'a': 1}", '"{\\"table_name\\": \\"a\\"}"']),
)
_calls = st.lists(
    st.builds(
        ToolCall,
        id=st.sampled_from(["", "a", "b", "call_0"]),
        name=st.sampled_from(["get_rows", "think", "write", "finish", "", "get_row", "функция"]),
        arguments=_arguments,
    ),
    max_size=4,
)
_replies = st.builds(
    lambda content, made, reason: Reply(
        message=Message(role="assistant", content=content, tool_calls=tuple(made)),
        usage=Usage(),
        finish_reason=reason,
        model="m",
    ),
    st.one_of(st.none(), st.text(max_size=40), st.just("word " * 600)),
    _calls,
    st.sampled_from(["stop", "tool_calls", "length", "content_filter", "other"]),
)


@settings(max_examples=often(50, 150), deadline=None)
@given(script=st.lists(_replies, max_size=14), context_tokens=st.sampled_from([2500, 5000, 64_000]))
def test_whatever_a_model_says_the_wire_is_correct(script: list[Reply], context_tokens: int) -> None:
    class Spoken(ScriptedModel):
        """Keeps ids as the model gave them, repeated ones too."""

        def _as_reply(self, line: object, request: Request) -> Reply:
            return line if isinstance(line, Reply) else super()._as_reply(line, request)  # type: ignore[arg-type]

    model = Spoken([*script, *[say("Nothing more.")] * 3])
    recorder = ListRecorder()
    limits = Limits(turns=len(script) + 1, context_tokens=context_tokens, reply_tokens=1000)
    outcome = play(model, environment=PaperChart(line=LINE), recorder=recorder, limits=limits)
    for request in model.requests:
        check_wire(request.messages)
    for _, reply, results, _ in recorder.turns:
        assert [one.id for one in reply.message.tool_calls] == [result.call.id for result in results]
    assert outcome.finish in ("finish", "text", "length", "content_filter", "turn_limit", "budget")
