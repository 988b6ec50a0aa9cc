"""The MCP server through the SDK's own client: both transports, bound sessions, bounds, played episodes."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INVALID_PARAMS

from wardround.core import format_time
from wardround.records import Store
from wardround.runs import RunSettings, start
from wardround.runs.results import score_run
from wardround.serve import (
    Listening,
    PlayedRun,
    PlaySettings,
    ServedSession,
    SessionLimits,
    SessionTokens,
    http_app,
    read_handout,
)
from wardround.serve.mcp_server import build_server
from wardround.tools import Environment
from wardround.tools.knowledge import add_corpus

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def session_at(store: Store, subject: int, *, limits: SessionLimits | None = None) -> ServedSession:
    admitted = store.rows(subject, "admissions").column("admittime")[0].as_py()
    chart = store.chart(subject, admitted + timedelta(hours=30))
    return ServedSession(Environment(chart), name="outside", instructions="What comes next?", limits=limits)


@asynccontextmanager
async def serving(tokens: SessionTokens) -> AsyncIterator[int]:
    port = free_port()
    app = http_app(tokens, host="127.0.0.1", port=port)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def client_of(url: str, token: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=300) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


async def test_twenty_tokens_interleaved_see_only_their_own_chart(synthetic_store: Store) -> None:
    subjects = [int(subject) for subject in synthetic_store.subjects[:20]]
    tokens = SessionTokens()
    issued = {subject: tokens.issue(session_at(synthetic_store, subject)) for subject in subjects}

    async def play(port: int, subject: int) -> None:
        own = session_at(synthetic_store, subject).environment
        async with client_of(f"http://127.0.0.1:{port}/mcp", issued[subject]) as client:
            for table in ("patients", "admissions", "labevents", "transfers", "prescriptions"):
                arguments = {"table_name": table}
                served = await client.call_tool("get_latest_records", arguments)
                assert text_of(served) == own.call("get_latest_records", arguments).text
                sql = f"SELECT DISTINCT subject_id FROM {table}"
                rows = text_of(await client.call_tool("run_sql_query", {"sql_query": sql}))
                others = [str(other) for other in subjects if other != subject]
                assert not any(other in rows for other in others)

    async with serving(tokens) as port:
        await asyncio.gather(*(play(port, subject) for subject in subjects))


async def test_no_argument_opens_another_chart(synthetic_store: Store) -> None:
    one, other = (int(subject) for subject in synthetic_store.subjects[:2])
    tokens = SessionTokens()
    token = tokens.issue(session_at(synthetic_store, one))
    async with serving(tokens) as port, client_of(f"http://127.0.0.1:{port}/mcp", token) as client:
        refused = await client.call_tool("get_latest_records", {"table_name": "admissions", "subject_id": other})
        assert refused.is_error
        assert str(one) in text_of(refused)
        listed = (await client.list_tools()).tools
        only_reading = {tool.name: tool.annotations and tool.annotations.read_only_hint for tool in listed}
        assert [name for name, reads in only_reading.items() if not reads] == ["finish"]
        hints = [tool.annotations for tool in listed if tool.annotations]
        assert len(hints) == len(listed)
        assert {(one.destructive_hint, one.open_world_hint) for one in hints} == {(False, False)}, "nothing is changed"
        assert all(one.idempotent_hint == one.read_only_hint for one in hints)
        names = set(only_reading)
        assert "load_ehr" not in names
        assert {"get_records_by_time", "finish"} <= names


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_prompt_that_is_not_there_is_the_callers_mistake(synthetic_store: Store, mode: str) -> None:
    server = build_server(lambda: session_at(synthetic_store, int(synthetic_store.subjects[0])))
    async with Client(server, mode=mode) as client:
        with pytest.raises(MCPError, match="no prompt 'other'") as refused:
            await client.get_prompt("other")
        assert refused.value.code == INVALID_PARAMS
        assert (await client.get_prompt("task")).messages[0].role == "user"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(synthetic_store: Store, mode: str) -> None:
    session = session_at(synthetic_store, int(synthetic_store.subjects[0]), limits=SessionLimits(calls=3))
    async with Client(build_server(lambda: session), mode=mode) as client:
        with pytest.raises(MCPError, match="get_table_names") as refused:
            await client.call_tool("get_tables", {})
        assert refused.value.code == INVALID_PARAMS
        assert not (await client.call_tool("ehr.get_table_names", {})).is_error, "another name for a tool"
        assert (await client.call_tool("get_latest_records", {"table_name": "nope"})).is_error, "a tool's own no"
    assert session.outcome is not None
    assert session.outcome.turns == 3, "what a model got wrong is a call of its episode"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer not-a-token"}])
async def test_without_a_valid_token_nothing_is_served(synthetic_store: Store, headers: dict[str, str]) -> None:
    tokens = SessionTokens()
    tokens.issue(session_at(synthetic_store, int(synthetic_store.subjects[0])))
    async with serving(tokens) as port, httpx2.AsyncClient(headers=headers) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        reply = await http.post(f"http://127.0.0.1:{port}/mcp", json=body)
        assert reply.status_code == 401


async def test_a_session_is_bounded_and_ends_with_finish(synthetic_store: Store) -> None:
    subject = int(synthetic_store.subjects[0])
    session = session_at(synthetic_store, subject, limits=SessionLimits(calls=3))
    for _ in range(3):
        assert not (await session.call("get_table_names", {})).is_error
    assert session.outcome is not None
    assert session.outcome.finish == "turn_limit"
    assert (await session.call("get_table_names", {})).is_error

    finished = session_at(synthetic_store, subject)
    await finished.call("finish", {"response": ["Sepsis"]})
    assert finished.outcome is not None
    assert finished.outcome.answer == ("Sepsis",)
    assert (await finished.call("think", {"response": "more"})).is_error


async def test_stdio_serves_the_process_own_chart(
    synthetic_store: Store, synthetic_store_path: Path, tmp_path: Path
) -> None:
    subject = int(synthetic_store.subjects[0])
    admitted = synthetic_store.rows(subject, "admissions").column("admittime")[0].as_py()
    moment = format_time(admitted + timedelta(hours=30))
    words = ["-m", "wardround", "serve", "mcp", "--store", str(synthetic_store_path)]
    words += ["--subject", str(subject), "--as-of", moment, "--access-log", str(tmp_path / "log" / "access.jsonl")]
    (tmp_path / "a.jsonl").write_text('{"id": "7", "title": "Furosemide", "content": "It lowers potassium."}\n')
    add_corpus(tmp_path / "library", "pubmed", tmp_path / "a.jsonl", licence="invented", date="2024-06-30")
    words += ["--library", str(tmp_path / "library"), "--tool", "retrieve_pubmed"]
    async with Client(StdioServerParameters(command=sys.executable, args=[*words, "--evidence-tool"])) as client:
        read = await client.call_tool("retrieve_pubmed", {"query": "potassium"})
        served = await client.call_tool("get_latest_records", {"table_name": "admissions"})
        found = await client.call_tool("retrieve_evidence", {"query": "kidney function"})
    assert text_of(found).startswith("evidence for 'kidney function'")
    noted = [json.loads(line) for line in (tmp_path / "log" / "access.jsonl").read_text().splitlines()]
    assert "Furosemide" in text_of(read)
    assert [line["tool"] for line in noted] == ["retrieve_pubmed", "get_latest_records", "retrieve_evidence"]
    assert {(line["subject_id"], line["as_of"]) for line in noted} == {(subject, moment)}
    assert noted[1]["who"] == f"process of {getpass.getuser()}"
    expected = session_at(synthetic_store, subject).environment.call("get_latest_records", {"table_name": "admissions"})
    assert text_of(served) == expected.text


async def test_played_episodes_are_recorded_and_scored_like_ours(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    settings = RunSettings.of(
        benchmark=str(synthetic_benchmark_path),
        store=str(synthetic_store_path),
        tasks=("transfers", "diagnoses"),
        limit=2,
        agents=("my-agent",),
        models=("outside",),
    )
    folder = start(tmp_path / "played", settings, outside=True)
    game = PlayedRun(folder, PlaySettings(listening=Listening(port=free_port())))
    targets = {sample.id: sample.target for sample in game.benchmark.all_samples}

    async def outside_agent(line: dict[str, str]) -> None:
        sample = line["episode"].split("|")[3]
        async with client_of(line["url"], line["token"]) as client:
            prompt = await client.get_prompt("task")
            assert prompt.messages[0].content.text == line["prompt"]
            assert not any(label in line["prompt"] for label in targets[sample])
            await client.call_tool("get_table_names", {})
            await client.call_tool("finish", {"response": list(targets[sample])})

    playing = asyncio.create_task(game.over_http())
    while not (folder.path / "handout.jsonl").exists():
        await asyncio.sleep(0.02)
    lines = list(read_handout(folder))
    assert len(lines) == 4
    assert (folder.path / "handout.jsonl").stat().st_mode & 0o077 == 0
    await asyncio.gather(*(outside_agent(line) for line in lines))
    await playing

    scores = score_run(folder)
    assert [score.score.f1 for score in scores] == [1.0] * 4
    assert [score.use.turns for score in scores] == [2] * 4
    assert all(score.use.usage is None for score in scores), "an outside model's tokens are not ours to know"
    assert all("no_candidate_tool" in score.errors for score in scores)
    assert json.loads((folder.path / "manifest.json").read_text())["policy"] == "known_at"
