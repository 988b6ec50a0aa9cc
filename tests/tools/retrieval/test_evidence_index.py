"""Evidence of small histories worked out by hand, and what holds for any history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from histories import ChosenEncoder, Row, day, history
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import often
from wardround.core import UserError
from wardround.records import Store
from wardround.tools.retrieval import (
    CachedEncoder,
    EvidenceIndex,
    LexicalEncoder,
    RetrievalSettings,
    VectorCache,
    Vectors,
    merge,
)

NOW = day(20_000)
FIRST, EARLY, MIDDLE, RECENT, LAST = 0, 3_650, 10_950, 19_820, 20_000
NAMES = ("first", "early", "middle", "recent", "last")
TEXT_EVENTS = [
    Row(name=name, time=day(number), kind="diagnosis")
    for name, number in zip(NAMES, (FIRST, EARLY, MIDDLE, RECENT, LAST), strict=True)
]


def index(rows: list[Row], cosines: dict[str, float] | None = None, **chosen: Any) -> EvidenceIndex:
    """One event per chunk unless the test says otherwise."""
    chosen = {"chunk_rows": 1, "overlap": 0} | chosen
    return EvidenceIndex(
        history(rows), as_of=NOW, encoder=ChosenEncoder(cosines or {}), settings=RetrievalSettings(**chosen)
    )


def names(passages: Any) -> list[str]:
    return [passage.text.rpartition(" - ")[2] for passage in passages]


def test_the_paper_s_settings_are_the_defaults() -> None:
    paper = {"chunk_rows": 100, "overlap": 5, "candidates": 100, "final": 5, "alpha": 0.75, "recent_days": 180}
    paper |= {"early_days": 3650, "coarse": 30, "fine": 10, "recent_values": 5, "rounds": 3, "top_passages": 10}
    defaults = RetrievalSettings()
    assert {name: getattr(defaults, name) for name in paper} == paper
    assert defaults.recent_events == 1000


@pytest.mark.parametrize(
    "wrong",
    [{"overlap": 100}, {"alpha": 1.5}, {"early_days": 0}, {"final": 0}, {"rounds": 0}, {"chunk_time": "noon"}],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        RetrievalSettings(**wrong)


def test_text_evidence_scores_are_those_of_equation_3() -> None:
    likeness = {"first": 0.1, "early": 0.2, "middle": 0.4, "recent": -0.2, "last": 0.0}
    found = index(TEXT_EVENTS, likeness).text_evidence("query")
    assert names(found) == list(NAMES)  # in time order, whatever the score
    e = math.exp(-1)
    by_hand = [
        0.75 * 0.1 + 0.25 * 1.0,
        0.75 * 0.2 + 0.25 * e,
        0.75 * 0.4 + 0.25 * e**3,
        0.75 * -0.2 + 0.25 * e,
        0.25 * 1.0,
    ]
    assert [passage.score for passage in found] == pytest.approx(by_hand, abs=1e-6)


def test_time_lifts_both_ends_over_a_likelier_middle() -> None:
    likeness = {"first": 0.3, "early": 0.1, "middle": 0.5, "recent": 0.1, "last": 0.3}
    assert names(index(TEXT_EVENTS, likeness).text_evidence("query", 2)) == ["first", "last"]
    assert names(index(TEXT_EVENTS, likeness).nearest("query", 1)) == ["middle"]
    assert names(index(TEXT_EVENTS, likeness, alpha=1.0).text_evidence("query", 1)) == ["middle"]
    assert names(index(TEXT_EVENTS, likeness, alpha=0.0).text_evidence("query", 2)) == ["first", "last"]


def test_stretched_likeness_outweighs_time_however_close_the_cosines_are() -> None:
    likeness = {"first": 0.10, "early": 0.10, "middle": 0.14, "recent": 0.12, "last": 0.10}
    assert names(index(TEXT_EVENTS, likeness).text_evidence("query", 2)) == ["first", "last"]
    found = index(TEXT_EVENTS, likeness, likeness="scaled").text_evidence("query", 2)
    assert names(found) == ["middle", "recent"]
    by_hand = [0.75 * 1.0 + 0.25 * math.exp(-3), 0.75 * 0.5 + 0.25 * math.exp(-1)]
    assert [passage.score for passage in found] == pytest.approx(by_hand, abs=1e-5)


def test_auto_stretches_the_cosines_of_the_lexical_encoder_and_of_no_other() -> None:
    def scores(encoder: Any, likeness: Any) -> list[float | None]:
        chosen = RetrievalSettings(chunk_rows=1, overlap=0, likeness=likeness)
        evidence = EvidenceIndex(history(TEXT_EVENTS), as_of=NOW, encoder=encoder, settings=chosen)
        return [passage.score for passage in evidence.text_evidence("the middle", 3)]

    dense, lexical = ChosenEncoder({"first": 0.3, "recent": 0.2}), LexicalEncoder()
    assert scores(dense, "auto") == scores(dense, "cosine") != scores(dense, "scaled")
    assert scores(lexical, "auto") == scores(lexical, "scaled") != scores(lexical, "cosine")


def test_the_pool_is_chosen_by_likeness_alone() -> None:
    likeness = {"first": 0.1, "middle": 0.5, "early": 0.4}
    assert names(index(TEXT_EVENTS, likeness, candidates=2).text_evidence("query")) == ["early", "middle"]


def test_numbers_are_not_text_events_but_infinities_are() -> None:
    rows = [
        Row(name="Sodium", time=day(1), value=140.0),
        Row(name="Ratio", time=day(2), value=float("inf")),
        Row(name="Sepsis", time=day(3)),
    ]
    evidence = index(rows)
    assert names(evidence.text_evidence("query")) == ["Ratio (value: inf)", "Sepsis"]
    assert evidence.indicators == ("Sodium",)
    assert len(evidence.nearest("query", 10)) == 3


def test_nearest_is_best_first_and_ties_go_to_the_later() -> None:
    evidence = index(TEXT_EVENTS, {"early": 0.2, "middle": 0.5})
    assert names(evidence.nearest("query", 4)) == ["middle", "early", "last", "recent"]
    assert evidence.nearest("query", 0) == ()


def test_a_birth_is_not_the_first_time_unless_asked_for() -> None:
    birth = Row(name="Birth", code="MEDS_BIRTH", kind="meds_birth", time=day(-25_550))
    rows = [birth, *TEXT_EVENTS]
    scores = {p.lines[0][-5:]: p.score for p in index(rows, alpha=0.0).text_evidence("query", 9)}
    assert scores["first"] == pytest.approx(1.0)
    scores = {p.lines[0][-5:]: p.score for p in index(rows, alpha=0.0, births=True).text_evidence("query", 9)}
    assert scores["first"] == pytest.approx(math.exp(-7))  # seventy years at ten years
    assert scores["Birth"] == pytest.approx(1.0)
    assert index([birth], alpha=0.0).text_evidence("query")[0].score == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("first", math.exp(-1)),  # ten years after the first row
        ("middle", math.exp(-3)),  # thirty years
        ("last", math.exp(-1)),  # 180 days before the prediction
        ("nearest", math.exp(-1)),
    ],
)
def test_the_time_that_stands_for_a_chunk(kind: str, expected: float) -> None:
    first, *others = TEXT_EVENTS[:4]
    evidence = index([first, first, first, *others], alpha=0.0, chunk_rows=3, chunk_time=kind)
    together = evidence.text_evidence("query")[-1]
    assert [line.split(" - ")[1] for line in together.lines] == ["early", "middle", "recent"]
    assert together.score == pytest.approx(expected)


def test_static_rows_come_first_and_have_no_time_of_their_own() -> None:
    evidence = index([Row(name="Female", kind="sex"), *TEXT_EVENTS], alpha=0.0)
    found = evidence.text_evidence("query", 6)
    assert found[0].text == "[no time] sex - Female"
    assert (found[0].start, found[0].end, found[0].score) == (None, None, 0.0)
    only = index([Row(name="Female", kind="sex", value=1.0), Row(name="Tall", kind="build")], alpha=0.0)
    assert names(only.text_evidence("query")) == ["Tall"]
    assert only.trajectories(only.indicators)[0].text == "Female: 1 at no time"


def test_indicators_by_likeness_and_their_latest_values() -> None:
    rows = [Row(name="Creatinine", time=day(number), value=number / 10, unit="mg/dL") for number in range(8)]
    rows += [Row(name="Sodium", time=day(3), value=140), Row(name="Potassium", time=day(4), value=4.1, unit="mEq/L")]
    evidence = index(rows, {"Sodium": 0.9, "Creatinine": 0.5})
    assert evidence.coarse_indicators("query") == ("Sodium", "Creatinine", "Potassium")
    assert evidence.coarse_indicators("query", 1) == ("Sodium",)
    (trajectory,) = evidence.trajectories(["creatinine ", "Creatinine", "no such thing"])
    assert trajectory.values == tuple((day(number), number / 10) for number in (3, 4, 5, 6, 7))
    assert (trajectory.unit, trajectory.total) == ("mg/dL", 8)
    assert trajectory.text == (
        "Creatinine (mg/dL): 0.3 at 2100-01-04 00:00:00, 0.4 at 2100-01-05 00:00:00, 0.5 at 2100-01-06 00:00:00, "
        "0.6 at 2100-01-07 00:00:00, 0.7 at 2100-01-08 00:00:00 (3 older not shown)"
    )
    assert evidence.row_ids(trajectory.rows) == tuple(f"events:{number}" for number in (3, 4, 5, 6, 7))


def test_units_that_differ_in_case_only_are_one_series_under_the_commoner_spelling() -> None:
    units = ["g/dL", "g/dl", "g/dL", "G/DL"]
    rows = [Row(name="Hemoglobin", time=day(n), value=10.0 + n, unit=unit) for n, unit in enumerate(units)]
    found = index(rows)
    assert found.indicators == ("Hemoglobin",)
    [series] = found.trajectories(["Hemoglobin"])
    assert (series.unit, [value for _, value in series.values]) == ("g/dL", [10.0, 11.0, 12.0, 13.0])


def test_a_series_has_one_unit_and_by_choice_one_code() -> None:
    rows = [
        Row(name="Glucose", time=day(1), value=90, unit="mg/dL", code="LAB//1"),
        Row(name="Glucose", time=day(2), value=5.0, unit="mmol/L", code="LAB//1"),
        Row(name="Glucose", time=day(3), value=7.0, code="LAB//1"),
        Row(name="Sodium", time=day(1), value=140, unit="mEq/L", code="LAB//2"),
        Row(name="Sodium", time=day(2), value=30, unit="mEq/L", code="LAB//3"),
    ]
    assert index(rows).indicators == ("Glucose [mg/dL]", "Glucose [mmol/L]", "Glucose [no unit]", "Sodium")
    by_code = index(rows, indicator="code")
    assert by_code.indicators[-2:] == ("Sodium [LAB//2]", "Sodium [LAB//3]")
    assert by_code.trajectories(["Sodium [LAB//3]"])[0].values == ((day(2), 30.0),)


def test_recent_frequent_and_uniform() -> None:
    rows = [Row(name=name, time=day(place)) for place, name in enumerate("abacabad")]
    evidence = index(rows, chunk_rows=2)
    assert evidence.recent_events(3).text.splitlines()[0].endswith("- b")
    assert evidence.frequent_events(5).rows == (0, 2, 4, 5, 6)  # four a, then the later of two b
    assert evidence.frequent_events(99).rows == tuple(range(8))
    drawn = evidence.uniform(2, seed=5)
    assert drawn == evidence.uniform(2, seed=5)
    assert drawn[0].rows < drawn[1].rows
    assert {passage.rows for seed in range(50) for passage in evidence.uniform(1, seed=seed)} == {
        (0, 1),
        (2, 3),
        (4, 5),
        (6, 7),
    }


def test_a_grown_history_reuses_the_vectors_of_its_full_chunks(tmp_path: Path) -> None:
    rows = [Row(name=f"event {place % 7}", time=day(place)) for place in range(700)]
    cache = VectorCache(tmp_path / "vectors.sqlite")
    for count, fresh in ((500, 7), (501, 1), (700, 3), (400, 1)):
        encoder = CachedEncoder(LexicalEncoder(64), cache)
        later = EvidenceIndex(history(rows[:count]), as_of=day(count), encoder=encoder)
        later.nearest("a query", 3)
        assert encoder.misses == fresh, count  # at first all 6 chunks and the query; then only what has changed
    cache.close()


def test_rows_after_the_prediction_time_are_not_touched() -> None:
    whole = history([Row(name=f"event {place}", time=day(place), value=float(place)) for place in range(50)])
    early = history([Row(name=f"event {place}", time=day(place), value=float(place)) for place in range(21)])
    cut = EvidenceIndex(whole, as_of=day(20), encoder=LexicalEncoder(64))
    own = EvidenceIndex(early, as_of=day(20), encoder=LexicalEncoder(64))
    assert (len(cut), cut.rows_later, own.rows_later) == (21, 29, 0)
    assert cut.nearest("event") == own.nearest("event")
    assert cut.frequent_events() == own.frequent_events()
    assert cut.indicators == own.indicators


ROWS = st.lists(
    st.builds(
        Row,
        name=st.sampled_from(["Sodium", "Sepsis", "", "a\nb", "[x]", "é" * 700]),
        time=st.none() | st.integers(0, 30).map(day),
        value=st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e300, -1.5]),
        text=st.none() | st.sampled_from(["", "positive", "<5", "x" * 5000, "\x00\x1b[2J"]),
        unit=st.none() | st.sampled_from(["", "mg/dL", " mg/dL"]),
        code=st.none() | st.sampled_from(["A", "B//1"]),
    ),
    max_size=40,
)


@settings(max_examples=often(50, 150), deadline=None)
@given(ROWS, st.integers(0, 30), st.integers(1, 12), st.sampled_from(["lines", "names"]))
def test_everything_found_is_on_the_chart_by_the_prediction_time(
    rows: list[Row], now: int, chunk_rows: int, embedded: Any
) -> None:
    columns = history(rows)
    chosen = RetrievalSettings(chunk_rows=chunk_rows, overlap=min(5, chunk_rows - 1), embedded=embedded)

    def look() -> list[Any]:
        evidence = EvidenceIndex(columns, as_of=day(now), encoder=LexicalEncoder(64), settings=chosen)
        passages = [
            *evidence.nearest("sodium in sepsis"),
            *evidence.uniform(3, seed=1),
            *evidence.text_evidence("sodium in sepsis"),
            evidence.recent_events(5),
            evidence.frequent_events(5),
        ]
        named = evidence.coarse_indicators("sodium in sepsis")
        assert sorted(named) == sorted(evidence.indicators)
        return [*passages, merge(*passages), *evidence.trajectories(named)]

    found = look()
    allowed = {place for place in range(len(rows)) if columns.time[place] <= to_number(day(now))}
    shown = {row for one in found for row in one.rows}
    assert shown <= allowed
    numeric = np.isfinite(columns.numeric_value)
    assert found == look()
    for one in found:
        assert list(one.rows) == sorted(set(one.rows))
        assert all(np.isfinite(value) for _, value in getattr(one, "values", ()))
        assert all(len(line) < 3000 for line in getattr(one, "lines", ()))
    if len(allowed) <= 10 * (chunk_rows - min(5, chunk_rows - 1)):
        assert shown == allowed  # a short history is found whole
    assert all(numeric[row] for one in found if hasattr(one, "values") for row in one.rows)


def to_number(moment: datetime) -> int:
    return int(np.datetime64(moment, "us").astype(np.int64))


def test_evidence_of_a_real_chart_is_on_it(synthetic_store: Store) -> None:
    subject = int(synthetic_store.subjects[3])
    times = synthetic_store.chart(subject, datetime(2300, 1, 1)).event_columns().time
    middle = datetime(1970, 1, 1) + np.timedelta64(int(times[len(times) // 2]), "us").astype(object)
    chart = synthetic_store.chart(subject, middle)
    evidence = EvidenceIndex(chart.event_columns(), as_of=chart.as_of, encoder=LexicalEncoder())
    on_chart = {event.row_id for event in chart.events()}
    passages = (*evidence.nearest("kidney function"), *evidence.text_evidence("kidney function"))
    assert passages
    for passage in passages:
        assert set(evidence.row_ids(passage.rows)) <= on_chart
        assert passage.end is None or passage.end <= middle
    assert evidence.rows_later == 0
    assert any("reatinine" in name for name in evidence.coarse_indicators("creatinine", 5))


def test_an_encoder_that_reads_little_is_reported() -> None:
    rows = [Row(name=f"a rather long event name {place}", time=day(place)) for place in range(300)]

    class Short(LexicalEncoder):
        max_tokens = 256  # type: ignore[assignment]

    assert EvidenceIndex(history(rows), as_of=NOW, encoder=Short(64)).chunks_cut_by_encoder == 4
    assert EvidenceIndex(history(rows), as_of=NOW, encoder=LexicalEncoder(64)).chunks_cut_by_encoder == 0
    names_only = RetrievalSettings(embedded="names")
    short = EvidenceIndex(history(rows), as_of=NOW, encoder=Short(64), settings=names_only)
    assert short.chunks_cut_by_encoder == 0


def test_vectors_of_names_see_the_whole_chunk() -> None:
    rows = [Row(name="filler", time=day(place)) for place in range(99)]
    rows += [Row(name="needle", time=day(99)), *(Row(name="other", time=day(place)) for place in range(100, 300))]
    evidence = index(rows, {"needle": 0.9}, chunk_rows=100, embedded="names")
    best = evidence.nearest("query", 1)[0]
    assert any("needle" in line for line in best.lines)
    # needle weighs 1, filler 1 + ln 99: the mean of (0.9, 0.4359) and 5.5951 times (0, 1)
    x, y = 0.9, 0.19**0.5 + 1 + math.log(99)
    assert best.score == pytest.approx(x / math.hypot(x, y), abs=1e-6)


def test_charts_are_encoded_side_by_side() -> None:
    """Two encoders that each wait for the other: one chart at a time would never get past them."""
    both = Barrier(2, timeout=300)

    class Meeting(LexicalEncoder):
        def encode(self, texts: Sequence[str]) -> Vectors:
            if len(texts) > 1:
                both.wait()
            return super().encode(texts)

    rows = [Row(name=f"event {place}", time=day(place)) for place in range(300)]
    indexes = [EvidenceIndex(history(rows), as_of=NOW, encoder=Meeting(64)) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda index: index.nearest("event 7"), indexes)
    assert one == other
