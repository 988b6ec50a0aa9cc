"""The loop on the real log: what is read back, and playing on from what was recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from doubles import PaperChart, play

from wardround.agents import Limits
from wardround.core import Message, ToolCall
from wardround.log import EpisodeLog, LogReader
from wardround.models import Reply, Request, ScriptedModel, call, recorded_replies, resumed, say

LINE = "labevents:{n} | 2150-01-01 08:00:00 | Creatinine | 1.2 | mg/dL"
SCRIPT = [
    call("get_rows", table_name="a", lines=120),
    call("get_rows", arguments="{broken"),
    say("Hm."),
    *[call("get_rows", table_name=f"b{n}", lines=120) for n in range(8)],
    call("finish", response=["x"], evidence={"x": ["labevents:1"]}),
]


class Careless(ScriptedModel):
    """Gives every call the same id."""

    def _as_reply(self, line: object, request: Request) -> Reply:
        reply = super()._as_reply(line, request)  # type: ignore[arg-type]
        calls = tuple(ToolCall(id="call_0", name=one.name, arguments=one.arguments) for one in reply.message.tool_calls)
        return replace(reply, message=Message(role="assistant", content=reply.message.content, tool_calls=calls))


def test_what_was_played_is_read_back_and_can_be_played_on_from_any_turn(tmp_path: Path) -> None:
    limits = Limits(context_tokens=9000, reply_tokens=1000)
    with EpisodeLog(tmp_path / "first.sqlite") as log:
        recorder = log.begin("e1", {})
        model = Careless(SCRIPT)
        outcome = play(model, environment=PaperChart(line=LINE), recorder=recorder, limits=limits)
        recorder.finish(outcome.to_json())
    reader = LogReader(tmp_path / "first.sqlite")
    trajectory = reader.trajectory("e1")
    assert [turn.prompt for turn in trajectory.turns] == [request.messages for request in model.requests]
    assert trajectory.outcome is not None
    assert trajectory.outcome["answer"] == ["x"]
    assert {note.kind for note in trajectory.notes} == {"context", "arguments", "reminder"}
    replies = recorded_replies(reader, "e1")
    assert len(replies) == len(SCRIPT)
    for kept in (0, 1, 5, len(SCRIPT)):
        live = Careless(SCRIPT[kept:])
        again = play(resumed(live, replies[:kept]), environment=PaperChart(line=LINE), limits=limits)
        assert (again.answer, again.evidence, again.turns) == (outcome.answer, outcome.evidence, outcome.turns)
        assert [request.messages for request in live.requests] == [
            request.messages for request in model.requests[kept:]
        ]
