"""Figures for a paper: words that can be read in the PDF, the same bytes each time, one look for each contender."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from extras import Later, needs
from tasks.scoring.test_tables import scored
from wardround.reports import summarise_run
from wardround.reports.analyses import Point
from wardround.reports.comparing import Comparison
from wardround.reports.figures import (
    Look,
    calibration_figure,
    cost_figure,
    forest_figure,
    learning_figure,
    run_figures,
    safety_figure,
    scores_figure,
    setting_figure,
    subgroup_figure,
    without_figures,
    write_figures,
)
from wardround.reports.predictions import Curve, CurvePoint, ReliabilityBin
from wardround.tasks.scoring import Interval, PairedTest, SafetyPoint, SummaryRow

pypdf: Any = Later("pypdf")
pytestmark = needs("matplotlib", "pypdf")


def drawn(folder: Path, only: str = "") -> list[Path]:
    scores = [replace(scored(n, n / k, task=task), agent=agent) for agent, k in (("zoom", 8), ("air", 12))
              for task in ("labevents", "transfers") for n in range(6)]  # fmt: skip
    summary = summarise_run(scores, seed=0, order=["zoom · offline", "air · offline"])
    summary = replace(summary, by="sex", subgroups=tuple(replace(row, stratum="female") for row in summary.rows))
    points = [Point(contender="air · offline", setting="context_tokens", value=v, f1=v / 1e5) for v in (16000, 64000)]
    figures = run_figures(summary, points)
    curve = [CurvePoint(k=k, mean=0.5, low=0.4, high=0.6, replicates=2) for k in (1, 8, None)]
    figures["learning"] = lambda: learning_figure(
        [Curve(predictor="count-lr", task="new_lupus", view="classes", points=tuple(curve))], "macro-F1"
    )
    bins = [ReliabilityBin(n=9, predicted=0.2, observed=0.1, low=0.0, high=0.4)]
    figures["calibration"] = lambda: calibration_figure({"count-lr": bins}, "new_lupus")
    points_of = [
        SafetyPoint(looks="never", tau=None, audited=0.0, recall=0.4, predicted=50, red_flags=r) for r in (1, 2)
    ]
    figures["safety"] = lambda: safety_figure({"trace · m": points_of})
    return write_figures({name: draw for name, draw in figures.items() if only in ("", name)}, folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {file.name: file for file in drawn(tmp_path_factory.mktemp("drawn"))}


def words(file: Path) -> str:
    (page,) = pypdf.PdfReader(file).pages
    return " ".join(page.extract_text().split())


def test_every_figure_is_a_pdf_and_an_svg(files: dict[str, Path]) -> None:
    names = {
        "forest",
        "scores",
        "score-against-cost",
        "by-sex",
        "score-against-context-tokens",
        "learning",
        "calibration",
    }
    assert set(files) == {f"{name}.{suffix}" for name in {*names, "safety"} for suffix in ("pdf", "svg")}
    assert ElementTree.fromstring(files["forest.svg"].read_text()).tag == "{http://www.w3.org/2000/svg}svg"


def test_axes_are_named_with_their_units_and_contenders_in_a_legend(files: dict[str, Path]) -> None:
    forest = words(files["forest.pdf"])
    assert "difference in F1 from zoom · offline (95 % interval over patients)" in forest
    assert "mean of tasks" in forest
    cost = words(files["score-against-cost.pdf"])
    assert "mean cost of an episode (US$)" in cost
    assert "zoom · offline" in cost
    assert "air · offline" in cost
    assert "forbidden actions (% of those predicted)" in words(files["safety.pdf"])
    assert "female (6 patients)" in words(files["by-sex.pdf"])


def test_a_figure_is_as_wide_as_a_journals_columns(files: dict[str, Path]) -> None:
    width = {name: float(pypdf.PdfReader(files[name]).pages[0].mediabox.width) for name in ("scores.pdf", "safety.pdf")}
    assert width == pytest.approx({"scores.pdf": 183 / 25.4 * 72, "safety.pdf": 89 / 25.4 * 72}, abs=0.01)


def test_the_same_run_gives_the_same_bytes(files: dict[str, Path], tmp_path: Path) -> None:
    for file in drawn(tmp_path, "scores"):
        assert file.read_bytes() == files[file.name].read_bytes(), file.name


def test_without_the_extra_one_line_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert without_figures() is None
    monkeypatch.setattr("wardround.reports.figures.find_spec", lambda name: None)
    assert "needs the extra [figures] (matplotlib is not installed): pip install '.[figures]'" in str(without_figures())


# What stands where: the marks, whiskers and ticks of a figure, against numbers put in by hand.


def interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate=estimate, low=low, high=high, n=40, subjects=40)


def row(agent: str, task: str, f1: Interval, **changed: Any) -> SummaryRow:
    (made,) = summarise_run([scored(1, 0.5)], seed=0).rows
    return replace(made, agent=agent, task=task, stratum=changed.pop("stratum", "all"), f1=f1, **changed)


def curve(predictor: str, *points: tuple[int | None, float, float, float]) -> Curve:
    made = tuple(CurvePoint(k=k, mean=mean, low=low, high=high, replicates=2) for k, mean, low, high in points)
    return Curve(predictor=predictor, task="new_lupus", view="classes", points=made)


def marks(axes: Any) -> dict[tuple[float, float], tuple[str, str]]:
    """Where a single mark stands: its colour and form."""
    found = {}
    for line in axes.lines:
        if len(line.get_xdata()) == 1 and line.get_marker() not in ("None", "", "_", "|"):
            (x,), (y,) = line.get_xdata(), line.get_ydata()
            found[round(float(x), 6), round(float(y), 6)] = (line.get_color(), line.get_marker())
    return found


def spans(axes: Any) -> set[tuple[float, ...]]:
    """Lines of two points: (x, x, y, y)."""
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
    return {tuple(round(float(one), 6) for one in (*line.get_xdata(), *line.get_ydata())) for line in lines}


def legend(figure: Any) -> dict[str, tuple[str, str]]:
    (found,) = figure.legends
    return {handle.get_label(): (handle.get_color(), handle.get_marker()) for handle in found.legend_handles}


def ticks(axis: Any) -> dict[float, str]:
    return dict(zip(map(float, axis.get_ticklocs()), [text.get_text() for text in axis.get_ticklabels()], strict=True))


def test_learning_curves_stand_at_their_numbers_of_samples_with_all_at_twice_the_largest() -> None:
    curves = [
        curve("count-lr", (8, 0.5, 0.4, 0.6), (12, 0.6, 0.5, 0.7), (16, 0.7, 0.6, 0.8), (None, 0.9, 0.9, 0.9)),
        curve("count-gbm", (8, 0.2, 0.1, 0.3), (16, 0.3, 0.2, 0.5)),
    ]
    figure = learning_figure(curves, "macro-F1")
    (axes,) = figure.axes
    shown = {line.get_color(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines[:2]}
    looks = legend(figure)
    assert shown[looks["count-lr"][0]] == ([8, 12, 16, 32], [0.5, 0.6, 0.7, 0.9])
    assert shown[looks["count-gbm"][0]] == ([8, 16], [0.2, 0.3])
    assert [line.get_marker() for line in axes.lines[:2]] == [looks["count-lr"][1], looks["count-gbm"][1]]
    assert len(set(looks.values())) == 2
    edges = [{(float(x), float(y)) for path in band.get_paths() for x, y in path.vertices} for band in axes.collections]
    assert {(8.0, 0.4), (8.0, 0.6), (12.0, 0.5), (32.0, 0.9)} <= edges[0]
    assert {(8.0, 0.1), (8.0, 0.3), (16.0, 0.2), (16.0, 0.5)} <= edges[1]
    assert ticks(axes.xaxis) == {8: "8", 16: "16", 32: "all"}, "12 would run into its neighbours"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("labelled samples of each class, new_lupus", "macro-F1")
    (alone,) = learning_figure([curve("count-lr", (1, 0.5, 0.4, 0.6), (2, 0.5, 0.4, 0.6))], "macro-F1").axes
    assert ticks(alone.xaxis) == {1: "1", 2: "2"}


LOOKS = {"zoom · m": Look(colour="#0072B2", mark="o"), "air · m": Look(colour="#D55E00", mark="s")}


def test_scores_stand_by_task_from_above_and_by_contender_with_the_best_that_reads_nothing() -> None:
    """Two contenders stand 0.35 apart, around the place of their task."""
    rows = [
        row("zoom", "labevents", interval(0.5, 0.4, 0.6), model="m"),
        row("air", "labevents", interval(0.3, 0.1, 0.4), model="m"),
        row("zoom", "transfers", interval(0.8, 0.7, 0.9), model="m"),
        row("zoom", "all", interval(0.65, 0.6, 0.7), model="m"),
    ]
    figure = scores_figure(rows, LOOKS, {"transfers": 0.25})
    (axes,) = figure.axes
    zoom, air = ("#0072B2", "o"), ("#D55E00", "s")
    assert marks(axes) == {(0.5, 2.175): zoom, (0.3, 1.825): air, (0.8, 1.175): zoom, (0.65, 0.175): zoom}
    assert spans(axes) == {
        (0.4, 0.6, 2.175, 2.175),
        (0.1, 0.4, 1.825, 1.825),
        (0.7, 0.9, 1.175, 1.175),
        (0.6, 0.7, 0.175, 0.175),
        (0.25, 0.25, 0.58, 1.42),
    }
    assert ticks(axes.yaxis) == {0: "mean of tasks", 1: "transfers", 2: "labevents"}
    assert legend(figure).keys() == {*LOOKS, "best trivial baseline"}
    assert figure.get_figheight() == pytest.approx(0.9 + 3 * (2 * 0.16 + 0.12)), "room for each contender of each task"
    (alone,) = scores_figure(rows[:1], {"zoom · m": LOOKS["zoom · m"]}, {}).axes
    assert marks(alone) == {(0.5, 0.0): zoom}


def test_of_one_contender_no_figure_is_drawn_that_compares() -> None:
    scores = [scored(n, n / 8, task=task) for task in ("labevents", "transfers") for n in range(6)]
    assert list(run_figures(summarise_run(scores, seed=0))) == ["scores"]
    both = [*scores, *(replace(one, agent="zoom") for one in scores)]
    assert set(run_figures(summarise_run(both, seed=0))) == {"scores", "score-against-cost", "forest"}


def test_the_axes_of_scores_against_what_they_cost_begin_at_zero() -> None:
    spent = [
        (row("zoom", "labevents", interval(0.5, 0.4, 0.7), model="m"), 2.0),
        (row("air", "labevents", interval(0.9, 0.9, 0.9), model="m"), 3.0),
    ]
    figure = cost_figure(spent, LOOKS, "mean cost of an episode (US$)")
    (axes,) = figure.axes
    assert marks(axes) == {(2.0, 0.5): LOOKS_OF["zoom"], (3.0, 0.9): LOOKS_OF["air"]}
    (bar,) = [collection.get_segments() for container in axes.containers for collection in container[2]]
    assert [[tuple(map(float, point)) for point in segment] for segment in bar] == [[(2.0, 0.4), (2.0, 0.7)]]
    assert (axes.get_ylim()[0], axes.get_xlim()[0]) == (0, 0)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("mean cost of an episode (US$)", "F1")
    (pooled,) = cost_figure([(row("zoom", "all", interval(0.5, 0.4, 0.7), model="m"), 1.0)], LOOKS, "tokens").axes
    assert pooled.get_ylabel() == "F1, mean of tasks"
    points = [Point(contender="zoom · m", setting="window", value=value, f1=value / 10) for value in (8, 4, 6)]
    (settings,) = setting_figure(points, LOOKS, "context_window").axes
    (line,) = settings.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([4, 6, 8], [0.4, 0.6, 0.8])
    assert (settings.get_ylim()[0], settings.get_xlabel()) == (0, "context window")


LOOKS_OF = {name.split()[0]: (look.colour, look.mark) for name, look in LOOKS.items()}


def test_subgroups_stand_from_above_with_their_patients_over_all_tasks_where_there_are_several() -> None:
    rows = [
        row("zoom", "all", interval(0.5, 0.4, 0.6), model="m", stratum="female", subjects=6),
        row("air", "all", interval(0.7, 0.6, 0.8), model="m", stratum="female", subjects=5),
        row("zoom", "all", interval(0.2, 0.1, 0.3), model="m", stratum="male", subjects=1),
        row("zoom", "labevents", interval(0.9, 0.8, 1.0), model="m", stratum="male", subjects=9),
        row("zoom", "all", interval(0.4, 0.3, 0.5), model="m"),
    ]
    figure = subgroup_figure(rows, LOOKS, "sex")
    (axes,) = figure.axes
    assert marks(axes) == {(0.5, 1.1): LOOKS_OF["zoom"], (0.7, 0.9): LOOKS_OF["air"], (0.2, 0.1): LOOKS_OF["zoom"]}
    assert ticks(axes.yaxis) == {0: "male (1 patient)", 1: "female (6 patients)"}
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("sex", "F1 (95 % interval over patients)")
    (alone,) = subgroup_figure([rows[3]], LOOKS, "sex").axes
    assert marks(alone) == {(0.9, 0.1): LOOKS_OF["zoom"]}


def test_a_forest_has_a_row_for_each_task_the_mean_of_tasks_last() -> None:
    def difference(task: str, estimate: float, **changed: Any) -> Comparison:
        shown = interval(estimate, estimate - 0.1, estimate + 0.1)
        test = PairedTest(difference=shown, p_value=0.01, exact=True, permutations=1)
        return Comparison(contender="air · m", baseline="zoom · m", task=task, test=test, adjusted_p=0.02, **changed)

    rows = [
        difference("all", 0.2),
        difference("transfers", -0.3),
        difference("labevents", 0.1),
        difference("labevents", 0.4, stratum="rare"),
        difference("labevents", 0.5, metric="precision"),
    ]
    (axes,) = forest_figure(rows).axes
    assert list(marks(axes)) == [(0.1, 2.0), (-0.3, 1.0), (0.2, 0.0)]
    assert ticks(axes.yaxis) == {0: "mean of tasks", 1: "transfers", 2: "labevents"}
    texts = [text.get_text() for text in axes.texts]
    assert texts[0].startswith("+0.100 (+0.000 to +0.200); ")
    assert axes.get_xlabel() == "difference in F1 from zoom · m (95 % interval over patients)"


def test_calibration_stands_at_predicted_and_observed_with_its_interval() -> None:
    bins = [
        ReliabilityBin(n=9, predicted=0.2, observed=0.1, low=0.0, high=0.4),
        ReliabilityBin(n=9, predicted=0.8, observed=0.7, low=0.5, high=0.9),
    ]
    figure = calibration_figure({"count-lr": bins}, "new_lupus")
    (axes,) = figure.axes
    (bars,) = [collection.get_segments() for container in axes.containers for collection in container[2]]
    assert [[round(float(y), 6) for _, y in segment] for segment in bars] == [[0.0, 0.4], [0.5, 0.9]]
    (line,) = [container[0] for container in axes.containers]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0.2, 0.8], [0.1, 0.7])
    assert legend(figure).keys() == {"count-lr", "perfect calibration"}
    assert axes.get_xlabel() == "predicted probability of new_lupus"


def test_safety_is_recall_against_the_share_of_forbidden_actions() -> None:
    def point(red_flags: int, recall: float, predicted: int = 50) -> SafetyPoint:
        return SafetyPoint(
            looks="never", tau=None, audited=0.0, recall=recall, predicted=predicted, red_flags=red_flags
        )

    (axes,) = safety_figure({"trace · m": [point(10, 0.5), point(2, 0.4), point(0, 0.3, predicted=0)]}).axes
    (line,) = axes.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([4.0, 20.0], [0.4, 0.5])
    assert (axes.get_xlim()[0], axes.get_ylim()[0]) == (0, 0)
