"""Recall@5 by hand: per step and type, micro and macro, by name and by class."""

from __future__ import annotations

import pytest

from wardround.tasks.scoring.stays import StepActionsScorer, recall_rows, step_hits

TARGET = (
    "00000|MEDICATIONS|Piperacillin-Tazobactam",
    "00000|LABS|Sodium",
    "00000|LABS|Potassium",
    "00000|LABS|Hemoglobin",
    "00002|LABS|Lactate",
)


def hits(answer: tuple[str, ...] | None, matching: str = "name") -> list[tuple[int, str, int, int]]:
    found = step_hits(answer, TARGET, matching)  # type: ignore[arg-type]
    return [(one.step, one.kind, one.hits, one.targets) for one in found]


def test_a_hit_is_at_its_own_step_and_type_under_any_spelling() -> None:
    answer = ("00000|LABS|K", "00001|LABS|Lactate", "00002|MEDICATIONS|Lactate", "00000|MEDICATIONS|Zosyn")
    assert hits(answer) == [(0, "LABS", 1, 3), (0, "MEDICATIONS", 1, 1), (2, "LABS", 0, 1)]
    assert hits(None) == [(0, "LABS", 0, 3), (0, "MEDICATIONS", 0, 1), (2, "LABS", 0, 1)]


def test_only_the_first_five_of_a_type_count_and_a_repeat_takes_no_place() -> None:
    wrong = tuple(f"00002|LABS|other {place}" for place in range(5))
    assert hits((*wrong, "00002|LABS|Lactate"))[-1] == (2, "LABS", 0, 1)
    assert hits((*wrong[:4], *wrong[:4], "00002|LABS|Lactate"))[-1] == (2, "LABS", 1, 1)


def test_an_action_of_every_step_counts_behind_those_of_the_step() -> None:
    wrong = tuple(f"00002|LABS|other {place}" for place in range(5))
    assert hits(("*|LABS|Lactate",))[-1] == (2, "LABS", 1, 1)
    assert hits(("*|LABS|Lactate", *wrong))[-1] == (2, "LABS", 0, 1)


def test_by_class_a_panel_is_one_order_and_a_drug_its_narrowest_class() -> None:
    answer = ("00000|LABS|Creatinine", "00000|MEDICATIONS|Cefepime")
    assert hits(answer, "class") == [(0, "LABS", 1, 2), (0, "MEDICATIONS", 0, 1), (2, "LABS", 0, 1)]
    assert hits(("00000|MEDICATIONS|broad-spectrum antibiotics",), "class")[1] == (0, "MEDICATIONS", 1, 1)


def test_the_scorer_pools_a_stay_and_rows_pool_or_average_stays() -> None:
    answer = ("00000|LABS|Sodium", "00002|LABS|Lactate")
    assert StepActionsScorer().figures(answer, TARGET, None) == {"recall@5": pytest.approx(2 / 5)}
    other = ("00000|LABS|Lactate",)
    rows = {(row.kind, row.matching): row for row in recall_rows("x", [(answer, TARGET, 1), (None, other, 2)])}
    labs = rows["LABS", "name"]
    assert labs.micro.estimate == pytest.approx(2 / 5)  # 2 of 3 + 1 and 0 of 1
    assert labs.macro.estimate == pytest.approx(((1 / 3 + 1) / 2 + 0) / 2)
    assert (labs.steps, labs.targets, labs.stays) == (3, 5, 2)
    assert rows["MEDICATIONS", "name"].stays == 1
    assert ("PROCEDURES", "name") not in rows


def test_a_draw_of_more_than_five_is_capped_and_what_was_said_in_vain_lowers_precision() -> None:
    """Seven tests are drawn, three of the five predicted are among them; at another step one of one, of two said."""
    target = (*(f"00000|LABS|test {place}" for place in range(7)), "00001|LABS|Lactate")
    said = (*(f"00000|LABS|test {place}" for place in (0, 1, 2, 8, 9, 3)), "00001|LABS|Lactate", "00001|LABS|Iron")
    (labs, *_) = recall_rows("x", [(said, target, 1)])
    assert labs.micro.estimate == pytest.approx(4 / 8)
    assert labs.capped == pytest.approx(4 / 6)
    assert labs.precision == pytest.approx(4 / 7)
