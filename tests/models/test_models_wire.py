from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_doubles import START, TOOLS, ask

import wardround.models
from fake_server import FakeServer, text
from wardround.core import Message, ToolCall
from wardround.models import ModelConfig, ModelSettings, open_model
from wardround.models.endpoint import MalformedReply, error_text
from wardround.models.wire import (
    decode_reply,
    encode_request,
    read_reply,
    read_usage,
    sendable,
)


def test_public_names_are_exact_and_sorted() -> None:
    names = vars(wardround.models).items()
    public = {name for name, value in names if not name.startswith("_") and type(value).__name__ != "module"}
    assert set(wardround.models.__all__) == public


def _reply(message: Any, finish: Any = "stop") -> Any:
    return read_reply({"choices": [{"message": message, "finish_reason": finish}]}, call_prefix="call_3")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"content": "x"}, Message(role="assistant", content="x")),
        ({"content": None}, Message(role="assistant", content="")),
        ({}, Message(role="assistant", content="")),
        ({"content": None, "refusal": "no"}, Message(role="assistant", content="no")),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]},
            Message(role="assistant", content="ab"),
        ),
        (
            {"function_call": {"name": "f", "arguments": "{}"}},
            Message(role="assistant", tool_calls=(ToolCall(id="call_3_0", name="f", arguments="{}"),)),
        ),
        (
            {"tool_calls": [{"id": "", "function": {"name": "f", "arguments": {"a": [1]}}}]},
            Message(role="assistant", tool_calls=(ToolCall(id="call_3_0", name="f", arguments='{"a": [1]}'),)),
        ),
        (
            {"tool_calls": [{"name": "f", "arguments": None}]},
            Message(role="assistant", tool_calls=(ToolCall(id="call_3_0", name="f", arguments="{}"),)),
        ),
        (
            {"tool_calls": [{"id": "c", "function": {"name": None}}, {"id": "c", "function": {"name": "g"}}]},
            Message(
                role="assistant",
                tool_calls=(
                    ToolCall(id="c", name="", arguments="{}"),
                    ToolCall(id="call_3_1", name="g", arguments="{}"),
                ),
            ),
        ),
    ],
)
def test_messages_are_read_as_endpoints_send_them(raw: Any, expected: Message) -> None:
    assert _reply(raw).message == expected


@pytest.mark.parametrize(
    ("given_reason", "with_calls", "expected"),
    [
        ("stop", False, "stop"),
        ("eos", False, "stop"),
        ("length", False, "length"),
        ("content_filter", False, "content_filter"),
        ("tool_calls", True, "tool_calls"),
        ("function_call", True, "tool_calls"),
        ("stop", True, "tool_calls"),
        (None, True, "tool_calls"),
        ("length", True, "length"),
        (None, False, "other"),
        ("abort", False, "other"),
        (7, False, "other"),
    ],
)
def test_finish_reasons(given_reason: Any, with_calls: bool, expected: str) -> None:
    message = {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]} if with_calls else {}
    assert _reply(message, given_reason).finish_reason == expected


def test_usage_in_every_spelling() -> None:
    usage, unreported = read_usage({"prompt_tokens": 9, "completion_tokens": 0, "prompt_cache_hit_tokens": 4})
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (9, 0, 4)
    assert unreported == ("reasoning_tokens",)
    assert read_usage(None)[1] == read_usage({"prompt_tokens": None, "completion_tokens": "many"})[1]
    details = {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": 2}}
    assert read_usage(details)[0].reasoning_tokens == 2


@pytest.mark.parametrize(
    ("given", "counted"), [(0, True), (2**53 - 1, True), (-1, False), (2**53, False), (True, False)]
)
def test_a_number_of_tokens_is_a_count_or_not_reported(given: Any, counted: bool) -> None:
    usage, unreported = read_usage({"prompt_tokens": given})
    assert (usage.input_tokens, "input_tokens" in unreported) == (given if counted else 0, not counted)


NAMES = st.sampled_from(["choices", "message", "content", "tool_calls", "function", "usage", "arguments"])
BODIES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
)


@given(BODIES)
def test_no_body_breaks_the_reader_otherwise_than_as_malformed(value: Any) -> None:
    for body in (value, {"choices": [value]}, {"choices": [{"message": value}], "usage": value}):
        try:
            read = decode_reply(json.dumps(body).encode(), call_prefix="c")
        except MalformedReply:
            continue
        assert read.message.role == "assistant"


@given(st.text(max_size=30))
def test_whatever_a_model_wrote_as_arguments_goes_out_as_an_object(arguments: str) -> None:
    call = ToolCall(id="c", name="f", arguments=arguments)
    sent = json.loads(sendable(Message(role="assistant", content=None, tool_calls=(call, call))))
    for one in sent["tool_calls"]:
        assert isinstance(json.loads(one["function"]["arguments"]), dict)


def test_user_messages_in_a_row_go_out_as_one() -> None:
    """Chat templates of Gemma and Mistral raise where roles do not alternate."""
    said = [("system", "s"), ("user", "a"), ("user", "b"), ("assistant", "c"), ("user", "d")]
    request = ask(messages=tuple(Message(role=role, content=text) for role, text in said))  # type: ignore[arg-type]
    sent = json.loads(encode_request(request, "m"))["messages"]
    assert [(message["role"], message["content"]) for message in sent] == [
        ("system", "s"),
        ("user", "a\n\nb"),
        ("assistant", "c"),
        ("user", "d"),
    ]


def test_tools_that_must_not_be_called_are_sent_with_the_choice_none() -> None:
    request = ask(tools=TOOLS)
    assert "tool_choice" not in json.loads(encode_request(request, "m"))
    barred = replace(request, tool_choice="none")
    body = json.loads(encode_request(barred, "m"))
    assert body["tool_choice"] == "none"
    assert len(body["tools"]) == len(TOOLS)
    assert barred.digest("m") != request.digest("m")
    assert "tool_choice" not in json.loads(encode_request(replace(barred, tools=()), "m"))


def test_error_texts_are_one_short_line() -> None:
    assert error_text({"error": {"message": "a\n b"}}) == "a b"
    assert error_text({"error": "gone"}) == "gone"
    assert error_text({"detail": [{"msg": "x"}]}) == '[{"msg": "x"}]'
    assert error_text({}) == ""
    assert len(error_text("y" * 1000)) == 300


def test_digest_depends_on_all_that_is_asked_and_not_on_whose_call_it_is() -> None:
    plain = ask().digest("m")
    assert plain == ask(episode="other", ordinal=9).digest("m")
    assert ask(settings=ModelSettings(temperature=1)).digest("m") == ask(
        settings=ModelSettings(temperature=1.0)
    ).digest("m")
    others = [
        ask().digest("n"),
        ask(START[:1]).digest("m"),
        ask(tools=TOOLS).digest("m"),
        ask(settings=ModelSettings(seed=1)).digest("m"),
        ask(response_schema={"type": "object"}).digest("m"),
    ]
    assert len({plain, *others}) == 6


@pytest.mark.parametrize(
    "settings",
    [
        ModelSettings(),
        ModelSettings(temperature=0.0, top_p=None, presence_penalty=0.5, seed=3, max_output_tokens=17),
        ModelSettings(token_logprobs=True),
    ],
)
@pytest.mark.parametrize("schema", [None, {"type": "object", "properties": {"a": {"type": "string"}}}])
def test_the_official_sdk_sends_the_same_body(settings: ModelSettings, schema: Any) -> None:
    """Oracle: what the ``openai`` package sends for the same call."""
    openai = pytest.importorskip("openai", reason="needs openai, the client")
    call = ToolCall(id="c", name="get_latest_records", arguments='{"table_name": "labevents"}')
    messages = (
        *START,
        Message(role="assistant", content=None, tool_calls=(call,)),
        Message(role="tool", content="a | b", tool_call_id="c"),
    )
    request = ask(messages, tools=TOOLS, settings=settings, response_schema=schema)
    options = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "presence_penalty": settings.presence_penalty,
        "seed": settings.seed,
        "max_tokens": settings.max_output_tokens,
        "logprobs": settings.token_logprobs or None,
    }
    if schema is not None:
        options["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as sdk:
            await sdk.chat.completions.create(
                model="test-model",
                messages=[message.to_wire() for message in messages],
                tools=[tool.to_wire() for tool in TOOLS],
                **{name: value for name, value in options.items() if value is not None},
            )
        model = open_model(ModelConfig(name="openai/test-model", base_url=server.url, api_key="k"))
        await model.complete(request)
        await model.close()

    with FakeServer([text("ok")]) as server:
        asyncio.run(main())
    theirs, ours = server.requests
    assert theirs.json == ours.json
    assert theirs.path == ours.path
    assert {name: theirs.headers[name] for name in ("authorization", "content-type")} == {
        name: ours.headers[name] for name in ("authorization", "content-type")
    }


def test_the_body_is_valid_json_with_nothing_optional() -> None:
    bare = ask(settings=ModelSettings(temperature=None, top_p=None))
    assert set(json.loads(encode_request(bare, "m"))) == {"model", "messages", "max_tokens"}


def test_an_id_made_here_is_none_that_the_server_gave() -> None:
    calls = [{"id": "c_1", "function": {"name": "a"}}, {"function": {"name": "b"}}]
    read = decode_reply(json.dumps({"choices": [{"message": {"tool_calls": calls}}]}).encode(), call_prefix="c")
    assert [call.id for call in read.message.tool_calls] == ["c_1", "c_1_"]
