"""What guards a served chart: where it listens, how long a token lives, who is noted, how much SQL is one share."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import ClassVar

import pytest

from wardround.cli import main
from wardround.clinical.codes import LabelSet
from wardround.core import UserError
from wardround.records import Store
from wardround.serve import AccessLog, Listening, ServedSession, SessionLimits, SessionTokens, SqlLane, SqlShare
from wardround.serve.session import _Places
from wardround.tools import Environment, EnvironmentOptions, ToolResult
from wardround.tools.candidates import CandidateSpace
from wardround.tools.sql_gate import SqlLimits

pytestmark = pytest.mark.anyio
BOMB = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n WHERE i % 7 = 9"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def environment_of(store: Store, place: int) -> Environment:
    subject = int(store.subjects[place])
    admitted = store.rows(subject, "admissions").column("admittime")[0].as_py()
    return Environment(store.chart(subject, admitted + timedelta(hours=30)))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "chart.example.org", "::"])
async def test_credentialed_charts_are_not_served_over_plain_http(host: str) -> None:
    with pytest.raises(UserError, match="over plain HTTP"):
        Listening(host=host).check("credentialed")
    Listening(host=host, plain_http=True).check("credentialed")
    Listening(host=host, certificate=Path(__file__), key=Path(__file__)).check("credentialed")
    Listening(host=host).check("synthetic")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_on_this_machine_they_are(host: str) -> None:
    Listening(host=host).check("credentialed")


async def test_the_command_refuses_before_it_listens(
    synthetic_store_path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["serve", "mcp", "--store", str(synthetic_store_path), "--http", "--host", "0.0.0.0", "--subject", "1"]
    assert main([*words, "--as-of", "2150-01-01", "--access-log", str(tmp_path / "access.jsonl")]) == 2
    assert "--plain-http" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--subject", "1"], ["--as-of", "2150-01-01"]])
def test_one_chart_is_a_subject_and_a_moment(
    synthetic_store_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["serve", "mcp", "--store", str(synthetic_store_path), *words]) == 2
    assert "needs --subject and --as-of" in capsys.readouterr().err


async def test_tokens_expire(synthetic_store: Store) -> None:
    clock = Clock()
    tokens = SessionTokens(most=2, seconds=60, clock=clock)
    first = tokens.issue(ServedSession(environment_of(synthetic_store, 0), name="first"))
    access = await tokens.verify_token(first)
    assert access is not None
    assert access.expires_at is None, "the SDK would hold it against the wall clock"
    clock.now = 1059
    assert tokens.is_open(first)
    tokens.issue(ServedSession(environment_of(synthetic_store, 1), name="second"))
    clock.now = 1060
    assert await tokens.verify_token(first) is None
    assert not tokens.is_open(first)
    tokens.issue(ServedSession(environment_of(synthetic_store, 2), name="third"))  # the expired one has made room


async def test_the_access_log_says_who_and_what_and_no_value(synthetic_store: Store, tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "new" / "access.jsonl")
    environment = environment_of(synthetic_store, 0)
    session = ServedSession(environment, name="Süd 7", access=log)
    await session.call("get_records_by_keyword", {"table_name": "labevents", "keyword": "secret word"})
    await session.call("run_sql_query", {"sql_query": "SELECT nonsense"})
    await session.call("Mr Smith's tool", {})
    log.close()
    text = log.path.read_text(encoding="utf-8")
    assert text.count("Süd 7") == 3, "people search it for names"
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["who"], line["tool"], line["is_error"]) for line in lines] == [
        ("Süd 7", "get_records_by_keyword", False),
        ("Süd 7", "run_sql_query", True),
        ("Süd 7", "unknown", True),
    ]
    assert all(line.keys() == {"time", "who", "subject_id", "as_of", "tool", "is_error"} for line in lines)
    assert {line["subject_id"] for line in lines} == {environment.chart.subject_id}
    assert "secret" not in text
    assert "Smith" not in text
    assert log.path.stat().st_mode & 0o777 == 0o600


async def test_a_token_that_bombs_spends_its_own_share(synthetic_store: Store) -> None:
    lane = SqlLane(SqlShare(seconds=0.5, window_seconds=3600))
    bomber = ServedSession(environment_of(synthetic_store, 0), name="bomber", sql=lane)
    neighbour = ServedSession(environment_of(synthetic_store, 1), name="neighbour", sql=lane)
    bombs = [await bomber.call("run_sql_query", {"sql_query": f"{BOMB} AND {n} = {n}"}) for n in range(20)]
    stopped = [bomb for bomb in bombs if "the query was stopped" in bomb.text]
    refused = [bomb for bomb in bombs if "SQL time of this session is used up" in bomb.text]
    assert len(stopped) + len(refused) == 20
    assert 1 <= len(stopped) <= 12, "stopped at the budget of one statement, refused when the share is spent"
    assert not (await bomber.call("get_table_names", {})).is_error
    assert not (await neighbour.call("run_sql_query", {"sql_query": "SELECT count(*) FROM admissions"})).is_error


@pytest.mark.parametrize("name", ["run_sql_query", "ehr.run_sql_query", " ehr.run_sql_query "])
async def test_no_other_name_for_the_tool_goes_past_the_share(synthetic_store: Store, name: str) -> None:
    lane = SqlLane(SqlShare(seconds=0.5))
    session = ServedSession(environment_of(synthetic_store, 0), name="bomber", sql=lane)
    lane.note(session, 0.5)
    assert "SQL time of this session is used up" in (await session.call(name, {"sql_query": "SELECT 1"})).text


async def test_a_neighbour_does_not_wait_for_twenty_bombs(synthetic_store: Store) -> None:
    lane = SqlLane()
    order: list[str] = []

    async def ask(name: str, place: int, sql: str) -> ToolResult:
        result = await ServedSession(environment_of(synthetic_store, place), name=name, sql=lane).call(
            "run_sql_query", {"sql_query": sql}
        )
        order.append(name)
        return result

    bombs = [asyncio.create_task(ask("bomb", place, BOMB)) for place in range(20)]
    await asyncio.sleep(0)
    answer = await ask("neighbour", 30, "SELECT count(*) FROM admissions")
    assert not answer.is_error
    assert len(order) <= 4, "most bombs are still to come"
    for task in bombs:
        task.cancel()
    await asyncio.gather(*bombs, return_exceptions=True)


@dataclass
class Counted:
    """An environment whose statements are slow, of all of which the most that run at once are counted."""

    together: dict[str, Barrier]
    gate: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(limits=SqlLimits(), ran_out_of_time=True))
    running: ClassVar[Counter[str]] = Counter()
    most: ClassVar[Counter[str]] = Counter()

    def call(self, _: str, __: object) -> ToolResult:
        lane = "quick" if self.gate.limits.seconds < SqlLimits().seconds else "slow"
        self.running[lane] += 1
        self.most[lane] = max(self.most[lane], self.running[lane])
        self.together[lane].wait(20)
        time.sleep(0.02)
        self.running[lane] -= 1
        return ToolResult(text="")


async def test_two_statements_run_briefly_at_once_and_one_of_the_slow_ones() -> None:
    lane, together = SqlLane(), {"quick": Barrier(2), "slow": Barrier(1)}
    await asyncio.gather(*(lane.run(n, Counted(together), {}) for n in range(6)))  # type: ignore[arg-type]
    assert Counted.most == {"quick": 2, "slow": 1}


async def test_a_slow_statement_ends_as_it_would_without_the_lane(synthetic_store: Store) -> None:
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT sum(i) FROM n"
    environment = environment_of(synthetic_store, 0)
    session = ServedSession(environment, name="slow", sql=SqlLane(SqlShare(quick_seconds=0.001)))
    for sql in (slow, BOMB, "SELECT nonsense", "SELECT count(*) FROM admissions"):
        expected = environment_of(synthetic_store, 0).call("run_sql_query", {"sql_query": sql})
        got = await session.call("run_sql_query", {"sql_query": sql})
        if sql == BOMB:  # a limit of time or of steps ends it, whichever the machine reaches first
            assert "the query was stopped: it " in got.text
            got = replace(got, text=expected.text)
        assert got == expected
    assert environment.gate.limits.seconds == 0.25


async def test_the_last_call_may_answer_what_is_no_candidate(synthetic_store: Store) -> None:
    chart = environment_of(synthetic_store, 0).chart
    space = CandidateSpace(name="labs", labels=LabelSet(name="labs", labels=("Sodium", "Potassium")))
    options = EnvironmentOptions(candidates={"labs": space}, answer_space="labs")
    for before, finish in ((0, None), (1, "finish")):
        environment = Environment(chart, options=options)
        session = ServedSession(environment, name="outside", limits=SessionLimits(calls=2))
        for _ in range(before):
            await session.call("get_table_names", {})
        result = await session.call("finish", {"response": ["Moonstone"]})
        assert result.is_error == (finish is None)
        assert (session.outcome and session.outcome.finish) == finish


async def test_the_share_comes_back() -> None:
    clock = Clock()
    lane = SqlLane(SqlShare(seconds=2.0, window_seconds=30.0), clock=clock)
    lane.note("bomber", 1.5)
    clock.now += 10
    lane.note("bomber", 0.5)
    assert lane.spent("bomber") == 2.0
    refused = await lane.run("bomber", None, {})  # type: ignore[arg-type]
    assert "try again in 20 s" in refused.text
    clock.now += 20
    assert lane.spent("bomber") == 0.5
    lane.forget("bomber")
    assert lane.spent("bomber") == 0


async def test_who_used_least_is_next_and_who_left_blocks_nobody() -> None:
    places, order, gate = _Places(1), list[str](), asyncio.Event()

    async def take(name: str, spent: float) -> None:
        async with places.place(spent):
            await gate.wait()
            order.append(name)

    tasks = {}
    for name, spent in (("first", 9.0), ("much", 1.0), ("gone", 0.1), ("little", 0.2), ("much too", 1.0)):
        tasks[name] = asyncio.create_task(take(name, spent))
        await asyncio.sleep(0)
    tasks["gone"].cancel()
    gate.set()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    await take("last", 0.0)
    assert order == ["first", "little", "much", "much too", "last"]


@pytest.mark.parametrize("http", [False, True])
async def test_the_configuration_for_clients_holds_no_secret(
    http: bool, synthetic_store_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARDROUND_TOKEN", "a-secret-of-some-length")
    words = ["serve", "mcp", "--store", os.path.relpath(synthetic_store_path), "--subject", "7"]
    assert main([*words, "--as-of", "2150-01-01", "--print-config", *(["--http"] if http else [])]) == 0
    text = capsys.readouterr().out
    server = json.loads(text)["mcpServers"]["wardround"]
    assert "a-secret" not in text
    if http:
        assert server["url"] == "http://127.0.0.1:8765/mcp"
        assert server["headers"] == {"Authorization": "Bearer ${WARDROUND_TOKEN}"}
    else:
        assert server["args"][:3] == ["-m", "wardround", "serve"]
        assert str(synthetic_store_path) in server["args"]
        assert "--print-config" not in server["args"]


async def test_an_old_sdk_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.30.0")
    assert main(["serve", "play", "--resume", "nowhere"]) == 2
    assert "needs mcp 2.3 or newer and mcp 1.30.0 is installed here" in capsys.readouterr().err
