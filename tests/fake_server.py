"""A small OpenAI-compatible server on loopback that answers as scripted, faults included. Standard library only.

    with FakeServer([error(429, retry_after=0), text("hello")]) as server:
        open_model(ModelConfig(name="openai/test-model", base_url=server.url))

Run as a program (``python fake_server.py --seconds 0.1``) it answers every request alike and prints its URL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

MODEL = "test-model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One scripted answer. ``drop`` closes the connection before any byte or in the middle of the body; ``raw`` is sent
    as it stands, head and all; ``drip_seconds`` passes between any two bytes; ``held_until`` is waited for first."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    drop: Literal["before", "middle"] | None = None
    reason: str = "Scripted"
    raw: bytes | None = None
    drip_seconds: float = 0.0
    held_until: threading.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def completion(message: Mapping[str, Any], *, finish: str | None = "stop", **more: Any) -> Answer:
    """A chat completion around a message; ``usage=None`` leaves the usage out."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": usage,
    } | more
    return Answer(body=json.dumps({name: value for name, value in body.items() if value is not None}).encode())


def text(content: str | None, **more: Any) -> Answer:
    """A reply that is text."""
    return completion({"content": content}, **more)


def tools(*calls: tuple[str, Any], **more: Any) -> Answer:
    """A reply that calls tools: (name, arguments as text or as a JSON value)."""
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    return completion({"content": None, "tool_calls": made}, **({"finish": "tool_calls"} | more))


def error(status: int, message: str = "scripted", *, retry_after: object = None) -> Answer:
    """An error answer in the usual shape."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Answer(status=status, body=json.dumps({"error": {"message": message}}).encode(), headers=headers)


class FakeServer:
    """Serves a list of answers in order (the last one again and again) or a function of the decoded request."""

    def __init__(
        self,
        script: Sequence[Answer] | Callable[[Any], Answer],
        *,
        models: Sequence[str] | None = (MODEL,),
        port: int = 0,
    ) -> None:
        self.requests: list[Seen] = []
        self._script = script
        self._models = models
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stop: asyncio.Event | None = None
        self.most_at_once = 0
        self._at_once = 0

    @property
    def url(self) -> str:
        """The base URL to give a client."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", self._port, limit=1 << 26)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = head[0].split()[1]
        if path.endswith("/models"):
            answer = self._listing()
        else:
            self.requests.append(Seen(path=path, headers=headers, body=body))
            answer = self._next(body)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        if answer.seconds:
            await asyncio.sleep(answer.seconds)
        while answer.held_until is not None and not answer.held_until.is_set():
            await asyncio.sleep(0.01)
        self._at_once -= 1
        return await _send(writer, answer)

    def _next(self, body: bytes) -> Answer:
        if callable(self._script):
            return self._script(json.loads(body))
        return self._script[min(len(self.requests), len(self._script)) - 1]

    def _listing(self) -> Answer:
        if self._models is None:
            return Answer(status=404, body=b"not found")
        return Answer(body=json.dumps({"object": "list", "data": [{"id": name} for name in self._models]}).encode())


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    if answer.drop == "before":
        return False
    headers = {"content-type": "application/json", "content-length": str(len(answer.body)), **answer.headers}
    lines = [
        f"HTTP/1.1 {answer.status} {answer.reason}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    body = answer.body if answer.drop is None else answer.body[: len(answer.body) // 2]
    whole = answer.raw if answer.raw is not None else "\r\n".join(lines).encode("latin-1") + body
    if answer.drip_seconds:
        for byte in whole:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(answer.drip_seconds)
    else:
        writer.write(whole)
        await writer.drain()
    return answer.drop is None and answer.raw is None


def main() -> None:
    """Serve one answer until interrupted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    made = tools(("get_latest_records", '{"table_name": "labevents", "limit": 40}'))
    answer = Answer(body=made.body, seconds=options.seconds)
    with FakeServer(lambda _: answer) as server:
        print(server.url, flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()
