"""Runs of schema 1, whose settings were one flat table: manifests that the code of that time wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from wardround.cli.main import main
from wardround.core import UserError
from wardround.runs import RunFolder, RunSettings, execute, score_run, start
from wardround.runs.schema1 import PLACES
from wardround.runs.schemas import settings_of, unsaid_settings

MANIFESTS = Path(__file__).parent / "schema1"


def opened(name: str, folder: Path, **changes: Any) -> RunFolder:
    """A run folder with one of the manifests, some of its settings changed; None takes one away."""
    body = json.loads((MANIFESTS / f"{name}.json").read_text(encoding="utf-8"))
    body["settings"] |= changes
    for gone in [key for key, value in changes.items() if value is None]:
        del body["settings"][gone]
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(body), encoding="utf-8")
    return RunFolder.open(folder)


def test_every_flat_setting_has_its_place_in_the_tree(tmp_path: Path) -> None:
    settings = opened("run", tmp_path).settings
    assert settings.run.agents == ("react", "retrosum")
    assert settings.run.limit == 1
    assert settings.agent["retrosum"].window == settings.agent["resum"].window == 5
    assert settings.retrieval.alpha == 0.5
    assert settings.retrieval.encoder == "lexical"
    assert settings.model.top_p == 0.9
    assert settings.budget.context_tokens == 64_000
    assert not settings.aids.names
    assert RunSettings.read(settings.to_json()) == settings


def test_nothing_of_a_whole_manifest_is_unsaid(tmp_path: Path) -> None:
    body = json.loads((MANIFESTS / "run.json").read_text(encoding="utf-8"))
    assert unsaid_settings(body) == []
    assert set(body["settings"]) <= {*PLACES, "retrieval", "aids"}


def test_a_setting_that_came_later_is_named(tmp_path: Path) -> None:
    assert unsaid_settings(opened("run", tmp_path, window_share=None).manifest) == ["window_share"]
    retrieval = opened("run", tmp_path).manifest["settings"]["retrieval"]
    less = {name: value for name, value in retrieval.items() if name != "lines"}
    assert unsaid_settings(opened("run", tmp_path, retrieval=less).manifest) == ["retrieval.lines"]


def test_a_run_of_schema_2_from_before_some_settings_goes_on_as_it_began() -> None:
    settings = RunSettings.read({"models": {"fast": {"name": "openai/m"}}})
    body = settings.to_json()
    for table in (body["model"], body["models"]["fast"]):
        del table["presence_penalty"]
    del body["budget"]["forced_finish"], body["retrieval"]["candidate_encoder"]
    for name in ("key_tokens", "max_items", "max_reasoning_items", "max_tool_items", "reflection_temperature"):
        del body["memory"][name]
    manifest = {"schema": 2, "settings": body}
    assert unsaid_settings(manifest) == []
    assert settings_of(manifest) == settings
    del body["models"]["fast"]["top_p"]
    assert unsaid_settings(manifest) == ["models.fast.top_p"]


def test_a_run_from_before_the_aids_had_none(tmp_path: Path) -> None:
    folder = opened("training", tmp_path, aids=None, episode_seconds=None)
    assert not folder.settings.aids.names
    assert unsaid_settings(folder.manifest) == []


def test_a_run_from_before_there_were_banks_is_read(tmp_path: Path) -> None:
    since = ("bank", "encoder", "encoder_url", "window", "k", "advice", "candidates", "refinements", "trials")
    folder = opened("run", tmp_path, **dict.fromkeys((*since, "final_summary", "retrieval")))
    assert folder.settings.agent["retrosum"].window == 10
    assert folder.settings.retrieval.chunk_rows == 100


def test_a_flat_name_that_never_was_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"was changed and cannot be read: .* no 'colour'"):
        opened("run", tmp_path, colour=1)


def test_what_an_evolved_bank_calls_its_run_survives(tmp_path: Path) -> None:
    """Experiences name the run that they came from by the hash of its settings, as it was when they were written."""
    folder = opened("training", tmp_path / "training")
    assert folder.provenance == "training:0c8b6be5b2a0"


def test_a_run_of_schema_1_is_finished_and_reported(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its facts (digests, prompts) are those of today's fixtures; its settings stay the flat ones of then."""
    places = {"benchmark": str(synthetic_benchmark_path), "store": str(synthetic_store_path)}
    today = start(tmp_path / "today", RunSettings.of(**places, tasks=("transfers",), limit=1))
    old = json.loads((MANIFESTS / "run.json").read_text(encoding="utf-8"))
    old["settings"] |= places
    shutil.copytree(today.path, tmp_path / "old")
    facts = {name: value for name, value in today.manifest.items() if name not in ("schema", "settings", "prompts")}
    (tmp_path / "old" / "manifest.json").write_text(json.dumps(old | facts), encoding="utf-8")
    folder = RunFolder.open(tmp_path / "old")
    assert folder.manifest["schema"] == 1
    assert execute(folder).done == 1
    assert len(score_run(folder)) == 1
    assert main(["report", str(folder.path), "--no-episodes"]) == 0
    assert main(["run", "--resume", str(folder.path), "--set", "agent.retrosum.window=6"]) == 2
    assert "agent.retrosum.window = 5" in capsys.readouterr().err
