"""Which agents the few-shot figure draws as level lines, what its captions say, and marks at their edges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from wardround.reports import class_sections
from wardround.reports.class_sections import _edges, auroc_panels, few_shot_panels, has_curve
from wardround.reports.predictions import Curve, CurvePoint
from wardround.tasks.scoring import Interval

POINTS = (CurvePoint(k=1, mean=0.5, low=0.4, high=0.6, replicates=2),)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, float], str]]:
    """What was drawn: the views of the curves, the levels, the title."""
    found: list[tuple[str, dict[str, float], str]] = []

    def draw(members: Any, levels: Any, *, title: str, axis: str) -> str:
        assert axis == "samples per class"
        found.append((" ".join(member.view for member in members), dict(levels), title))
        return "picture"

    made = [Curve(predictor="p", task="guo_los", view=view, points=POINTS) for view in ("classes", "binary")]
    monkeypatch.setattr(class_sections, "curves", lambda rows, value: made)
    monkeypatch.setattr(class_sections, "few_shot", draw)
    return found


def summary_of(*rows: tuple[str, str, float]) -> Any:
    """Agent, model and macro-F1 of rows of one task."""
    classes = [
        SimpleNamespace(
            agent=agent,
            model=model,
            name=f"{agent} · {model}",
            task="guo_los",
            metrics=SimpleNamespace(macro_f1=SimpleNamespace(estimate=figure)),
        )
        for agent, model, figure in rows
    ]
    return cast(Any, SimpleNamespace(classes=classes, predictors=()))


@pytest.mark.parametrize(("count", "more"), [(7, ""), (8, ""), (9, " (8 best of 9 agents)")])
def test_the_eight_best_agents_are_drawn_and_how_many_there_are_is_said(drawn: Any, count: int, more: str) -> None:
    (panel,) = few_shot_panels((), summary_of(*((f"a{n}", "m", n / 10) for n in range(count))))
    assert panel.title == f"Long length of stay{more}"
    views, levels, title = drawn[0]
    assert (views, title) == ("classes", "Long length of stay: macro-F1 against samples per class")
    assert list(levels) == [f"a{n}" for n in range(count - 1, max(count - 9, -1), -1)][:8]


def test_ablations_are_no_level_lines_but_whole_methods_are(drawn: Any) -> None:
    few_shot_panels((), summary_of(("ehr-rag", "m", 0.5), ("rag", "m", 0.4), ("ehr-rag-no-air", "m", 0.3)))
    assert drawn[0][1] == {"ehr-rag": 0.5, "rag": 0.4}


def test_models_are_named_where_there_are_several(drawn: Any) -> None:
    few_shot_panels((), summary_of(("react", "m", 0.5), ("react", "n", 0.4)))
    assert drawn[0][1] == {"react · m": 0.5, "react · n": 0.4}


def test_of_scores_the_views_of_two_classes_are_drawn(drawn: Any) -> None:
    rows = [
        SimpleNamespace(task="guo_los", view="classes", classes=("0", "1", "2")),
        SimpleNamespace(task="guo_los", view="binary", classes=("0", "1")),
    ]
    (panel,) = auroc_panels(cast(Any, rows))
    assert panel.title == "Long length of stay, normal against the rest"
    assert drawn == [("binary", {}, f"{panel.title}: AUROC against samples per class")]


@pytest.mark.parametrize(("shots", "has"), [((), False), (("1",), False), (("1", "1"), False), (("1", "all"), True)])
def test_one_number_of_shots_is_no_curve(shots: tuple[str, ...], has: bool) -> None:
    assert has_curve(cast(Any, [SimpleNamespace(k=k) for k in shots])) is has


@pytest.mark.parametrize(("low", "high", "shown"), [(0.1234, 0.5, "12.3 – 50.0"), (None, 0.5, ""), (0.1, None, "")])
def test_an_interval_is_shown_where_both_edges_are_known(low: float | None, high: float | None, shown: str) -> None:
    assert _edges(Interval(estimate=0.3, low=low, high=high, n=900, subjects=900, standard_error=0.1)) == shown
