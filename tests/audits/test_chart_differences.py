"""What the audits count where the other copy has no such table, or no such chart at all."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from wardround.audits.leaks import ChartFindings, compare_charts


def chart(**tables: list[str]) -> Any:
    """Return a chart of tables with these rows, as far as a comparison looks at one."""
    made = {
        name: SimpleNamespace(
            name=name, columns=("row_id",), batch=pa.record_batch({"row_id": pa.array(rows, pa.string())})
        )
        for name, rows in tables.items()
    }
    return SimpleNamespace(
        subject_id=7, as_of=datetime(2150, 1, 1), age=None, table_names=tuple(made), table=made.__getitem__
    )


@pytest.mark.parametrize(
    ("expected", "extra", "lacking"),
    [
        (None, {"labs": 2, "notes": 1}, 0),
        (chart(labs=["l1"]), {"labs": 1, "notes": 1}, 1),
        (chart(notes=["n1"]), {"labs": 2}, 1),
    ],
)
def test_rows_of_a_table_that_the_other_copy_lacks_are_extra(
    expected: Any, extra: dict[str, int], lacking: int
) -> None:
    found = ChartFindings(policy="known_at")
    compare_charts(found, chart(labs=["l1", "l2"], notes=["n1"]), expected, "without it")
    assert {name: leaks.extra for name, leaks in found.tables.items() if not leaks.clean} == extra
    assert found.differences == sum(extra.values()) + lacking


@pytest.mark.parametrize(
    ("shown", "expected", "columns", "said"),
    [
        (["a", "b"], ["a"], {"": 1}, ["1 extra rows in labs, for example b"]),
        (["a"], ["a", "b", "c"], {"": 2}, ["2 missing rows in labs, for example b"]),
        (
            ["a", "d"],
            ["a", "b"],
            {"": 2},
            ["1 extra rows in labs, for example d", "1 missing rows in labs, for example b"],
        ),
        (["a", "b", "c"], ["b", "a", "c"], {"the order of its rows": 1}, ["rows of labs stand in another order"]),
        (["a", "b"], ["a", "b"], {}, []),
    ],
)
def test_what_of_a_table_is_otherwise_is_counted_and_said(
    shown: list[str], expected: list[str], columns: dict[str, int], said: list[str]
) -> None:
    found = ChartFindings(policy="known_at")
    compare_charts(found, chart(labs=shown), chart(labs=expected), "then")
    assert dict(found.of("labs").columns) == columns
    assert found.examples == [f"7 as of 2150-01-01 00:00:00: {words}" for words in said]


def test_a_table_without_rows_that_only_one_copy_has_is_a_difference() -> None:
    found = ChartFindings(policy="known_at")
    compare_charts(found, chart(labs=["l1"]), chart(labs=["l1"], notes=[]), "without it")
    assert {name: leaks.differing for name, leaks in found.tables.items() if not leaks.clean} == {"notes": 1}
