"""Tables for papers (cells and marks by hand), checklists, methods, and how the page begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from tasks.scoring.test_tables import scored
from wardround.cli import main
from wardround.records import Store
from wardround.reports.checklists import CHECKLISTS
from wardround.reports.paper_tables import paper_tables, write_tables
from wardround.reports.report import summary_of
from wardround.reports.run_facts import RunFacts
from wardround.reports.summary import RunSummary, summarise_run
from wardround.runs import RunFolder, score_run
from wardround.tasks.scoring import EpisodeScore
from wardround.tasks.scoring.tables import ALL


@pytest.fixture(scope="module")
def run(synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on two tasks."""
    out = tmp_path_factory.mktemp("tables") / "run"
    words = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    words += ["--agent", "react", "direct", "--task", "transfers", "diagnoses", "--limit", "3"]
    assert main([*words, "--workers", "1", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def summary(run: Path) -> RunSummary:
    scores: list[EpisodeScore] = score_run(RunFolder.open(run))
    return summarise_run(scores, seed=0, baseline="react · offline")


def test_contenders_and_tasks_make_a_grid(summary: RunSummary) -> None:
    results, differences = paper_tables(summary)
    assert results.header == ("task", "direct · offline", "react · offline")
    assert [row[0] for row in results.rows] == ["diagnoses", "transfers", "mean of tasks"]
    shown = {row.task: row for row in summary.rows if row.agent == "react" and row.task == ALL}
    assert results.rows[-1][2].startswith(f"{shown[ALL].f1.estimate:.3f}")
    assert differences.header == ("task", "direct · offline")
    assert all("; p " in row[1] for row in differences.rows)


def test_contenders_are_the_rows_where_they_are_more_than_tasks() -> None:
    rows = [replace(scored(n, n / 4), agent=agent) for agent in ("a", "b", "c") for n in (1, 2)]
    (results, _) = paper_tables(summarise_run(rows, seed=0))
    assert results.header == ("contender", "labevents")
    assert [row[0] for row in results.rows] == ["a · offline", "b · offline", "c · offline"]


@pytest.mark.parametrize(("p_value", "mark"), [(0.0009, "***"), (0.001, "**"), (0.01, "*"), (0.05, ""), (None, "")])
def test_marks_stand_for_corrected_p_values_below_their_bounds(
    summary: RunSummary, p_value: float | None, mark: str
) -> None:
    changed = tuple(replace(row, adjusted_p=p_value) for row in summary.comparisons)
    cells = [row[1] for row in paper_tables(replace(summary, comparisons=changed))[0].rows]
    assert {cell.replace(" (no variation)", "").lstrip("0123456789.() to-") for cell in cells} == {mark}


def test_report_writes_them(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run), "--no-episodes", "--tables", str(tmp_path / "paper")]) == 0
    names = {file.name for file in (tmp_path / "paper").iterdir()}
    tables = ("results", "differences", "differences-from-trivial")
    forms = {f"{name}.{suffix}" for name in tables for suffix in ("tex", "plain.tex", "md")}
    assert names == forms | {"tidy.csv", "tidy.parquet"}
    assert write_tables((), tmp_path / "none") == []


def cells_of(file: Path) -> dict[str, list[str]]:
    """The rows of a Markdown table by their first cells."""
    lines = [[cell.strip() for cell in line.split("|")] for line in file.read_text().splitlines() if line[:2] == "| "]
    return {cells[1]: cells for cells in lines}


def test_checklists_are_filled_with_what_the_run_knows_and_the_rest_is_the_authors(run: Path, tmp_path: Path) -> None:
    words = ["report", str(run), "--no-episodes", "--out", str(tmp_path / "page"), "--checklist"]
    assert main([*words, "tripod-llm", "mi-clear-llm"]) == 0
    items = cells_of(tmp_path / "page" / "tripod-llm.md")
    assert "offline: a rule-based policy of wardround" in items["6a"][4]
    assert "as the developers state them" in items["6a"][5]
    assert items["13"][4] == "–", "no run knows its ethics committee"
    assert "6 samples of " in items["16d"][4]
    assert "The run does not record: audits." in items["5d"][5], "no audit was given, so none is claimed"
    numbers = list(cells_of(tmp_path / "page" / "mi-clear-llm.md"))
    assert numbers == ["item", "---", *"12345678"]


def test_the_methods_say_what_was_done_and_an_audit_only_where_one_is_given(
    run: Path, tmp_path: Path, synthetic_store_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", str(run), "--no-episodes", "--out", str(tmp_path / "page"), "--methods-text"]
    assert main(words) == 0
    plain = capsys.readouterr().out
    assert plain.startswith("**Data.** The run evaluates a rule-based policy in place of a language model")
    assert "Contenders are compared with react · offline on the same samples." in plain
    assert "audit" not in plain
    assert "@software{wardround_" in plain
    store = Store.open(synthetic_store_path)
    moment = f"{store.subjects[0]},2150-01-31T08:00"
    audit = ["audit", "leaks", "--store", str(synthetic_store_path), "--sample", moment]
    assert main([*audit, "--record", str(tmp_path / "audit.json")]) == 0
    capsys.readouterr()
    assert main([*words, "--audit", str(tmp_path / "audit.json")]) == 0
    assert "An audit (times of rows and cells) of 1 moments on " in capsys.readouterr().out
    record = (tmp_path / "audit.json").read_text().replace(str(store.manifest["digest"]), "0" * 64)
    (tmp_path / "other.json").write_text(record)
    assert main([*words, "--audit", str(tmp_path / "other.json")]) == 2
    assert "is of another store than the run's" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "count"), [("tripod-llm", 49), ("mi-clear-llm", 8)])
def test_every_fact_that_an_item_asks_for_is_one_that_runs_have(name: str, count: int, run: Path) -> None:
    """49 rows has table 2 of TRIPOD-LLM as printed (10 items without letters and 39 with)."""
    folder = RunFolder.open(run)
    scores = score_run(folder)
    facts = RunFacts.of(folder, scores, summary_of(folder, scores))
    items = CHECKLISTS.get(name).items
    assert len({item.number for item in items}) == len(items) == count
    assert {fact for item in items for fact in item.facts} <= set(facts.fact_names)
    assert all(item.facts or item.author for item in items)


def test_the_moments_of_the_questions_are_named_from_the_first_to_the_last(run: Path) -> None:
    folder = RunFolder.open(run)
    scores = score_run(folder)
    facts = RunFacts.of(folder, scores, summary_of(folder, scores))
    asked = {score.sample for score in scores}
    times = sorted(one.prediction_time for one in facts.benchmark.all_samples if one.id in asked)
    assert times[0] < times[-1]
    assert f"between {times[0]} and {times[-1]} in" in facts.texts()["moments"]
    assert folder.settings.run.epochs == 1
    told = facts.texts()["input"]
    assert "react read the record as text tables by tool calls." in told
    assert "direct answer from lines of events that are put into the prompt." in told
    assert facts.texts()["repeats"].startswith("Every sample was answered once by each agent and model. How much")


def test_the_page_begins_with_the_answer_and_names_the_runs_beside_it(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "beside"
    copytree(run, copy)
    copytree(run, tmp_path / "other")
    assert main(["report", str(copy), "--no-episodes"]) == 0
    page = (copy / "report" / "index.html").read_text()
    body = page.partition("<body>")[2]
    assert body.index("shown to differ") < body.index("<h2>Differences</h2>") < body.index("<h2>Scores</h2>")
    assert "Runs beside it on the same benchmark:" in body
    assert "(the same settings)" in body
    assert "Scores by stratum" in body or "stratum" not in body.partition("<h2>Scores</h2>")[2].partition("<h2>")[0]
    assert "the recall of a perfect answer" in body
    assert "<script" not in page
