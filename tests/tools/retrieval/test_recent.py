"""The text a chart is recognised by: every table in it, bounded, nothing from after the as-of time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import often
from wardround.core import estimate_tokens
from wardround.records import Store, TableSpec
from wardround.records.rules.language import ALWAYS
from wardround.tools.retrieval import describe_recent_events
from wardround.tools.retrieval.recent import share_out

NOON = datetime(2150, 6, 1, 12)


class SmallTable:
    """Literal rows with the surface of ``records.ChartTable``."""

    def __init__(self, name: str, rows: list[tuple[datetime | None, str]]) -> None:
        columns = {"charttime": "time", "label": "text", "code": "int"}
        self.spec = TableSpec(
            name=name,
            module="m",
            path=name,
            columns=columns,  # type: ignore[arg-type]
            event_time=ALWAYS,
            available_at=ALWAYS,
            label="label",
            code="code",
        )
        times = [moment for moment, _ in rows]
        self.event_time = np.array(
            [np.datetime64("NaT") if moment is None else moment for moment in times], "datetime64[us]"
        )
        self.batch: Any = pa.record_batch(
            [
                pa.array([f"{name}:{number}" for number in range(len(rows))], pa.string()),
                pa.array(times, pa.timestamp("us")),
                pa.array([label for _, label in rows], pa.string()),
                pa.array([987654] * len(rows), pa.int64()),
            ],
            names=["row_id", *columns],
        )


class SmallChart:
    """Tables by name."""

    as_of = NOON

    def __init__(self, **tables: list[tuple[datetime | None, str]]) -> None:
        self._tables = {name: SmallTable(name, rows) for name, rows in tables.items()}
        self.table_names = tuple(tables)

    def table(self, name: str) -> SmallTable:
        return self._tables[name]


def hours_ago(hours: float) -> datetime:
    return NOON - timedelta(hours=hours)


def test_latest_rows_newest_table_first_static_last_and_no_identifier() -> None:
    chart = SmallChart(
        patients=[(None, "F 52")],
        old=[(hours_ago(2000), "appendectomy")],
        labs=[(hours_ago(30), "sodium"), (hours_ago(2), "potassium"), (hours_ago(2), "glucose")],
        nothing=[],
    )
    assert describe_recent_events(chart).splitlines() == [
        "labs (latest within 6 hours): potassium; glucose",
        "old (latest within a year): appendectomy",
        "patients (at all times): F 52",
    ]


def test_a_cut_is_said_and_drops_no_table() -> None:
    many = [(hours_ago(1), f"finding number {number} of a long list") for number in range(60)]
    chart = SmallChart(labs=many, short=[(hours_ago(3), "cough")], notes=[(hours_ago(4), "word " * 3000)])
    lines = describe_recent_events(chart, max_tokens=200).splitlines()
    assert [line.split()[0] for line in lines] == ["labs", "short", "notes"]
    assert lines[0].endswith("... (60 rows)")
    assert lines[1].endswith(": cough")
    assert lines[2].endswith(" ...")


def test_no_word_or_number_is_cut_in_its_middle() -> None:
    """1 of 133 would be another value."""
    words = [f"{place}133 mmHg" for place in range(400)]
    chart = SmallChart(vitals=[(hours_ago(1), " ".join(words))])
    for tokens in range(40, 80):
        said = describe_recent_events(chart, max_tokens=tokens).partition(": ")[2].removesuffix(" ...")
        assert set(said.split()) <= {part for word in words for part in word.split()}


def test_a_number_that_no_label_names_has_its_column_s_name(synthetic_store: Store) -> None:
    charts = (synthetic_store.chart(subject, NOON.replace(year=2300)) for subject in map(int, synthetic_store.subjects))
    lines = [line for chart in charts for line in describe_recent_events(chart).splitlines()]
    vitals = [line.partition(": ")[2] for line in lines if line.startswith("vitalsign ")]
    assert vitals
    assert all(re.match(r"(temperature|heartrate|resprate) \d", line) for line in vitals)
    pains = [line for line in vitals if re.search(r"pain \d", line)]
    assert pains
    assert not any(re.search(r"\d( \d+)+$", line) for line in vitals)
    triage = [line.partition(": ")[2] for line in lines if line.startswith("triage ")]
    assert triage
    assert all(re.search(r" (temperature|heartrate|resprate) \d", line) for line in triage)  # behind the complaint
    labs = [line.partition(": ")[2] for line in lines if line.startswith("labevents ")]
    assert not any("valuenum" in line or "ref_range_lower" in line for line in labs)


@settings(max_examples=often(20, 60), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([f"table{number}" for number in range(12)]),
        st.lists(st.tuples(st.integers(0, 90), st.text(min_size=1, max_size=300)), min_size=1, max_size=30),
        min_size=1,
    ),
    st.integers(400, 2000),
)
def test_every_table_with_rows_is_there_and_the_whole_is_bounded(
    rows: dict[str, list[tuple[int, str]]], max_tokens: int
) -> None:
    chart = SmallChart(**{name: [(hours_ago(hours), text) for hours, text in some] for name, some in rows.items()})
    text = describe_recent_events(chart, max_tokens=max_tokens)
    assert {line.split()[0] for line in text.split("\n")} == set(rows)
    assert estimate_tokens(text) <= max_tokens + 2 * len(rows)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=20), st.integers(0, 5000))
def test_shares_are_fair(needs: list[int], total: int) -> None:
    shares = share_out(needs, total, least=10)
    assert all(min(need, 10) <= share <= need for need, share in zip(needs, shares, strict=True))
    assert sum(shares) <= max(total, sum(min(need, 10) for need in needs))
    if sum(needs) <= total:
        assert shares == needs
    cut = [share for need, share in zip(needs, shares, strict=True) if share < need]
    assert not cut or max(cut) - min(cut) <= len(needs) or min(cut) <= 10


def test_real_charts_say_nothing_of_time_or_number_and_stay_within_bounds(synthetic_store: Store) -> None:
    subject = int(synthetic_store.subjects[0])
    chart = synthetic_store.chart(subject, datetime(2200, 1, 1))
    text = describe_recent_events(chart)
    filled = [name for name in chart.table_names if chart.table(name).batch.num_rows]
    assert {line.split()[0] for line in text.splitlines()} == set(filled)
    assert str(subject) not in text
    assert not re.search(r"\b2\d{3}-\d\d-\d\d\b", text.split("admission_note")[0])
    assert estimate_tokens(text) <= 2048 + 2 * len(filled)


def test_what_comes_later_changes_nothing(synthetic_store: Store) -> None:
    """The text as of a moment is made of the chart alone, which holds nothing later."""
    subject = int(synthetic_store.subjects[1])
    times = [event.time for event in synthetic_store.chart(subject, datetime(2200, 1, 1)).events() if event.time]
    middle = times[len(times) // 2]
    early = describe_recent_events(synthetic_store.chart(subject, middle))
    assert early == describe_recent_events(synthetic_store.chart(subject, middle))
    assert early != describe_recent_events(synthetic_store.chart(subject, datetime(2200, 1, 1)))


def test_the_headings_say_how_long_ago() -> None:
    for hours, words in ((0, "hour"), (5, "6 hours"), (20, "day"), (100, "week"), (500, "month"), (9000, "more than")):
        assert words in describe_recent_events(SmallChart(labs=[(hours_ago(hours), "sodium")]))
    with pytest.raises(KeyError):
        SmallChart().table("labs")
