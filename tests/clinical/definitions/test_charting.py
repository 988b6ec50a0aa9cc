"""Definitions on charts of the synthetic intensive care: worst of the window, unknown where nothing is charted."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from wardround.clinical.definitions import DEFINITIONS, score_at, sofa_coagulation
from wardround.core import UserError
from wardround.records import Chart, Store

PLATELETS = 51265


@pytest.fixture(scope="module")
def stays(synthetic_store: Store) -> list[tuple[int, datetime]]:
    """The first few people in intensive care, and when they came."""
    rows = [(subject, batch.to_pylist()[0]["intime"]) for subject, batch in synthetic_store.scan("icustays")]
    return [(subject, came) for subject, came in rows if came is not None][:4]


def chart_after(store: Store, stay: tuple[int, datetime], hours: float) -> Chart:
    return store.chart(stay[0], stay[1] + timedelta(hours=hours))


def test_every_definition_has_a_value_or_says_what_is_unknown(
    synthetic_store: Store, stays: list[tuple[int, datetime]]
) -> None:
    for name in DEFINITIONS:
        for stay in stays[:2]:
            found = score_at(chart_after(synthetic_store, stay, 20), name)
            assert found.value is not None or found.unknown


def test_before_anything_is_charted_all_is_unknown_and_nothing_is_normal(
    synthetic_store: Store, stays: list[tuple[int, datetime]]
) -> None:
    for subject, _ in stays[:2]:
        chart = synthetic_store.chart(subject, datetime(1900, 1, 1))
        for name in DEFINITIONS:
            found = score_at(chart, name)
            assert found.value is None, name
            assert found.unknown, name


def test_the_worst_value_of_the_window_counts_and_the_window_ends_at_the_moment(
    synthetic_store: Store, stays: list[tuple[int, datetime]]
) -> None:
    seen = 0
    for stay in stays:
        chart = chart_after(synthetic_store, stay, 24)
        for hours in (6, 24):
            since = chart.as_of - timedelta(hours=hours)
            values = [
                row["valuenum"]
                for row in chart.table("labevents").batch.to_pylist()
                if row["itemid"] == PLATELETS and row["valuenum"] is not None and row["charttime"] > since
            ]
            expected = sofa_coagulation(min(values)) if values else None
            assert score_at(chart, "sofa", hours=hours).parts["coagulation"] == expected
            seen += expected is not None
    assert seen


def test_urine_of_less_than_the_window_is_unknown(synthetic_store: Store, stays: list[tuple[int, datetime]]) -> None:
    for stay in stays:
        assert score_at(chart_after(synthetic_store, stay, 1), "urine_output", hours=240).value is None


def test_another_name_or_source_is_refused(synthetic_store: Store, stays: list[tuple[int, datetime]]) -> None:
    with pytest.raises(UserError, match="choose one of gcs, sofa"):
        score_at(chart_after(synthetic_store, stays[0], 1), "apache")
