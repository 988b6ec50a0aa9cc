from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wardround.log
from log_doubles import START, TOOLS, ask, calling, play
from wardround.core import Message, ToolCall, Usage, UserError, chain_hash
from wardround.log import (
    LOG_SUFFIX,
    EpisodeEntry,
    EpisodeLog,
    LogReader,
    PromptPath,
    ToolRecord,
    Trajectory,
    Turn,
    atif_documents,
    conversations,
    spans_document,
    write_conversations,
    write_trajectories,
)
from wardround.models import Reply


def test_public_names_are_exact_and_sorted() -> None:
    public = {name for name, value in vars(wardround.log).items() if not name.startswith("_") and not _is_module(value)}
    assert set(wardround.log.__all__) == public - {"annotations"}
    assert list(wardround.log.__all__) == sorted(
        wardround.log.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name)
    )


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"


def test_a_trajectory_reads_back_as_it_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / f"w{LOG_SUFFIX}"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {"task": "diagnoses", "n": 1})
        call = ToolCall(id="call_0", name="get", arguments='{"broken": ')
        reply = Reply(
            message=Message(role="assistant", content="I look.", tool_calls=(call,)),
            usage=Usage(input_tokens=7, output_tokens=3),
            finish_reason="tool_calls",
            model="m",
            seconds=1.5,
            attempts=2,
            cost=0.25,
            token_logprobs=(-0.5, -1.0),
            unreported=("cached_tokens", "reasoning_tokens"),
            identity="openai/m@http://h/v1",
            reasoning="because",
        )
        record = ToolRecord(
            call=call,
            result_text="labevents: 2 of 9 rows",
            is_error=True,
            seconds=0.5,
            table="labevents",
            rows_total=9,
            rows_shown=2,
            row_ids=("labevents:1", "labevents:2"),
            cursor="2",
        )
        request = ask(START, 0)
        recorder.turn(request, reply, [record], purpose="summarise")
        recorder.note("budget", {"dropped": 3})
        recorder.finish({"answer": ["Sepsis"], "finish": "finish"})

    with LogReader(path) as reader:
        trajectory = reader.trajectory("e")
    (turn,) = trajectory.turns
    assert (turn.prompt, turn.reply, turn.results) == (START, reply.message, (record,))
    assert (turn.purpose, turn.model, turn.attempts, turn.cost, turn.seconds) == ("summarise", "m", 2, 0.25, 1.5)
    assert (turn.usage, turn.unreported) == (reply.usage, ("cached_tokens", "reasoning_tokens"))
    assert (turn.reasoning, turn.token_logprobs) == ("because", (-0.5, -1.0))
    assert turn.request_digest == request.digest("openai/m@http://h/v1")
    assert turn.tools == (TOOLS[0].to_wire(),)
    assert turn.settings["temperature"] == 0.7
    assert trajectory.facts == {"task": "diagnoses", "n": 1}
    assert trajectory.outcome == {"answer": ["Sepsis"], "finish": "finish"}
    assert [(note.kind, note.detail) for note in trajectory.notes] == [("budget", {"dropped": 3})]


def test_what_the_endpoint_did_not_count_is_null_not_zero(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {})
        recorder.turn(ask(START, 0), calling(0))
        recorder.finish({})
    with LogReader(path) as reader:
        ((_, bodies),) = reader._connections
        row = bodies.connection.execute(
            "SELECT input_tokens, cached_tokens, reasoning_tokens, cost FROM turn"
        ).fetchone()
    assert row == (100, 0, None, None)


def test_lone_surrogates_are_stored_as_question_marks(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {"note": "bad \ud800"})
        reply = calling(0, arguments='{"a": "\ud800"}')
        recorder.turn(ask(START, 0), reply, [ToolRecord(call=reply.message.tool_calls[0], result_text="r \udfff")])
        recorder.finish({"error": "\ud800"})
    with LogReader(path) as reader:
        turn = reader.trajectory("e").turns[0]
    assert turn.results[0].result_text == "r ?"
    assert turn.reply.tool_calls[0].arguments == '{"a": "?"}'


def test_a_tool_name_that_cannot_be_stored_harms_no_other_episode(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        bad, good = log.begin("bad", {}), log.begin("good", {})
        reply = calling(0, name="\ud800", arguments="{}")
        bad.turn(ask(START, 0), reply, [ToolRecord(call=reply.message.tool_calls[0], result_text="no such tool")])
        bad.finish({"evidence": {"\ud800": ["labevents:1\udfff"]}})
        play(good, 2)
        good.finish({})
    with LogReader(path) as reader:
        assert reader.trajectory("bad").turns[0].results[0].call.name == "?"
        assert len(reader.trajectory("good").turns) == 2


TEXTS = st.text(max_size=8)
MESSAGES = st.lists(
    st.one_of(
        TEXTS.map(lambda text: Message(role="user", content=text)),
        TEXTS.map(lambda text: Message(role="tool", content=text, tool_call_id="c")),
        TEXTS.map(
            lambda text: Message(
                role="assistant", content=None, tool_calls=(ToolCall(id="c", name="t", arguments=text),)
            )
        ),
    ),
    max_size=6,
).map(tuple)


@given(prompts=st.lists(MESSAGES, max_size=8))
def test_following_a_path_is_hashing_it_whole(prompts: list[tuple[Message, ...]]) -> None:
    path = PromptPath()
    previous: tuple[Message, ...] = ()
    for prompt in prompts:
        shared = path.follow(prompt)
        assert path.tip == reduce(chain_hash, prompt, b"")
        assert path.size_bytes(len(prompt)) == sum(len(message.wire) for message in prompt)
        assert prompt[:shared] == previous[:shared]
        assert len(prompt) == shared or len(previous) == shared or prompt[shared] != previous[shared]
        previous = prompt


@given(prompts=st.lists(MESSAGES, min_size=1, max_size=5))
def test_any_prompts_are_rebuilt_from_the_tree(
    prompts: list[tuple[Message, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {})
        for ordinal, prompt in enumerate(prompts):
            recorder.turn(ask(prompt, ordinal), calling(ordinal), purpose=f"p{ordinal % 2}")
        recorder.finish({})
    with LogReader(path) as reader:
        turns = reader.trajectory("e").turns
    assert [[message.wire for message in turn.prompt] for turn in turns] == [
        [message.wire for message in prompt] for prompt in prompts
    ]


def test_prefix_bytes_count_what_a_prefix_cache_could_reuse(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {})
        recorder.turn(ask(START, 0), calling(0))
        other = (Message(role="system", content="Summarise."),)
        recorder.turn(ask(other, 1), calling(1), purpose="summarise")
        recorder.turn(ask((*START, calling(0).message), 2), calling(2))
        recorder.turn(ask((START[0], Message(role="user", content="changed")), 3), calling(3))
        recorder.finish({})
    with LogReader(path) as reader:
        turns = reader.trajectory("e").turns
    first, start = len(START[0].wire), len(START[0].wire) + len(START[1].wire)
    assert [turn.prefix_bytes for turn in turns] == [0, 0, start, first]
    assert turns[2].prompt_bytes == start + len(calling(0).message.wire)


def test_several_workers_are_read_as_one_and_the_furthest_try_wins(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with EpisodeLog(folder / f"worker-0{LOG_SUFFIX}") as log:
        play(log.begin("a", {"worker": 0}), 5)
        play(log.begin("b", {"worker": 0}), 2)
    with EpisodeLog(folder / f"worker-1{LOG_SUFFIX}") as log:
        recorder = log.begin("a", {"worker": 1})
        play(recorder, 3)
        recorder.finish({"answer": []})
        play(log.begin("b", {"worker": 1}), 1)
    with LogReader(tmp_path) as reader:
        assert [(entry.key, entry.state, entry.turns, entry.facts["worker"]) for entry in reader.episodes()] == [
            ("a", "finished", 3, 1),
            ("b", "open", 2, 0),
        ]
        assert len(reader.trajectory("a").turns) == 3
        with pytest.raises(UserError, match="no episode 'c'"):
            reader.trajectory("c")


def test_a_worker_that_looks_again_sees_the_logs_of_others_once_and_not_its_own(tmp_path: Path) -> None:
    names = [f"worker-{number}{LOG_SUFFIX}" for number in range(3)]
    with EpisodeLog(tmp_path / names[0]) as first:
        play(first.begin("first", {}), 2)
    with (
        LogReader(tmp_path) as reader,
        EpisodeLog(tmp_path / names[1]) as own,
        EpisodeLog(tmp_path / names[2]) as other,
    ):
        play(own.begin("own", {}), 1)
        play(other.begin("other", {}), 3)
        own.flush()
        other.flush()
        for _ in range(2):
            reader.look_again(but=tmp_path / names[1])
            assert [entry.key for entry in reader.episodes()] == ["first", "other"]
            assert [(one.model, one.identity, one.calls) for one in reader.answering()] == [("m", "m@here", 5)]


def test_exports_hold_every_branch_and_rebuild_every_prompt(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {"task": "tâche"})
        history = play(recorder, 3)
        summary = (START[0], Message(role="user", content="Summary: fine."))
        recorder.turn(ask(history, 3), calling(3), purpose="summarise")
        recorder.turn(ask(summary, 4), calling(4))
        recorder.finish({"answer": ["x"]})
    with LogReader(path) as reader:
        trajectory = reader.trajectory("e")
        branches = list(conversations(trajectory))
        out, lines = io.StringIO(), io.StringIO()
        assert write_conversations(reader.trajectories(), out) == 2
        assert write_trajectories(reader.trajectories(), lines) == 1
    assert [(branch["turns"], branch["purpose"]) for branch in branches] == [([0, 1, 2, 3], "summarise"), ([4], "act")]
    assert branches[0]["messages"] == [message.to_wire() for message in (*history, calling(3).message)]
    assert branches[0]["tools"] == [TOOLS[0].to_wire()]
    assert [json.loads(line) for line in out.getvalue().splitlines()] == branches
    assert "tâche" in out.getvalue(), "people read the file, too"

    line = json.loads(lines.getvalue())
    assert line["schema"] == "wardround.trajectory/1"
    nodes = {message["id"]: message for message in line["messages"]}
    for turn, recorded in zip(line["turns"], trajectory.turns, strict=True):
        walked, node = [], turn["prompt"]
        while node is not None:
            walked.append({name: value for name, value in nodes[node].items() if name not in ("id", "parent")})
            node = nodes[node]["parent"]
        assert walked[::-1] == [message.to_wire() for message in recorded.prompt]
        assert line["tools"][turn["tools"]] == [TOOLS[0].to_wire()]
        assert turn["usage"]["reasoning_tokens"] is None


def test_atif_has_each_reply_once_with_what_was_counted_of_it(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {"agent": "retrosum"})
        history = play(recorder, 2)
        recorder.turn(ask(history, 2), calling(2), purpose="summarise")
        last = replace(calling(3, arguments="{"), unreported=("cached_tokens",), cost=0.5, reasoning="because")
        recorder.turn(ask((START[0], history[2], history[3]), 3), last)  # begins with a reply that came before
        recorder.finish({"answer": ["x"]})
    with LogReader(path) as reader:
        first, second = atif_documents(reader.trajectory("e"), version="1")
    assert [one["trajectory_id"] for one in (first, second)] == ["e#0", "e#1"]
    assert first["agent"]["name"] == "retrosum"
    assert first["agent"]["tool_definitions"] == [TOOLS[0].to_wire()]
    assert [(step["step_id"], step["source"], step.get("metrics")) for step in first["steps"]] == [
        (1, "system", None),
        (2, "user", None),
        *((3 + n, "agent", {"prompt_tokens": 100 + n, "completion_tokens": 5, "cached_tokens": n}) for n in range(3)),
    ]
    assert first["steps"][3]["observation"] == {"results": [{"source_call_id": "call_1", "content": "ok 1"}]}
    assert first["final_metrics"] == {
        "total_steps": 5,
        "total_prompt_tokens": 303,
        "total_completion_tokens": 15,
        "total_cached_tokens": 3,
    }
    system, copied, own = second["steps"]
    assert (system["message"], copied["is_copied_context"], "metrics" in copied) == ("You are careful.", True, False)
    assert own["metrics"] == {"prompt_tokens": 103, "completion_tokens": 5, "cost_usd": 0.5}
    assert (own["model_name"], own["reasoning_content"], own["llm_call_count"]) == ("m", "because", 1)
    assert own["tool_calls"] == [{"tool_call_id": "call_3", "function_name": "think", "arguments": {"unreadable": "{"}}]
    assert second["final_metrics"] == {
        "total_steps": 3,
        "total_prompt_tokens": 103,
        "total_completion_tokens": 5,
        "total_cost_usd": 0.5,
    }


def test_other_tools_before_the_same_messages_are_no_prefix(tmp_path: Path) -> None:
    """Schemas stand before the messages: a served model's cache is of no use once they change."""
    path = tmp_path / "w.sqlite"
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {})
        for ordinal, tools in enumerate([TOOLS, TOOLS, (), ()]):
            recorder.turn(replace(ask(START, ordinal), tools=tools), calling(ordinal))
        recorder.finish({})
    with LogReader(path) as reader:
        found = [turn.prefix_bytes for turn in reader.trajectory("e").turns]
    whole = sum(len(message.wire) for message in START)
    assert found == [0, whole, 0, whole]


def _attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: one["value"] for one in span["attributes"]}


def test_spans_have_the_times_kinds_and_values_of_the_episode() -> None:
    """2026-01-01T00:00:00Z is 1,767,225,600 s after the epoch."""
    calls = [ToolCall(id=name, name=name, arguments="{}") for name in ("first", "second")]
    turn = Turn(
        ordinal=4,
        purpose="act",
        prompt=START,
        reply=Message(role="assistant", content="I look.", tool_calls=tuple(calls)),
        prompt_hash="",
        reply_hash="",
        request_digest="",
        model="m",
        identity="m@here",
        finish_reason="tool_calls",
        usage=Usage(input_tokens=7, output_tokens=3),
        unreported=(),
        cost=None,
        seconds=1.5,
        attempts=1,
        prompt_bytes=0,
        prefix_bytes=0,
        ended="2026-01-01T00:00:04.000+00:00",
        results=(
            ToolRecord(call=calls[0], result_text="", seconds=0.5),
            ToolRecord(call=calls[1], result_text="", seconds=0.25, is_error=True),
        ),
    )
    entry = EpisodeEntry(
        key="e",
        facts={"agent": "react", "task": "diagnoses"},
        state="finished",
        outcome={"error": "the model is gone"},
        started="2026-01-01T00:00:00.250+00:00",
        ended="2026-01-01T00:00:10.500+00:00",
        turns=1,
    )

    def spans(*, content: bool = False, **other: Any) -> list[dict[str, Any]]:
        episode = Trajectory(entry=replace(entry, **other), turns=(turn,), notes=())
        (resource,) = spans_document(episode, version="1", content=content)["resourceSpans"]
        found: list[dict[str, Any]] = resource["scopeSpans"][0]["spans"]
        return found

    second = 1_767_225_600
    assert [(span["name"], span["kind"], span["status"]) for span in spans()] == [
        ("invoke_agent react", 1, {"code": 2, "message": "the model is gone"}),
        ("chat m", 3, {}),
        ("execute_tool first", 1, {}),
        ("execute_tool second", 1, {"code": 2, "message": "the tool refused the call"}),
    ]
    assert [(span["startTimeUnixNano"], span["endTimeUnixNano"]) for span in spans()] == [
        (f"{second}250000000", f"{second + 10}500000000"),
        (f"{second + 2}500000000", f"{second + 4}000000000"),
        (f"{second + 4}000000000", f"{second + 4}500000000"),
        (f"{second + 4}500000000", f"{second + 4}750000000"),
    ]
    assert _attributes(spans()[0]) == {
        "gen_ai.operation.name": {"stringValue": "invoke_agent"},
        "gen_ai.agent.name": {"stringValue": "react"},
        "gen_ai.conversation.id": {"stringValue": "e"},
        "wardround.task": {"stringValue": "diagnoses"},
        "gen_ai.usage.input_tokens": {"intValue": "7"},
        "gen_ai.usage.output_tokens": {"intValue": "3"},
    }, "what is not known is no attribute"
    assert _attributes(spans()[1])["gen_ai.response.finish_reasons"] == {
        "arrayValue": {"values": [{"stringValue": "tool_calls"}]}
    }
    texts = [
        {"gen_ai.input.messages", "gen_ai.output.messages"},
        *[{"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}] * 2,
    ]
    both = zip(spans()[1:], spans(content=True)[1:], strict=True)
    assert [_attributes(told).keys() - _attributes(quiet).keys() for quiet, told in both] == texts
    assert spans(state="open", ended=None)[0]["endTimeUnixNano"] == f"{second + 4}000000000", "its last turn's end"
