"""What a report begins with, from differences made by hand: who is shown to differ, and what could have been shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wardround.reports import Comparison, summarise_run
from wardround.reports.answer import answer_of, compared_answers, main_differences, p_cell, p_text
from wardround.reports.charts import round_ticks, tick_labels
from wardround.reports.forest import forest, forest_groups
from wardround.tasks.scoring import Interval, PairedTest


def difference(
    task: str, estimate: float, p: float | None, *, who: str = "b · m", subjects: int = 58, error: float | None = 0.01
) -> Comparison:
    shown = Interval(
        estimate=estimate,
        low=None if error is None else estimate - 0.02,
        high=None if error is None else estimate + 0.02,
        n=subjects,
        subjects=subjects,
        standard_error=error,
    )
    test = PairedTest(difference=shown, p_value=p, exact=True, permutations=1)
    return Comparison(contender=who, baseline="a · m", task=task, test=test, adjusted_p=p)


def test_no_shown_difference_says_which_could_have_been() -> None:
    """2.8016 standard errors, times the root of 58/57: 0.028 of 0.01, and 0.141 of 0.05."""
    rows = [difference("labs", 0.1, 0.05), difference("drugs", -0.3, 0.6, error=0.05)]
    (sentence,) = compared_answers(rows)
    assert sentence == (
        "b · m is not shown to differ from a · m on any of 2 tasks; the smallest difference that could be shown is "
        "0.028 (labs, 58 patients) to 0.141 (drugs, 58 patients)."
    )


def test_shown_differences_are_named_the_largest_first_and_alike_contenders_together() -> None:
    rows = [
        difference(task, value, p, who=who)
        for who in ("b · m", "c · m")
        for task, value, p in (
            ("labs", -0.1, 0.04),
            ("drugs", -0.3, 0.001),
            ("visits", 0.2, 0.049),
            ("units", 0.9, 0.05),
        )
    ]
    (sentence,) = compared_answers(rows)
    assert sentence.startswith(
        "b · m and c · m are better than a · m on visits, worse than a · m on drugs and labs and not shown to differ "
        "on units; the smallest"
    )


def test_few_patients_and_equal_scores_have_words_of_their_own() -> None:
    (few,) = compared_answers([difference("labs", 0.4, None, subjects=1, error=None)])
    assert few.endswith("on labs; 1 patient is too few to say which difference could be shown.")
    same = Interval(estimate=0.0, low=0.0, high=0.0, n=9, subjects=9, standard_error=0.0)
    test = PairedTest(difference=same, p_value=1.0, exact=True, permutations=1)
    row = Comparison(contender="b · m", baseline="a · m", task="labs", test=test, adjusted_p=1.0)
    assert compared_answers([row]) == [
        "b · m is not shown to differ from a · m on labs; every sample has the same score in both."
    ]


def test_a_p_value_is_never_printed_as_zero() -> None:
    assert [p_cell(p) for p in (None, 0.00004, 0.0001, 1.0)] == [None, "< 0.0001", "0.0001", "1.0000"]
    assert [p_text(p) for p in (None, 0.0009, 0.001)] == ["p not known", "p < 0.001", "p = 0.001"]


def test_a_run_without_scores_says_nothing() -> None:
    assert answer_of(summarise_run((), seed=0)) == []


def test_only_the_main_figure_over_all_strata_is_spoken_of() -> None:
    one = difference("labs", 0.1, 0.5)
    rows = [
        replace(one, stratum="rare"),
        replace(one, metric="recall", stratum="rare"),
        one,
        replace(one, metric="recall"),
    ]
    assert main_differences([*rows, replace(one, task="all")]) == [one]


def test_a_forest_plot_maps_differences_to_shares_of_its_width() -> None:
    """From -0.02 (an end of the first) to 0.12: 0 lies at 6 % + 88 % * 0.02 / 0.14 = 18.57 %."""
    drawn = str(forest(forest_groups([difference("labs", 0.0, 0.5), difference("<b>", 0.1, 0.001)])))
    assert 'class="zero" x1="18.57%"' in drawn
    assert '<line class="whisker c0" x1="6.00%" x2="31.14%"' in drawn
    assert "p = 0.001" in drawn
    assert "&lt;b&gt;" in drawn
    assert "<script" not in drawn
    assert forest({}) is None


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((0.0, 0.1), ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]),
        ((-0.87, 0.29), ["-0.8", "-0.6", "-0.4", "-0.2", "0.0", "+0.2"]),
        ((0.0, 70417.0), ["0", "+20,000", "+40,000", "+60,000"]),
        ((3.0, 3.0), ["+3"]),
    ],
)
def test_ticks_are_round_and_their_labels_exact(ends: tuple[float, float], labels: list[str]) -> None:
    ticks = round_ticks(*ends)
    assert tick_labels(ticks, signed=ends[1] != 0.1) == labels
    assert [float(label.replace(",", "")) for label in labels] == pytest.approx(ticks, abs=1e-12)
