"""A run whose model looks at films: settings, worker, log, report; and a replay of it without its model."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pydicom", reason="needs the extra [imaging]")

from fake_server import Answer, FakeServer, tools
from wardround.cli.main import main
from wardround.log import LogReader
from wardround.records import Store
from wardround.runs import RunFolder, RunSettings, execute, score_run, start
from wardround.tasks.benchmarks import build_agentehr

HANDLE = re.compile(r"cxr_images:[0-9a-f-]+")


def looks(body: Any) -> Answer:
    """Lists the films, looks at the first, and answers."""
    results = [message for message in body["messages"] if message["role"] == "tool"]
    if not results:
        return tools(("get_latest_records", json.dumps({"table_name": "cxr_images"})))
    handle = HANDLE.search(results[0]["content"])
    if handle is None or len(results) > 1:
        return tools(("finish", json.dumps({"response": ["Medicine"]})))
    return tools(("image.image_visualizer", json.dumps({"image_path": handle.group()})))


@pytest.fixture(scope="module")
def settings(film_store: Store, film_hospital: Path, tmp_path_factory: pytest.TempPathFactory) -> RunSettings:
    bench = tmp_path_factory.mktemp("films") / "bench"
    build_agentehr(film_store, bench, seed=3, per_task=12)
    return RunSettings.of(
        benchmark=str(bench),
        store=str(film_store.path),
        models=("openai/test-model",),
        tasks=("transfers",),
        tools=("image.image_visualizer", "image.chest_xray_classifier"),
        source=str(film_hospital / "cxr" / "files"),
        answer_check=False,
    )


def test_a_run_shows_films_and_its_report_shows_them_again(settings: RunSettings, tmp_path: Path) -> None:
    with FakeServer(looks) as server:
        folder = start(tmp_path / "run", settings.changed(base_url=server.url))
        execute(folder, concurrency=1)
    offered = {tool["function"]["name"] for tool in server.requests[-1].json["tools"]}
    assert "image.image_visualizer" in offered
    assert "image.chest_xray_classifier" not in offered  # no weights are here
    sent = [request for request in server.requests if b'"image_url"' in request.body]
    assert sent
    with LogReader(folder.logs) as reader:
        pictures = [
            picture
            for trajectory in reader.trajectories()
            for turn in trajectory.turns
            for record in turn.results
            for picture in record.pictures
        ]
    assert pictures
    assert all(picture.data.startswith(b"\x89PNG") for picture in pictures)
    assert main(["report", str(folder.path)]) == 0
    pages = [page.read_text(encoding="utf-8") for page in (folder.path / "report").rglob("*.html")]
    showing = [page for page in pages if "data:image/png;base64," in page]
    assert len(showing) == len(pictures)
    assert all("img-src data:;" in page for page in showing)
    assert not [page for page in pages if page not in showing and "img-src" in page]
    _replayed(settings, folder, tmp_path)


def _replayed(settings: RunSettings, folder: RunFolder, tmp_path: Path) -> None:
    """The cassette goes on only where every prompt, pictures included, is what it was."""
    again = start(tmp_path / "again", settings.changed(models=(f"replay:{folder.path}",)))
    counts = execute(again, concurrency=1)
    assert counts.done == counts.total
    assert [score.finish for score in score_run(again)] == [score.finish for score in score_run(folder)]


def test_an_export_for_training_has_the_pictures_beside_its_rows(
    settings: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(looks) as server:
        folder = start(tmp_path / "run", settings.changed(base_url=server.url, split="train", limit=3))
        execute(folder, concurrency=1)
    assert main(["train", "export", str(folder.path), "--out", str(tmp_path / "data")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "data" / "rows.jsonl").read_text().splitlines()]
    named = [picture for row in rows for message in row["messages"] for picture in message.get("pictures", ())]
    files = sorted(path.name for path in (tmp_path / "data" / "pictures").iterdir())
    assert named
    assert files == sorted({Path(picture["file"]).name for picture in named})
    for picture in named:
        data = (tmp_path / "data" / picture["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == picture["sha256"]
    counts = json.loads((tmp_path / "data" / "export.json").read_text())["counts"]
    assert counts["pictures"] == len(files)
    without = [row["about"]["episode"] for row in rows if not any("pictures" in each for each in row["messages"])]
    assert pq.read_table(tmp_path / "data" / "rows.parquet")["episode"].to_pylist() == without
    assert counts["not_in_parquet"] == len(rows) - len(without) > 0
    assert f"{counts['not_in_parquet']} rows with pictures; rows.jsonl holds them" in capsys.readouterr().out
