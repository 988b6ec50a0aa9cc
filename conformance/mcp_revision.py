"""Scenarios of ours on the 2026-07-28 revision: what it changed, asked by the official SDK's client and by hand.

The official suite asks what any server must do; here it is asked of charts: whose they are, what may be kept of them.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

from conformance.mcp_served import META, REVISION, TOKENS, Served, client_of, serving_charts
from conformance.outcomes import Scenarios, SuiteResult, played
from conformance.place import Place, command_serving, free_port

_CALL = ("get_latest_records", {"table_name": "admissions"})

SCENARIOS: Scenarios[Served] = Scenarios()


def run_revision(place: Place) -> Iterator[SuiteResult]:
    """Serve two charts and play every scenario."""
    with serving_charts(place) as served:
        scenarios = [*played(SCENARIOS, served)]
    sdk = f"mcp {importlib.metadata.version('mcp')}"
    yield SuiteResult(
        name=f"MCP {REVISION}, on charts",
        version=f"revision {REVISION}",
        by=f"the official SDK ({sdk}), plain requests",
        scenarios=scenarios,
    )


def _text(result: Any) -> str:
    return "".join(part.text for part in result.content)


def _error(answer: httpx2.Response) -> tuple[int, int]:
    """The status, and the code of the error in the body."""
    return answer.status_code, int(answer.json()["error"]["code"])


async def _called(client: Client) -> str:
    return _text(await client.call_tool(*_CALL))


@SCENARIOS.named("server/discover names this revision")
def _(served: Served) -> None:
    assert REVISION in served.result("server/discover")["supportedVersions"]


@SCENARIOS.named("it declares tools and prompts and nothing else")
def _(served: Served) -> None:
    declared = {name for name, value in served.result("server/discover")["capabilities"].items() if value is not None}
    assert declared == {"tools", "prompts"}, declared


@SCENARIOS.named("the server says who it is, with its exact version")
def _(served: Served) -> None:
    told = served.result("server/discover")["_meta"][f"{META}/serverInfo"]
    assert told["name"] == "wardround"
    assert told["version"] == importlib.metadata.version("wardround")


@SCENARIOS.named("a call needs no handshake, and no session is begun")
def _(served: Served) -> None:
    answer = served.ask("tools/call", params={"name": _CALL[0], "arguments": _CALL[1]})
    assert answer.status_code == 200, answer.text[:200]
    assert "mcp-session-id" not in answer.headers


@SCENARIOS.named("every result says that it is complete")
def _(served: Served) -> None:
    kinds = [served.result(method)["resultType"] for method in ("server/discover", "tools/list", "prompts/list")]
    kinds.append(served.result("tools/call", params={"name": _CALL[0], "arguments": _CALL[1]})["resultType"])
    assert set(kinds) == {"complete"}, kinds


@SCENARIOS.named("what may be kept of a list is private to the token and goes stale at once")
def _(served: Served) -> None:
    for method in ("tools/list", "prompts/list"):
        found = served.result(method)
        assert (found["cacheScope"], found["ttlMs"]) == ("private", 0), f"{method}: {found['cacheScope']}"


@SCENARIOS.named("tools come in the same order each time, to both people")
def _(served: Served) -> None:
    orders = {tuple(tool["name"] for tool in served.result("tools/list", token=token)["tools"]) for token in TOKENS * 2}
    assert len(orders) == 1, orders


@SCENARIOS.named("a revision that is not spoken is refused with those that are")
def _(served: Served) -> None:
    answer = served.ask("tools/list", version="2031-01-01")
    assert _error(answer) == (400, UNSUPPORTED_PROTOCOL_VERSION), answer.text[:200]
    assert REVISION in answer.json()["error"]["data"]["supported"], answer.text


@SCENARIOS.named("a header that says another method or tool than the body is refused")
def _(served: Served) -> None:
    call = {"name": _CALL[0], "arguments": _CALL[1]}
    for headers in ({"Mcp-Method": "prompts/get"}, {"Mcp-Name": "think"}):
        answer = served.ask("tools/call", params=call, headers=headers)
        assert _error(answer) == (400, HEADER_MISMATCH), (headers, answer.text[:200])


@SCENARIOS.named("methods that the revision removed, and unknown ones, are answered with 404")
def _(served: Served) -> None:
    for method in ("ping", "logging/setLevel", "resources/subscribe", "no/such"):
        answer = served.ask(method)
        assert _error(answer) == (404, METHOD_NOT_FOUND), (method, answer.text[:200])


@SCENARIOS.named("a prompt that is not there is a mistake of the caller, not of the server")
def _(served: Served) -> None:
    error = served.ask("prompts/get", params={"name": "no-such-prompt"}).json()["error"]
    assert error["code"] == INVALID_PARAMS, error


@SCENARIOS.named("a tool that is not there is an error of the protocol, which says which there are")
def _(served: Served) -> None:
    error = served.ask("tools/call", params={"name": "no_such_tool", "arguments": {}}).json()["error"]
    assert error["code"] == INVALID_PARAMS, error
    assert _CALL[0] in error["message"], error


@SCENARIOS.named("there is no stream to GET and no session to DELETE")
def _(served: Served) -> None:
    headers = {"Authorization": f"Bearer {TOKENS[0]}", "MCP-Protocol-Version": REVISION, "Accept": "text/event-stream"}
    statuses = [httpx2.request(method, served.url, headers=headers).status_code for method in ("GET", "DELETE")]
    assert statuses == [405, 405], statuses


@SCENARIOS.named("a page of another origin is refused, even with a token")
def _(served: Served) -> None:
    answer = served.ask("tools/list", headers={"Origin": "https://elsewhere.example"})
    assert answer.status_code == 403, answer.status_code


@SCENARIOS.named("without a token, or with another, nothing is told but where tokens are explained")
def _(served: Served) -> None:
    for authorization in ("Basic bm9ib2R5Og==", "Bearer a-token-that-nobody-issued"):
        answer = served.ask("server/discover", headers={"Authorization": authorization})
        assert answer.status_code == 401, answer.status_code
        assert "resource_metadata" in answer.headers["www-authenticate"]


@SCENARIOS.named("two tokens on one server see each their own chart, call by call")
def _(served: Served) -> None:
    async def both() -> None:
        async with client_of(served.url, TOKENS[0]) as first, client_of(served.url, TOKENS[1]) as second:
            for _turn in range(3):
                texts = [await _called(client) for client in (first, second)]
                for own, other, text in zip(served.subjects, reversed(served.subjects), texts, strict=True):
                    assert own in text or other not in text, text[:200]
                assert texts[0] != texts[1]

    asyncio.run(both())


@SCENARIOS.named("this revision, the one before it and stdio give the same tools and the same rows")
def _(served: Served) -> None:
    async def told(client: Client) -> tuple[object, str]:
        tools = (await client.list_tools()).tools
        return [(tool.name, tool.description, tool.input_schema) for tool in tools], await _called(client)

    async def three() -> None:
        async with (
            client_of(served.url) as modern,
            client_of(served.url, mode="legacy") as before,
            Client(served.stdio) as piped,
        ):
            assert modern.protocol_version == REVISION
            assert before.protocol_version == "2025-11-25"
            seen = [await told(client) for client in (modern, before, piped)]
            assert seen[0] == seen[1] == seen[2]

    asyncio.run(three())


@SCENARIOS.named("a mistake in a call comes back as a result that the model reads, not as an error of the protocol")
def _(served: Served) -> None:
    async def wrong() -> None:
        async with client_of(served.url) as client:
            answer = await client.call_tool("get_latest_records", {"table_name": "no_such_table"})
            assert answer.is_error
            assert "no_such_table" in _text(answer)

    asyncio.run(wrong())


@SCENARIOS.named("every schema of an argument list is JSON Schema 2020-12, and refuses what it does not know")
def _(served: Served) -> None:
    for tool in served.result("tools/list")["tools"]:
        Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object", tool["name"]


@SCENARIOS.named("an episode is played: the prompt is read, a tool called, and `finish` ends it")
def _(served: Served) -> None:
    place, port = served.place, free_port()
    run = place.fresh("played")
    words = [
        "serve",
        "play",
        "--store",
        str(place.store),
        "--benchmark",
        str(place.benchmark),
        "--out",
        str(run),
        "--limit",
        "1",
    ]
    words += ["--task", "labevents", "--port", str(port), "--together", "1"]
    url = f"http://127.0.0.1:{port}/mcp"
    with command_serving(*words, answers=url, log=place.path("play-server.log")):
        asyncio.run(_play_one(run, url))


async def _play_one(run: Path, url: str) -> None:
    handout = run / "handout.jsonl"
    for _try in range(300):
        if handout.exists() and handout.read_text().strip():
            break
        await asyncio.sleep(0.1)
    line = json.loads(handout.read_text().splitlines()[0])
    is_finished, is_refused = False, True
    try:
        async with client_of(url, line["token"]) as client:
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["task"]
            prompt = (await client.get_prompt("task")).messages[0].content
            assert getattr(prompt, "text", "") == line["prompt"]
            assert not (await client.call_tool("get_table_names", {})).is_error
            assert not (await client.call_tool("finish", {"response": ["Glucose"]})).is_error
            is_finished = True
            is_refused = bool((await client.call_tool("get_table_names", {})).is_error)
    except (MCPError, httpx2.HTTPError, ExceptionGroup):
        if not is_finished:
            raise  # else the token is closed already, or the server has gone
    assert is_refused, "nothing is answered after finish"
