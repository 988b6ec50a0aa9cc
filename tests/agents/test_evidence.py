"""Evidence joined and fitted: nothing over the limit, nothing twice, nothing out of order, nothing uncounted."""

from __future__ import annotations

from functools import cache

from evidence_doubles import searched
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import often
from tools.retrieval.histories import Row, day
from wardround.agents import EstimatedTokens
from wardround.agents.evidence import Evidence, best_first, fit
from wardround.tools.retrieval import EvidenceIndex, IndicatorTrajectory, Passage

ROWS = [Row(name=f"finding {n}", time=day(n), kind="diagnosis", text="so it was " * (n % 5)) for n in range(60)]
ROWS += [Row(name=f"indicator {n % 4}", time=day(n), value=float(n), unit="u") for n in range(40)]
COUNTER = EstimatedTokens()


@cache
def index() -> EvidenceIndex:
    return searched(ROWS).evidence  # type: ignore[attr-defined,no-any-return]


def passage(start: int, end: int, score: float = 0.0) -> Passage:
    return index().passage(range(start, end), score=score)


def trajectories(count: int) -> tuple[IndicatorTrajectory, ...]:
    return index().trajectories([f"indicator {n}" for n in range(count)])


spans = st.tuples(st.integers(0, 99), st.integers(1, 30)).map(lambda span: (span[0], min(100, span[0] + span[1])))


@settings(max_examples=often(50, 150), deadline=None)
@given(st.lists(spans, max_size=6), st.integers(0, 4), st.integers(0, 2500), st.lists(st.text(max_size=90), max_size=4))
def test_fitted_evidence_keeps_the_limit_and_accounts_for_everything(
    chosen: list[tuple[int, int]], indicators: int, limit: int, queries: list[str]
) -> None:
    evidence = Evidence(
        passages=tuple(passage(start, end) for start, end in chosen),
        trajectories=trajectories(indicators),
        queries=tuple(queries),
    )
    fitted = fit(evidence, COUNTER, limit)
    facts = fitted.facts
    rows = {row for start, end in chosen for row in range(start, end)}
    assert COUNTER.count(fitted.text) == facts["tokens"] <= max(limit, 0)
    assert facts["events"] + facts["events_left_out"] == len(rows) == evidence.events
    assert facts["indicators"] + facts["indicators_left_out"] == indicators
    assert facts["passages"] + facts["passages_left_out"] == len(chosen)
    times = [line[1:20] for line in fitted.text.splitlines() if line.startswith("[2")]
    assert len(times) == facts["events"]
    assert times == sorted(times)
    left_out = facts["events_left_out"] or facts["indicators_left_out"]
    assert ("left out for room" in fitted.text) == bool(fitted.text and left_out)


def test_room_for_all_shows_all_and_the_best_come_first_where_there_is_not() -> None:
    evidence = Evidence(passages=best_first([passage(0, 20, 0.1), passage(40, 60, 0.9), passage(20, 40, 0.5)]))
    assert fit(evidence, COUNTER, 50_000).facts["events"] == 60
    sizes = [COUNTER.count(one.text) for one in evidence.passages]
    short = fit(evidence, COUNTER, sizes[0] + sizes[1] // 2 + 130)
    lines = [line for line in short.text.splitlines() if line.startswith("[2")]
    assert set(evidence.passages[0].lines) <= set(lines), "the best is whole"
    second = [line for line in lines if line in evidence.passages[1].lines]
    assert second == list(evidence.passages[1].lines[-len(second) :]), "the next keeps its latest events"
    assert 0 < len(second) < 20
    assert not set(evidence.passages[2].lines) & set(lines)
    assert (short.facts["passages"], short.facts["passages_cut"], short.facts["passages_left_out"]) == (2, 1, 1)


def test_joining_takes_turns_and_keeps_nothing_twice() -> None:
    one = Evidence(passages=(passage(0, 5), passage(5, 10)), trajectories=trajectories(2), queries=("a", "b"))
    other = Evidence(passages=(passage(10, 15), passage(0, 5)), trajectories=trajectories(3), queries=("b", "c"))
    joined = one.joined(other)
    assert [found.rows[0] for found in joined.passages] == [0, 10, 5]
    assert [found.name for found in joined.trajectories] == ["indicator 0", "indicator 1", "indicator 2"]
    assert joined.queries == ("a", "b", "c")
    assert one.joined(Evidence(passages=(passage(3, 8),))).events == 10


def test_numbers_take_no_more_than_their_share_where_there_are_events_too() -> None:
    values = trajectories(4)
    sizes = sum(COUNTER.count(one.text) + 1 for one in values)
    alone = fit(Evidence(trajectories=values), COUNTER, sizes + 130)
    beside = fit(Evidence(trajectories=values, passages=(passage(0, 60),)), COUNTER, sizes + 130)
    assert alone.facts["indicators"] == 4
    assert 0 < beside.facts["indicators"] < 4
    assert beside.facts["events"] > 0
