"""Ages and dates of birth, however a source writes them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

from wardround.records.chart.censor import _age, _birth, age_in_years, birth_dates
from wardround.records.specs.spec import AgeColumns

NOON = datetime(2150, 6, 5, 12)


@pytest.mark.parametrize(
    ("birth", "known", "year", "age"),
    [
        (date(2100, 6, 5), None, None, 50),
        (date(2100, 6, 6), None, None, 49),
        (date(2100, 7, 1), None, None, 49),
        (date(2100, 5, 31), None, None, 50),
        (date(2050, 1, 1), None, None, 90),
        (date(2059, 1, 1), None, None, 90),
        (date(2150, 6, 5), None, None, 0),
        (date(2150, 6, 6), None, None, None),
        (None, 40, 2148, 42),
        (None, 1, 2152, None),
        (None, 89, 2149, 90),
        (None, 40, None, None),
        (None, None, 2148, None),
        (date(2100, 6, 5), 10, 2148, 50),
    ],
)
def test_an_age_is_of_whole_years_and_90_at_most(birth: date | None, known: Any, year: Any, age: int | None) -> None:
    assert _age(birth, known, year, NOON) == age


@pytest.mark.parametrize(
    ("parts", "birth"),
    [
        ((2100, 2, 3), date(2100, 2, 3)),
        ((2100, 2, None), date(2100, 2, 1)),
        ((2100, None, 9), date(2100, 1, 9)),
        ((2100, None, None), date(2100, 1, 1)),
        ((2100, 2, 30), date(2100, 2, 1)),
        ((2100, 13, 3), date(2100, 1, 1)),
        ((None, 2, 3), None),
        ((0, 2, 3), None),
    ],
)
def test_a_birth_in_parts_is_a_day_of_the_calendar(parts: tuple[Any, Any, Any], birth: date | None) -> None:
    assert _birth(*parts) == birth


def test_a_whole_date_counts_before_its_parts_and_an_anchor_is_the_first_of_its_year() -> None:
    stored = pa.record_batch(
        {
            "dob": pa.array([date(2100, 6, 5), None, None]),
            "y": pa.array([2000, 2101, None]),
            "m": pa.array([1, 7, 1]),
            "d": pa.array([1, 1, 1]),
            "anchor": pa.array([1, 2, 30]),
            "at": pa.array([2150, 2150, 2149]),
        }
    )
    columns = AgeColumns(
        birth="dob", birth_year="y", birth_month="m", birth_day="d", anchor_age="anchor", anchor_year="at"
    )
    assert age_in_years(columns, stored, NOON).to_pylist() == [50, 48, 31]
    assert birth_dates(columns, stored) == [date(2100, 6, 5), date(2101, 7, 1), date(2119, 1, 1)]
    only = AgeColumns(anchor_age="anchor", anchor_year="absent")
    assert age_in_years(only, stored, NOON).to_pylist() == [None] * 3
    assert birth_dates(only, stored) == [None] * 3
