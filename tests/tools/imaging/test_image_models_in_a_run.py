"""What image tools ask of vision models at endpoints belongs to the episode: its log, its cost, its recordings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydicom", reason="needs the extra [imaging]")

from fake_server import Answer, FakeServer, text, tools
from forking import commands, kill, wait_for
from wardround.core import UserError
from wardround.log import LogReader, Trajectory
from wardround.models import DataUseGuard
from wardround.records import Store, load_source_spec
from wardround.runs import RunFolder, RunSettings, execute, score_run, start
from wardround.runs.folder import Spending
from wardround.runs.models import open_image_model
from wardround.serve.play import PlayedRun, PlaySettings
from wardround.serve.session import ServedSession
from wardround.tasks.benchmarks import build_agentehr

HANDLE = re.compile(r"cxr_images:[0-9a-f-]+")
REPORT = {"findings": "No opacity is seen.", "impression": "Normal chest."}
BOXES = {"boxes": [[0.1, 0.2, 0.3, 0.4]]}
READER_PRICE = (4.0, 8.0)
"""US dollars per million tokens; the playing model costs a tenth of it."""


class Player:
    """Lists the films, has the first one's report written and a phrase found in one turn, and answers;
    where it is ``silent``, nothing comes after a report."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.held = 0

    def __call__(self, body: Any) -> Answer:
        holds = self.silent and "IMPRESSION" in json.dumps(body["messages"])
        self.held += holds
        return replace(self._answer(body), seconds=1e6) if holds else self._answer(body)

    @staticmethod
    def _answer(body: Any) -> Answer:
        results = [message for message in body["messages"] if message["role"] == "tool"]
        if not results:
            return tools(("get_latest_records", json.dumps({"table_name": "cxr_images"})))
        handle = HANDLE.search(results[0]["content"])
        if handle is None or len(results) > 1:
            return tools(("finish", json.dumps({"response": ["Medicine"]})))
        film = {"image_path": handle.group()}
        return tools(
            ("image.chest_xray_report_generator", json.dumps(film)),
            ("image.xray_phrase_grounding", json.dumps({**film, "phrase": "an opacity"})),
        )


def reads(body: Any) -> Answer:
    """A vision model: writes reports, and finds phrases after one reply that cannot be read."""
    wanted = json.dumps(body["messages"])
    if "impression" in wanted and "boxes" not in wanted:
        return text(json.dumps(REPORT))
    return text(json.dumps(BOXES)) if len(body["messages"]) > 1 else text("There it is.")


@pytest.fixture(scope="module")
def films(film_store: Store, film_hospital: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    bench = tmp_path_factory.mktemp("readers") / "bench"
    build_agentehr(film_store, bench, seed=3, per_task=12)
    run = {
        "benchmark": str(bench),
        "store": str(film_store.path),
        "models": ["openai/test-model"],
        "tasks": ["transfers"],
        "tools": ["image.chest_xray_report_generator", "image.xray_phrase_grounding"],
        "split": "train",
        "limit": 3,
    }
    images = {"source": str(film_hospital / "cxr" / "files"), "report_model": "reader", "grounding_model": "reader"}
    return {"run": run, "images": images, "aids": {"answer_check": False}}


def settings(films: dict[str, Any], player: str, reader: str, **run: Any) -> RunSettings:
    reading = {"name": "openai/vision-model", "base_url": reader, "price": READER_PRICE}
    common = {"base_url": player, "price": (0.4, 0.8)} if player else {}
    return RunSettings.read(
        {**films, "run": {**films["run"], **run}, "model": common, "models": {"reader": reading}}, "test"
    )


def trajectories(folder: RunFolder) -> list[Trajectory]:
    with LogReader(folder.logs) as reader:
        return [*reader.trajectories()]


def test_calls_of_tools_are_in_log_and_cost_and_a_cassette_has_them(films: dict[str, Any], tmp_path: Path) -> None:
    with FakeServer(Player()) as player, FakeServer(reads) as reader:
        folder = start(tmp_path / "run", settings(films, player.url, reader.url))
        execute(folder, concurrency=3)
    asked = [one for one in reader.requests if one.path.endswith("/completions")]
    played = trajectories(folder)
    looked = [one for one in played if len(one.turns) == 6]
    assert looked
    assert len(asked) == 3 * len(looked)
    for one in looked:
        assert [turn.purpose for turn in one.turns] == ["act", "act", "tool", "tool", "tool", "act"]
        written, tried, found = one.turns[2:5]
        assert all("vision-model" in turn.identity for turn in (written, tried, found))
        assert json.loads(written.reply.content or "") == REPORT
        assert (tried.reply.content, json.loads(found.reply.content or "")) == ("There it is.", BOXES)
        assert written.prompt[0].pictures
        assert [result.is_error for result in one.turns[1].results] == [False, False]
        outcome = one.outcome or {}
        assert outcome["usage"]["input_tokens"] == 60
        assert outcome["model_calls"] == 6
        assert outcome["cost"] == pytest.approx((3 * (0.4 * 10 + 0.8 * 5) + 3 * (4 * 10 + 8 * 5)) / 1e6)
    assert Spending.of(folder).reaches(len(looked) * 240e-6)
    scores = score_run(folder)
    again = start(tmp_path / "again", settings(films, "", reader.url, models=[f"replay:{folder.path}"]))
    execute(again, concurrency=1)  # both servers are gone
    assert [one.finish for one in score_run(again)] == [one.finish for one in scores]
    replayed = {_sample(one): [turn.reply for turn in one.turns] for one in trajectories(again)}
    assert replayed == {_sample(one): [turn.reply for turn in one.turns] for one in played}


def _sample(one: Trajectory) -> str:
    return str(one.facts["sample"])


def test_a_killed_episode_goes_on_without_asking_a_tools_model_again(films: dict[str, Any], tmp_path: Path) -> None:
    speaker = Player(silent=True)
    with FakeServer(speaker) as player, FakeServer(reads) as reader:
        folder = start(tmp_path / "run", settings(films, player.url, reader.url))
        group = commands().start(["run", "--resume", str(folder.path), "--concurrency", "1"])
        wait_for(lambda: speaker.held == 1, group)
        wait_for(lambda: max(_recorded(folder), default=0) == 5, group)
        kill(group)
        speaker.silent, asked, before = False, len(reader.requests), len(player.requests)
        execute(RunFolder.open(folder.path), concurrency=1)
    (whole,) = [one for one in trajectories(folder) if one.facts["resumed_turns"]]
    assert whole.facts["resumed_turns"] == 5
    assert not [note for note in whole.notes if note.kind == "recorded_replies_dropped"]
    looked = [one for one in trajectories(folder) if len(one.turns) == 6]
    assert (asked, len(reader.requests)) == (3, 3 * len(looked))
    assert len(player.requests) - before < 3 * len(trajectories(folder))


@pytest.mark.anyio
async def test_calls_for_an_outside_agent_are_recorded_beside_its_own(films: dict[str, Any], tmp_path: Path) -> None:
    with FakeServer(reads) as reader:
        folder = start(tmp_path / "run", settings(films, "", reader.url, models=["outside"], limit=40), outside=True)
        game = PlayedRun(folder, PlaySettings())
        key, session = next(_with_a_film(game))
        handle = HANDLE.search((await session.call("get_latest_records", {"table_name": "cxr_images"})).text)
        assert handle is not None
        await session.call("image.chest_xray_report_generator", {"image_path": handle.group()})
        await session.call("finish", {"response": ["Medicine"]})
    outcome = session.outcome
    assert outcome is not None
    assert (outcome.turns, outcome.model_calls, outcome.usage.input_tokens) == (3, 4, 10)
    with LogReader(folder.logs) as log:
        turns = log.trajectory(key).turns
    assert [turn.purpose for turn in turns] == ["act", "act", "tool", "act"]
    assert json.loads(turns[2].reply.content or "") == REPORT


def _with_a_film(game: PlayedRun) -> Iterator[tuple[str, ServedSession]]:
    for key in game.queue.lease(40):
        session = game.open_session(key)
        if session.environment.images.entries():
            yield key, session


def _recorded(folder: RunFolder) -> list[int]:
    """How many replies of each episode are in the log."""
    with LogReader(folder.logs, may_be_empty=True) as reader:
        return [len(one.turns) + len(reader.kept(one.episode)) for one in reader.trajectories()]


@pytest.mark.parametrize(
    ("name", "url", "opened"),
    [
        ("reader", None, "openai/film-reader@http://127.0.0.1:1/v1"),
        ("reader", "http://127.0.0.1:2/v1", "openai/film-reader@http://127.0.0.1:2/v1"),
        ("openai/other", "http://127.0.0.1:2/v1", "openai/other@http://127.0.0.1:2/v1"),
        ("openai/other", None, None),
    ],
)
def test_an_image_model_is_what_its_own_section_says_else_what_its_url_or_the_run_does(
    name: str, url: str | None, opened: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's own models need a key that is not there: only one at the run's endpoint asks for it."""
    monkeypatch.setenv("WARDROUND_READER_KEY", "a-key-of-this-test")
    settings = RunSettings.of(
        base_url="http://127.0.0.1:3/v1",
        api_key_variable="WARDROUND_NO_SUCH_KEY",
        models={
            "reader": {
                "name": "openai/film-reader",
                "base_url": "http://127.0.0.1:1/v1",
                "api_key_variable": "WARDROUND_READER_KEY",
            }
        },
    )
    guard, roles = DataUseGuard(sensitivity="synthetic"), load_source_spec("mimiciv").roles
    if opened is None:
        with pytest.raises(UserError, match="environment variable"):
            open_image_model(settings, guard, roles, name, url)
        return
    assert open_image_model(settings, guard, roles, name, url).identity == opened
