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
from wardround.reports.figures import (
    calibration_figure,
    learning_figure,
    run_figures,
    safety_figure,
    without_figures,
    write_figures,
)
from wardround.reports.predictions import Curve, CurvePoint, ReliabilityBin
from wardround.tasks.scoring import SafetyPoint

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
