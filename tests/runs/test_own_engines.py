"""A model, an encoder, a context policy, a predictor and a source from one plug-in file."""

from __future__ import annotations

import json
from pathlib import Path

from forking import run_command
from wardround.log import LogReader
from wardround.records import Store

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_engines.py"


def printed(*words: object) -> str:
    done = run_command(*words, "--plugin", EXAMPLE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_uses_model_encoder_and_context_policy(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    words = ["--benchmark", synthetic_benchmark_path, "--store", synthetic_store_path, "--out", tmp_path / "run"]
    words += ["--task", "transfers", "--limit", 1, "--workers", 1, "--agent", "react+rag", "--model", "always/Med/Surg"]
    words += ["--set", "retrieval.encoder=letters", "--set", "run.context_policy=keep-one"]
    printed("run", *words)
    with LogReader(tmp_path / "run" / "logs") as reader:
        (episode,) = reader.trajectories()
    assert (episode.outcome or {})["answer"] == ["Med/Surg"]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["settings"]["retrieval"]["encoder"] == "letters"
    assert manifest["settings"]["run"]["context_policy"] == "keep-one"


def test_a_source_is_ingested_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "ward"
    folder.mkdir()
    (folder / "stays.csv").write_text("person,stay,began,ended\n1,10,2020-01-01 08:00:00,2020-01-04 09:00:00\n")
    (folder / "results.csv").write_text(
        "person,stay,drawn,reported,test,value\n1,10,2020-01-02 08:00:00,2020-01-02 11:00:00,Sodium,140\n"
    )
    told = json.loads(printed("ingest", "own_ward", folder, "--store", tmp_path / "store", "--json"))
    assert told["rows"] == {"stays": 1, "results": 1}
    assert Store.open(tmp_path / "store").spec.name == "own_ward"


def test_lists_show_what_the_file_registers() -> None:
    expected = {
        "models": "always/<answer>",
        "encoders": "letters",
        "context-policies": "keep-one",
        "sources": "own_ward",
    }
    for what, name in (expected | {"predictors": "prior"}).items():
        assert name in {next(iter(row.values())) for row in json.loads(printed("list", what, "--json"))}
