"""Tables for papers: their cells, marks and escapes, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.scoring.test_tables import scored
from wardround.cli import main
from wardround.reports.paper_tables import paper_tables, write_tables
from wardround.reports.summary import RunSummary, summarise_run
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
    from wardround.runs import RunFolder, score_run

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
