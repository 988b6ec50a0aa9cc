"""Variants: one method under several names in one run, each with settings of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wardround.cli.main import main
from wardround.core import UserError
from wardround.log import LogReader
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.runs.experiment import read_experiment


def settings(agents: tuple[str, ...], sections: dict[str, Any], **run: Any) -> RunSettings:
    return RunSettings.read({"run": {"agents": list(agents), **run}, "agent": sections})


def prompts(folder: RunFolder, agent: str) -> list[Any]:
    with LogReader(folder.logs) as reader:
        return [
            [turn.prompt for turn in one.turns] for one in reader.trajectories() if one.episode.startswith(f"{agent}|")
        ]


def test_two_variants_and_their_method_play_in_one_run_each_with_its_own_settings(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "experiment.toml"
    where = f'benchmark = "{synthetic_benchmark_path}"\nstore = "{synthetic_store_path}"\n'
    agents = 'agents = ["retrosum", "narrow", "wide"]\ntasks = ["diagnoses"]\nlimit = 1\n'
    sections = '[agent.narrow]\nmethod = "retrosum"\nwindow = 2\n[agent.wide]\nmethod = "retrosum"\nwindow = 10\n'
    file.write_text(f"[run]\n{where}{agents}{sections}", encoding="utf-8")
    out = tmp_path / "run"
    assert main(["run", str(file), "--set", "agent.wide.window=50", "--out", str(out), "--workers", "1"]) == 0
    folder = RunFolder.open(out)
    assert folder.manifest["settings"]["agent"]["narrow"]["method"] == "retrosum"
    assert [folder.settings.of_agent(name).window for name in ("retrosum", "narrow", "wide")] == [10, 2, 50]
    made = {one["name"]: one for one in folder.manifest["agents"]}
    assert (made["narrow"]["variant_of"], made["narrow"]["settings"]["window"]) == ("retrosum", 2)
    assert "variant_of" not in made["retrosum"]
    assert prompts(folder, "wide") != prompts(folder, "narrow")

    alone = start(tmp_path / "alone", RunSettings.of(**folder_of(folder), agents=("retrosum",), window=2))
    execute(alone)
    assert prompts(alone, "retrosum") == prompts(folder, "narrow"), "it is the method with these settings"

    capsys.readouterr()
    assert main(["report", str(out), "--no-episodes"]) == 0
    said = capsys.readouterr().out
    assert "narrow is retrosum with window = 2" in said
    assert "wide · offline" in said
    assert "narrow is retrosum with window = 2" in (out / "report" / "index.html").read_text(encoding="utf-8")
    assert main(["list", "agents", str(file), "--json"]) == 0
    listed = {row["agent"]: row["title"] for row in json.loads(capsys.readouterr().out)}
    assert listed["narrow"] == "narrow is retrosum with window = 2"


def folder_of(folder: RunFolder) -> dict[str, Any]:
    run = folder.settings.run
    return {"benchmark": run.benchmark, "store": run.store, "tasks": run.tasks, "limit": run.limit}


def test_what_a_variant_does_not_say_is_as_its_method_has_it_in_the_run() -> None:
    tree = settings(("narrow", "narrow+ether"), {"retrosum": {"window": 7}, "narrow": {"method": "retrosum"}})
    assert tree.of_agent("narrow").window == 7
    assert tree.spelling("narrow+ether") == "retrosum+ether"
    assert tree.of_agent("narrow+ether") is tree.of_agent("narrow")
    assert RunSettings.read(tree.to_json()) == tree
    ablation = settings(("late",), {"late": {"method": "retrosum-actor-only", "window": 4}})
    assert (ablation.spelling("late"), ablation.of_agent("late").window) == ("retrosum-actor-only", 4)


def test_a_variant_may_have_additions_of_its_own() -> None:
    tree = settings(("reader",), {"reader": {"method": "react+ether"}})
    assert tree.spelling("reader") == "react+ether"
    assert tree.variant_notes() == {"reader": "reader is react+ether with its settings as declared"}


@pytest.mark.parametrize(
    ("sections", "complaint"),
    [
        ({"retrosum": {"method": "retrosum", "window": 3}}, "is an agent of its own"),
        ({"narrow": {"method": "retrosumm"}}, "retrosum"),
        ({"narrow": {"method": "retrosum", "windw": 3}}, "window"),
        ({"narrow": {"method": "retrosum", "window": 0}}, "at least 1"),
        ({"narrow": {"window": 3}}, "narrow"),
        ({"a|b": {"method": "retrosum"}}, "neither"),
        ({"narrow": {"method": 3}}, "names an agent"),
        ({"narrow": {"method": "react+nosuch"}}, "nosuch"),
    ],
)
def test_what_makes_no_variant_is_said(sections: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        settings(("react",), sections)


def test_a_file_may_name_a_variant_of_a_plug_in(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from wardround.agents import AGENTS\n"
        "from dataclasses import replace\n"
        "if 'own-react' not in AGENTS:\n"
        "    AGENTS.add('own-react', replace(AGENTS.get('react'), name='own-react'))\n",
        encoding="utf-8",
    )
    file = tmp_path / "experiment.toml"
    file.write_text(
        '[run]\nplugins = ["own.py"]\nagents = ["mine"]\n[agent.mine]\nmethod = "own-react"\n', encoding="utf-8"
    )
    assert RunSettings.read(read_experiment(file)).spelling("mine") == "own-react"
