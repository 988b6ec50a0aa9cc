"""Bytes after a reply are nobody's: they never answer the next request, which may be another episode's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from model_doubles import QUICK, SYNTHETIC, ask, serving

from fake_server import Answer, FakeServer, text
from wardround.core import Message
from wardround.models import Endpoint, Model
from wardround.models.left_over import is_clean

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
    """Also through a proxy: where the library keeps its parser is known, or every request would connect anew."""

    async def post_three() -> None:
        endpoint = Endpoint("http://127.0.0.1:9/v1" if proxied else server.url, guard=SYNTHETIC, policy=QUICK)
        endpoint._proxy = server.url.removesuffix("/v1") if proxied else None
        for _ in range(3):
            answer = await endpoint.post("/chat/completions", b"{}", seconds=5.0)
            assert answer.fault is None
        await endpoint.close()

    with Counting([text("ok")]) as server:
        asyncio.run(post_three())
        assert server.connections == 1


def test_a_connection_that_cannot_be_looked_into_is_not_clean() -> None:
    assert not is_clean(object())  # type: ignore[arg-type]
