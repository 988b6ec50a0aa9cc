"""The report's parts on classes: best figures, ablations, the few-shot figure; from hand-made rows."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from predictors.invented import invented_store, questions
from tasks.scoring.test_class_tables import answered
from wardround.predictors import PredictorSettings, fit_predictors
from wardround.reports import curves, summarise_run, write_predictor_report
from wardround.reports.charts import few_shot
from wardround.reports.class_sections import Cell, Line, ablation_tables, class_tables, few_shot_panels
from wardround.reports.predictions import Curve, CurvePoint, macro_f1_of

TRUTH = ("0", "0", "0", "1", "1", "1")
ANSWERS = {
    "ehr-rag": ("0", "0", "0", "1", "1", "0"),
    "ehr-rag-no-air": ("0", "0", "1", "1", "1", "0"),
    "rag": ("0", "0", "0", "0", "0", "0"),
}


def episodes() -> list:  # type: ignore[type-arg]
    return [
        answered(n, truth, answer, agent=agent)
        for agent, answers in ANSWERS.items()
        for n, (truth, answer) in enumerate(zip(TRUTH, answers, strict=True))
    ]


def figures(line: Line) -> dict[str, Cell]:
    """The figures of a line, by column."""
    return {name: cell for name, cell in line.cells.items() if isinstance(cell, Cell)}


def test_the_best_figure_is_marked_with_its_lead() -> None:
    (table,) = class_tables(summarise_run(episodes(), seed=1))
    assert table.title == "Long length of stay"
    assert table.columns == ("n", "accuracy", "macro-F1", "F1 less than 7 days", "F1 7 days or more", "no answer")
    assert table.support == "3 × less than 7 days, 3 × 7 days or more"
    cells = {line.name: figures(line) for line in table.agents}
    best = cells["ehr-rag"]["accuracy"]
    assert best.value == pytest.approx(100 * 5 / 6)
    assert best.is_best
    assert best.ahead == pytest.approx(100 * (5 - 4) / 6)
    assert not cells["rag"]["accuracy"].is_best
    (alone,) = class_tables(summarise_run(episodes()[:6], seed=1))[0].agents
    assert not any(cell.is_best for cell in figures(alone).values())
    short = cells["ehr-rag"]["F1 less than 7 days"]
    assert short.value == pytest.approx(100 * 6 / 7)


def test_figures_over_other_samples_are_not_set_against_each_other() -> None:
    unfinished = [one for one in episodes() if one.agent == "ehr-rag"] + episodes()[6:10]
    (table,) = class_tables(summarise_run(unfinished, seed=1))
    assert not any(cell.is_best for line in table.agents for cell in figures(line).values())
    assert any("agents were not scored on the same samples" in note for note in table.notes)
    (table,) = ablation_tables(summarise_run(unfinished, seed=1))
    assert [cells[0].ahead for _, cells in table.lines if cells[0]] == [None, None]

    whole = summarise_run(episodes(), seed=1)
    few = class_tables(summarise_run([one for one in episodes() if one.target == ("0",)], seed=1))[0]
    assert any("macro-F1 is at most 50.00" in note for note in few.notes)
    assert class_tables(whole)[0].notes == ()
    predictor = replace(summarise_run(unfinished, seed=1).classes[1], agent="count-lr", model="")
    beside = class_tables(replace(whole, predictors=(predictor,)))[0]
    assert any("Their figures cannot be compared" in note for note in beside.notes)
    alike = class_tables(replace(whole, predictors=(replace(whole.classes[0], agent="count-lr", model=""),)))[0]
    assert alike.notes == ()


def test_ablations_are_told_by_their_difference_from_the_whole() -> None:
    (table,) = ablation_tables(summarise_run(episodes(), seed=1))
    assert [name for name, _ in table.lines] == ["EHR-RAG", "w/o AIR", "Vanilla RAG"]
    whole, no_air, vanilla = (cells[0] for _, cells in table.lines)
    assert whole is not None
    assert no_air is not None
    assert vanilla is not None
    assert whole.ahead is None
    assert no_air.ahead == pytest.approx(-100 / 6)
    assert vanilla.ahead == pytest.approx(-200 / 6)
    assert ablation_tables(summarise_run([e for e in episodes() if e.agent == "rag"], seed=1)) == ()


def test_macro_f1_is_compared_beside_accuracy() -> None:
    rows = summarise_run(episodes(), seed=1).comparisons
    found = {(row.contender, row.metric): row.test.difference.estimate for row in rows}
    assert found["rag · offline", "accuracy"] == pytest.approx(3 / 6 - 5 / 6)
    assert found["rag · offline", "macro-F1"] == pytest.approx((2 / 3 + 0) / 2 - (6 / 7 + 4 / 5) / 2)


def curve(*points: tuple[int | None, float], name: str = "count-lr") -> Curve:
    made = tuple(CurvePoint(k=k, mean=y, low=y - 0.1, high=y + 0.1, replicates=5) for k, y in points)
    return Curve(predictor=name, task="guo_los", view="classes", points=made)


def test_the_axis_doubles_and_all_stands_apart_at_the_end() -> None:
    chart = few_shot([curve((1, 0.3), (2, 0.4), (4, 0.5), (None, 0.8))], {"rag <b>": 0.45}, title="t", axis="a")
    root = ElementTree.fromstring(str(chart))
    marks = [float(mark.get("cx", "nan")) for mark in root.iter("circle")]
    steps = [b - a for a, b in pairwise(marks)]
    assert steps[0] == pytest.approx(steps[1], abs=0.2)  # from 1 to 2 as from 2 to 4
    assert steps[2] < steps[1]  # "all" is no number
    heights = [float(mark.get("cy", "nan")) for mark in root.iter("circle")]
    assert heights == sorted(heights, reverse=True)
    texts = [text.text or "" for text in root.iter("text")]
    assert [one for one in texts if one in ("1", "2", "4", "all")] == ["1", "2", "4", "all"]
    assert any(one.startswith("rag <b> 0.45") for one in texts)  # escaped in the page, itself in the tree
    assert len(root.findall("polygon")) == 1


def test_labels_never_overlap_or_leave_the_picture() -> None:
    levels = {f"agent-{n}": 0.5 + n / 1000 for n in range(8)}
    chart = few_shot(
        [curve((1, 0.2), (None, 0.51)), curve((1, 0.2), (None, 0.5), name="beta")], levels, title="t", axis="a"
    )
    places = sorted(
        float(text.get("y", "nan"))
        for text in ElementTree.fromstring(str(chart)).iter("text")
        if len(text.text or "") > 6
    )
    places = [place for place in places if place < 290]
    assert len(places) == 10
    assert min(b - a for a, b in pairwise(places)) >= 14.9
    assert places[0] > 0
    assert places[-1] <= 300


def test_one_number_of_shots_or_none_can_be_drawn() -> None:
    for points in (((8, 0.5),), ((None, 0.5),), ((8, 0.5), (None, 0.6))):
        assert "NaN" not in str(few_shot([curve(*points)], {}, title="t", axis="a"))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("lightgbm", reason="needs the extra [predictors]")
    folder = tmp_path_factory.mktemp("invented")
    store = invented_store(folder)
    settings = PredictorSettings(names=("count-lr",), shots=("1", "4", "all"), replicates=3, resamples=50)
    fit_predictors(store, questions(store), folder / "run", settings)
    return folder / "run"


def test_curves_are_means_of_replicates(fitted: Path) -> None:
    from wardround.predictors import read_predictions

    rows = read_predictions(fitted)
    found = {(one.task, one.view): one for one in curves(rows, macro_f1_of)}
    points = found["lab_anemia", "classes"].points
    assert [(point.k, point.replicates) for point in points] == [(1, 3), (4, 3), (None, 1)]
    of_one = [r.metrics.macro_f1.estimate for r in rows if (r.task, r.view, r.k) == ("lab_anemia", "classes", "1")]
    assert points[0].mean == pytest.approx(sum(of_one) / 3)
    assert (points[0].low, points[0].high) == (min(of_one), max(of_one))


def test_the_report_holds_tables_figure_and_agents_levels(fitted: Path) -> None:
    from wardround.predictors import read_predictions

    rows = read_predictions(fitted)
    summary = summarise_run(episodes(), seed=1, predictions=rows)
    panels = few_shot_panels(rows, summary)
    assert [panel.title for panel in panels] == [
        "Long length of stay · not the same samples: agents 6, predictors 20",
        "Anemia in the next hemoglobin result",
    ]
    assert panels[0].chart.count('class="level') == 2  # the ablation is none
    assert panels[1].chart.count('class="level') == 0
    page = write_predictor_report(fitted, summary, rows).read_text()
    for text in ("Answers by class", "Ablations of EHR-RAG", "Few-shot learning", "normal against the rest", "w/o AIR"):
        assert text in page
    assert not re.search(r"<script|nan", page)
    alone = write_predictor_report(fitted, replace(summary, classes=()), rows).read_text()
    assert "Ablations" not in alone
