"""Presets: what the papers print, read off them into a table, against what a run with the preset is set to."""

from __future__ import annotations

import csv
import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.core.settings import flat
from wardround.memory.construction import LinkSettings
from wardround.runs import RunFolder, RunSettings
from wardround.runs.presets import PRESETS, Preset

PUBLISHED = Path(__file__).with_name("published_settings.tsv")


def published() -> list[dict[str, str]]:
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("row", published(), ids=lambda row: f"{row['preset']}-{row['setting']}")
def test_a_preset_sets_what_its_paper_prints(row: dict[str, str]) -> None:
    settings = RunSettings.of(preset=row["preset"], agents=("retrosum", "resum"))
    assert flat(settings.to_json())[row["setting"]] == json.loads(row["value"])


@pytest.mark.parametrize("name", PRESETS.names)
def test_nothing_in_a_preset_is_neither_printed_nor_ours_switched_off(name: str) -> None:
    """What a preset sets beyond its paper is that our own additions are off."""
    ours_off: dict[str, Any] = {
        "agent.retrosum.window_share": 1.0,
        "agent.resum.window_share": 1.0,
        "retrieval.likeness": "cosine",
        "retrieval.spread": "none",
        "retrieval.lines": "all",
        "retrieval.panels": False,
        "model.temperature": 0.7,  # of the released code of RetroSum
        "model.top_p": 0.8,
        "run.epochs": 1,
        "run.toolset": "agentehr",  # the papers' three lookups of names, not our one
        "predictors.replicates": 5,  # EHRSHOT
        "memory.graph.seeds.k": 5,  # of the released code of GSEM, as the two below
        "memory.graph.seeds.lexical": 0.5,
        "memory.graph.seeds.dense": 0.5,
    }
    printed = {row["setting"] for row in published() if row["preset"] == name}
    for setting, value in flat(PRESETS.get(name).body).items():
        if setting not in printed:
            assert value is False if setting.startswith("aids.") else value == ours_off[setting], setting


def test_the_gsem_preset_sets_or_names_every_setting_of_its_memory(capsys: pytest.CaptureFixture[str]) -> None:
    preset = PRESETS.get("gsem")
    told = " ".join(preset.differs)
    ours = [name for name in flat(RunSettings().to_json()) if name.startswith(("memory.graph.", "memory.evolution."))]
    assert [name for name in ours if name not in flat(preset.body) and name not in told] == []
    assert main(["list", "presets"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(f"not as published: {' '.join(one.split())}" in said for one in preset.differs)


def test_what_gsem_prints_of_construction_is_what_construction_does() -> None:
    """Section 5.1 and appendix C.1: theta_edge, alpha to delta of equation 5, N_traj of --epochs in docs."""
    link = LinkSettings()
    assert link.threshold == 0.35
    assert astuple(link.weights) == (0.25, 0.25, 0.25, 0.25)


def test_aids_are_all_off_in_every_preset() -> None:
    for name in PRESETS.names:
        assert RunSettings.of(preset=name).aids.names == ()


def test_what_is_set_stands_over_the_preset_and_is_named() -> None:
    settings = RunSettings.of(preset="ehr-rag", alpha=0.5, seed=7)
    assert settings.retrieval.alpha == 0.5
    assert settings.changes_of_preset() == {"retrieval.alpha": 0.5}
    assert RunSettings.of(seed=7).changes_of_preset() is None
    assert RunSettings.read(settings.to_json()) == settings


def test_the_manifest_names_the_preset(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    what = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--task", "transfers"]
    how = ["--preset", "retrosum", "--turns", "9", "--set", "retrieval.encoder=lexical", "--limit", "1"]
    assert main(["run", *what, *how, "--workers", "1", "--out", str(out)]) == 0
    folder = RunFolder.open(out)
    assert folder.manifest["preset"] == {
        "name": "retrosum",
        "sha256": PRESETS.get("retrosum").sha256,
        "changed": {"budget.turns": 9, "retrieval.encoder": "lexical"},
    }
    assert folder.manifest["aids"] == []


def test_unknown_presets_and_broken_files_are_one_line() -> None:
    with pytest.raises(UserError, match="retrosum"):
        RunSettings.of(preset="retrosun")
    with pytest.raises(UserError, match="no TOML with a title"):
        Preset.read("mine", "settings = 1")
