"""Tools with dots in their names before an endpoint that refuses them, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from model_doubles import ask

from fake_server import Answer, FakeServer, error, tools
from wardround.core import Message, ToolCall, ToolSchema, UserError
from wardround.models import ModelConfig, Reply, open_model

_ALLOWED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
REFUSALS = (
    "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern",
    "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    "Invalid function name. Must be alphanumeric, underscores or dashes",
)
HISTORY = (
    Message(role="user", content="Look it up."),
    Message(
        role="assistant",
        tool_calls=(ToolCall(id="c0", name="browser.search", arguments='{"query": "salt"}'),),
        content=None,
    ),
    Message(role="tool", content="[0] salt", tool_call_id="c0"),
)


def schemas(*names: str) -> tuple[ToolSchema, ...]:
    return tuple(
        ToolSchema(name=name, description="x", parameters={"type": "object", "properties": {}}) for name in names
    )


def strict(said: str) -> Any:
    """A server that takes no dots, and calls the first tool it is offered."""

    def answer(body: Any) -> Answer:
        offered = [tool["function"]["name"] for tool in body["tools"]]
        called = [call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls", ())]
        if not all(map(_ALLOWED.fullmatch, (*offered, *called))):
            return error(400, said)
        return tools((offered[0], "{}"))

    return answer


def complete(server: FakeServer, *names: str, times: int = 1) -> list[Reply]:
    async def main() -> list[Reply]:
        model = open_model(ModelConfig(name="openai/test-model", base_url=server.url))
        try:
            return [await model.complete(ask(HISTORY, tools=schemas(*names))) for _ in range(times)]
        finally:
            await model.close()

    return asyncio.run(main())


@pytest.mark.parametrize("said", REFUSALS)
def test_names_go_out_plain_and_come_back_as_they_are(said: str) -> None:
    with FakeServer(strict(said)) as server:
        replies = complete(server, "browser.open", "get_table_names", times=2)
        sent = [json.loads(seen.body) for seen in server.requests]
    assert [call.name for reply in replies for call in reply.message.tool_calls] == ["browser.open", "browser.open"]
    assert len(sent) == 3, "refused once, and from then on asked without dots"
    assert [tool["function"]["name"] for tool in sent[-1]["tools"]] == ["browser__open", "get_table_names"]
    assert sent[-1]["messages"][1]["tool_calls"][0]["function"]["name"] == "browser__search"


def test_an_endpoint_that_takes_dots_is_sent_them() -> None:
    with FakeServer(lambda body: tools((body["tools"][0]["function"]["name"], "{}"))) as server:
        (reply,) = complete(server, "browser.open")
        assert json.loads(server.requests[0].body)["tools"][0]["function"]["name"] == "browser.open"
    assert reply.message.tool_calls[0].name == "browser.open"


def test_two_names_that_would_be_one_are_refused() -> None:
    with FakeServer(strict(REFUSALS[0])) as server, pytest.raises(UserError, match="browser__open"):
        complete(server, "browser.open", "browser__open")
