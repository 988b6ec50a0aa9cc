"""The papers' tables and figures: what the list claims, and a table and two figures played to the end."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from forking import run_command
from wardround.agents import AGENTS
from wardround.cli import main
from wardround.core import UserError
from wardround.core.settings import flat, merged
from wardround.records import Store
from wardround.reports.exhibits import EXHIBITS, Exhibit, published_figures, published_models, read_exhibits
from wardround.runs import RunFolder, RunSettings, read_results
from wardround.runs.experiment import every_setting
from wardround.tasks.benchmarks import build_ehrshot, list_tasks

EVERY = [EXHIBITS.get(name) for name in EXHIBITS.names]
PLAYED = [one for one in EVERY if one.is_played]


def test_every_table_and_figure_of_the_papers_is_listed() -> None:
    counted = {"retrosum": (6, 12), "ehr-rag": (5, 8), "clinseek": (9, 9), "gsem": (21, 8), "trace": (2, 2)}
    wanted = {f"{paper}-table-{n}" for paper, (tables, _) in counted.items() for n in range(1, tables + 1)}
    wanted |= {f"{paper}-figure-{n}" for paper, (_, figures) in counted.items() for n in range(1, figures + 1)}
    assert wanted | {"trace-statistics"} == {one.name for one in EVERY}
    assert all(one.how for one in EVERY)


@pytest.mark.parametrize("exhibit", PLAYED, ids=lambda one: one.name)
def test_what_is_said_to_be_played_resolves(exhibit: Exhibit) -> None:
    assert set(exhibit.agents) <= set(AGENTS.names)
    assert set(exhibit.tasks) <= {task.name for task in list_tasks()}
    for point in exhibit.points_of(("openai/one", "openai/two")):
        body = merged(merged(exhibit.body(), {"run": {"agents": list(exhibit.agents)}}), exhibit.varied(point))
        held = flat(RunSettings.read(body).to_json())
        assert all(held[name] == point for name in exhibit.sweep)
        if point in exhibit.cases:
            assert all(held[name] == value for name, value in exhibit.cases[str(point)].items())
        assert held["run.preset"] == exhibit.paper
    if exhibit.reference:
        assert exhibit.reference in published_models(exhibit.name)


@pytest.mark.parametrize(
    "name", ["retrosum-table-2", "retrosum-table-4", "ehr-rag-table-1", "ehr-rag-table-4", "gsem-table-1"]
)
def test_a_table_has_the_agents_that_name_it(name: str) -> None:
    paper, _, number = name.rpartition("-table-")
    methods = {one.name for one in AGENTS.registered if one.paper == paper and int(number) in one.tables}
    assert set(EXHIBITS.get(name).agents) == methods


def test_printed_averages_are_those_of_the_printed_tasks() -> None:
    """A slip in reading the table off would show: the average of RetroSum's six tasks is printed beside them."""
    for exhibit in ("retrosum-table-2", "retrosum-table-4"):
        figures = published_figures(exhibit, "Qwen3-30B-A3B")
        for agent in EXHIBITS.get(exhibit).agents:
            own = [float(value) for (who, task, _), value in figures.items() if who == agent and task != "all"]
            assert len(own) == 6
            assert sum(own) / 6 == pytest.approx(float(figures[agent, "all", "f1"]), abs=0.0001)


def test_every_agent_of_a_printed_table_has_as_many_figures() -> None:
    for name, many in {"ehr-rag-table-1": 8, "ehr-rag-table-2": 10, "ehr-rag-table-3": 4, "ehr-rag-table-4": 4}.items():
        exhibit = EXHIBITS.get(name)
        printed = [agent for agent, _, _ in published_figures(name, exhibit.reference)]
        assert {agent: printed.count(agent) for agent in exhibit.agents} == dict.fromkeys(exhibit.agents, many)


def test_the_average_of_gsem_is_over_all_1323_cases() -> None:
    """A slip in reading table 1 off would show: its average weighs every case alike. Two are printed a little off."""
    samples = (329, 148, 89, 457, 100, 100, 100)
    for model in ("DeepSeek-V3.2", "Qwen3.5-35B"):
        figures = published_figures("gsem-table-1", model)
        agents = dict.fromkeys(agent for agent, _, _ in figures)
        assert len(agents) == 9
        for agent in agents:
            own = [float(value) for (who, task, _), value in figures.items() if who == agent and task != "all"]
            mean = sum(many * value for many, value in zip(samples, own, strict=True)) / sum(samples)
            if (agent, "all", "accuracy") in figures:
                assert mean == pytest.approx(float(figures[agent, "all", "accuracy"]), abs=0.035)


def test_printed_reasoning_scores_are_the_means_of_their_parts() -> None:
    for name in ("gsem-table-6", "gsem-table-7"):
        figures = published_figures(name, "DeepSeek-V3.2")
        task = EXHIBITS.get(name).tasks[0]
        for agent in dict.fromkeys(agent for agent, _, _ in figures):
            parts = [
                _number(figures[agent, task, f"{part} (medr-bench)"])
                for part in ("efficiency", "factuality", "completeness")
            ]
            assert sum(parts) / 3 == pytest.approx(_number(figures[agent, task, "R (medr-bench)"]), abs=0.0011)


def _number(printed: str) -> float:
    return float(printed.partition(" ")[0])


def reproduce(what: str, benchmark: Path, store: Path, out: Path, *more: str) -> int:
    where = ["--benchmark", str(benchmark), "--store", str(store), "--out", str(out)]
    cheap = ["--limit", "1", "--workers", "1", "--set", "retrieval.encoder=lexical"]
    return main(["reproduce", what, *where, *cheap, *more])


def test_a_table_is_played_and_stands_beside_the_papers(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "table"
    where = (synthetic_benchmark_path, synthetic_store_path, out)
    assert reproduce("retrosum-table-4", *where, "--task", "transfers") == 0
    text, said = capsys.readouterr()
    text, _, methods = text.partition("**Data.**")
    assert "Models were asked on" in methods
    assert "left out, because they need --bank" in said
    lines = {words[1]: words for line in text.splitlines() if (words := line.split()) and "transfers" in words}
    assert {agent: words[-1] for agent, words in lines.items()} == {
        "resum": "0.2320",
        "retrosum-actor-only": "0.2577",
        "retrosum-summariser-only": "0.2782",
        "retrosum": "0.2791",
    }
    assert RunFolder.open(out / "run").manifest["preset"]["name"] == "retrosum"


def test_a_table_of_stays_has_each_type_adherence_and_audits(
    synthetic_stays_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: Any
) -> None:
    """By the offline policy the Reasoner is asked in code; the paper's other roles are a model's, so code here too."""
    roles = ("router", "reasoner", "auditor", "keeper")
    by_code = [word for role in roles for word in ("--set", f"agent.trace.{role}=code")]
    assert (
        reproduce("trace-table-2", synthetic_stays_path, synthetic_store_path, tmp_path / "t", *by_code, "--json") == 0
    )
    text = capsys.readouterr().out
    rows = {(row["agent"], row["task"], row["metric"]): row for row in json.loads(text[text.index("[\n") :])}
    assert rows["trace", "all", "recall@5"]["published"] == "0.5319"
    assert rows["trace-no-state", "all", "audited"]["published"] == "27.8%"
    assert rows["trace-no-protocol", "all", "recall@5"]["value"] == 0
    assert {task for _, task, _ in rows} >= {"all", "labs"}


def test_two_arms_and_their_difference_stand_beside_the_papers(
    clinseek_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: Any
) -> None:
    where = (clinseek_path, synthetic_store_path, tmp_path)
    tasks = ["--task", "clinseek.services", "clinseek.LengthOfStay_3day"]
    assert reproduce("clinseek-table-2", *where, *tasks, "--json") == 0
    text = capsys.readouterr().out
    rows = json.loads(text[text.index("[\n") :])
    printed = {(row["agent"], row["task"]): row["published"] for row in rows}
    assert printed["curated", "overall"] == "60.0"
    assert printed["react", "Risk prediction"] == "90.7"
    assert printed["difference", "Decision making"] == "-1.1"
    here = {(row["agent"], row["task"]): row["value"] for row in rows}
    assert here["difference", "overall"] == pytest.approx(here["react", "overall"] - here["curated", "overall"])
    assert reproduce("clinseek-figure-3", *where[:2], tmp_path / "map", *tasks) == 0
    assert "services" in (tmp_path / "map" / "clinseek-figure-3.svg").read_text(encoding="utf-8")


def test_scores_are_drawn_against_how_large_the_models_are(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: Any
) -> None:
    sizes = {"small": 0.5, "large": 70, "unsaid": None}
    said = {name: "" if size is None else f"parameters = {size}\n" for name, size in sizes.items()}
    sections = [f'[models.{name}]\nname = "offline"\n{line}' for name, line in said.items()]
    experiment = tmp_path / "sizes.toml"
    experiment.write_text('[run]\nmodels = ["small", "large", "unsaid"]\n' + "".join(sections), encoding="utf-8")
    where = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--workers", "1"]
    asked = [*where, "--task", "transfers", "labevents", "--limit", "1", "--out", str(tmp_path / "out")]
    assert main(["reproduce", "clinseek-figure-2", str(experiment), *asked]) == 0
    assert "34.0" in capsys.readouterr().out
    picture = (tmp_path / "out" / "clinseek-figure-2.svg").read_text(encoding="utf-8")
    assert "react · small (0)" not in picture
    assert "react · small (0.5)" in picture
    assert "react · large (70)" in picture
    assert "unsaid" not in picture


def test_the_heights_of_figure_2_are_the_means_of_table_4() -> None:
    for model in published_models("clinseek-figure-2"):
        heights, cells = published_figures("clinseek-figure-2", model), published_figures("clinseek-table-4", model)
        assert heights == {key: value for key, value in cells.items() if key[1] == "all"}
    assert len(published_models("clinseek-figure-2")) == 12


def test_printed_differences_are_those_of_the_printed_arms() -> None:
    """A slip in reading table 2 off would show; the paper rounds each by itself."""
    for model in published_models("clinseek-table-2"):
        figures = published_figures("clinseek-table-2", model)
        for (agent, group, metric), value in figures.items():
            if agent == "difference":
                arms = [float(figures[arm, group, metric]) for arm in ("react", "curated")]
                assert float(value) == pytest.approx(arms[0] - arms[1], abs=0.15)


def test_a_figure_is_a_run_per_point_and_a_picture(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "figure"
    where = (synthetic_benchmark_path, synthetic_store_path, out)
    assert reproduce("retrosum-figure-7", *where, "--agent", "react", "--json") == 0
    text = capsys.readouterr().out
    rows = json.loads(text[text.index("[\n") :])
    points = (8000, 16000, 32000, 64000)
    assert [row["point"] for row in rows if row["task"] == "diagnoses"] == list(points)
    for point in points:
        assert RunFolder.open(out / f"run-{point}").settings.budget.context_tokens == point
    picture = (out / "retrosum-figure-7.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    assert "react · diagnoses" in picture
    before = (out / "run-8000" / "manifest.json").read_bytes()
    assert reproduce("retrosum-figure-7", *where, "--agent", "react", "--json") == 0
    assert (out / "run-8000" / "manifest.json").read_bytes() == before  # gone on with, not begun again


def test_what_cannot_be_played_says_why(tmp_path: Path, capsys: Any) -> None:
    assert main(["reproduce", "retrosum-figure-1", "--out", str(tmp_path)]) != 0
    assert "a drawing; nothing is measured in it" in capsys.readouterr().err
    assert main(["reproduce", "--list", "--paper", "ehr-rag"]) == 0
    text = capsys.readouterr().out
    assert "CLMBR-T-Base" in text
    assert "retrosum-table-2" not in text
    with pytest.raises(UserError, match="not TOML with a paper"):
        read_exhibits("title = 1", "mine.toml")


@pytest.mark.parametrize(
    ("what", "more", "word"), [("retrosum-figure-6", ["--epochs", "2"], "K"), ("retrosum-figure-5", [], "react")]
)
def test_best_at_k_and_an_analysis_are_drawn(
    what: str,
    more: list[str],
    word: str,
    synthetic_benchmark_path: Path,
    synthetic_store_path: Path,
    tmp_path: Path,
    capsys: Any,
) -> None:
    where = (synthetic_benchmark_path, synthetic_store_path, tmp_path)
    assert reproduce(what, *where, "--agent", "react", "resum", *more) == 0
    assert "picture: " in capsys.readouterr().out
    assert word in (tmp_path / f"{what}.svg").read_text(encoding="utf-8")


def test_the_fidelity_page_names_what_exists() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "fidelity.md").read_text(encoding="utf-8")
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page):
        assert f"def {name}(" in (root / file).read_text(encoding="utf-8"), name
    for file in re.findall(r"`((?:agents|memory|tasks/benchmarks)/prompts/\w+\.jinja)`", page):
        assert (root / "src" / "wardround" / file).is_file(), file
    settings = {leaf.name for leaf in every_setting()}
    named = set(re.findall(r"`((?:run|model|budget|agent|retrieval|memory)\.[\w.]+)`", page))
    assert named
    assert named <= settings


def test_a_table_of_classes_is_in_per_cent_and_has_no_other_figures(
    synthetic_store: Store, synthetic_store_path: Path, tmp_path: Path, capsys: Any
) -> None:
    build_ehrshot(synthetic_store, tmp_path / "bench", seed=3, tasks=("guo_los",), per_task=4, allow_missing=True)
    where = (tmp_path / "bench", synthetic_store_path, tmp_path / "table")
    assert reproduce("ehr-rag-table-4", *where, "--task", "guo_los", "--limit", "4", "--json") == 0
    text = capsys.readouterr().out
    rows = json.loads(text[text.index("[\n") :])
    assert {row["metric"] for row in rows} == {"accuracy", "macro_f1"}
    assert {row["agent"] for row in rows} == set(EXHIBITS.get("ehr-rag-table-4").agents)
    exact = {row["agent"]: row["value"] for row in rows if row["metric"] == "accuracy"}
    scored = read_results(RunFolder.open(tmp_path / "table" / "run"))
    for agent, value in exact.items():
        own = [score.value for score in scored if score.agent == agent]
        assert value == pytest.approx(100 * sum(one == 1 for one in own) / len(own))
    printed = {row["agent"]: row["published"] for row in rows if row["metric"] == "accuracy"}
    assert printed["ehr-rag-no-der"] == "70.59"


def test_a_plug_in_adds_an_exhibit(tmp_path: Path) -> None:
    """In a process of its own: what is registered stays registered."""
    plugin = tmp_path / "own_table.py"
    plugin.write_text(
        "from wardround.reports.exhibits import EXHIBITS, Exhibit\n"
        "own = Exhibit(name='own-table', title='Mine', paper='retrosum', kind='table', agents=('react',))\n"
        "EXHIBITS.add(own.name, own)\n",
        encoding="utf-8",
    )
    assert "wardround reproduce own-table" in run_command("reproduce", "--list", "--plugin", plugin).stdout
