"""Bytes after a reply are nobody's: they never answer the next request, which may be another episode's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from model_doubles import QUICK, SYNTHETIC, ask, serving

from fake_server import Answer, FakeServer, text
from wardround.core import Message
from wardround.models import Endpoint, Model

FOREIGN = text("of somebody else").body
SECOND = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(FOREIGN) + FOREIGN


def answered(body: Any) -> str:
    return f"to {body['messages'][-1]['content']}"


def followed_by(after: bytes) -> Any:
    """A server whose every reply has something behind it, on a connection that stays open."""

    def answer(body: Any) -> Answer:
        said = text(answered(body)).body
        return Answer(body=said + after, headers={"content-length": str(len(said))})

    return answer


def chunked(body: Any) -> Answer:
    said = text(answered(body)).body
    framed = b"%x;a=b\r\n%s\r\n0\r\nx-trailer: 1\r\n\r\n" % (len(said), said)
    headers = {"transfer-encoding": "chunked", "content-length": str(len(said))}
    return Answer(body=framed + SECOND, headers=headers)


async def conversation(model: Model, server: FakeServer) -> list[str | None]:
    return [(await model.complete(ask((Message(role="user", content=str(n)),)))).message.content for n in range(4)]


@pytest.mark.parametrize(
    "script", [followed_by(SECOND), followed_by(SECOND[:25]), followed_by(b"\r\n"), followed_by(FOREIGN), chunked]
)
def test_what_comes_after_a_reply_answers_no_request(script: Any) -> None:
    assert serving(script, conversation) == ["to 0", "to 1", "to 2", "to 3"]


def test_a_body_where_none_may_be_answers_no_request() -> None:
    def answer(body: Any) -> Answer:
        first = len(server.requests) == 1
        return Answer(status=204, body=SECOND, headers={"content-length": "0"}) if first else text(answered(body))

    async def post_two() -> list[Any]:
        endpoint = Endpoint(server.url, guard=SYNTHETIC, policy=QUICK)
        bodies = [b'{"messages": [{"content": "%d"}]}' % n for n in range(2)]
        try:
            return [await endpoint.post("/chat/completions", body, seconds=5.0) for body in bodies]
        finally:
            await endpoint.close()

    with FakeServer(answer) as server:
        empty, second = asyncio.run(post_two())
    assert empty.fault is not None
    assert second.data["choices"][0]["message"]["content"] == "to 1"


class Counting(FakeServer):
    connections = 0

    async def _connection(self, reader: Any, writer: Any) -> None:
        self.connections += 1
        await super()._connection(reader, writer)


@pytest.mark.parametrize("proxied", [False, True])
def test_a_clean_connection_is_used_again(proxied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also through a proxy."""

    async def post_three() -> None:
        endpoint = Endpoint("http://127.0.0.1:9/v1" if proxied else server.url, guard=SYNTHETIC, policy=QUICK)
        endpoint._connections._proxy = httpx2.URL(server.url.removesuffix("/v1")) if proxied else None
        for _ in range(3):
            answer = await endpoint.post("/chat/completions", b"{}", seconds=5.0)
            assert answer.fault is None
        await endpoint.close()

    with Counting([text("ok")]) as server:
        asyncio.run(post_three())
        assert server.connections == 1


class _Late:
    """A server that answers on one connection and, when told, sends another reply there that nobody asked for."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0
        self.delays: list[float] = []
        self.idle: asyncio.StreamWriter | None = None
        self.writers: list[asyncio.StreamWriter] = []

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))["asked"]
                self.requests += 1
                await asyncio.sleep(self.delays.pop(0) if self.delays else 0)
                writer.write(_reply(b'{"to": %d}' % asked))
                await writer.drain()
                self.idle = writer
        except (asyncio.IncompleteReadError, ConnectionError):
            pass


def _reply(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def _talk(use: Callable[[Endpoint, _Late], Awaitable[None]]) -> _Late:
    """Run ``use`` with an endpoint of a late server over a real socket."""
    late = _Late()

    async def main() -> None:
        server = await asyncio.start_server(late.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", guard=SYNTHETIC, policy=QUICK)
        try:
            await use(endpoint, late)
        finally:
            await endpoint.close()
            server.close()
            await late.close()

    asyncio.run(main())
    return late


async def _ask(endpoint: Endpoint, number: int, seconds: float = 5.0) -> Any:
    answer = await endpoint.post("/chat/completions", b'{"asked": %d}' % number, seconds=seconds)
    return answer.data if answer.fault is None else answer.fault.kind


def test_a_reply_that_comes_after_its_timeout_answers_no_later_request() -> None:
    async def use(endpoint: Endpoint, late: _Late) -> None:
        late.delays = [0.2]
        assert await _ask(endpoint, 1, seconds=0.05) == "timeout"
        assert [await _ask(endpoint, number) for number in (2, 3)] == [{"to": 2}, {"to": 3}]

    assert _talk(use).connections == 2


def test_a_reply_that_comes_after_its_request_was_called_off_answers_no_later_one() -> None:
    async def use(endpoint: Endpoint, late: _Late) -> None:
        late.delays = [0.2]
        asking = asyncio.create_task(_ask(endpoint, 1))
        while late.requests == 0:
            await asyncio.sleep(0.005)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert [await _ask(endpoint, number) for number in (2, 3)] == [{"to": 2}, {"to": 3}]

    assert _talk(use).connections == 2


def test_a_reply_that_nobody_asked_for_on_a_kept_connection_answers_no_request() -> None:
    """It comes while the connection lies idle, after the check of what was left over: the line is not used again."""

    async def use(endpoint: Endpoint, late: _Late) -> None:
        assert await _ask(endpoint, 1) == {"to": 1}
        assert await _ask(endpoint, 2) == {"to": 2}
        assert late.connections == 1
        assert late.idle is not None
        late.idle.write(_reply(b'{"to": "nobody"}'))
        await late.idle.drain()
        assert [await _ask(endpoint, number) for number in (3, 4)] == [{"to": 3}, {"to": 4}]

    assert _talk(use).connections == 2
