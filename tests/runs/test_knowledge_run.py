"""A corpus from the command line into an episode: added, found by an agent's tool, in the log and the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tantivy", reason="needs the extra [knowledge]")

from fake_server import Answer, FakeServer, tools
from wardround.cli.main import main
from wardround.core import UserError
from wardround.log import LogReader
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.runs.models import _key
from wardround.tools.knowledge import add_corpus


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    document = {"id": "7", "title": "Furosemide", "content": "Loop diuretics lower potassium.", "year": 2019}
    (folder / "a.jsonl").write_text(json.dumps(document) + "\n")
    words = ["corpus", "add", "pubmed", str(folder / "a.jsonl"), "--licence", "invented", "--date", "2024-06-30"]
    assert main([*words, "--library", str(folder / "lib")]) == 0
    return folder / "lib"


def settings(library: Path, benchmark: Path, store: Path, url: str, **more: Any) -> RunSettings:
    return RunSettings.of(
        benchmark=str(benchmark),
        store=str(store),
        models=("openai/test-model",),
        base_url=url,
        tasks=("diagnoses",),
        limit=1,
        tools=("retrieve_pubmed",),
        library=str(library),
        **more,
    )


def test_an_agent_looks_something_up(
    library: Path, synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    def model(body: Any) -> Answer:
        if any(message["role"] == "tool" for message in body["messages"]):
            return tools(("finish", json.dumps({"response": ["Essential hypertension"]})))
        return tools(("retrieve_pubmed", json.dumps({"query": "loop diuretic potassium"})))

    with FakeServer(model) as server:
        run = settings(library, synthetic_benchmark_path, synthetic_store_path, server.url)
        folder = start(tmp_path / "run", run)
        assert execute(folder, workers=1, concurrency=1).done == 1
    assert folder.manifest["corpora"]["pubmed"]["documents"] == 1
    assert folder.manifest["corpora"]["handbook"]["licence"] == "Apache-2.0"
    with LogReader(folder.logs) as reader:
        (trajectory,) = reader.trajectories()
        records = [record for turn in trajectory.turns for record in turn.results]
    (text,) = [record.result_text for record in records if record.call.name == "retrieve_pubmed"]
    assert "Loop diuretics lower potassium." in text
    assert "corpus://pubmed/7" in text


def test_a_run_goes_on_only_with_the_corpora_it_began_with(
    library: Path, synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    with FakeServer(lambda body: tools(("finish", json.dumps({"response": ["x"]})))) as server:
        run = settings(library, synthetic_benchmark_path, synthetic_store_path, server.url)
        folder = start(tmp_path / "run", run)
        (tmp_path / "b.jsonl").write_text('{"id": "8", "content": "More."}\n')
        add_corpus(library, "pubmed", tmp_path / "b.jsonl")
        with pytest.raises(UserError, match="'pubmed' is not what it was when this run began"):
            execute(RunFolder.open(folder.path), workers=1, concurrency=1)


def test_a_corpus_that_is_damaged_is_refused_before_anything_is_paid_for(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "b.jsonl").write_text('{"id": "8", "content": "More."}\n')
    add_corpus(tmp_path / "lib", "own", tmp_path / "b.jsonl", licence="invented", date="2024-06-30")
    (tmp_path / "lib" / "own" / "index" / "meta.json").write_text("{}")
    with FakeServer([]) as server:
        run = settings(tmp_path / "lib", synthetic_benchmark_path, synthetic_store_path, server.url)
        with pytest.raises(UserError, match="remove and add it again"):
            start(tmp_path / "run", run)


def test_a_library_that_is_not_there_is_refused_before_anything_is_paid_for(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    with FakeServer([]) as server:
        run = settings(tmp_path / "none", synthetic_benchmark_path, synthetic_store_path, server.url)
        with pytest.raises(UserError, match="wardround corpus add"):
            start(tmp_path / "run", run)


def test_an_outside_agent_reads_the_installed_corpora(
    library: Path, synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    pytest.importorskip("mcp", reason="needs the extra [mcp]")
    from wardround.serve import PlayedRun, PlaySettings

    run = settings(library, synthetic_benchmark_path, synthetic_store_path, "", toolset="clinseek")
    folder = start(tmp_path / "played", run.changed(agents=("mine",), models=("outside",)), outside=True)
    assert "pubmed" in folder.manifest["corpora"]
    game = PlayedRun(folder, PlaySettings())
    (key,) = game.queue.lease(1)
    environment = game.open_session(key).environment
    for call, arguments in (
        ("retrieve_pubmed", {"query": "loop diuretic potassium"}),
        ("browser.search", {"query": "loop diuretic potassium"}),
    ):
        assert "Furosemide" in environment.call(call, arguments).text
    environment.close()


def test_play_and_serve_take_a_folder_of_corpora(
    library: Path,
    synthetic_benchmark_path: Path,
    synthetic_store_path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wardround.serve.PlayedRun.over_stdio", _nothing)
    words = [
        "serve",
        "play",
        "--benchmark",
        str(synthetic_benchmark_path),
        "--store",
        str(synthetic_store_path),
        "--stdio",
    ]
    words += ["--limit", "1", "--task", "diagnoses", "--tool", "retrieve_pubmed", "--library", str(library)]
    assert main([*words, "--out", str(tmp_path / "played")]) == 0
    assert RunFolder.open(tmp_path / "played").manifest["corpora"]["pubmed"]["documents"] >= 1
    capsys.readouterr()
    words = ["serve", "mcp", "--store", str(synthetic_store_path), "--subject", "7", "--as-of", "2150-01-01"]
    assert main([*words, "--library", str(library), "--tool", "retrieve_pubmed", "--print-config"]) == 0
    told = json.loads(capsys.readouterr().out)["mcpServers"]["wardround"]["args"]
    assert told[told.index("--library") + 1] == str(library)


async def _nothing(_game: object) -> None:
    """Nobody is at the other end."""


def test_a_providers_key_is_read_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVENTED_KEY", "secret")
    monkeypatch.delenv("UNSET_KEY", raising=False)
    assert _key("INVENTED_KEY", "knowledge.provider_key_variable") == "secret"
    assert _key(None, "knowledge.provider_key_variable") is None
    with pytest.raises(UserError, match="takes a variable's name") as refused:
        _key("UNSET_KEY", "knowledge.provider_key_variable")
    assert "UNSET_KEY" not in str(refused.value)
