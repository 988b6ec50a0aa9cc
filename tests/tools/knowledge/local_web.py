"""A small web on loopback: real HTTP servers behind invented public names and addresses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import httpcore2

from wardround.core import ToolFailure
from wardround.tools.knowledge.fetcher import Network

PUBLIC = "93.184.216.34"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a path answers; ``stream`` yields a body without end instead."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/html"})
    stream: Callable[[], Any] | None = None


def html(text: str, **headers: str) -> Answer:
    return Answer(body=text.encode(), headers={"content-type": "text/html; charset=utf-8", **headers})


class LocalWeb(Network):
    """Names are resolved from ``names`` (else to a public address); every connection is made to the server here.
    ``seen`` are the requests that arrived: method, host, path and body."""

    def __init__(self, pages: Mapping[str, Answer], names: Mapping[str, Sequence[Sequence[str]]] | None = None) -> None:
        self.seen: list[tuple[str, str, str, bytes]] = []
        self.connected: list[str] = []
        self._names = {name: list(answers) for name, answers in (names or {}).items()}
        web = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length", 0)))
                web.seen.append((self.command, self.headers.get("host", ""), self.path, sent))
                answer = pages.get(self.path.partition("?")[0], Answer(status=404))
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.stream is None:
                    self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                try:
                    self.wfile.write(answer.body)
                    for part in answer.stream() if answer.stream is not None else ():
                        self.wfile.write(part)
                except OSError:
                    self.close_connection = True

            do_GET = do_POST = _answer

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def resolve(self, host: str, port: int) -> Sequence[str]:
        answers = self._names.get(host, [[PUBLIC]])
        if not answers:
            raise ToolFailure("the page's server cannot be found; check the address.")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def connect(self, address: str, port: int, seconds: float | None) -> httpcore2.NetworkStream:
        self.connected.append(address)
        return httpcore2.SyncBackend().connect_tcp("127.0.0.1", self._server.server_port, seconds)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
