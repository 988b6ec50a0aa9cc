"""ReSum, RetroSum and the two ablations between them, turn by turn: who was shown what, and what was carried on."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from doubles import ListRecorder, PaperChart, check_wire, play

from wardround.agents import EstimatedTokens, Limits, SummarySettings, get_agent
from wardround.agents.loop.context import count_message
from wardround.core import Message, ProviderError, UserError
from wardround.models import Reply, Request, ScriptedModel, call, say
from wardround.models.replay import Line

LAST_TURN = 9
METHODS = {
    "resum": (False, False),
    "retrosum-actor-only": (True, False),
    "retrosum-summariser-only": (False, True),
    "retrosum": (True, True),
}
"""Who looks back: the actor, the summariser."""
_LABEL = re.compile(r"turns? 1 to (\d+)|after turn (\d+)", re.IGNORECASE)


def acting(request: Request) -> Line:
    """Summaries name themselves by number; action n reads table ``t<n>``."""
    if not request.tools:
        return say(f"<summary>\n- kept: S{_summaries_before(request) + 1}\n</summary>")
    turn = len(_tables(request)) if "S" not in "".join(_texts(request)) else None
    number = _acted(request) if turn is None else turn
    return call("finish", response=["x"]) if number == LAST_TURN else call("get_rows", table_name=f"t{number + 1}")


def _texts(request: Request) -> list[str]:
    return [message.content or "" for message in request.messages]


def _tables(request: Request) -> list[str]:
    """The tables whose results the request shows, in order, as messages or in a transcript."""
    results = [message.content or "" for message in request.messages if message.role == "tool"]
    written = re.findall(r"^\[result\]\n(.+)", "\n".join(_texts(request)), re.MULTILINE)
    return [text.split(":")[0] for text in results + written]


def _carried(request: Request) -> list[str]:
    """The summaries a request shows, in order."""
    return re.findall(r"S\d+", "\n".join(_texts(request)))


def _summaries_before(request: Request) -> int:
    return max([int(name[1:]) for name in _carried(request)], default=0)


def _acted(request: Request) -> int:
    """How many tables were read: those still shown, after those the summary says it covers."""
    covered = [int(found) for text in _texts(request) for found in re.findall(r"turns 1 to (\d+)", text)]
    shown = [int(name[1:]) for name in _tables(request)]
    return max([*covered, *shown], default=0)


def played(
    name: str, script: object = acting, *, window: int = 3, limits: Limits | None = None
) -> tuple[ScriptedModel, ListRecorder]:
    model, recorder = ScriptedModel(script), ListRecorder()  # type: ignore[arg-type]
    outcome = play(model, agent=get_agent(name, SummarySettings(window=window)), recorder=recorder, limits=limits)
    assert outcome.answer == ("x",)
    return model, recorder


def by_purpose(recorder: ListRecorder, purpose: str) -> list[Request]:
    return [request for request, _, _, named in recorder.turns if named == purpose]


@pytest.mark.parametrize("name", METHODS)
def test_what_the_actor_saw_at_every_turn(name: str) -> None:
    actor_looks_back, _ = METHODS[name]
    _, recorder = played(name)
    for turn, request in enumerate(by_purpose(recorder, "act"), start=1):
        covered = (turn - 1) // 3 * 3
        first = 1 if actor_looks_back else covered + 1
        assert _tables(request) == [f"t{n}" for n in range(first, turn)], turn
        assert _carried(request) == ([f"S{covered // 3}"] if covered else []), "exactly one, the latest"
        check_wire(request.messages)


@pytest.mark.parametrize("name", METHODS)
def test_what_the_summariser_saw_at_every_window(name: str) -> None:
    _, summariser_looks_back = METHODS[name]
    _, recorder = played(name)
    asked = by_purpose(recorder, "summarise")
    assert len(asked) == 3
    for number, request in enumerate(asked):
        first = 1 if summariser_looks_back else 3 * number + 1
        assert _tables(request) == [f"t{n}" for n in range(first, 3 * number + 4)]
        assert _carried(request) == ([f"S{number}"] if number else [])
        assert request.tools == ()
        texts = _texts(request)
        assert texts[1] == recorder.turns[0][0].messages[1].content, "the question, word for word"
        assert texts[-1].startswith("Your task now: summarise.")
        assert {message.role for message in request.messages} == {"system", "user"}, "no calls without tools"
        turns = [int(found) for found in re.findall(r"^\[turn (\d+)\]$", "\n".join(texts), re.MULTILINE)]
        assert turns == list(range(first, 3 * number + 4))


def batching(request: Request) -> Reply:
    """Four calls a turn, an answer in the fifth."""
    if not request.tools:
        return say(f"<summary>S{_summaries_before(request) + 1}</summary>")
    if request.ordinal - _summaries_before(request) == 4:
        return call("finish", response=["x"])
    calls = [call("get_rows", table_name=f"t{n}").message.tool_calls[0] for n in range(4)]
    return replace(say(""), message=Message(role="assistant", content=None, tool_calls=tuple(calls)))


@pytest.mark.parametrize("name", METHODS)
def test_a_model_that_batches_its_calls_is_summarised_by_default(name: str) -> None:
    model, recorder = ScriptedModel(batching), ListRecorder()
    outcome = play(model, agent=get_agent(name), recorder=recorder)
    assert (outcome.answer, outcome.turns) == (("x",), 5), "half the window in turns"
    [note] = recorder.of("summary")
    assert (note["turn"], note["by"], note["recent_calls"], note["recent_turns"]) == (3, "calls", 12, 3)
    assert _carried(by_purpose(recorder, "act")[-1]) == ["S1"]
    assert recorder.of("summarising") == [{"window": 10, "share": 0.7}]


def test_the_calls_are_counted_anew_after_a_summary_and_in_every_turn() -> None:
    def script(request: Request) -> Line:
        if not request.tools:
            return say("<summary>S1</summary>")
        if request.ordinal == 1:
            return say("Let me think.")
        number = sum("thinks" in (text or "") for text in _texts(request))
        return call("finish", response=["x"]) if request.ordinal > 8 else call("think", response=f"thinks {number}")

    _, recorder = played("retrosum", script, window=3)
    assert [(note["turn"], note["recent_calls"]) for note in recorder.of("summary")] == [(3, 2), (6, 3)], (
        "a turn without a call counts as one"
    )


def test_a_summary_is_due_earlier_where_what_was_read_fills_its_share_of_the_room() -> None:
    def script(request: Request) -> Line:
        if not request.tools:
            return say("<summary>S1</summary>")
        done = request.ordinal >= 5
        return call("finish", response=["x"]) if done else call("get_rows", table_name="t1", lines=30)

    seen = {}
    for share in (0.4, 1.0):
        model, recorder = ScriptedModel(script), ListRecorder()
        agent = get_agent("retrosum", SummarySettings(window_share=share))
        play(model, agent=agent, recorder=recorder, limits=Limits(context_tokens=8000, reply_tokens=1000))
        seen[share] = [(note["turn"], note["by"]) for note in recorder.of("summary")]
    assert seen == {0.4: [(3, "room")], 1.0: []}
    with pytest.raises(UserError, match="share"):
        SummarySettings(window_share=0.0)


def test_the_previous_summary_parts_the_distant_turns_from_the_recent_ones() -> None:
    _, recorder = played("retrosum")
    second = by_purpose(recorder, "summarise")[1]
    order = [
        (_tables(replace(second, messages=(m,))) or _carried(replace(second, messages=(m,)))) for m in second.messages
    ]
    assert [found[0] for found in order if found] == ["t1", "t2", "t3", "S1", "t4", "t5", "t6"]


def test_the_rows_of_table_four_note_what_they_read() -> None:
    seen = {}
    for name in METHODS:
        _, recorder = played(name)
        seen[name] = [(note["distant_turns"], note["recent_turns"]) for note in recorder.of("summary")]
    recent_only = [(0, 3), (0, 3), (0, 3)]
    looking_back = [(0, 3), (3, 3), (6, 3)]
    assert seen == {
        "resum": recent_only,
        "retrosum-actor-only": recent_only,
        "retrosum-summariser-only": looking_back,
        "retrosum": looking_back,
    }


BAD = {
    "an endpoint's error": ProviderError("too long", status=400),
    "nothing": say("  "),
    "a call": Message(role="assistant", content=None, tool_calls=call("get_rows", table_name="x").message.tool_calls),
    "a call written as text": say('<tool_call>{"name": "get_rows"}</tool_call>'),
    "withheld": replace(say("S9"), finish_reason="content_filter"),
    "only thoughts": say("<think>S9 what now"),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_failed_summary_keeps_the_one_before_and_is_counted(name: str, bad: Line) -> None:
    def failing(request: Request) -> Line:
        second = not request.tools and _tables(request)[-1] == "t6"
        return bad if second else acting(request)

    model, recorder = played(name, failing)
    actor_looks_back, summariser_looks_back = METHODS[name]
    after = by_purpose(recorder, "act")[6]
    assert _carried(after) == ["S1"]
    assert _tables(after) == [f"t{n}" for n in range(1 if actor_looks_back else 4, 7)], "nothing is lost by the failure"
    notes = recorder.of("summary")
    assert [("failed" in note, note["recent_turns"]) for note in notes] == [(False, 3), (True, 3), (False, 6)]
    assert (notes[1]["kept"], notes[1]["failures"]) == ("the previous summary", 1)
    third = [request for request in model.requests if not request.tools][-1]
    assert _tables(third) == [f"t{n}" for n in range(1 if summariser_looks_back else 4, 10)]


def test_the_first_summary_that_fails_leaves_the_history() -> None:
    def failing(request: Request) -> Line:
        return ProviderError("gone", status=503) if not request.tools else acting(request)

    _, recorder = played("resum", failing)
    assert _tables(by_purpose(recorder, "act")[-1]) == [f"t{n}" for n in range(1, 10)]
    assert [note["kept"] for note in recorder.of("summary")] == ["the history"] * 3


def test_a_summary_takes_a_quarter_of_the_room_at_most() -> None:
    def talkative(request: Request) -> Line:
        if not request.tools:
            return say("\n".join(f"- kept: S1 {n} creatinine" for n in range(4000)))
        return acting(request)

    limits = Limits(context_tokens=8000, reply_tokens=1000)
    _, recorder = played("retrosum", talkative, window=9, limits=limits)
    carried = [text for text in _texts(by_purpose(recorder, "act")[-1]) if "creatinine" in text and "S1" in text]
    assert len(carried) == 1
    assert "cut for room" in carried[0]
    assert recorder.of("summary")[0]["cut"] is True


def test_the_last_summary_is_written_for_reflection_when_it_is_asked_for() -> None:
    agent = get_agent("retrosum", SummarySettings(window=100, final_summary=True))
    model, recorder = (
        ScriptedModel(
            [call("get_rows", table_name="t1"), call("finish", response=["x"]), say("<summary>S1</summary>")]
        ),
        ListRecorder(),
    )
    assert play(model, agent=agent, recorder=recorder).answer == ("x",)
    assert [purpose for *_, purpose in recorder.turns] == ["act", "act", "summarise"]
    assert _tables(model.requests[2]) == ["t1", "finished"]


@pytest.mark.parametrize("name", METHODS)
def test_a_hundred_long_turns_at_8k_lose_nothing_without_a_line_in_the_log(name: str) -> None:
    """Every result that a prompt does not show whole is named by a note made by then, or was replaced by a summary."""

    def tireless(request: Request) -> Reply:
        if not request.tools:
            return say("<summary>- kept: S1 " + "a finding. " * 20 + "</summary>")
        if len(request.tools) == 1:
            return call("finish", response=["x"])
        return call("get_rows", table_name=f"t{request.ordinal}", lines=117)

    environment = PaperChart(line="labevents:{n} | 2150-01-01 08:00:00 | Creatinine | 1.2 | mg/dL | abnormal")
    model, recorder = ScriptedModel(tireless), ListRecorder()
    limits = Limits(turns=100, context_tokens=8000, reply_tokens=1000)
    outcome = play(model, agent=get_agent(name), environment=environment, recorder=recorder, limits=limits)
    assert (outcome.finish, outcome.answer, outcome.turns) == ("turn_limit", ("x",), 100)
    summaries = recorder.of("summary")
    assert [note["by"] for note in summaries] == ["room"] * 100, "every result fills 0.7 of the room"
    assert not any("failed" in note for note in summaries)
    whole = {seen.call.id: seen.result_text for _, _, results, _ in recorder.turns for seen in results}
    assert min(len(text) for text in list(whole.values())[:-1]) > 7500
    order = {seen.call.id: n for n, seen in enumerate(s for _, _, results, _ in recorder.turns for s in results)}
    for role, purpose in ((None, "act"), ("summariser", "summarise")):
        noted = {c for note in recorder.of("context") if note.get("role") == role for c in note["calls"]}
        for request in by_purpose(recorder, purpose):
            check_wire(request.messages)
            assert len(_carried(request)) <= 1
            assert sum(count_message(EstimatedTokens(), message) for message in request.messages) <= 7000
            for message in request.messages:
                if message.role == "tool":
                    assert message.content == whole[message.tool_call_id or ""] or message.tool_call_id in noted
        if METHODS[name][role == "summariser"]:
            text = "\n".join(_texts(by_purpose(recorder, purpose)[-1]))
            missing = {call_id for call_id in list(order)[:100] if whole[call_id] not in text}
            assert len(missing) > 90
            assert missing <= noted, "what was not shown whole was shortened or folded, and noted"
