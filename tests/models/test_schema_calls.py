"""Tool calls through a response schema, for servers whose template ignores ``tools``: over real HTTP, both ways."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from model_doubles import START, TOOLS, ask, completed, serving

from fake_server import Answer, FakeServer, error, text, tools
from wardround.core import Message, ToolCall, UserError
from wardround.models import Model, ModelConfig, Reply, open_model
from wardround.models.schema_calls import union_schema
from wardround.tools import default_toolset

CALL = '{"tool": "get_latest_records", "arguments": {"table_name": "labevents"}}'
USAGE = {"prompt_tokens": 10, "completion_tokens": 1}


def _both_ways(shown: bool, *, refused: Answer | None = None) -> Any:
    """A server whose prompt grows with tools (``shown``) or not; it calls natively where tools are shown."""

    def answer(body: Any) -> Answer:
        offered = "tools" in body
        if offered and refused is not None:
            return refused
        if body["max_tokens"] == 1:
            return text("H", usage=USAGE | {"prompt_tokens": 90 if offered and shown else 10})
        if offered and shown:
            return tools(("get_latest_records", {"table_name": "labevents"}))
        return text(CALL if "response_format" in body else "I would look at the labs.")

    return answer


def _asked(script: Any, count: int = 1, **options: Any) -> tuple[list[Reply], FakeServer]:
    async def use(model: Model, server: FakeServer) -> tuple[list[Reply], FakeServer]:
        return [await model.complete(ask(tools=TOOLS, ordinal=ordinal)) for ordinal in range(count)], server

    replies, server = serving(script, use, **options)
    return replies, server


def test_natively_a_template_that_ignores_tools_gives_prose() -> None:
    replies, _ = _asked(_both_ways(False))
    assert replies[0].message.tool_calls == ()


def test_by_schema_the_tools_are_described_and_the_reply_is_a_call() -> None:
    reply, server = completed([text(CALL)], ask(tools=TOOLS, ordinal=3), tool_calls="schema")
    sent = server.requests[0].json
    assert "tools" not in sent
    assert sent["messages"][0]["content"].startswith("You are careful.\n\nTools. ")
    assert "- get_latest_records(table_name: string): The latest rows of a table." in sent["messages"][0]["content"]
    assert sent["messages"][1:] == [{"role": "user", "content": START[1].content}]
    assert sent["response_format"]["json_schema"]["schema"] == union_schema(TOOLS)
    (call,) = reply.message.tool_calls
    assert (call.id, call.name, json.loads(call.arguments)) == (
        "schema_3",
        "get_latest_records",
        {"table_name": "labevents"},
    )
    assert reply.finish_reason == "tool_calls"


def test_earlier_calls_and_results_are_text_in_the_prompt() -> None:
    calls = (
        ToolCall(id="a", name="get_latest_records", arguments='{"table_name": "labevents"}'),
        ToolCall(id="b", name="get_latest_records", arguments="{oops"),
    )
    history = (
        Message(role="assistant", content=None, tool_calls=calls),
        Message(role="tool", content="3 rows", tool_call_id="a"),
        Message(role="tool", content="no such table", tool_call_id="b"),
    )
    _, server = completed([text(CALL)], ask((*START, *history), tools=TOOLS), tool_calls="schema")
    spoken, results = server.requests[0].json["messages"][2:]
    assert spoken["role"] == "assistant"
    assert spoken["content"].splitlines()[0] == CALL
    assert json.loads(spoken["content"].splitlines()[1])["arguments"] == {"unreadable": "{oops"}
    assert results == {
        "role": "user",
        "content": "Result of get_latest_records:\n3 rows\n\nResult of get_latest_records:\nno such table",
    }


@pytest.mark.parametrize(
    "said",
    ["I would look at the labs.", '{"tool": "drop_table", "arguments": {}}', CALL[:-9], "", '{"tool": 3}', "[1, 2]"],
)
def test_what_is_no_call_of_an_offered_tool_stays_text(said: str) -> None:
    reply, _ = completed([text(said, finish="length")], ask(tools=TOOLS), tool_calls="schema")
    assert reply.message.tool_calls == ()
    assert reply.message.content == said
    assert reply.finish_reason == "length"


def test_a_call_is_read_where_the_server_takes_no_schema() -> None:
    script = [error(400, "response_format is not supported"), text(f"Sure!\n```json\n{CALL}\n```")]
    reply, server = completed(script, ask(tools=TOOLS), tool_calls="schema")
    assert "response_format" not in server.requests[1].json
    assert [call.name for call in reply.message.tool_calls] == ["get_latest_records"]


def test_text_is_asked_for_without_a_schema_and_stays_text() -> None:
    reply, server = completed([text(CALL)], ask(tools=TOOLS, tool_choice="none"), tool_calls="schema")
    assert "response_format" not in server.requests[0].json
    assert "get_latest_records(" in server.requests[0].json["messages"][0]["content"]
    assert reply.message.content == CALL


@pytest.mark.parametrize(
    ("script", "by_schema"),
    [
        (_both_ways(True), False),
        (_both_ways(False), True),
        (_both_ways(False, refused=error(400, "test-model does not support tools")), True),
        (_both_ways(False, refused=error(500, "tools param requires --jinja flag")), True),
    ],
)
def test_auto_finds_out_once_whether_tools_reach_the_prompt(script: Any, by_schema: bool) -> None:
    replies, server = _asked(script, count=2, tool_calls="auto")
    assert [call.name for reply in replies for call in reply.message.tool_calls] == ["get_latest_records"] * 2
    played = [seen.json for seen in server.requests if seen.json["max_tokens"] > 1]
    assert len(played) == 2
    assert all(("response_format" in body, "tools" in body) == (by_schema, not by_schema) for body in played)


@pytest.mark.parametrize(("bare", "full"), [(None, None), (USAGE, None), (None, USAGE)])
def test_auto_stays_native_where_not_both_are_counted(bare: Any, full: Any) -> None:
    script = [text("H", usage=bare), text("H", usage=full), tools(("get_latest_records", {}))]
    replies, server = _asked(script, tool_calls="auto")
    assert "tools" in server.requests[-1].json
    assert replies[0].message.tool_calls


def test_the_way_is_part_of_who_answers() -> None:
    ways = {
        way: open_model(ModelConfig(name="openai/m", base_url="http://127.0.0.1:1/v1", tool_calls=way))
        for way in ("native", "schema")
    }
    assert ways["native"].identity == "openai/m@http://127.0.0.1:1/v1"
    assert ways["schema"].identity.startswith(f"{ways['native'].identity}#tool-calls-schema-")
    with pytest.raises(UserError, match="native, schema, auto"):
        open_model(ModelConfig(name="openai/m", base_url="http://127.0.0.1:1/v1", tool_calls="grammar"))


def test_the_union_takes_one_call_of_any_tool_and_nothing_without_end() -> None:
    schema = union_schema(default_toolset().schemas)
    jsonschema.Draft202012Validator.check_schema(schema)
    holds = jsonschema.Draft202012Validator(schema).is_valid
    assert holds(json.loads(CALL))
    assert holds({"tool": "finish", "arguments": {"response": ["a"]}})
    assert not holds({"tool": "finish", "arguments": {"response": ["a"], "also": 1}})
    assert not holds({"tool": "finish", "arguments": {"response": ["a"] * 21}})
    assert not holds({"tool": "unheard_of", "arguments": {}})


def test_a_schema_the_server_cannot_compile_is_left_out_from_then_on() -> None:
    said = "Unable to generate parser for this template. JSON schema error at #/anyOf/0: unsupported"
    reply, server = completed([error(400, said), text(CALL)], ask(tools=TOOLS), tool_calls="schema")
    assert ["response_format" in request.json for request in server.requests] == [True, False]
    assert [call.name for call in reply.message.tool_calls] == ["get_latest_records"]
