"""Corrupt successes, from hand-made episodes."""

from __future__ import annotations

from dataclasses import replace

from tasks.scoring.test_tables import scored
from wardround.tasks.scoring import EpisodeScore, GroundingCounts, Successes, render_table, successes, summarise


def cited(subject: int, f1: float, citations: int, passed: int, *, agent: str = "react") -> EpisodeScore:
    counts = GroundingCounts(citations=citations, existing=citations, read=citations, supporting=passed, passed=passed)
    return replace(scored(subject, f1), agent=agent, grounding=counts)


def test_a_right_answer_with_one_wrong_row_is_corrupt() -> None:
    """Four right answers: one sound, two with a row that fails, one that cites nothing. A wrong answer is no success
    whatever it cites."""
    some = [cited(1, 1.0, 2, 2), cited(2, 1.0, 2, 1), cited(3, 1.0, 1, 0), cited(4, 1.0, 0, 0), cited(5, 0.5, 2, 0)]
    found = successes(some)
    assert found == Successes(right=4, cited=3, corrupt=2)
    assert (found.uncited, found.share, found.short) == (1, 2 / 3, "2 of 3 (67%)")


def test_right_answers_without_citations_are_not_called_corrupt() -> None:
    found = successes([cited(1, 1.0, 0, 0), cited(2, 1.0, 0, 0)])
    assert found == Successes(right=2)
    assert (found.uncited, found.share, found.short) == (2, None, "")


def test_a_class_is_named_by_no_row_so_only_existing_and_read_count() -> None:
    """Three right answers of one class, no row supports any: rows there and read; one not read; one not there."""
    some = [
        replace(scored(n, 1.0, task="guo_icu"), grounding=GroundingCounts(citations=2, existing=existing, read=read))
        for n, (existing, read) in enumerate([(2, 2), (2, 1), (1, 2)])
    ]
    assert successes(some) == Successes(right=3, cited=3, corrupt=2, unread=2)


def test_rows_that_were_not_read_are_told_from_rows_that_do_not_support() -> None:
    """Two corrupt successes: one cites a row that speaks of something else, one a row that it was never shown."""
    unread = GroundingCounts(citations=2, existing=2, read=1, supporting=2, passed=1)
    some = [cited(1, 1.0, 2, 1), replace(cited(2, 1.0, 2, 1), grounding=unread)]
    assert successes(some) == Successes(right=2, cited=2, corrupt=2, unread=1)


def test_no_answer_is_no_success() -> None:
    assert successes([replace(cited(1, 1.0, 1, 0), answer=None)]) == Successes()


def test_each_agent_has_its_own_in_the_table() -> None:
    some = [
        cited(1, 1.0, 1, 0),
        cited(2, 1.0, 1, 1),
        cited(1, 1.0, 1, 1, agent="resum"),
        cited(2, 0.0, 1, 0, agent="resum"),
    ]
    rows = summarise(some, resamples=200)
    assert {row.agent: row.successes.short for row in rows} == {"react": "1 of 2 (50%)", "resum": "0 of 1 (0%)"}
    header, _, react, resum = render_table(rows).splitlines()
    end = header.index("corrupt") + len("corrupt")
    assert (react[:end].endswith(" 1 of 2 (50%)"), resum[:end].endswith(" 0 of 1 (0%)")) == (True, True)


def test_a_table_without_cited_successes_has_no_such_columns() -> None:
    header = render_table(summarise([cited(1, 1.0, 0, 0), cited(2, 0.5, 1, 0)], resamples=200)).splitlines()[0]
    assert "corrupt" not in header
    assert "right" not in header
