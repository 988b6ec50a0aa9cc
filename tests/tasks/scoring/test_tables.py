"""Aggregates and tables from hand-made scores."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from wardround.core import Usage
from wardround.tasks.scoring import (
    EpisodeScore,
    EpisodeUse,
    ErrorClass,
    EvidenceCut,
    GroundingCounts,
    SetScore,
    SummaryRow,
    per_sample,
    render_table,
    summarise,
    tables,
)
from wardround.tasks.scoring.episodes import Successes
from wardround.tasks.scoring.scorer import OneClassScorer, Scorer
from wardround.tasks.scoring.tables import figure_rows


def scored(
    subject: int, f1: float, *, task: str = "labevents", stratum: str = "common", epoch: int = 0
) -> EpisodeScore:
    return EpisodeScore(
        episode=f"{task}-{subject}-{epoch}",
        agent="react",
        model="offline",
        task=task,
        sample=f"{task}-{subject}",
        epoch=epoch,
        subject_id=subject,
        split="test",
        stratum=stratum,
        finish="finish",
        answer=("x",),
        score=SetScore(precision=f1, recall=f1, f1=f1, hits=1, answered=2, wanted=4),
        winnable_recall=1.0,
        grounding=GroundingCounts(citations=2, passed=1),
        errors=frozenset({ErrorClass.NO_CANDIDATE_TOOL} if f1 == 0 else ()),
        no_prediction=None,
        use=EpisodeUse(
            turns=4,
            model_calls=4,
            usage=Usage(input_tokens=1000, output_tokens=20),
            cost=0.5,
            model_seconds=1.0,
            tool_seconds=0.5,
            tool_calls={"finish": 1},
        ),
    )


def test_epochs_of_a_sample_are_one_observation() -> None:
    scores = [scored(1, 0.0), scored(1, 1.0, epoch=1), scored(2, 0.8)]
    assert per_sample(scores) == pytest.approx({"labevents-1": 0.5, "labevents-2": 0.8})
    (row,) = summarise(scores, resamples=200)
    assert (row.n, row.subjects, row.episodes) == (2, 2, 3)
    assert row.f1.estimate == pytest.approx(0.65)
    assert row.errors[ErrorClass.NO_CANDIDATE_TOOL] == 1
    assert row.grounding.share == 0.5


def test_rows_for_strata_tasks_and_all_without_repetition() -> None:
    scores = [
        scored(1, 0.2),
        scored(2, 0.4, stratum="rare"),
        scored(3, 0.9, task="transfers"),
        scored(1, 0.1, task="transfers"),
    ]
    rows = summarise(scores, resamples=200)
    assert [(row.task, row.stratum, row.n, row.subjects) for row in rows] == [
        ("labevents", "common", 1, 1),
        ("labevents", "rare", 1, 1),
        ("labevents", "all", 2, 2),
        ("transfers", "common", 2, 2),
        ("all", "common", 3, 2),
        ("all", "all", 4, 3),
    ]
    assert rows[-1].f1.estimate == pytest.approx((0.3 + 0.5) / 2), "every task weighs alike"
    assert rows[-2].f1.estimate == pytest.approx((0.2 + 0.5) / 2)
    assert rows[-1].precision == pytest.approx(0.4)


def test_over_all_tasks_stands_the_mean_of_task_means() -> None:
    scores = [scored(n, 0.0) for n in range(9)] + [scored(20, 1.0, task="transfers")]
    rows = {row.task: row for row in summarise(scores, resamples=200)}
    assert rows["all"].f1.estimate == pytest.approx(0.5), "and not 0.1, the mean over samples"
    assert set(rows) == {"labevents", "transfers", "all"}, "one stratum: no row of its own"


def test_how_many_episodes_were_summarised_is_said_where_a_method_summarises_none_too() -> None:
    plain, other = scored(1, 0.2), replace(scored(2, 0.2), agent="retrosum")
    never = replace(other, use=replace(other.use, summarises=True))
    failed = replace(scored(3, 0.1), agent="retrosum", use=replace(never.use, summaries=2, failed_summaries=2))
    once = replace(scored(4, 0.1), agent="retrosum", use=replace(never.use, summaries=2, failed_summaries=1))
    assert "summarised" not in render_table(summarise([plain], resamples=50))
    text = render_table(summarise([plain, never, failed, once], resamples=50))
    assert "summarised" in text.splitlines()[0]
    assert "1 of 3" in next(line for line in text.splitlines() if line.startswith("retrosum"))
    assert "0 of 1" in render_table(summarise([never], resamples=50))


def test_turns_are_those_of_a_trial() -> None:
    twice = scored(1, 0.2)
    twice = replace(twice, use=replace(twice.use, turns=9, trial_turns=(6, 3)))
    [row] = summarise([twice], resamples=50)
    assert (row.turns, row.trials) == (4.5, 2.0)
    assert "trials" in render_table([row])
    assert "trials" not in render_table(summarise([scored(1, 0.2)], resamples=50))


def test_agents_are_kept_apart() -> None:
    rows = summarise([scored(1, 0.2), replace(scored(1, 0.6), agent="resum")], resamples=200)
    assert [(row.agent, row.f1.estimate) for row in rows] == [("react", 0.2), ("resum", 0.6)]
    assert "agent" in render_table(rows).splitlines()[0]


def test_the_text_table_is_aligned_and_leaves_unknown_cells_empty() -> None:
    free = scored(1, 0.5)
    unknown = replace(free.use, cost=None, usage=None)
    rows = summarise([free, replace(scored(2, 0.25, task="transfers"), use=unknown)], resamples=200)
    text = render_table(rows)
    lines = text.splitlines()
    assert len(lines) == 2 + 3
    assert "US$" in lines[0]
    assert "agent" not in lines[0]
    assert "0.5000" in lines[2]
    assert "0.5000" not in lines[3]
    assert "1,000" not in lines[4]  # the mean over all tasks is not known if one part is not
    assert "to" not in lines[2]  # one patient: no interval
    at = lines[0].index("F1") + 2
    assert {line[at - 5 : at] for line in lines[2:]} == {"0.500", "0.250", "0.375"}


def test_columns_nobody_has_are_not_shown() -> None:
    use = EpisodeUse(turns=1, model_calls=1, usage=None, cost=None, model_seconds=0.0, tool_seconds=0.0)
    rows = summarise([replace(scored(1, 0.5), use=use, grounding=GroundingCounts())], resamples=200)
    header = render_table(rows).splitlines()[0]
    assert not {"US$", "tokens in", "grounded", "failed"} & set(header.split("  "))


def test_failed_episodes_are_counted_and_score_zero() -> None:
    rows = summarise([scored(1, 0.5), replace(scored(2, 0.0), finish="error", answer=None)], resamples=200)
    assert rows[0].failed == 1
    assert rows[0].f1.estimate == pytest.approx(0.25)
    assert "failed" in render_table(rows)


def test_counts_of_many_episodes_are_added_by_column() -> None:
    some = [GroundingCounts(citations=3, read=2, passed=1), GroundingCounts(answers=2, backed=1), GroundingCounts()]
    assert GroundingCounts.total(some) == GroundingCounts(citations=3, read=2, passed=1, answers=2, backed=1)
    assert GroundingCounts.total(iter(())) == GroundingCounts()


def row(**cells: object) -> SummaryRow:
    made = summarise([scored(1, 0.5)], resamples=50)[0]
    return replace(made, **cells)  # type: ignore[arg-type]


def cell(title: str, *rows: SummaryRow) -> list[str] | None:
    """The cells of a column, None where it is not shown."""
    header, rule, *lines = render_table(rows).splitlines()
    places = [(found.start(), found.end()) for found in re.finditer("-+", rule)]
    titles = [header[start:end].strip() for start, end in places]
    if title not in titles:
        return None
    start, end = places[titles.index(title)]
    return [line[start:end].strip() for line in lines]


@pytest.mark.parametrize(
    ("title", "cells", "shown"),
    [
        ("n", {"n": 7}, "7"),
        ("patients", {"subjects": 5}, "5"),
        ("P", {"precision": 0.12345}, "0.123"),
        ("R", {"recall": 0.98765}, "0.988"),
        ("R max", {"reachable_recall": 0.75}, "0.750"),
        ("turns", {"turns": 3.14}, "3.1"),
        ("trials", {"trials": 1.25}, "1.2"),
        ("trials", {"trials": 1.0}, None),
        ("tokens in", {"input_tokens": 12345.6}, "12,346"),
        ("out", {"output_tokens": 1234.5}, "1,234"),
        ("out", {"output_tokens": None}, None),
        ("US$", {"cost": 0.0}, "0.0000"),
        ("seconds", {"seconds": 2.345}, "2.35"),
        ("grounded", {"grounding": GroundingCounts(citations=3, passed=1)}, "0.333"),
        ("lessons", {"experiences": 0.0}, "0.0"),
        ("lessons", {"experiences": None}, None),
        ("evidence cut", {"evidence_cut": EvidenceCut(episodes=2, of=3, events=10.0)}, "2 of 3 (-10)"),
        ("evidence cut", {"evidence_cut": EvidenceCut(episodes=0, of=3)}, None),
        ("evidence cut", {"evidence_cut": None}, None),
        ("summarised", {"summarised": 0, "episodes": 4}, "0 of 4"),
        ("summaries failed", {"summaries": 5, "failed_summaries": 1}, "1 of 5"),
        ("summaries failed", {"summaries": 5, "failed_summaries": 0}, None),
        ("failed", {"failed": 1}, "1"),
        ("failed", {"failed": 0}, None),
        ("right", {"successes": Successes(right=3, cited=2, corrupt=1, unread=1)}, "3"),
        ("corrupt", {"successes": Successes(right=3, cited=2, corrupt=1, unread=1)}, "1 of 2 (50%)"),
        ("unread", {"successes": Successes(right=3, cited=2, corrupt=1, unread=1)}, "1"),
        ("unread", {"successes": Successes(right=3)}, None),
        ("in", {"metric": "accuracy"}, "accuracy"),
        ("score", {"metric": "accuracy"}, "0.500"),
        ("F1", {"metric": "accuracy"}, None),
        ("in", {}, None),
        ("errors (episodes)", {"errors": {ErrorClass.TOOL_REPEAT: 2, ErrorClass.TOOL_USAGE: 0}}, "repeat:2"),
    ],
)
def test_a_column_of_the_text_table(title: str, cells: dict[str, object], shown: str | None) -> None:
    assert cell(title, row(**cells)) == (None if shown is None else [shown])


def test_a_column_is_there_where_any_row_has_it() -> None:
    cut = row(evidence_cut=EvidenceCut(episodes=1, of=1, events=2.0), failed=1, model="other")
    assert cell("model", row(), cut) == ["offline", "other"]
    assert cell("failed", row(), cut) == ["0", "1"]
    text = render_table([row(), cut]).splitlines()
    assert [line.count("1 of 1") for line in text[2:]] == [0, 1]
    assert cell("in", row(), row(metric="accuracy")) == ["F1", "accuracy"]


def test_columns_of_text_stand_left_and_numbers_right() -> None:
    lines = render_table([row(task="t", n=5), row(task="longer", n=500)]).splitlines()
    assert [line[:15] for line in lines] == ["task    stratum", "------  -------", "t       common ", "longer  common "]
    at = lines[0].index("  n") + 3
    assert [line[at - 3 : at] for line in lines] == ["  n", "---", "  5", "500"]
    assert not any(line.endswith(" ") for line in lines)


def test_calls_of_tools_are_added_and_in_order() -> None:
    scores = [
        replace(scored(n, 0.5), use=replace(scored(n, 0.5).use, tool_calls=calls))
        for n, calls in enumerate([{"sql": 2, "finish": 1}, {"finish": 1}, {}])
    ]
    (found,) = summarise(scores, resamples=50)
    assert list(found.tool_calls.items()) == [("finish", 2), ("sql", 2)]


def test_what_was_served_summarised_and_spent_is_of_all_episodes() -> None:
    use = replace(scored(1, 0.5).use, experiences=4, summaries=3, failed_summaries=1, summarises=True)
    plain = scored(2, 0.5)
    failed = replace(plain, finish="error", answer=None)
    (found,) = summarise([replace(scored(1, 0.5), use=use), failed], resamples=50)
    assert (found.experiences, found.summarised, found.summaries, found.failed_summaries) == (None, 1, 3, 1)
    assert (found.turns, found.trials, found.seconds, found.cost, found.failed) == (4.0, 1.0, 1.5, 0.5, 1)
    assert (found.input_tokens, found.output_tokens) == (1000.0, 20.0)
    (other,) = summarise([replace(scored(n, 0.5), use=replace(use, experiences=n)) for n in (1, 4)], resamples=50)
    assert other.experiences == 2.5
    (without,) = summarise([plain], resamples=50)
    assert (without.summarised, without.summaries, without.evidence_cut, without.successes.cited) == (None, 0, None, 0)


def test_a_mean_is_called_as_the_figure_that_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scorer that names its figure and says no more has its means under that name, never under F1."""

    class Alerts(Scorer):
        metric = "value of alerts"

    scorers = {"own": Alerts(), "classes": OneClassScorer(), "names": Scorer()}
    monkeypatch.setattr(tables, "get_task", lambda name: SimpleNamespace(answer=name))
    monkeypatch.setattr(tables, "scorer_of", scorers.__getitem__)
    assert tables.pooled_metric(["own"]) == "value of alerts"
    assert tables.pooled_metric(["names", "classes"]) == tables.pooled_metric(["names"]) == "F1"
    assert tables.pooled_metric(["own", "names"]) == "score"


def test_figures_stand_by_task_and_in_it_in_the_order_of_the_first_answers() -> None:
    scores = [
        replace(scored(1, 1.0, task=task), agent=agent, figures={"ratio": 0.5, "steps": 1.0})
        for task, agent in (("labevents", "react"), ("diagnosis", "flex"), ("diagnosis", "direct"))
    ]
    rows = [(row.task, row.agent, row.figure) for row in figure_rows(scores)]
    assert rows == [
        ("diagnosis", "flex", "ratio"),
        ("diagnosis", "flex", "steps"),
        ("diagnosis", "direct", "ratio"),
        ("diagnosis", "direct", "steps"),
        ("labevents", "react", "ratio"),
        ("labevents", "react", "steps"),
    ]
