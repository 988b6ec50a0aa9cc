"""The analyses of a report, from hand-made scores: every section's chart is that of figures worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tasks.scoring.test_tables import scored
from wardround.core import Usage
from wardround.reports import charts, summarise_run
from wardround.reports.analyses import Point, Section, points_of, sections
from wardround.runs import RunSettings
from wardround.tasks.scoring import EpisodeScore, ErrorClass

CLASSES = ["no prediction", "tool repeat", "single tool loop", "multi tool cycle", "tool usage", "no candidate tool"]


def played(subject: int, f1: float = 0.5, *, agent: str = "react", task: str = "labevents", **use: Any) -> EpisodeScore:
    one = scored(subject, f1, task=task)
    return replace(one, agent=agent, errors=frozenset(), use=replace(one.use, **use))


def found(scores: Sequence[EpisodeScore], points: Sequence[Point] = ()) -> dict[str, Section]:
    return {one.title: one for one in sections(scores, summarise_run(scores, seed=1), points)}


def test_no_scores_make_no_section() -> None:
    assert list(sections([], summarise_run([played(1)], seed=1))) == []


ONE, FEW = "one patient", "few patients"
"""Why no line is drawn, beside the label; over tasks of one patient each there is none either."""


def test_one_contender_is_shown_by_task_and_several_by_name() -> None:
    alone = [played(1, 0.2), played(2, 0.4, task="transfers")]
    assert found(alone)["Score by task"].chart == charts.intervals(
        [(f"{name} ({ONE})", f1, None, None) for name, f1 in (("labevents", 0.2), ("transfers", 0.4))]
        + [(f"all ({ONE})", 0.3, None, None)],
        title="F1 with 95 % intervals",
    )
    both = [*alone, played(1, 0.6, agent="resum"), played(2, 1.0, agent="resum", task="transfers")]
    rows = [(f"react · offline ({ONE})", 0.3, None, None), (f"resum · offline ({ONE})", 0.8, None, None)]
    assert found(both)["Score over all tasks"].chart == charts.intervals(rows, title="F1 with 95 % intervals")


def test_several_contenders_on_one_task_are_shown_on_that_task() -> None:
    both = found([played(1, 0.25), played(1, 0.75, agent="resum")])
    rows = [(f"react · offline ({ONE})", 0.25, None, None), (f"resum · offline ({ONE})", 0.75, None, None)]
    assert both["Score by task"].chart == charts.intervals(rows, title="F1 with 95 % intervals")


def test_of_several_strata_the_row_over_all_is_shown() -> None:
    scores = [played(1, 0.0), replace(played(2, 1.0), stratum="rare")]
    shown = found(scores)["Score by task"].chart
    assert shown == charts.intervals([(f"labevents ({FEW})", 0.5, None, None)], title="F1 with 95 % intervals")


def test_an_interval_is_drawn_where_enough_patients_stand_behind_it() -> None:
    scores = [played(n, n / 40) for n in range(40)]
    row = summarise_run(scores, seed=1).rows[-1].f1
    assert row.low is not None
    assert row.high is not None
    shown = found(scores)["Score by task"].chart
    assert shown == charts.intervals([("labevents", row.estimate, row.low, row.high)], title="F1 with 95 % intervals")
    assert "whisker" in shown


def test_errors_are_shares_of_a_groups_episodes() -> None:
    broken = [replace(played(n), errors=frozenset({ErrorClass.TOOL_REPEAT})) for n in (1, 2, 3)]
    scores = [*broken, played(4), played(5, agent="resum")]
    assert found(scores)["Errors"].chart == charts.heat(
        {
            "react · offline": {name: 0.75 if name == "tool repeat" else 0.0 for name in CLASSES},
            "resum · offline": dict.fromkeys(CLASSES, 0.0),
        },
        CLASSES,
        title="Error classes",
    )


def test_turns_fall_into_bins_whose_edges_belong_to_them() -> None:
    turns = (5, 6, 10, 11, 20, 40, 41, 60, 80, 100, 101)
    names = ["≤ 5", "≤ 10", "≤ 20", "≤ 40", "≤ 60", "≤ 80", "≤ 100", "> 100"]
    shares = dict(zip(names, (1, 2, 2, 1, 2, 1, 1, 1), strict=True))
    scores = [played(n, turns=turn) for n, turn in enumerate(turns)]
    rows = {"labevents": {name: count / len(turns) for name, count in shares.items()}}
    assert found(scores)["Turns per episode"].chart == charts.heat(rows, names, title="Turns per episode")


def test_trials_count_one_by_one() -> None:
    names = ["≤ 5", "≤ 10", "≤ 20", "≤ 40", "≤ 60", "≤ 80", "≤ 100", "> 100"]
    scores = [played(1, turns=90, trial_turns=(3, 7, 80)), played(2, turns=5)]
    shown = found(scores)["Turns per episode"].chart
    rows = {"labevents": {"≤ 5": 0.5, "≤ 10": 0.25, "≤ 80": 0.25}}
    assert shown == charts.heat(rows, names, title="Turns per episode")


def test_tools_are_shares_by_category_and_made_up_ones_unknown() -> None:
    calls = {"get_records_by_time": 3, "get_candidates_by_keyword": 2, "no_such_tool": 1}
    scores = [played(1, tool_calls=calls), played(2, tool_calls={"get_records_by_time": 2})]
    shown = found(scores)["Tools called"].chart
    rows = {"labevents": {"candidate": 2 / 8, "record": 5 / 8, "unknown": 1 / 8}}
    assert shown == charts.heat(rows, ["candidate", "record", "unknown"], title="Tool calls by category")


def test_the_search_for_evidence_is_a_tool_of_its_own_kind() -> None:
    shown = found([played(1, tool_calls={"retrieve_evidence": 1})])["Tools called"].chart
    assert shown == charts.heat({"labevents": {"retrieval": 1.0}}, ["retrieval"], title="Tool calls by category")


def test_methods_without_tools_have_no_tool_section() -> None:
    assert "Tools called" not in found([played(1, tool_calls={})])
    some = found([played(1, tool_calls={}), played(2, agent="resum", tool_calls={"no_such_tool": 2})])
    rows: dict[str, dict[str, float]] = {"react · offline": {}, "resum · offline": {"unknown": 1.0}}
    assert some["Tools called"].chart == charts.heat(rows, ["unknown"], title="Tool calls by category")


def test_tables_read_are_shares_of_a_tasks_episodes() -> None:
    scores = [
        played(4, task="transfers", agent="resum"),
        played(1, tables={"labevents": 9, "admissions": 1}),
        played(2, tables={"labevents": 1}),
        played(3, task="transfers", tables={"transfers": 1}),
    ]
    shown = found(scores)
    assert shown["Tables read: react · offline"].chart == charts.heat(
        {
            "labevents": {"labevents": 1.0, "transfers": 0.0},
            "admissions": {"labevents": 0.5, "transfers": 0.0},
            "transfers": {"labevents": 0.0, "transfers": 1.0},
        },
        ["labevents", "transfers"],
        title="Tables read by task, react · offline",
    )
    assert "Tables read: resum · offline" not in shown


@pytest.mark.parametrize(("read", "shown"), [(14, 14), (15, 14)])
def test_at_most_fourteen_tables_are_shown(read: int, shown: int) -> None:
    chart = found([played(1, tables={f"t{n}": 1 for n in range(read)})])["Tables read: react · offline"].chart
    assert chart.count('fill-opacity="0.500"') == shown


def test_spending_is_a_mean_per_episode() -> None:
    scores = [
        played(1, usage=Usage(input_tokens=1000), model_seconds=2.0, tool_seconds=1.0, prefix_share=0.5),
        played(2, usage=Usage(input_tokens=2000), model_seconds=0.5, tool_seconds=0.5, prefix_share=0.75),
        played(3, usage=Usage(input_tokens=3000), model_seconds=2.0, tool_seconds=0.0, prefix_share=None),
    ]
    shown = found(scores)
    assert shown["Input tokens per episode"].chart == charts.bars(
        [("labevents", 2000.0, "2,000")], title="Input tokens"
    )
    assert shown["Time per episode"].chart == charts.bars([("labevents", 2.0, "2.00 s")], title="Seconds per episode")
    assert shown["Prompt re-used as prefix"].chart == charts.bars(
        [("labevents", 0.625, "62%")], title="Prefix share", full=1.0
    )


def test_a_group_with_an_episode_of_unknown_tokens_has_no_mean() -> None:
    scores = [played(1, usage=None), played(2), played(3, agent="resum", usage=Usage(input_tokens=7))]
    shown = found(scores)
    assert shown["Input tokens per episode"].chart == charts.bars([("resum · offline", 7.0, "7")], title="Input tokens")
    assert "Score against spending" not in shown
    assert "Prompt re-used as prefix" not in shown
    assert "Input tokens per episode" not in found([played(1, usage=None)])


def test_the_frontier_sets_the_mean_of_task_means_against_tokens() -> None:
    scores = [
        played(1, 0.0),
        played(2, 0.5),
        played(3, 1.0, task="transfers"),
        played(1, 1.0, agent="resum", usage=Usage(input_tokens=500)),
    ]
    points = [("react · offline", 1000.0, 0.625), ("resum · offline", 500.0, 1.0)]  # (0.25 + 1) / 2
    assert found(scores)["Score against spending"].chart == charts.frontier(
        points, title="F1 against input tokens", unit="input tokens"
    )
    assert "Score against spending" not in found(scores[:3])


def test_best_at_k_begins_at_one() -> None:
    scores = [scored(1, 0.2), scored(1, 0.8, epoch=1)]
    lines = {"labevents · react · offline": [(1.0, 0.5), (2.0, 0.8)]}
    assert found(scores)["Best@K"].chart == charts.lines(lines, title="Best@K F1", axis="K")
    assert "Best@K" not in found(scores[:1])


def run(*scores: EpisodeScore, **settings: Any) -> Any:
    return RunSettings.of(**settings), scores


def test_points_are_of_settings_that_runs_differ_in() -> None:
    small = run(played(1, 0.2), played(2, 0.4), played(1, 1.0, agent="resum"), turns=10, context_tokens=8)
    large = run(played(1, 0.5), turns=100, window=3, context_tokens=8)
    assert points_of([small, large]) == [
        Point(contender="react · offline", setting="turns", value=10.0, f1=pytest.approx(0.3)),
        Point(contender="resum · offline", setting="turns", value=10.0, f1=1.0),
        Point(contender="react · offline", setting="turns", value=100.0, f1=0.5),
    ]
    assert points_of([small]) == []


def test_each_setting_has_a_chart_with_its_points_in_order() -> None:
    points = [
        Point(contender=who, setting=setting, value=value, f1=f1)
        for who, setting, value, f1 in (
            ("a", "turns", 100.0, 0.5),
            ("a", "turns", 10.0, 0.3),
            ("b", "turns", 10.0, 1.0),
            ("a", "context_tokens", 1.0, 0.9),
        )
    ]
    shown = found([played(1)], points)
    assert list(shown)[-2:] == ["Score against context tokens", "Score against turns"]
    lines = {"a": [(10.0, 0.3), (100.0, 0.5)], "b": [(10.0, 1.0)]}
    assert shown["Score against turns"].chart == charts.lines(lines, title="F1 against turns", axis="turns")
    assert shown["Score against context tokens"].chart == charts.lines(
        {"a": [(1.0, 0.9)]}, title="F1 against context tokens", axis="context tokens"
    )
    assert shown["Score against turns"].text == "Mean of the tasks' mean F1 in runs that differ in turns."
