"""Whatever bytes an endpoint sends, a call ends as a reply or as a ProviderError, bounded, without the key, printable.

The kinds by name go through real HTTP, random bytes through the parts that read them. ``WARDROUND_FUZZ_EXAMPLES`` asks
for more of those (``make long``).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_doubles import completed

from effort import often
from fake_server import Answer, FakeServer, text, tools
from hostile_replies import ESCAPES, KEY, Kinds
from wardround.core import ProviderError, Secret, UserError, printable
from wardround.models import DataUseGuard, Endpoint, Reply, RetryPolicy
from wardround.models.endpoint import MOST_BODY_BYTES, MalformedReply, one_line, read_json, retry_after_seconds
from wardround.models.wire import MOST_CALLS, MOST_CHARACTERS, decode_reply
from wardround.tools.retrieval import EndpointEncoder

IMPATIENT = RetryPolicy(attempts=2, base_seconds=0.0001, cap_seconds=0.001, connect_seconds=20.0, attempt_seconds=20.0)
EXAMPLES = int(os.environ.get("WARDROUND_FUZZ_EXAMPLES", often("50", "150")))
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
KINDS = Kinds()


def outcome(answer: Answer) -> Reply | ProviderError:
    try:
        return completed([answer], retry=IMPATIENT, api_key=KEY)[0]
    except ProviderError as error:
        return error


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_of_reply_is_a_reply_or_one_clear_error(kind: str) -> None:
    got = outcome(KINDS[kind])
    if isinstance(got, Reply):
        calls = got.message.tool_calls
        texts = (got.message.content, got.reasoning, got.model, *(call.arguments for call in calls))
        assert len(calls) <= MOST_CALLS + 1
        assert sum(len(one or "") for one in texts) <= MOST_CHARACTERS
        assert KEY not in "".join(filter(None, texts))
    else:
        assert not COMMANDS.search(str(got))
        assert "\n" not in str(got)
        assert KEY not in str(got)
        assert len(str(got)) < 700


def test_enough_kinds_are_tried() -> None:
    assert len(list(KINDS)) >= 130


def test_what_was_asked_for_still_comes_through() -> None:
    for kind in ("gzip-good", "deflate-good", "raw-to-the-end", "json-byte-order-mark", "choices-content-parts"):
        got = outcome(KINDS[kind])
        assert isinstance(got, Reply), got
        assert got.message.content == "ok"


def test_a_long_error_page_is_read_in_part_and_its_status_kept() -> None:
    got = outcome(KINDS["error-long"])
    assert isinstance(got, ProviderError)
    assert got.status == 400
    long = outcome(KINDS["body-17-mb"])
    assert f"longer than {MOST_BODY_BYTES:,} bytes" in str(long)


def test_calls_without_end_are_cut_and_counted() -> None:
    got = outcome(KINDS["calls-20000"])
    assert isinstance(got, Reply)
    assert len(got.message.tool_calls) == MOST_CALLS + 1
    assert got.calls_left_out == 20_000 - MOST_CALLS
    most = outcome(tools(*[("think", "{}")] * MOST_CALLS))
    assert isinstance(most, Reply)
    assert (len(most.message.tool_calls), most.calls_left_out) == (MOST_CALLS, 0)


def test_a_reply_that_drips_has_no_more_than_the_time_of_an_attempt() -> None:
    policy = RetryPolicy(attempts=1, attempt_seconds=0.3, deadline_seconds=5.0)
    dripping = Answer(body=text("ok").body, drip_seconds=0.02)
    with pytest.raises(ProviderError, match=r"no reply within 0\.3 s"):
        completed([dripping], retry=policy)
    with FakeServer([dripping]) as server:
        encoder = EndpointEncoder("m", server.url, dimensions=3, policy=policy)
        with pytest.raises(ProviderError, match=r"no reply within 0\.3 s"):
            encoder.encode(["a"])
        encoder.close()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith(("choices-", "usage-"))][::4])
def test_the_encoder_takes_every_kind_too(kind: str) -> None:
    with FakeServer([KINDS[kind]]) as server:
        encoder = EndpointEncoder("m", server.url, api_key=KEY, dimensions=3, policy=IMPATIENT)
        with pytest.raises(ProviderError) as caught:
            encoder.encode(["a"])
        encoder.close()
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        "x",
        [],
        {"data": "x"},
        {"data": [{"index": 0, "embedding": ["1", None]}]},
        {"data": [{"index": float("inf")}]},
        {"data": [{"index": 0, "embedding": [10**400]}]},
        {"data": [{"index": 0, "embedding": KEY}]},
    ],
)
def test_vectors_that_are_none_are_a_malformed_reply(data: Any) -> None:
    with FakeServer([Answer(body=json.dumps(data).encode())]) as server:
        encoder = EndpointEncoder("m", server.url, api_key=KEY, dimensions=3, policy=IMPATIENT)
        with pytest.raises(ProviderError, match=r"no embeddings|vectors came back") as caught:
            encoder.encode(["a"])
        encoder.close()
    assert KEY not in str(caught.value)


# Random bytes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
CALL = st.fixed_dictionaries(
    {}, optional={"id": JSON, "function": st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON}) | JSON}
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON,
        "tool_calls": st.lists(CALL | JSON, max_size=5) | JSON,
        "function_call": CALL | JSON,
        "reasoning_content": JSON,
        "refusal": JSON,
    },
)
CHOICE = st.fixed_dictionaries({}, optional={"message": MESSAGE | JSON, "finish_reason": JSON, "logprobs": JSON})
BODY = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(CHOICE | JSON, max_size=2) | JSON, "usage": JSON, "model": JSON, "error": JSON}
)


@settings(max_examples=EXAMPLES)
@given(BODY | JSON)
def test_any_value_reads_as_a_reply_or_is_malformed(value: Any) -> None:
    try:
        read = decode_reply(json.dumps(value).encode(), call_prefix="c")
    except MalformedReply:
        return
    identifiers = [call.id for call in read.message.tool_calls]
    assert len(set(identifiers)) == len(identifiers)
    assert json.loads(read.message.wire)["role"] == "assistant"
    assert all(isinstance(call.name, str) for call in read.message.tool_calls)


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=200))
def test_any_bytes_read_or_are_malformed(body: bytes) -> None:
    for secret in (None, Secret(KEY)):
        said = ""
        try:
            read_json(body, secret)
        except MalformedReply as error:
            said = str(error)
        assert not COMMANDS.search(said)


@settings(max_examples=EXAMPLES)
@given(st.text(st.characters()), st.text(st.characters()), st.integers(0, 400))
def test_a_line_holds_no_key_and_no_command(before: str, after: str, pad: int) -> None:
    line = one_line(f"{before}{'x' * pad}{KEY}{after}", Secret(KEY))
    assert KEY[:12] not in line, "not its beginning either, where the line is cut"
    assert not COMMANDS.search(line)
    assert len(line) <= 300


@settings(max_examples=EXAMPLES)
@given(st.text(st.characters(max_codepoint=255)) | st.from_regex(r"\w{3}, \d+ [A-Z][a-z]{2} \d{1,25} \d+:\d+:\d+ .\d+"))
def test_any_retry_after_is_seconds_or_nothing(header: str) -> None:
    seconds = retry_after_seconds(header)
    assert seconds is None or seconds >= 0


@settings(max_examples=max(10, EXAMPLES // 10))
@given(
    st.binary(max_size=300), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 5"])
)
def test_any_bytes_on_the_line_end_as_a_reply_or_an_error(tail: bytes, head: bytes) -> None:
    outcome(Answer(raw=head + tail))


# Secrets and terminals


@pytest.mark.parametrize("written", ["utf-16", "utf-32"])
def test_a_key_in_a_body_of_another_encoding_is_masked(written: str) -> None:
    reply = outcome(Answer(body=text(f"your key is {KEY}").body.decode().encode(written)))
    assert isinstance(reply, Reply)
    assert reply.message.content == "your key is ***"


def test_the_password_of_a_proxy_is_masked_in_what_the_proxy_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies print the header that they refuse."""
    password = "pass+word/0123456789"
    refusing = Answer(
        status=403, body=json.dumps({"error": f"Basic {b64encode(f'me:{password}'.encode()).decode()}"}).encode()
    )

    async def post() -> Any:
        endpoint = Endpoint("http://models.example/v1", guard=DataUseGuard(sensitivity="synthetic"), policy=IMPATIENT)
        try:
            return await endpoint.post("/chat/completions", b"{}", seconds=20.0)
        finally:
            await endpoint.close()

    with FakeServer([refusing]) as server:
        address = server.url.removesuffix("/v1").removeprefix("http://")
        monkeypatch.setenv("http_proxy", f"http://me:{quote(password, safe='')}@{address}")
        monkeypatch.delenv("no_proxy", raising=False)
        fault = asyncio.run(post()).fault
        assert server.requests[0].headers["proxy-authorization"].startswith("Basic ")
    assert "***" in fault.message
    assert password not in fault.message
    assert b64encode(b"me:" + password.encode()).decode()[4:-4] not in fault.message


def test_a_key_never_prints_and_is_refused_where_no_header_can_hold_it() -> None:
    secret = Secret(f" {KEY}\n")
    assert secret.reveal() == KEY
    assert f"{secret} {secret!r}" == "*** ***"
    for bad in ("", "  ", "sk-\nx", "sk-\u00e9", "sk-\x1b"):
        with pytest.raises(UserError, match="the API key") as caught:
            Secret(bad)
        assert "sk-" not in str(caught.value)


def test_a_short_key_takes_no_words_out_of_replies() -> None:
    reply, _ = completed([text("EMPTY bladder")], api_key="EMPTY")
    assert reply.message.content == "EMPTY bladder"


@pytest.mark.parametrize(
    "url",
    [
        f"http://u:{KEY}@h:99999/v1",
        f"http://u:{KEY}@h/v1",
        f"http://127.0.0.1/v1?key={KEY}",
        f"http://127.0.0.1/v1#{KEY}",
    ],
)
def test_a_key_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UserError) as caught:
        DataUseGuard(sensitivity="synthetic").check(url)
    assert KEY not in str(caught.value)


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert printable("plain\ttext\n") == "plain\ttext\n"
    assert printable("Großvater 心 é") == "Großvater 心 é"
    assert printable("\x1b[2J\r\x9b") == "\\u001b[2J\\u000d\\u009b"
    assert not COMMANDS.search(printable(ESCAPES + "\ud800"))
    assert json.loads(f'"{printable(chr(0x9B))}"') == "\x9b", "in JSON it still says the same"
