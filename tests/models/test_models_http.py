"""The client over real HTTP, faults included."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest
from model_doubles import QUICK, START, TOOLS, ask, completed, serving

from fake_server import Answer, FakeServer, completion, error, text, tools
from wardround.core import Message, ProviderError, ToolCall, Usage
from wardround.models import Model, ModelConfig, ModelSettings, Reply, RetryPolicy, open_model
from wardround.models.endpoint import read_body


def test_a_plain_reply_with_usage_cost_and_identity() -> None:
    answer = text(
        "Sepsis.",
        usage={"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 800}},
    )
    reply, server = completed([answer], price=(2.0, 10.0, 0.5))
    assert reply.message == Message(role="assistant", content="Sepsis.")
    assert reply.usage == Usage(input_tokens=1000, output_tokens=10, cached_tokens=800)
    assert reply.unreported == ("reasoning_tokens",)
    assert reply.cost == pytest.approx((200 * 2 + 800 * 0.5 + 10 * 10) / 1e6)
    assert (reply.finish_reason, reply.attempts, reply.model) == ("stop", 1, "test-model")
    assert reply.identity == f"openai/test-model@{server.url}"
    assert 0 < reply.seconds < 5


def test_what_is_sent() -> None:
    settings = ModelSettings(temperature=0.0, top_p=None, max_output_tokens=64, seed=7, token_logprobs=True)
    _, server = completed([text("ok")], ask(tools=TOOLS, settings=settings), api_key="k1")
    (seen,) = server.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == "Bearer k1"
    assert seen.headers["content-type"] == "application/json"
    assert seen.json == {
        "model": "test-model",
        "messages": [message.to_wire() for message in START],
        "tools": [TOOLS[0].to_wire()],
        "max_tokens": 64,
        "temperature": 0.0,
        "seed": 7,
        "logprobs": True,
    }


def test_extra_fields_go_along_and_are_part_of_the_identity() -> None:
    more = {"temperature": None, "max_completion_tokens": 9, "user": "naïve"}
    extra = {"chat_template_kwargs": {"enable_thinking": False}, **more}
    reply, server = completed([text("ok")], extra=extra)
    assert server.requests[0].json["chat_template_kwargs"] == {"enable_thinking": False}
    assert "temperature" not in server.requests[0].json
    assert "max_tokens" not in server.requests[0].json
    assert server.requests[0].json["max_completion_tokens"] == 9
    assert "naïve".encode() in server.requests[0].body
    assert "#" in reply.identity


def test_two_tool_calls_at_once_and_an_unknown_tool_come_back_as_asked() -> None:
    reply, _ = completed([tools(("get_latest_records", '{"table_name": "labevents"}'), ("no_such_tool", "{}"))])
    assert [call.name for call in reply.message.tool_calls] == ["get_latest_records", "no_such_tool"]
    assert len({call.id for call in reply.message.tool_calls}) == 2
    assert reply.finish_reason == "tool_calls"


def test_malformed_arguments_come_back_as_written_and_go_out_as_an_object() -> None:
    broken = '{"table_name": "labev'
    script = [tools(("get_latest_records", broken)), text("ok")]

    async def use(model: Model, server: FakeServer) -> tuple[Reply, Any]:
        first = await model.complete(ask())
        result = Message(role="tool", content="broken JSON", tool_call_id=first.message.tool_calls[0].id)
        await model.complete(ask((*START, first.message, result), ordinal=1))
        return first, server.requests[1].json

    first, sent = serving(script, use)
    assert first.message.tool_calls[0].arguments == broken
    arguments = sent["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"malformed_arguments": broken}
    assert sent["messages"][2]["tool_calls"][0]["id"] == sent["messages"][3]["tool_call_id"]


def test_empty_content_is_a_reply() -> None:
    for answer in (text(None), text("")):
        reply, server = completed([answer])
        assert reply.message == Message(role="assistant", content="")
        assert len(server.requests) == 1


def test_no_usage_is_unknown_and_costs_nothing_known() -> None:
    reply, _ = completed([text("ok", usage=None)], price=(1.0, 1.0))
    assert not reply.usage_known
    assert set(reply.unreported) == {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"}
    assert reply.cost is None


def test_429_waits_as_long_as_it_is_told() -> None:
    started = time.monotonic()
    reply, server = completed([error(429, retry_after="0.4"), text("ok")])
    assert (reply.attempts, reply.message.content) == (2, "ok")
    assert time.monotonic() - started >= 0.4
    assert reply.seconds >= 0.4
    assert len(server.requests) == 2


def test_429_with_a_date() -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    started = time.monotonic()
    reply, _ = completed([error(429, retry_after=moment), text("ok")])
    assert reply.attempts == 2
    assert time.monotonic() - started > 0.9, "the date has whole seconds: between one and two seconds ahead"


def test_429_forever_ends_after_six_attempts() -> None:
    with pytest.raises(ProviderError, match=r"429 .*scripted.*gave up after 6 attempts") as caught:
        completed([error(429)])
    assert (caught.value.status, caught.value.attempts) == (429, 6)


def test_a_retry_after_beyond_the_deadline_is_the_end_at_once() -> None:
    with pytest.raises(ProviderError, match=r"asks to wait 3600 s \(deadline of 10 s\)"):
        completed([error(429, retry_after=3600)])


def test_500_once_is_retried_and_500_three_times_is_the_end() -> None:
    reply, _ = completed([error(500), text("ok")])
    assert reply.attempts == 2
    with pytest.raises(ProviderError, match=r"500 .*\(3 times on one request\)") as caught:
        completed([error(500, "CUDA out of memory")])
    assert (caught.value.status, caught.value.attempts) == (500, 3)
    assert "CUDA out of memory" in str(caught.value)


def test_a_mix_of_faults_has_all_six_attempts() -> None:
    reply, _ = completed([error(500), error(502), error(500), error(502), error(503), text("ok")])
    assert reply.attempts == 6


@pytest.mark.parametrize("drop", ["before", "middle"])
def test_a_dropped_connection_is_retried(drop: Any) -> None:
    reply, server = completed([replace(text("lost"), drop=drop), text("ok")])
    assert (reply.message.content, reply.attempts, len(server.requests)) == ("ok", 2, 2)


def test_a_connection_that_always_drops_is_the_end() -> None:
    with pytest.raises(ProviderError, match=r"the connection broke .*\(3 times on one request\)") as caught:
        completed([replace(text("lost"), drop="middle")])
    assert caught.value.status is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>busy</html>", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"error": {"message": "upstream is gone"}}', "no choices: upstream is gone"),
        (b'{"choices": [{"message": null}]}', "no message"),
        (b'{"choices": [{"message": {"content": 5}}]}', "content is a int"),
        (b'{"choices": [{"message": {"tool_calls": ["x"]}}]}', "tool call 0 is not an object"),
    ],
)
def test_a_malformed_body_is_retried_and_then_named(body: bytes, words: str) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        completed([Answer(body=body)])
    assert caught.value.attempts == 3
    reply, _ = completed([Answer(body=body), text("ok")])
    assert reply.attempts == 2


def test_a_slow_reply_times_out_per_attempt_and_in_all() -> None:
    policy = replace(QUICK, attempt_seconds=0.2)
    reply, _ = completed([replace(text("late"), seconds=2.0), text("ok")], retry=policy)
    assert (reply.message.content, reply.attempts) == ("ok", 2)
    with pytest.raises(ProviderError, match=r"no reply within 0.2 s \(3 times on one request\)"):
        completed([replace(text("late"), seconds=2.0)], retry=policy)
    with pytest.raises(ProviderError, match=r"deadline of 0\.5 s"):
        completed([replace(text("late"), seconds=3.0)], retry=replace(QUICK, deadline_seconds=0.5))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error(400, "maximum context length is 4096 tokens"), "400 .*maximum context length is 4096 tokens$"),
        (error(401, "bad key sk-secret"), r"401 .*bad key \*\*\*; put a key into an environment variable"),
        (error(404, "no model"), "404 .*no model; check the model's name"),
        (Answer(status=403, body=b"<html>\n<b>no</b>\n</html>"), "403 .*<html> <b>no</b> </html>"),
        (Answer(status=422, body=b'{"detail": [{"loc": ["body"], "msg": "field required"}]}'), "422 .*field required"),
        (Answer(status=307, headers={"location": "http://127.0.0.1:9/v2"}), "307 redirects to http://127.0.0.1:9/v2"),
        (Answer(status=501), "501"),
    ],
)
def test_other_refusals_are_one_clear_line_and_not_retried(answer: Answer, words: str) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        completed([answer], api_key="sk-secret")
    assert caught.value.attempts == 1
    assert caught.value.status == answer.status
    assert "\n" not in str(caught.value)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529])
def test_a_status_that_may_pass_is_asked_again(status: int) -> None:
    reply, _ = completed([error(status), text("ok")])
    assert (reply.message.content, reply.attempts) == ("ok", 2)


def test_of_an_error_page_64_kib_are_read() -> None:
    """An error's own words may stand behind a long page; one that never ends is left."""
    taken = []

    async def page(parts: int) -> AsyncIterator[bytes]:
        for number in range(parts):
            taken.append(number)
            yield b"x" * 1024

    for parts, read in ((64, 64), (200, 65)):
        taken.clear()
        body = asyncio.run(read_body(httpx2.Response(400, content=page(parts)), None))
        assert (len(body), len(taken)) == (read * 1024, read)


def test_the_endpoint_is_never_asked_more_than_the_limit_at_once() -> None:
    async def use(model: Model, server: FakeServer) -> int:
        await asyncio.gather(*(model.complete(ask(ordinal=n)) for n in range(20)))
        return server.most_at_once

    assert serving([replace(text("ok"), seconds=0.02)], use, max_concurrent=4) == 4


def test_a_failing_endpoint_is_left_alone_and_comes_back() -> None:
    """Twelve requests meet a dead server; the breaker lets one probe at a time through, and all succeed in the end."""
    healthy = [False]

    def script(_: Any) -> Answer:
        return text("ok") if healthy[0] else error(503)

    async def use(model: Any, server: FakeServer) -> tuple[int, int]:
        breaker = model.endpoint.breaker
        breaker._first_cool_seconds = breaker._cool_seconds = breaker._cap_seconds = 0.3
        first = await asyncio.gather(*(model.complete(ask(ordinal=n)) for n in range(4)), return_exceptions=True)
        assert all(isinstance(outcome, ProviderError) for outcome in first)
        assert breaker.is_open
        before = len(server.requests)
        waiting = [asyncio.create_task(model.complete(ask(ordinal=n))) for n in range(12)]
        await asyncio.sleep(0.2)
        held = len(server.requests) - before
        healthy[0] = True
        replies = await asyncio.gather(*waiting)
        assert [reply.message.content for reply in replies] == ["ok"] * 12
        assert not breaker.is_open
        return before, held

    before, held = serving(script, use)
    assert before <= 12
    assert held <= 1, "an open breaker lets at most the one probe through"


@pytest.mark.parametrize(("status", "opens"), [(400, False), (429, False), (499, False), (500, True), (503, True)])
def test_only_faults_of_the_server_make_it_be_left_alone(status: int, opens: bool) -> None:
    """Ten requests of one run that are refused say nothing of the next."""

    async def use(model: Any, _: FakeServer) -> bool:
        await asyncio.gather(*(model.complete(ask(ordinal=n)) for n in range(10)), return_exceptions=True)
        return bool(model.endpoint.breaker.is_open)

    assert serving([error(status)], use, retry=replace(QUICK, deadline_seconds=0.5)) is opens


def test_preflight_names_what_is_wrong() -> None:
    async def check(model: Model, _: FakeServer) -> None:
        await model.check()

    serving([text("ok")], check)
    serving([text("ok")], check, models=None)
    with pytest.raises(ProviderError, match=r"serves no model 'test-model'; it serves a, b$"):
        serving([text("ok")], check, models=("a", "b"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ProviderError, match=f"cannot reach {url}") as caught:
        asyncio.run(_check(url))
    assert "\n" not in str(caught.value)


async def _check(url: str) -> None:
    model = open_model(ModelConfig(name="openai/x", base_url=url))
    try:
        await model.check()
    finally:
        await model.close()


def test_a_refused_connection_ends_after_all_attempts() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"

    async def main() -> None:
        model = open_model(ModelConfig(name="openai/x", base_url=url, retry=RetryPolicy(base_seconds=0.001)))
        try:
            await model.complete(ask())
        finally:
            await model.close()

    with pytest.raises(ProviderError, match=r"cannot connect .*gave up after 6 attempts"):
        asyncio.run(main())


def test_reasoning_and_logprobs_are_kept_beside_the_message() -> None:
    logprobs = {"content": [{"token": "a", "logprob": -0.25}, {"token": "b", "logprob": -1}]}
    message = {"content": "ok", "reasoning_content": "since"}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs}
    reply, _ = completed([completion(message, choices=[choice])])
    assert (reply.token_logprobs, reply.reasoning) == ((-0.25, -1.0), "since")
    assert reply.message == Message(role="assistant", content="ok")


def test_history_goes_out_byte_for_byte() -> None:
    call = ToolCall(id="c", name="get_latest_records", arguments='{"table_name":  "labevents"}')
    messages = (
        *START,
        Message(role="assistant", content=None, tool_calls=(call,)),
        Message(role="tool", content="a | b\n1 | 2", tool_call_id="c"),
    )
    _, server = completed([text("ok")], ask(messages))
    assert b",".join(message.wire for message in messages) in server.requests[0].body


def test_a_timed_out_or_cancelled_call_leaves_the_endpoint_usable() -> None:
    async def use(model: Any, server: FakeServer) -> int:
        for _ in range(5):
            task = asyncio.create_task(model.complete(ask()))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        replies = await asyncio.gather(*(model.complete(ask(ordinal=n)) for n in range(6)))
        assert all(reply.message.content == "ok" for reply in replies)
        return len(model.endpoint._connections._free)

    assert serving([replace(text("ok"), seconds=0.1)], use, max_concurrent=3) <= 3
