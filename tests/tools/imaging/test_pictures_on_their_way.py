"""A picture's whole way: drawn, ingested, found by its handle, shown, logged once, sent, played again from the log."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from extras import needs
from fake_server import FakeServer, text, tools
from wardround.agents import EstimatedTokens, Limits, Outcome, Prompt, get_agent, run_episode
from wardround.agents.loop.context import count_message
from wardround.core import Message, Picture
from wardround.log import EpisodeLog, LogReader
from wardround.models import DataUseGuard, Model, ModelConfig, ModelSettings, ReplayModel, Request, open_model
from wardround.records import Store
from wardround.tools import Environment, EnvironmentOptions, default_toolset
from wardround.tools.imaging import ImageFolder, Imaging

pytestmark = needs("PIL")
SYNTHETIC = DataUseGuard(sensitivity="synthetic")


def first_film(store: Store) -> dict[str, Any]:
    for _, rows in store.scan("cxr_images"):
        return dict(rows.to_pylist()[0])
    raise AssertionError("the hospital has no film")


def environment(store: Store, hospital: Path, moment: datetime | None = None) -> Environment:
    film = first_film(store)
    chart = store.chart(film["subject_id"], moment or film["acquired"])
    images = Imaging(source=ImageFolder(hospital / "cxr" / "files"))
    toolset = default_toolset(more=["image.image_visualizer", "image.dicom_processor"])
    return Environment(chart, toolset, EnvironmentOptions(images=images.of(chart, str(film["subject_id"]))))


def play(model: Model, open_environment: Environment, log: EpisodeLog) -> Outcome:
    async def played() -> Outcome:
        try:
            return await run_episode(
                get_agent("react"),
                model=model,
                environment=open_environment,
                prompt=Prompt(user="What does the film show?"),
                limits=Limits(turns=5),
                settings=ModelSettings(),
                recorder=recorder,
                episode="e",
            )
        finally:
            await model.close()

    recorder = log.begin("e", {})
    outcome = asyncio.run(played())
    recorder.finish(outcome.to_json())
    return outcome


async def completed(model: Model, asked: tuple[Message, ...]) -> None:
    try:
        await model.complete(Request(messages=asked))
    finally:
        await model.close()


def test_a_film_is_shown_logged_once_sent_and_replayed(film_store: Store, film_hospital: Path, tmp_path: Path) -> None:
    handle = first_film(film_store)["row_id"]
    look = tools(
        ("image.image_visualizer", json.dumps({"image_path": handle})),
        ("get_latest_records", '{"table_name": "cxr_images"}'),
    )
    again = tools(("image.image_visualizer", json.dumps({"image_path": handle})))
    with FakeServer([look, again, tools(("finish", '{"response": ["nothing"]}'))]) as server:
        model = open_model(ModelConfig(name="openai/test-model", base_url=server.url, guard=SYNTHETIC))
        with EpisodeLog(tmp_path / "live.episodes.sqlite") as log:
            outcome = play(model, environment(film_store, film_hospital), log)
    assert (outcome.finish, outcome.answer) == ("finish", ("nothing",))
    sent = [request.json["messages"] for request in server.requests if request.path.endswith("completions")]
    assert [message["role"] for message in sent[1]] == ["system", "user", "assistant", "tool", "tool", "user"]
    title, image = sent[1][-1]["content"][1:]
    assert title == {"type": "text", "text": handle}
    png = base64.b64decode(image["image_url"]["url"].removeprefix("data:image/png;base64,"))
    assert all(isinstance(message["content"], str) for message in sent[1][:2] + sent[1][3:5])
    with sqlite3.connect(tmp_path / "live.episodes.sqlite") as file:
        assert file.execute("SELECT data FROM picture").fetchall() == [(png,)]
    with LogReader(tmp_path / "live.episodes.sqlite") as reader:
        shown = [record for turn in reader.trajectory("e").turns for record in turn.results if record.pictures]
        assert [record.pictures[0].data for record in shown] == [png, png]
        assert handle in shown[0].row_ids
    with EpisodeLog(tmp_path / "replayed.episodes.sqlite") as log:
        replayed = play(ReplayModel(tmp_path / "live.episodes.sqlite"), environment(film_store, film_hospital), log)
    assert replace(replayed, seconds=0.0) == replace(outcome, seconds=0.0)


def test_a_film_is_there_when_it_was_taken_and_not_a_second_before(film_store: Store, film_hospital: Path) -> None:
    film = first_film(film_store)
    early = environment(film_store, film_hospital, film["acquired"] - timedelta(seconds=1))
    for asked in (film["row_id"], film["dicom_id"], f"files/{film['dicom_id']}.dcm"):
        refused = early.call("image.image_visualizer", {"image_path": asked})
        assert refused.is_error
        assert not refused.pictures
    now = environment(film_store, film_hospital)
    assert now.call("image.image_visualizer", {"image_path": film["row_id"]}).pictures


def test_nobody_elses_film_and_no_path_is_opened(film_store: Store, film_hospital: Path) -> None:
    mine = first_film(film_store)
    others = [row for _, rows in film_store.scan("cxr_images") for row in rows.to_pylist()]
    other = next(row for row in others if row["subject_id"] != mine["subject_id"])
    late = environment(film_store, film_hospital, datetime(2300, 1, 1))
    path = next((film_hospital / "cxr" / "files").rglob(f"{mine['dicom_id']}.dcm"))
    for asked in (other["row_id"], other["dicom_id"], str(path), "../../etc/passwd", ""):
        assert late.call("image.dicom_processor", {"dicom_path": asked}).is_error


def test_what_the_headers_say_of_a_person_stays_in_the_file(film_store: Store, film_hospital: Path) -> None:
    film = first_film(film_store)
    shown = environment(film_store, film_hospital).call("image.dicom_processor", {"dicom_path": film["row_id"]})
    assert "ViewPosition: AP" in shown.text
    assert "window: center 2048, width 4096" in shown.text
    for told in ("INVENTED", str(film["subject_id"]), str(film["study_id"]), film["sop_instance_uid"]):
        assert told not in shown.text


def test_a_picture_costs_tokens_and_leaves_the_prompt_with_its_result(film_store: Store, film_hospital: Path) -> None:
    film = first_film(film_store)
    result = environment(film_store, film_hospital).call("image.image_visualizer", {"image_path": film["row_id"]})
    bare = Message(role="tool", content=result.text, tool_call_id="c")
    shown = replace(bare, pictures=result.pictures)
    counter = EstimatedTokens()
    assert result.pictures[0].tokens == 19 * 19  # 512 pixels are 18.3 squares of 28
    assert count_message(counter, shown) - count_message(counter, bare) == 19 * 19 + 30


def test_messages_without_pictures_are_the_bytes_they_were() -> None:
    message = Message(role="tool", content="rows", tool_call_id="c")
    assert message.wire == b'{"role":"tool","content":"rows","tool_call_id":"c"}'
    picture = Picture.of(b"png", media_type="image/png", width=1, height=1, title="t")
    assert Message.from_wire(json.loads(replace(message, pictures=(picture,)).wire)).pictures == (picture,)


@pytest.mark.parametrize(("way", "roles"), [("tool", ["tool"]), ("none", ["tool"]), ("user", ["tool", "user"])])
def test_a_server_is_sent_pictures_where_it_takes_them(way: Any, roles: list[str]) -> None:
    picture = Picture.of(b"png", media_type="image/png", width=1, height=1, title="the film")
    start = (Message(role="user", content="Look."), Message(role="tool", content="rows", tool_call_id="c"))
    asked = (start[0], replace(start[1], pictures=(picture,)))
    with FakeServer([text("seen")]) as server:
        model = open_model(ModelConfig(name="openai/test-model", base_url=server.url, guard=SYNTHETIC, pictures=way))
        asyncio.run(completed(model, asked))
    messages = server.requests[-1].json["messages"][1:]
    assert [message["role"] for message in messages] == roles
    whole = json.dumps(messages)
    assert ("image_url" in whole) == (way != "none")
    assert "the film" in whole
