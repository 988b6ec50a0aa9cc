"""The report's tables on classes where several models, tasks and short samples meet, from hand-made episodes."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from runs.test_class_sections import figures
from tasks.scoring.test_class_tables import answered
from wardround.reports import summarise_run
from wardround.reports.class_sections import Cell, ablation_tables, class_tables, few_shot_panels
from wardround.reports.predictions import Curve, CurvePoint
from wardround.reports.summary import RunSummary
from wardround.tasks.scoring import EpisodeScore

TRUTH = ("0", "0", "0", "1", "1", "1")


def played(agent: str, answers: str, *, model: str = "m") -> list[EpisodeScore]:
    """Episodes with these answers, one letter each; ``-`` is none, ``x`` names no class."""
    given = [None if one == "-" else "maybe" if one == "x" else one for one in answers]
    scores = [
        answered(n, truth, answer, agent=agent) for n, (truth, answer) in enumerate(zip(TRUTH, given, strict=True))
    ]
    return [replace(score, model=model) for score in scores]


def summary(*groups: list[EpisodeScore]) -> RunSummary:
    return summarise_run([score for group in groups for score in group], seed=1)


def test_the_model_is_named_where_several_played() -> None:
    one = class_tables(summary(played("rag", "000111"), played("direct", "000110")))[0]
    assert [line.name for line in one.agents] == ["rag", "direct"]
    two = class_tables(summary(played("rag", "000111"), played("rag", "000110", model="n")))[0]
    assert [line.name for line in two.agents] == ["rag · m", "rag · n"]


def test_an_episode_without_an_answer_or_with_another_is_counted() -> None:
    (line,) = class_tables(summary(played("rag", "00-1xx")))[0].agents
    assert (line.cells["n"], line.cells["no answer"]) == ("6", "3")
    assert not {"AUROC", "evidence cut"} & set(line.cells)


def test_intervals_of_few_patients_are_not_printed_and_of_enough_are() -> None:
    six = class_tables(summary(played("rag", "001110")))[0].agents[0].cells["accuracy"]
    assert isinstance(six, Cell)
    assert six.below.count(" – ") == 1
    low, high = map(float, six.below.split(" – "))
    assert 0 <= low < six.value < high <= 100
    few = class_tables(summary(played("rag", "001110")[1:5]))[0].agents[0].cells["accuracy"]
    assert isinstance(few, Cell)
    assert few.below == ""


def test_where_all_are_alike_none_is_the_best_and_of_a_tie_both_are_without_a_lead() -> None:
    same = class_tables(summary(played("rag", "000110"), played("direct", "000110")))[0]
    assert not any(cell.is_best for line in same.agents for cell in figures(line).values())
    tied = class_tables(summary(played("rag", "000110"), played("direct", "000110"), played("react", "000000")))[0]
    accuracy = {line.name: figures(line)["accuracy"] for line in tied.agents}
    assert {name: (cell.is_best, cell.ahead) for name, cell in accuracy.items()} == {
        "direct": (True, None),
        "rag": (True, None),
        "react": (False, None),
    }
    three = class_tables(summary(played("rag", "000111"), played("direct", "000110"), played("react", "000000")))[0]
    assert next(figures(line)["accuracy"].ahead for line in three.agents if line.name == "rag") == pytest.approx(
        100 / 6
    )


def test_ablations_are_set_against_the_whole_of_their_own_model() -> None:
    found = ablation_tables(
        summary(
            played("ehr-rag", "000111"),
            played("ehr-rag-no-air", "000110"),
            played("ehr-rag", "000000", model="n"),
            played("ehr-rag-no-air", "000100", model="n"),
            played("rag", "000000", model="o"),
            played("ehr-rag", "000000", model="p"),
        )
    )
    assert [table.model for table in found] == ["m", "n"]  # one of "o" and "p" alone is no ablation
    lines = {table.model: {name: cells[0] for name, cells in table.lines} for table in found}
    assert {name: cell.ahead for name, cell in lines["m"].items() if cell} == {
        "EHR-RAG": None,
        "w/o AIR": pytest.approx(-100 / 6),
    }
    assert {name: cell.ahead for name, cell in lines["n"].items() if cell} == {
        "EHR-RAG": None,
        "w/o AIR": pytest.approx(100 / 6),
    }
    assert [table.tasks for table in found] == [("Long length of stay",)] * 2


def test_a_task_that_an_ablation_did_not_play_has_empty_cells() -> None:
    other = [
        replace(score, task="guo_readmission", sample=f"r{n}") for n, score in enumerate(played("ehr-rag", "000111"))
    ]
    (table,) = ablation_tables(summary(played("ehr-rag", "000111"), other, played("rag", "000000")))
    cells = dict(table.lines)
    assert len(table.tasks) == 2
    assert [cell is None for cell in cells["Vanilla RAG"]] == [False, False, True, True]
    assert all(cells["EHR-RAG"])


def levels(chart: str) -> list[str]:
    """The names at the level lines of a panel."""
    texts = [text.text or "" for text in ElementTree.fromstring(chart).iter("text")]
    return [text.rpartition(" ")[0] for text in texts if text.rpartition(" ")[0].startswith("agent")]


@pytest.mark.parametrize(("agents", "shown", "more"), [(8, 8, ""), (9, 8, " (8 best of 9 agents)")])
def test_the_figure_shows_the_eight_best_agents(
    agents: int, shown: int, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = Curve(
        predictor="p",
        task="guo_los",
        view="classes",
        points=(CurvePoint(k=8, mean=0.5, low=0.5, high=0.5, replicates=1),),
    )
    monkeypatch.setattr("wardround.reports.class_sections.curves", lambda rows, value: (curve,))
    right = [played("agent0", "000000"), *(played(f"agent{n}", "000111") for n in range(1, agents))]
    (panel,) = few_shot_panels([], summary(*right))
    assert panel.title == f"Long length of stay{more}"
    found = levels(str(panel.chart))
    assert len(found) == shown
    assert ("agent0" in found) is (agents == 8)  # the worst is left out first
