"""What callers send is bounded before every application: addresses, bodies, and the time that a body takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra [view]")
pytest.importorskip("mcp", reason="needs the extra [mcp]")

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from wardround.records import Store
from wardround.serve import SessionTokens, http_app
from wardround.serve.cds import CardShelf, FeedbackFile, cds_app
from wardround.serve.guarded import LONGEST_ADDRESS, BoundedRequests
from wardround.serve.viewer import MarksFile, ReviewPages, ViewedRun, ViewerPages, review_app, viewer_app

GONE = {"type": "http.disconnect"}


def part(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def answered(parts: Sequence[dict[str, Any]], *, path: str = "/", seconds: float = 30.0) -> list[dict[str, Any]]:
    """What is sent where the client sends these parts and then nothing; the application answers with the length."""
    sent: list[dict[str, Any]] = []
    left = list(parts)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = PlainTextResponse(str(len(await Request(scope, receive).body())))
        except Exception as error:  # as frameworks do
            answer = PlainTextResponse(repr(error), 500)
        await answer(scope, receive, send)

    async def receive() -> dict[str, Any]:
        if left:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError("never")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    asyncio.run(BoundedRequests(application, most_bytes=10, seconds=seconds)(scope, receive, send))
    return sent


def status(sent: list[dict[str, Any]]) -> list[int]:
    return [message["status"] for message in sent if message["type"] == "http.response.start"]


def test_what_fits_is_passed_on() -> None:
    sent = answered([part(b"12345", more=True), part(b"67890", more=False)])
    assert status(sent) == [200]
    assert sent[-1]["body"] == b"10"


@pytest.mark.parametrize("parts", [[part(b"x" * 11, more=False)], [part(b"x" * 6, more=True)] * 2])
def test_a_body_that_is_too_long_is_refused_once(parts: list[dict[str, Any]]) -> None:
    sent = answered(parts)
    assert status(sent) == [413]
    assert "longer than 10 bytes" in json.loads(sent[-1]["body"])["error"]


def test_a_body_that_drips_is_not_waited_for() -> None:
    assert status(answered([part(b"x", more=True)], seconds=0.01)) == [408]


def test_a_client_that_goes_away_is_no_fault_of_ours() -> None:
    assert answered([part(b"x", more=True), GONE]) == []


def test_a_long_address_is_not_read() -> None:
    assert status(answered([], path="/" + "9" * LONGEST_ADDRESS)) == [414]


@pytest.mark.parametrize("body", [part(b"", more=False), {"type": "http.request"}])
def test_waiting_for_a_client_to_go_is_not_bounded(body: dict[str, Any]) -> None:
    """A part that does not say whether there is more is the last one."""
    waited: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        waited.append((await receive())["type"])

    async def receive() -> dict[str, Any]:
        if not waited:
            waited.append("body")
            return body
        await asyncio.sleep(0.05)
        return GONE

    async def send(message: Any) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    asyncio.run(BoundedRequests(application, seconds=0.01)(scope, receive, send))
    assert waited == ["body", "http.disconnect"]


@pytest.mark.parametrize("name", ["cards", "viewer", "review", "mcp"])
def test_every_application_is_bounded(name: str, viewed_run_path: Path, synthetic_store: Store, tmp_path: Path) -> None:
    run = ViewedRun(viewed_run_path)
    shelf = CardShelf.of("a run", synthetic_store, ())
    made = {
        "cards": lambda: cds_app(shelf, FeedbackFile(tmp_path / "said", tmp_path / "run", shelf)),
        "viewer": lambda: viewer_app(ViewerPages([run])),
        "review": lambda: review_app(ReviewPages([run], MarksFile(tmp_path / "marks.jsonl", [run]))),
        "mcp": lambda: http_app(SessionTokens(), host="127.0.0.1", port=80),
    }
    app: Starlette = made[name]()
    client = TestClient(app, base_url="http://127.0.0.1")
    assert client.get("/runs/" + "9" * 5_000 + "/").status_code == 414
