"""A run goes on with the store, the benchmark and the prompts it began with; a recording of others is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from wardround.cli import main
from wardround.core import register_seals
from wardround.log import LogReader
from wardround.runs import RunFolder, RunSettings, execute, score_run, start
from wardround.tasks.benchmarks import Benchmark


@pytest.fixture(scope="module")
def finished(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A finished run of a few episodes, in a folder with copies of its store's manifest and its benchmark."""
    place = tmp_path_factory.mktemp("sources")
    shutil.copytree(synthetic_benchmark_path, place / "bench")
    shutil.copytree(synthetic_store_path, place / "store")
    settings = RunSettings.of(
        benchmark=str(place / "bench"),
        store=str(place / "store"),
        tasks=("transfers",),
        limit=2,
        agents=("react",),
        window=10,
    )
    execute(start(place / "run", settings), concurrency=2)
    return place


@pytest.fixture
def place(finished: Path, tmp_path: Path) -> Path:
    """The same, to be spoilt: the run's manifest points at the copies here."""
    shutil.copytree(finished, tmp_path / "place")
    change(tmp_path / "place" / "run" / "manifest.json", lambda body: repointed(body, tmp_path / "place"))
    return tmp_path / "place"


def repointed(manifest: Any, place: Path) -> None:
    manifest["settings"]["run"] |= {"benchmark": str(place / "bench"), "store": str(place / "store")}


def change(file: Path, how: Any) -> None:
    body = json.loads(file.read_text(encoding="utf-8"))
    how(body)
    file.write_text(json.dumps(body), encoding="utf-8")


def refused(place: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, str(place / "run")]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    return said


def test_untouched_sources_go_on(place: Path) -> None:
    folder = RunFolder.open(place / "run")
    assert execute(folder).done == 2
    assert len(score_run(folder)) == 2


def test_a_store_that_was_made_again_is_refused(
    place: Path, synthetic_hospital: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(place / "store")
    words = ["ingest", "mimiciv", str(synthetic_hospital), "--store", str(place / "store")]
    assert main([*words, "--result-lag-hours", "30"]) == 0
    capsys.readouterr()
    said = refused(place, capsys, "run", "--resume")
    assert "is not the one this run began with" in said
    assert str(place / "store") in said


def test_a_benchmark_with_other_samples_or_candidates_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = Benchmark.open(place / "bench")
    shutil.rmtree(place / "bench")
    fewer = Benchmark(manifest=benchmark.manifest, all_samples=benchmark.all_samples[:-1], spaces=benchmark.spaces)
    fewer.save(place / "bench")
    assert "the benchmark" in refused(place, capsys, "run", "--resume")
    assert "the benchmark" in refused(place, capsys, "report")
    shutil.rmtree(place / "bench")
    names = sorted(benchmark.spaces)
    swapped = {name: benchmark.spaces[name] for name in names[:-1]}
    Benchmark(manifest=benchmark.manifest, all_samples=benchmark.all_samples, spaces=swapped).save(place / "bench")
    assert "the benchmark" in refused(place, capsys, "run", "--resume"), "the same samples, other candidates"


def test_other_prompts_do_not_go_on_with_a_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(place / "run" / "manifest.json", lambda body: body["prompts"].update(dict.fromkeys(body["prompts"], "0")))
    said = refused(place, capsys, "run", "--resume")
    assert "began with other prompts (" in said


def test_a_cassette_of_other_prompts_is_refused_before_anything_is_played(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--benchmark", str(place / "bench"), "--store", str(place / "store"), "--task", "transfers"]
    words += ["--limit", "2", "--agent", "react", "--workers", "1"]
    (log,) = (place / "run" / "logs").glob("*.episodes.sqlite")
    assert main([*words, "--model", f"replay:{place / 'run'}", "--out", str(place / "again")]) == 0
    capsys.readouterr()
    change(place / "run" / "manifest.json", lambda body: body["prompts"].update({next(iter(body["prompts"])): "0"}))
    for cassette in (place / "run", log):
        assert main([*words, "--model", f"replay:{cassette}", "--out", str(place / "third")]) == 2
        said = capsys.readouterr().err.strip()
        assert "was recorded with other prompts (" in said
        assert said.count("\n") == 0
    assert not (place / "third").exists()


def test_what_a_power_cut_took_from_the_logs_is_played_again(place: Path) -> None:
    """Queue and logs are files of their own: the queue's last commit may survive where the log's did not."""
    folder = RunFolder.open(place / "run")
    (log,) = folder.logs.glob("*.episodes.sqlite")
    connection = sqlite3.connect(log, isolation_level=None)
    register_seals(connection)
    (key,) = connection.execute("SELECT key FROM episode ORDER BY key LIMIT 1").fetchone()
    connection.execute(
        "UPDATE episode SET state = 'open', outcome = NULL, ended = NULL, row_counts = NULL WHERE key = ?", (key,)
    )
    connection.execute("DELETE FROM turn WHERE episode = ? AND ordinal > 0", (key,))
    connection.close()
    assert execute(folder).done == 2
    with LogReader(folder.logs) as reader:
        assert {entry.state for entry in reader.episodes()} == {"finished"}
        assert len(reader.finished()) == 2


@pytest.mark.parametrize("name", ["agent.retrosum.window_share", "retrieval.lines", "budget.turns", "aids"])
def test_a_manifest_that_lacks_a_setting_is_refused(place: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Today's default of a setting is not what a run did whose manifest does not say it."""
    old = place / "run" / "manifest.json"

    def forget(body: Any) -> None:
        *sections, last = name.split(".")
        held = body["settings"]
        for section in sections:
            held = held[section]
        held.pop(last)

    change(old, forget)
    for command in (("run", "--resume"), ("report",)):
        said = refused(place, capsys, *command)
        assert "lacks settings" in said
        assert name in said


@pytest.mark.parametrize("schema", [2, "1", None])
def test_a_manifest_of_another_schema_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], schema: object
) -> None:
    change(place / "run" / "manifest.json", lambda body: body.update(schema=schema))
    assert f"has schema {schema!r}, this wardround reads 1" in refused(place, capsys, "report")


@pytest.mark.parametrize("body", [5, [], None, {"settings_sha256": "", "schema": 1}])
def test_a_manifest_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], body: Any) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(body), encoding="utf-8")
    assert str(tmp_path) in refused(tmp_path, capsys, "report")


@pytest.mark.parametrize("wrong", [{"budget": {"turns": "x"}}, {"retrieval": 5}, {"aids": {"no": 1}}, {"run": 7}])
def test_settings_of_another_kind_are_one_line(place: Path, capsys: pytest.CaptureFixture[str], wrong: Any) -> None:
    change(place / "run" / "manifest.json", lambda body: body["settings"].update(wrong))
    assert "cannot be read" in refused(place, capsys, "report")
