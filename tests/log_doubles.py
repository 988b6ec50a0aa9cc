"""Small real requests and replies to record."""

from __future__ import annotations

from wardround.core import Message, ToolCall, ToolSchema, Usage
from wardround.log import EpisodeRecorder, ToolRecord
from wardround.models import Reply, Request

TOOLS = (ToolSchema(name="think", description="Think.", parameters={"type": "object", "properties": {}}),)
START = (Message(role="system", content="You are careful."), Message(role="user", content="What next?"))


def ask(messages: tuple[Message, ...], ordinal: int, episode: str = "e") -> Request:
    return Request(messages=messages, tools=TOOLS, episode=episode, ordinal=ordinal)


def calling(ordinal: int, name: str = "think", arguments: str = "{}") -> Reply:
    call = ToolCall(id=f"call_{ordinal}", name=name, arguments=arguments)
    return Reply(
        message=Message(role="assistant", content=None, tool_calls=(call,)),
        usage=Usage(input_tokens=100 + ordinal, output_tokens=5, cached_tokens=ordinal),
        finish_reason="tool_calls",
        model="m",
        seconds=0.25,
        identity="m@here",
        unreported=("reasoning_tokens",),
    )


def play(recorder: EpisodeRecorder, turns: int, *, result: str = "ok", first: int = 0) -> tuple[Message, ...]:
    """Record an episode that calls a tool every turn; return its messages."""
    messages = START
    for ordinal in range(turns):
        reply = calling(ordinal)
        call = reply.message.tool_calls[0]
        text = f"{result} {ordinal}"
        if ordinal >= first:
            recorder.turn(ask(messages, ordinal), reply, [ToolRecord(call=call, result_text=text)])
        messages += (reply.message, Message(role="tool", content=text, tool_call_id=call.id))
    return messages
