"""``wardround serve mcp`` with two people's charts, and how the official SDK's client or a plain request reaches it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from conformance.place import Place, command_serving, free_port

REVISION = "2026-07-28"
META = "io.modelcontextprotocol"
TOKENS = ("a-token-of-the-first-person", "a-token-of-the-second-person")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running server: its address, two people's tokens and subjects, and how one of them is served over stdio."""

    url: str
    subjects: tuple[str, str]
    stdio: StdioServerParameters
    place: Place

    def ask(self, method: str, *, token: str = TOKENS[0], version: str = REVISION, **parts: Any) -> httpx2.Response:
        """Post one request by hand; ``headers`` replace those that belong to it, ``params`` are its parameters."""
        params = dict(parts.get("params", {}))
        params["_meta"] = {f"{META}/protocolVersion": version, f"{META}/clientCapabilities": {}}
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": version,
            "Mcp-Method": method,
            **({"Mcp-Name": params["name"]} if "name" in params else {}),
            **parts.get("headers", {}),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx2.post(self.url, json=body, headers=headers, timeout=60)

    def result(self, method: str, **parts: Any) -> Mapping[str, Any]:
        """Ask, and return the result."""
        answer = self.ask(method, **parts)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text[:200]}"
        found: Mapping[str, Any] = answer.json()["result"]
        return found


@contextmanager
def serving_charts(place: Place) -> Iterator[Served]:
    """Serve two people until the block ends, each under a token."""
    charts, port = [place.chart_words(person) for person in (0, 1)], free_port()
    file, log = place.path("charts.jsonl"), place.path("charts-server.log")
    lines = [
        {"token": token, "subject_id": int(words[3]), "as_of": words[5]}
        for token, words in zip(TOKENS, charts, strict=True)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    access = ["--access-log", str(place.path("charts-access.jsonl"))]
    words = ["serve", "mcp", *charts[0][:2], "--http", "--charts", str(file), "--port", str(port), *access]
    stdio = ["-m", "wardround", "serve", "mcp", *charts[0], *access]
    url = f"http://127.0.0.1:{port}/mcp"
    with command_serving(*words, answers=url, log=log):
        yield Served(
            url=url,
            subjects=(charts[0][3], charts[1][3]),
            stdio=StdioServerParameters(command=sys.executable, args=stdio, env=dict(os.environ)),
            place=place,
        )


@asynccontextmanager
async def client_of(url: str, token: str = TOKENS[0], *, mode: Any = REVISION) -> AsyncIterator[Client]:
    """Connect the official SDK's client; ``legacy`` is the handshake of the revisions before this one."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client
