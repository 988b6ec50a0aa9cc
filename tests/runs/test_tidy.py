"""Figures as data: one row a figure, numbers as numbers, in CSV and Parquet alike."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from tasks.scoring.test_tables import scored
from wardround.reports import summarise_run
from wardround.reports.tidy import TIDY_SCHEMA, TidyRow, tidy_run, write_tidy

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
