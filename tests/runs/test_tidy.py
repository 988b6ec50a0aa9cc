"""Figures as data: one row a figure, numbers as numbers, in CSV and Parquet alike."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from tasks.scoring.test_tables import scored
from wardround.core.table import Table
from wardround.reports import RunSummary, summarise_run
from wardround.reports.run_tables import difference_table, score_table, subgroup_table, work_table
from wardround.reports.tidy import TIDY_SCHEMA, TidyRow, tidy_run, write_tidy
from wardround.tasks.scoring import EvidenceCut, render_table, summarise

SCORES = [
    replace(scored(n, n / 8, task=task), agent=agent)
    for agent, tasks in (("zoom", ("labevents", "transfers")), ("air", ("labevents",)))
    for task in tasks
    for n in range(6)
]


@pytest.fixture(scope="module")
def rows() -> list[TidyRow]:
    return tidy_run(summarise_run(SCORES, seed=0, order=["zoom · offline", "air · offline"]), "my-run")


def test_a_score_is_one_row_with_its_interval(rows: list[TidyRow]) -> None:
    """The mean of 0, 1/8 ... 5/8 is 0.3125."""
    (one,) = [row for row in rows if (row.agent, row.task, row.metric) == ("air", "labevents", "F1")]
    assert (one.run, one.model, one.stratum, one.n, one.patients) == ("my-run", "offline", "common", 6, 6)
    assert one.value == pytest.approx(0.3125)
    assert one.low is not None
    assert one.high is not None
    assert one.low < 0.3125 < one.high
    assert (one.p, one.p_adjusted, one.baseline) == (None, None, None)


def test_a_difference_names_its_baseline_the_first_that_was_named(rows: list[TidyRow]) -> None:
    found = [row for row in rows if row.metric == "F1 difference"]
    assert [(row.agent, row.task, row.baseline) for row in found] == [("air", "labevents", "zoom · offline")]
    assert (found[0].value, found[0].p, found[0].p_adjusted) == (0.0, 1.0, 1.0)


def test_what_it_took_stands_beside_and_no_row_stands_twice(rows: list[TidyRow]) -> None:
    cost = {(row.agent, row.task): row.value for row in rows if row.metric == "cost (US$)" and row.stratum == "common"}
    assert cost["air", "labevents"] == 0.5
    assert len(set(rows)) == len(rows)


def test_a_figure_is_the_same_on_the_page_in_a_terminal_and_in_the_files() -> None:
    """Where evidence could have been cut and was not, the count is 0; a dash is where there was none to cut."""
    (row,) = summarise([scored(1, 0.5)], resamples=50)
    row = replace(row, reachable_recall=0.75, evidence_cut=EvidenceCut(episodes=1, of=2, events=4.0))
    rows = [row, replace(row, task="transfers", evidence_cut=EvidenceCut(episodes=0, of=3))]
    rows.append(replace(row, task="transfers", agent="air", evidence_cut=None))
    assert [named(score_table(rows), "recall possible"), named(work_table(rows), "evidence cut")] == [
        ["0.750"] * 3,
        ["1 of 2 (-4)", "0 of 3", "–"],
    ]
    assert all("0.750" in line for line in render_table(rows).splitlines()[2:])
    figures = tidy_run(RunSummary(rows=(row,), best=(), comparisons=()), "my-run")
    assert [one.value for one in figures if one.metric == "recall possible"] == [0.75]


def test_words_of_a_table_stand_on_the_left_and_numbers_on_the_right() -> None:
    tasks = ("labevents", "transfers")
    scores = [
        replace(scored(n, n / 8, task=task, stratum="rare" if n % 2 else "common"), agent=agent)
        for agent in ("zoom", "air")
        for task in tasks
        for n in range(6)
    ]
    summary = summarise_run(scores, seed=0, order=["zoom · offline", "air · offline"])
    words = {"task", "agent · model", "contender", "stratum", "less", "in", "sex"}
    for table in (
        score_table(summary.rows, has_strata=True),
        work_table(summary.rows),
        difference_table(summary.comparisons, has_strata=True),
        subgroup_table(summary.rows, "sex"),
    ):
        assert len(table.rows) > 1
        kinds = dict(table.columns)
        assert {name for name, kind in kinds.items() if kind == "text"} == words & set(kinds)
        assert kinds.pop("95 % interval", "interval") == "interval"
        assert {kind for name, kind in kinds.items() if name not in words} == {"number"}


def test_summaries_that_failed_are_counted_where_any_were_tried() -> None:
    (row,) = summarise([scored(1, 0.5)], resamples=50)
    tried = replace(row, summarised=1, summaries=3, failed_summaries=1)
    table = work_table([tried, replace(row, task="transfers")])
    assert named(table, "summarised") == ["1 of 1", "–"]
    assert named(table, "summaries failed") == ["1 of 3", "–"]


def named(table: Table, column: str) -> list[str]:
    return [row[list(table.header).index(column)] for row in table.rows]


def test_both_files_hold_the_same_numbers(rows: list[TidyRow], tmp_path: Path) -> None:
    text, binary = write_tidy(rows, tmp_path)
    table = pyarrow.parquet.read_table(binary)
    assert table.schema.equals(TIDY_SCHEMA)
    with text.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert ", ".join(read[0]) == (
        "run, agent, model, task, stratum, n, patients, metric, value, low, high, p, p_adjusted, baseline"
    )
    assert [float(row["value"]) for row in read] == table["value"].to_pylist()
    assert [row["low"] == "" for row in read] == [one is None for one in table["low"].to_pylist()]
