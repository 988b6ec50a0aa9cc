"""What a report prints above its tables, what it links, how it writes numbers, and how exhibits name their figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup
from score_doubles import scored

from wardround.clinical.codes import LabelSet
from wardround.core import UserError
from wardround.reports.charts import write_svg
from wardround.reports.exhibits.exhibit import Exhibit, read_exhibits
from wardround.reports.exhibits.merging import Played, best_rows, drawn, merged_rows
from wardround.reports.report import (
    _metrics_of_tasks,
    _totals,
    _written_before,
    class_parts,
    episode_page,
    matrix,
    official_names,
    page_environment,
)
from wardround.reports.summary import summarise_run


def test_totals_are_of_all_episodes() -> None:
    results = [
        scored("labevents", 1, 1.0, use_model_seconds=1.0),
        scored("labevents", 1, 0.5, finish="error", use_model_seconds=4.0, use_cost=0.25),
        scored("transfers", 2, 0.5, use_tool_seconds=9.0, use_model_seconds=1.0),
    ]
    assert _totals(results) == {
        "episodes": 3,
        "subjects": 2,
        "failed": 1,
        "seconds": 5.0,
        "cost": 1.25,
        "input_tokens": 300,
        "experiences": 0,
        "unchecked": 0,
    }


def test_totals_that_are_not_known_of_all_are_not_known() -> None:
    known, unknown = scored("labevents", 1, 1.0), scored("labevents", 2, 1.0, use_cost=None, use_usage=None)
    found = _totals([known, unknown])
    assert (found["cost"], found["input_tokens"]) == (None, None)
    nothing = _totals([])
    counts = dict.fromkeys(("episodes", "subjects", "failed", "experiences", "unchecked"), 0)
    assert nothing == counts | dict.fromkeys(("seconds", "cost", "input_tokens"))
    free = _totals([scored("labevents", 1, 1.0, use_cost=0.0)])
    assert free["cost"] == 0.0


def test_the_matrix_is_of_the_rows_over_all_strata() -> None:
    scores = [scored("labevents", 1, 1.0), scored("labevents", 2, 0.0, stratum="rare"), scored("transfers", 3, 0.5)]
    rows = matrix(summarise_run(scores, seed=1))
    assert {name: list(cells) for name, cells in rows.items()} == {"react · offline": ["labevents", "transfers", "all"]}
    assert rows["react · offline"]["labevents"].stratum == "all"
    assert rows["react · offline"]["labevents"].f1.estimate == 0.5


def test_metrics_other_than_the_sets_f1_are_named_with_their_tasks() -> None:
    found = _metrics_of_tasks([scored("labevents", 1, 1.0), scored("transfers", 1, 1.0)])
    assert found == {"other_metrics": {}, "all_by_class": False}
    classes = _metrics_of_tasks([scored("guo_icu", 1, 1.0), scored("guo_los", 1, 1.0), scored("labevents", 1, 1.0)])
    assert [sorted(tasks) for tasks in classes["other_metrics"].values()] == [["guo_icu", "guo_los"]]
    assert classes["all_by_class"] is False
    assert _metrics_of_tasks([scored("guo_icu", 1, 1.0)])["all_by_class"] is True
    assert _metrics_of_tasks([])["all_by_class"] is False


def test_numbers_are_written_for_people_and_what_is_not_known_is_a_dash() -> None:
    filters = page_environment("wardround.reports").filters
    assert [filters["figure"](value) for value in (0.12345, 0, None)] == ["0.123", "0.000", "–"]
    assert filters["figure"](0.5, 1) == "0.5"
    assert [filters["whole"](value) for value in (1234.6, 0, None)] == ["1,235", "0", "–"]
    assert [filters["percent"](value) for value in (0.256, 0, None)] == ["26%", "0%", "–"]
    assert page_environment("wardround.reports").autoescape is True


def test_an_episodes_page_is_named_by_the_episode_alone() -> None:
    one, other = scored("labevents", 1, 1.0), scored("labevents", 2, 1.0)
    assert episode_page(one) == episode_page(scored("labevents", 1, 0.0)) != episode_page(other)
    folder, name = episode_page(one).split("/")
    assert folder == "episodes"
    assert len(name) == len("0123456789abcdef.html")


class _Folder:
    def __init__(self, logs: Path) -> None:
        self.logs = logs


def test_pages_are_linked_that_are_younger_than_what_was_played(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "report" / "episodes").mkdir(parents=True)
    folder: Any = _Folder(tmp_path / "logs")
    for name, size, time in (("a.log", 5, 100), ("a.log-wal", 0, 900), ("a.log-shm", 5, 900)):
        (tmp_path / "logs" / name).write_text("x" * size)
        os.utime(tmp_path / "logs" / name, (time, time))
    for name, time in (("old.html", 99), ("same.html", 100), ("new.html", 101), ("new.txt", 101)):
        (tmp_path / "report" / "episodes" / name).write_text("")
        os.utime(tmp_path / "report" / "episodes" / name, (time, time))
    assert _written_before(folder, tmp_path / "report") == {"episodes/same.html", "episodes/new.html"}
    (tmp_path / "logs" / "a.log").unlink()
    assert len(_written_before(folder, tmp_path / "report")) == 3


def test_a_spelling_is_official_where_labels_say_so_and_any_text_where_none_do() -> None:
    labels = LabelSet(name="units", labels=("Medicine",), aliases={"Med": "Medicine"})
    assert official_names(labels)("Med") == "Medicine"
    assert official_names(labels)("other") is None
    assert official_names(None)("other") == "other"


def test_parts_on_classes_are_empty_where_no_task_has_any(tmp_path: Path) -> None:
    parts = class_parts(tmp_path, summarise_run([scored("labevents", 1, 1.0)], seed=1), [])
    assert (parts["few_shot_panels"], parts["auroc_panels"], parts["replicates"]) == ((), (), 1)


FILE = """
paper = "p"
[[exhibit]]
name = "p-table-1"
title = "A table"
kind = "table"
[[exhibit]]
name = "p-figure-2"
title = "A curve"
kind = "curve"
sweep = ["context.window", "budget.turns"]
values = [2, 4]
tasks = ["labevents"]
settings = { "run.epochs" = 3 }
missing = "one line"
"""


def test_an_exhibit_says_what_is_set_at_each_point() -> None:
    table, curve = read_exhibits(FILE, "here")
    assert (table.paper, table.points_of(()), table.metrics, table.missing) == ("p", (None,), ("f1",), "")
    assert curve.points_of(("a", "b")) == (2, 4)
    assert curve.varied(4) == {"context": {"window": 4}, "budget": {"turns": 4}}
    assert (curve.varied(None), table.varied(None)) == ({}, {})
    assert curve.body() == {"run": {"preset": "p", "tasks": ["labevents"], "epochs": 3}}
    assert curve.how == "wardround reproduce p-figure-2; one line"
    assert table.how == "wardround reproduce p-table-1"


@pytest.mark.parametrize(
    ("kind", "played"), [("table", True), ("curve", True), ("best", True), ("analysis", True), ("command", False)]
)
def test_some_exhibits_are_played_and_others_shown_by_a_command(kind: Any, played: bool) -> None:
    one = Exhibit(name="n", title="t", paper="p", kind=kind, command="wardround x", missing="y")
    assert one.is_played is played
    assert one.how == ("wardround reproduce n; y" if played else "wardround x; y")


@pytest.mark.parametrize("text", ["paper = 1 2", 'paper = "p"', "[[exhibit]]\nname = 1"])
def test_a_file_that_is_no_list_of_exhibits_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(UserError, match=r"^here: not TOML with a paper and \[\[exhibit\]\] entries"):
        read_exhibits(text, "here")


def played_at(point: int | None, *f1: float) -> Played:
    scores = [scored("labevents", place, value) for place, value in enumerate(f1)]
    return point, scores, summarise_run(scores, seed=1)


CURVE = Exhibit(name="n", title="t", paper="p", kind="curve", sweep=("context.window",), values=(2, 4))


def test_the_runs_of_an_exhibit_are_rows_point_by_point_with_the_papers_figure_beside() -> None:
    runs = [played_at(2, 0.5, 1.0), played_at(4, 1.0)]
    rows = merged_rows(CURVE, runs, {("react", "labevents", "f1"): "0.7"})
    assert [(row.point, row.n, row.value, row.published, row.interval) for row in rows] == [
        (2, 2, 0.75, "0.7", "few patients"),
        (4, 1, 1.0, "0.7", "one patient: no interval"),
    ]
    assert {(row.agent, row.model, row.task, row.metric) for row in rows} == {("react", "offline", "labevents", "f1")}
    assert merged_rows(CURVE, runs, {})[0].published == ""
    other = Exhibit(name="n", title="t", paper="p", kind="table", metrics=("accuracy",))
    assert merged_rows(other, runs, {}) == []


def of_classes(subject: int, answer: str, target: str) -> Any:
    return scored("guo_icu", subject, float(answer == target), answer=(answer,), target=(target,))


def test_figures_of_classes_are_in_per_cent() -> None:
    scores = [of_classes(n, "1" if n < 6 else "0", "1" if n % 2 else "0") for n in range(8)]
    exhibit = Exhibit(name="n", title="t", paper="p", kind="table", metrics=("accuracy", "macro_f1", "f1"))
    rows = merged_rows(
        exhibit, [(None, scores, summarise_run(scores, seed=1))], {("react", "guo_icu", "accuracy"): "61"}
    )
    assert [row.metric for row in rows][:2] == ["accuracy", "macro_f1"]
    assert all(row.metric.startswith("f1 of ") for row in rows[2:])
    assert (rows[0].value, rows[0].published, rows[0].n) == (50.0, "61", 8)
    low, high = rows[0].interval.split(" to ")
    assert 0 <= float(low) < 50 < float(high) <= 100
    assert all(len(end.partition(".")[2]) == 1 for end in (low, high))


def test_best_of_k_is_a_row_for_every_k() -> None:
    scores = [scored("labevents", 1, f1, epoch=epoch) for epoch, f1 in enumerate((0.0, 1.0))]
    rows = best_rows(summarise_run(scores, seed=1))
    assert [(row.point, row.value, row.metric, row.n, row.interval) for row in rows] == [
        (1, 0.5, "best", 1, "–"),
        (2, 1.0, "best", 1, "–"),
    ]


def test_a_curve_is_drawn_without_the_row_over_all_tasks_and_a_table_is_not() -> None:
    scores = [scored(task, 1, 0.5) for task in ("labevents", "transfers")]
    runs = [(point, scores, summarise_run(scores, seed=1)) for point in (2, 4)]
    rows = merged_rows(CURVE, runs, {})
    picture = drawn(CURVE, rows, runs)
    assert picture is not None
    assert "react · labevents" in picture
    assert "react · all" not in picture
    assert "context.window" in picture
    assert drawn(Exhibit(name="n", title="t", paper="p", kind="table"), rows, runs) is None
    assert drawn(CURVE, merged_rows(CURVE, [played_at(None, 1.0)], {}), runs) is None
    best = Exhibit(name="n", title="t", paper="p", kind="best")
    assert ">K<" in (drawn(best, rows, runs) or "")


def test_a_picture_as_a_file_has_its_name_space_and_style_once(tmp_path: Path) -> None:
    text = write_svg(Markup('<svg viewBox="0 0 1 1"><g>a > b</g></svg>'), tmp_path / "a.svg").read_text()
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><style>')
    assert text.endswith("</style><g>a > b</g></svg>\n")
    assert text.count("<style>") == text.count("xmlns") == 1
