"""Cutting stored rows down to a moment, and the moments at which they changed: on a table of a few rows, by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from wardround.records.chart.censor import censored, late_masks, published
from wardround.records.chart.revisions import first_known, last_revisions, read_revisions
from wardround.records.rules.language import ALWAYS, Column, parse_rule
from wardround.records.shards.layout import NEVER_TIME, TableLayout, table_layout
from wardround.records.shards.row_ids import numbered_ids
from wardround.records.specs.spec import PendingRows, PublishedClock, TableSpec

NEVER = int(NEVER_TIME)
NOW = 10
AS_OF = datetime(2150, 1, 1)
COLUMNS = {"id": "int", "a": "text", "b": "text", "end": "time"}
SPEC = TableSpec(
    name="t",
    module="m",
    path="t",
    columns=COLUMNS,  # type: ignore[arg-type]
    event_time=Column("at"),
    available_at=ALWAYS,
    key=("id",),
    late={"a": Column("end"), "b": parse_rule("max(end, other)")},
)


def times(*values: int | None) -> Any:
    return pa.array(values, pa.timestamp("us"))


def stored(rows: list[tuple[Any, ...]], *names: str) -> pa.RecordBatch:
    """Rows of event, available, end and the clock of b; then whole numbers or times under more names."""
    count = len(rows)
    columns: dict[str, Any] = {
        "row_id": [f"t:{n}" for n in range(count)],
        "id": list(range(count)),
        "a": [f"a{n}" for n in range(count)],
        "b": [f"b{n}" for n in range(count)],
    }
    clocks = ("_event", "_available", "end", "_late:b", *names)
    for place, name in enumerate(clocks):
        cells = [row[place] for row in rows]
        columns[name] = cells if name in ("_version", "_group") else times(*cells)
    return pa.record_batch(columns)


def layout_of(spec: TableSpec = SPEC) -> TableLayout:
    return table_layout(spec, list(COLUMNS), {})


def shown(cut: tuple[pa.RecordBatch, Any]) -> list[tuple[Any, ...]]:
    batch, event = cut
    rows = batch.to_pylist()
    return [(row["id"], row.get("a"), row.get("b"), int(at)) for row, at in zip(rows, event, strict=True)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(10, 10, 10, 10)], [(0, "a0", "b0", 10)]),
        ([(11, 1, 1, 1), (1, 11, 1, 1)], []),
        ([(5, 5, 11, 11)], [(0, None, None, 5)]),
        ([(5, 5, None, 10)], [(0, None, "b0", 5)]),
        ([(5, 5, 10, 11), (2, 3, 11, 9)], [(0, "a0", None, 5), (1, None, "b1", 2)]),
        ([(1, 1, 1, 1), (2, 2, 1, 1), (3, 11, 1, 1)], [(0, "a0", "b0", 1), (1, "a1", "b1", 2)]),
        ([(1, 1, 1, 1), (3, 11, 1, 1), (4, 4, 1, 1)], [(0, "a0", "b0", 1), (2, "a2", "b2", 4)]),
    ],
)
def test_a_row_shows_from_its_own_moment_on_and_a_late_cell_from_its_own(
    rows: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]
) -> None:
    assert shown(censored(layout_of(), stored(rows), AS_OF, NOW)) == expected


def test_a_version_shows_until_the_next_is_known() -> None:
    batch = stored([(1, 1, 1, 1, 10), (1, 1, 1, 1, 11), (1, 1, 1, 1, NEVER)], "_until")
    assert [row[0] for row in shown(censored(layout_of(), batch, AS_OF, NOW))] == [1, 2]


def test_no_rows_are_none_of_the_right_columns() -> None:
    batch, event = censored(layout_of(), None, AS_OF, NOW)
    assert batch.schema.names == ["row_id", *COLUMNS]
    assert (batch.num_rows, len(event)) == (0, 0)
    hiding = layout_of(replace(SPEC, published=PublishedClock(hide=("b",))))
    assert published(hiding, None, AS_OF, NOW)[0].schema.names == ["row_id", "id", "a", "end"]


@pytest.mark.parametrize(("operator", "ids"), [("<", [0]), ("<=", [0, 1])])
def test_the_papers_clock_compares_as_they_do_and_hides_nothing_else(operator: Any, ids: list[int]) -> None:
    clock = PublishedClock(time=Column("at"), hide=("b",), operator=operator)
    batch = stored([(99, 99, 99, 99, 9, 0), (1, 1, 1, 1, 10, 0), (1, 1, 1, 1, 11, 0), (1, 1, 1, 1, 1, 1)],
                   "_published", "_version")  # fmt: skip
    found = shown(published(layout_of(replace(SPEC, published=clock)), batch, AS_OF, NOW))
    assert [row[:3] for row in found] == [(n, f"a{n}", None) for n in ids]


def test_without_a_clock_the_papers_show_every_first_version() -> None:
    batch = stored([(99, 99, 99, 99, 0), (1, 1, 1, 1, 1), (50, 1, 1, 1, 0)], "_version")
    assert [row[0] for row in shown(published(layout_of(), batch, AS_OF, NOW))] == [0, 2]


def test_only_cells_that_are_not_known_are_masked_each_row_by_its_own_moment() -> None:
    batch = stored([(1, 1, 10, 1), (1, 1, 11, 1), (1, 1, None, 1)])
    masks = late_masks(layout_of(), batch, NOW)
    assert {name: mask.tolist() for name, mask in masks.items()} == {"a": [False, True, True]}
    masks = late_masks(layout_of(), batch, np.array([9, 11, 99]))
    assert masks["a"].tolist() == [True, False, True]


PENDING = replace(
    SPEC, pending=PendingRows(group=("id",), columns=("id",), at=Column("at"), until=Column("end")), late={}
)


def test_what_is_ordered_shows_as_one_row_until_something_of_it_is_known() -> None:
    batch = stored(
        [
            (2, 20, 1, 1, 5, 1),
            (2, 30, 1, 1, 3, 1),
            (6, 8, 1, 1, 1, 2),
            (6, 20, 1, 1, 4, 2),
            (2, 20, 1, 1, 11, 3),
            (2, 20, 1, 1, 10, 4),
        ],
        "_pending",
        "_group",
    )
    cut = censored(layout_of(PENDING), batch, AS_OF, NOW)
    assert shown(cut) == [(0, None, None, 3), (2, "a2", "b2", 6), (5, None, None, 10)]
    first, last = numbered_ids("t", np.array([1, 4])).to_pylist()
    assert cut[0].column("row_id").to_pylist() == [first, "t:2", last]
    assert shown(censored(layout_of(PENDING), batch, AS_OF, 2)) == [(2, None, None, 1)]
    assert shown(censored(layout_of(PENDING), batch, AS_OF, 0)) == []


def test_a_chart_shows_a_row_from_the_later_of_its_two_clocks() -> None:
    batch = stored(
        [(5, 7, 1, 1, 99), (8, 7, 1, 1, 99), (5, NEVER, 1, 1, 99), (5, 7, 1, 1, 7), (5, 7, 1, 1, 8)], "_until"
    )
    assert first_known(batch).tolist() == [7, 8, NEVER, NEVER, 7]


ROWS = [
    (5, 10, 12, 15),
    (5, 10, 9, 10),
    (5, 10, 20, 20),
    (5, NEVER, 12, 15),
    (5, 10, None, NEVER),
]


def told(found: Any) -> list[tuple[list[int], list[int], list[int]]]:
    return [(one.rows.tolist(), one.known.tolist(), one.number.tolist()) for one in found]


def test_a_row_is_told_again_whenever_a_cell_was_filled_in() -> None:
    found = list(read_revisions(layout_of(), stored(ROWS), np.arange(5), frozenset("ab")))
    assert told(found) == [
        ([0, 1, 2, 4], [10] * 4, [0] * 4),
        ([0, 2], [12, 20], [1, 1]),
        ([0], [15], [2]),
    ]
    cells = [[(row["a"], row["b"]) for row in one.batch.to_pylist()] for one in found]
    assert cells == [
        [(None, None), ("a1", "b1"), (None, None), (None, None)],
        [("a0", None), ("a2", "b2")],
        [("a0", "b0")],
    ]
    assert found[1].subject.tolist() == [0, 2]
    assert not any(one.is_pending or one.is_withdrawn for one in found)


def test_only_wanted_cells_and_filled_ones_make_a_revision() -> None:
    batch = stored(ROWS)
    assert told(read_revisions(layout_of(), batch, np.arange(5), frozenset("b")))[1:] == [([0, 2], [15, 20], [1, 1])]
    empty = batch.set_column(2, "a", pa.array([None] * 5, pa.string()))
    assert told(read_revisions(layout_of(), empty, np.arange(5), frozenset("a")))[1:] == []


def test_a_row_taken_back_is_told_once_after_its_last_version() -> None:
    batch = stored([(1, 1, 1, 1, 20, 0), (1, 20, 1, 1, 30, 1), (1, 1, 1, 1, NEVER, 0), (1, NEVER, 1, 1, 40, 0)],
                   "_until", "_version")  # fmt: skip
    batch = batch.set_column(0, "row_id", pa.array(["x", "x", "y", "z"]))
    found = list(read_revisions(layout_of(), batch, np.array([0, 0, 1, 2]), frozenset("ab")))
    assert [one.is_withdrawn for one in found] == [False, True]
    assert told(found) == [([0, 1, 2], [1, 20, 1], [0, 1, 0]), ([1], [30], [2])]


def test_in_the_end_every_row_is_told_once_when_all_of_it_was_known() -> None:
    found = list(last_revisions(layout_of(), stored(ROWS), np.arange(5)))
    rows, known, number = told(found)[0]
    assert (rows, number) == ([0, 1, 2, 4], [0] * 4)
    assert known == [15, 10, 20, 10]


def test_orders_are_told_where_they_ran_before_a_result_and_in_the_end_where_none_came() -> None:
    batch = stored(
        [
            (1, 20, 1, 1, 5, 1),
            (1, 30, 1, 1, 3, 1),
            (1, 4, 1, 1, 4, 2),
            (1, NEVER, 1, 1, 7, 3),
            (1, 20, 1, 1, NEVER, 4),
            (1, 20, 1, 1, None, 5),
        ],
        "_pending",
        "_group",
    )
    subject = np.array([1, 1, 1, 1, 1, 1])
    orders = [one for one in read_revisions(layout_of(PENDING), batch, subject) if one.is_pending]
    assert told(orders) == [([1, 3], [3, 7], [0, 0])]
    assert orders[0].batch.column("row_id").to_pylist() == numbered_ids("t", np.array([1, 3])).to_pylist()
    assert [(row["id"], row["a"], row["end"]) for row in orders[0].batch.to_pylist()] == [
        (1, None, None),
        (3, None, None),
    ]
    last = [one for one in last_revisions(layout_of(PENDING), batch, subject) if one.is_pending]
    assert told(last) == [([3], [7], [0])]
    two = [one for one in read_revisions(layout_of(PENDING), batch, np.array([1, 2, 2, 2, 2, 2])) if one.is_pending]
    assert told(two) == [([0, 1, 3], [5, 3, 7], [0, 0, 0])]
