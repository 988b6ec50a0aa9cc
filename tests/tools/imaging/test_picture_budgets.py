"""Pictures under budgets and on the ways that are not the usual one: contexts, schema calls, the relay, MCP."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from wardround.agents.loop.calls import Observation
from wardround.agents.loop.context import EstimatedTokens, FullContext, History, count_message, cut
from wardround.core import Message, Picture, ToolCall
from wardround.models import RelayModel, Request, ScriptedModel
from wardround.models.replay import say
from wardround.models.schema_calls import SchemaCalls
from wardround.records import Store
from wardround.tools import Environment, ToolResult
from wardround.tools.definition import Tool
from wardround.tools.toolset import Toolset

PICTURE = Picture.of(b"\x89PNG of a film", media_type="image/png", width=1400, height=1400, title="a film")
"""50 x 50 squares: 2,500 tokens."""


def turn(number: int, *, pictures: tuple[Picture, ...] = (PICTURE,), text: str = "seen") -> tuple[Message, ...]:
    call = ToolCall(id=f"c{number}", name="image.image_visualizer", arguments='{"image_path": "cxr_images:1"}')
    said = Message(role="assistant", tool_calls=(call,))
    return said, Message(role="tool", content=text, tool_call_id=call.id, pictures=pictures)


def history(turns: int) -> History:
    made = History([Message(role="user", content="What is it?")])
    for number in range(turns):
        said, result = turn(number)
        seen = ToolResult(text="seen", pictures=result.pictures)
        observation = Observation(call=said.tool_calls[0], result=seen, seconds=0.0)
        made.add(said, result, turn=number, kind="turn", observations=(observation,))
    return made


def test_old_pictures_leave_the_prompt_first_and_say_how_to_see_them_again() -> None:
    counter = EstimatedTokens()
    rendered = FullContext(counter).render(history(6), 12_000)
    assert rendered.tokens <= 12_000
    assert rendered.tokens == sum(count_message(counter, message) for message in rendered.messages)
    shown = [message for message in rendered.messages if message.role == "tool"]
    assert [bool(message.pictures) for message in shown][-1]
    gone = [message for message in shown if not message.pictures]
    assert gone
    assert all("gave a picture. Repeat the call to see them again" in (message.content or "") for message in gone)


def test_a_picture_that_alone_is_too_large_is_cut_with_a_notice() -> None:
    said, result = cut(turn(0), EstimatedTokens(), 300)
    assert said.tool_calls
    assert result.pictures == ()
    assert "the pictures of this result are not shown any more" in (result.content or "")


def test_calls_by_schema_carry_pictures_in_the_user_message() -> None:
    model = ScriptedModel([say("done")])
    asked = (Message(role="user", content="Look."), *turn(0))
    asyncio.run(SchemaCalls(model, probing=False).complete(Request(messages=asked)))
    assert [message.role for message in model.requests[0].messages] == ["user", "assistant", "user"]
    assert model.requests[0].messages[-1].pictures == (PICTURE,)


def test_whoever_plays_the_relay_finds_the_pictures_in_its_folder(tmp_path: Path) -> None:
    async def play() -> None:
        relay = RelayModel(tmp_path / "relay")
        (tmp_path / "relay" / "1.reply.json").write_text(json.dumps({"content": "a film"}))
        await relay.complete(Request(messages=(Message(role="user", content="Look."), *turn(0), *turn(1))))

    asyncio.run(play())
    body = json.loads((tmp_path / "relay" / "1.request.json").read_text())
    named = [picture["sha256"] for message in body["messages"] for picture in message.get("pictures", ())]
    assert named == [PICTURE.sha256] * 2
    assert [path.read_bytes() for path in (tmp_path / "relay" / "pictures").iterdir()] == [PICTURE.data]


def test_requests_that_differ_in_a_picture_differ_in_their_digest() -> None:
    other = Picture.of(b"another", media_type="image/png", width=1400, height=1400, title="a film")
    one = Request(messages=turn(0))
    assert one.digest("m") == Request(messages=turn(0)).digest("m")
    assert one.digest("m") != Request(messages=turn(0, pictures=(other,))).digest("m")
    bare = replace(turn(0)[1], pictures=())
    assert one.digest("m") != Request(messages=(turn(0)[0], bare)).digest("m")


def test_an_mcp_client_gets_the_picture_as_image_content(synthetic_store: Store) -> None:
    mcp = pytest.importorskip("mcp", reason="needs the extra [mcp]")
    from wardround.serve import ServedSession
    from wardround.serve.mcp_server import build_server

    def look(*handed: object) -> ToolResult:
        return ToolResult(text="a film", pictures=(PICTURE,))

    schema = {"type": "object", "properties": {}, "required": []}
    tool = Tool(name="image.look", category="image", description="Look.", parameters=schema, function=look)
    subject = int(synthetic_store.subjects[0])
    admitted = synthetic_store.rows(subject, "admissions").column("admittime")[0].as_py()
    session = ServedSession(Environment(synthetic_store.chart(subject, admitted), Toolset((tool,))), name="outside")

    async def play() -> None:
        async with mcp.Client(build_server(lambda: session)) as client:
            result = await client.call_tool("image.look", {})
        text, image = result.content
        assert (text.text, image.mime_type) == ("a film", "image/png")
        assert base64.b64decode(image.data) == PICTURE.data

    asyncio.run(play())
