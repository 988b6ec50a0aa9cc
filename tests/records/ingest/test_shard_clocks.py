"""The clocks of a shard on tables held in memory: what one table's rows may take from another's, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from records.small_source import small_spec
from wardround.records import SourceSpec
from wardround.records.ingest.clocks import (
    ClockSettings,
    ShardClocks,
    TableFrame,
    delay_counts,
    half_of,
    median_of_counts,
    rule_columns,
)
from wardround.records.rules.language import NO_TIME, Column, parse_rule

SPEC = """
[source]
name = "small"
[tables.stays]
path = "stays"
key = ["stay"]
event_time = "start"
available_at = "start"
[tables.stays.columns]
subject_id = "int"
stay = "text"
start = "time"
end = "time"
why = "text"
[tables.stays.late]
why = "end"
[tables.orders]
path = "orders"
key = ["number"]
event_time = "at"
available_at = "max(at, known(stay, stays))"
[tables.orders.columns]
subject_id = "int"
number = "int"
stay = "text"
at = "time"
done = "time"
kind = "text"
level = "int"
dose = "float"
[tables.orders.late]
done = "max(done, ref(stay, stays, end), cell(stay, stays, why))"
"""
S = 1_000_000
"""A second."""
TIME = pa.timestamp("us")


def times(*cells: int | None) -> Any:
    return pa.array([None if cell is None else cell * S for cell in cells], TIME)


STAYS = pa.record_batch(
    {
        "subject_id": pa.array([1, 1, 1, 2]),
        "stay": pa.array(["b", "a", "c", "d"]),
        "start": times(10, 20, None, 5),
        "end": times(15, 30, 40, None),
        "why": pa.array(["x", None, "z", "w"]),
    }
)
ORDERS = pa.record_batch(
    {
        "subject_id": pa.array([1, 1, 1, 2, 1, 1]),
        "number": pa.array([1, 2, 3, 4, 5, 6]),
        "stay": pa.array(["a", "b", "c", "d", None, "zz"]),
        "at": times(1, 2, 3, 4, 5, None),
        "done": times(9, 99, None, 7, 8, 3),
        "kind": pa.array(["drug", "drug x", None, "diet", "", "Drug"]),
        "level": pa.array([1, 2, None, 1, 3, 1]),
        "dose": pa.array([1.5, None, 2.0, 3.0, None, 1.0]),
    }
)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SourceSpec:
    return small_spec(tmp_path_factory.mktemp("spec"), SPEC)


def frame_of(spec: SourceSpec, *, stays: Any = STAYS, medians: Any = None) -> TableFrame:
    held = {"stays": stays, "orders": ORDERS}

    def load(name: str, columns: tuple[str, ...]) -> Any:
        batch = held[name]
        return None if batch is None else batch.select([one for one in batch.schema.names if one in columns])

    clocks = ShardClocks(
        spec=spec, settings=ClockSettings(lags={"result_lag": 60 * S}, medians=medians or {}), load=load
    )
    return TableFrame(clocks=clocks, table=spec.tables["orders"], batch=ORDERS)


def seconds(found: Any) -> list[int | None]:
    return [None if one == NO_TIME else one // S for one in np.asarray(found).tolist()]


def test_a_row_that_is_named_is_known_when_it_is_available(spec: SourceSpec) -> None:
    assert seconds(frame_of(spec).known("stay", "stays")) == [20, 10, None, 5, None, None]


def test_a_time_of_a_named_row_is_not_before_the_row(spec: SourceSpec) -> None:
    frame = frame_of(spec)
    assert seconds(frame.reference("stay", "stays", "end")) == [30, 15, None, None, None, None]
    early = STAYS.set_column(3, "end", times(7, 30, 40, 4))
    assert seconds(frame_of(spec, stays=early).reference("stay", "stays", "end")) == [30, 10, None, 5, None, None]


def test_a_late_cell_of_a_named_row_is_known_where_it_holds_something(spec: SourceSpec) -> None:
    assert seconds(frame_of(spec).late_cell("stay", "stays", "why")) == [None, 15, None, None, None, None]


def test_a_rule_of_a_named_row_reads_on_from_there(spec: SourceSpec) -> None:
    found = frame_of(spec).there("stay", "stays", parse_rule("first(end, start)"))
    assert seconds(found) == [30, 15, None, 5, None, None]


def test_rules_and_late_cells_of_a_named_row_are_told_apart_however_often_they_are_asked(spec: SourceSpec) -> None:
    frame = frame_of(spec)
    for _ in range(2):
        assert seconds(frame.there("stay", "stays", parse_rule("first(end, start)"))) == [30, 15, None, 5, None, None]
        assert seconds(frame.there("stay", "stays", Column("start"))) == [20, 10, None, 5, None, None]
        assert seconds(frame.late_cell("stay", "stays", "why")) == [None, 15, None, None, None, None]
        assert frame.named("stay", "stays") == 4
        assert frame.named("absent", "stays") == 0


@pytest.mark.parametrize("stays", [None, STAYS.set_column(2, "start", times(*[None] * 4)).drop_columns(["end", "why"])])
def test_without_the_other_table_or_its_column_there_is_no_time(spec: SourceSpec, stays: Any) -> None:
    frame = frame_of(spec, stays=stays)
    nothing = [None] * 6
    assert seconds(frame.known("stay", "stays")) == nothing
    assert seconds(frame.reference("stay", "stays", "end")) == nothing
    assert seconds(frame.late_cell("stay", "stays", "why")) == nothing
    assert seconds(frame.there("stay", "stays", Column("end"))) == nothing
    assert seconds(frame.known("absent", "stays")) == nothing


def test_of_rows_with_one_key_the_first_known_counts(spec: SourceSpec) -> None:
    twice = pa.record_batch(
        {
            "subject_id": pa.array([1, 1, 1]),
            "stay": pa.array(["a", "a", "a"]),
            "start": times(None, 30, 20),
            "end": times(1, 2, 3),
            "why": pa.array(["x", "y", "z"]),
        }
    )
    frame = frame_of(spec, stays=twice)
    assert seconds(frame.known("stay", "stays"))[0] == 20
    assert seconds(frame.reference("stay", "stays", "end"))[0] == 20


def test_rows_that_name_this_one_give_their_least_and_largest_time(spec: SourceSpec) -> None:
    clocks = frame_of(spec).clocks
    stays = TableFrame(clocks=clocks, table=spec.tables["stays"], batch=STAYS)
    rule = parse_rule("done")
    assert seconds(stays.among("earliest", "orders", "stay", rule)) == [99, 9, None, 7]
    more = ORDERS.set_column(2, "stay", pa.array(["a", "b", "a", "b", "a", "c"]))
    clocks = ShardClocks(spec=spec, settings=clocks.settings, load=lambda name, columns: more.select([*columns]))
    stays = TableFrame(clocks=clocks, table=spec.tables["stays"], batch=STAYS)
    assert seconds(stays.among("earliest", "orders", "stay", rule)) == [7, 8, 3, None]
    assert seconds(stays.among("latest", "orders", "stay", rule)) == [99, 9, 3, None]
    none = ShardClocks(spec=spec, settings=clocks.settings, load=lambda name, columns: None)
    assert (
        seconds(
            TableFrame(clocks=none, table=spec.tables["stays"], batch=STAYS).among("latest", "orders", "stay", rule)
        )
        == [None] * 4
    )


def test_spans_are_subject_start_and_end_of_another_tables_rows(spec: SourceSpec) -> None:
    subjects, starts, ends = frame_of(spec).spans("stays", Column("start"), Column("end"))
    assert subjects.tolist() == [1, 1, 1, 2]
    assert (seconds(starts), seconds(ends)) == ([10, 20, None, 5], [15, 30, 40, None])
    assert [len(part) for part in frame_of(spec, stays=None).spans("stays", Column("start"), Column("end"))] == [0] * 3


@pytest.mark.parametrize(
    ("column", "values", "held"),
    [
        ("kind", ("drug",), [True, False, False, False, False, False]),
        ("kind", ("drug*",), [True, True, False, False, False, False]),
        ("kind", ("",), [False, False, True, False, False, False]),
        ("kind", ("", "d*"), [True, True, True, True, False, False]),
        ("level", ("1", "3"), [True, False, False, True, True, True]),
        ("level", ("",), [False, False, True, False, False, False]),
        ("dose", ("",), [False, True, False, False, True, False]),
        ("absent", ("", "x"), [True] * 6),
        ("absent", ("x",), [False] * 6),
    ],
)
def test_which_rows_hold_one_of_some_values(spec: SourceSpec, column: str, values: Any, held: list[bool]) -> None:
    assert frame_of(spec).holds(column, values).tolist() == held


def test_what_a_text_begins_with_and_a_number_for_what_follows(spec: SourceSpec) -> None:
    which, names = frame_of(spec).names_after("kind", ("di", "drug"))
    assert which.tolist() == [1, 1, -1, 0, -1, -1]
    assert names[2] == names[4] == names[5] == -1
    assert len({names[0], names[1], names[3]}) == 3
    assert [part.tolist() for part in frame_of(spec).names_after("absent", ("a",))] == [[-1] * 6] * 2


def test_times_of_a_column_that_is_not_there_are_none(spec: SourceSpec) -> None:
    frame = frame_of(spec)
    assert seconds(frame.times("at")) == [1, 2, 3, 4, 5, None]
    assert seconds(frame.times("absent")) == [None] * 6
    assert frame.subjects().tolist() == [1, 1, 1, 2, 1, 1]
    assert frame.lag("result_lag") == 60 * S


def test_a_median_is_that_of_the_other_half(spec: SourceSpec) -> None:
    halves = half_of(np.array([1, 2]))
    assert sorted(half_of(np.arange(200)).tolist()).count(0) in range(60, 140)
    medians = {"orders.at.done": (100 * S, 200 * S)}
    found = seconds(frame_of(spec, medians=medians).median_delay("at", "done"))
    expected = [(200, 100)[int(halves[subject - 1])] for subject in (1, 1, 1, 2, 1, 1)]
    assert found == expected
    assert seconds(frame_of(spec).median_delay("at", "done")) == [None] * 6
    assert NO_TIME in frame_of(spec, medians={"orders.at.done": (None, None)}).median_delay("at", "done").tolist()


@pytest.mark.parametrize(
    ("counts", "median"),
    [({}, None), ({5: 1}, 5), ({5: 1, 9: 1}, 5), ({9: 2, 5: 1}, 9), ({1: 1, 2: 1, 3: 1}, 2), ({0: 3, 7: 3}, 0)],
)
def test_the_median_is_the_lower_one(counts: dict[int, int], median: int | None) -> None:
    assert median_of_counts(counts) == median


def test_delays_are_counted_in_whole_seconds_by_half_and_added(spec: SourceSpec) -> None:
    batch = pa.record_batch(
        {
            "subject_id": pa.array([1, 1, 1, 1, 1]),
            "at": pa.array([0, 0, 5 * S, None, 0], TIME),
            "done": pa.array([1_999_999, 1_000_000, 0, 7, None], TIME),
        }
    )
    half = int(half_of(np.array([1]))[0])
    counts: list[dict[int, int]] = [{}, {}]
    counts[half][1] = 10
    delay_counts(spec.tables["orders"], "at", "done", batch, counts)
    assert counts[half] == {1: 12, 0: 1}
    assert counts[1 - half] == {}
    delay_counts(spec.tables["orders"], "at", "absent", batch, counts)
    delay_counts(spec.tables["orders"], "absent", "done", batch, counts)
    assert counts[half] == {1: 12, 0: 1}


def test_a_table_is_loaded_once_with_what_rules_ask_of_it(spec: SourceSpec) -> None:
    asked: list[tuple[str, frozenset[str]]] = []

    def load(name: str, columns: tuple[str, ...]) -> Any:
        asked.append((name, frozenset(columns)))
        return STAYS.select([*columns])

    clocks = ShardClocks(spec=spec, settings=ClockSettings(lags={}, medians={}), load=load)
    frame = TableFrame(clocks=clocks, table=spec.tables["orders"], batch=ORDERS)
    for _ in range(2):
        frame.known("stay", "stays")
        frame.reference("stay", "stays", "end")
    assert asked == [("stays", frozenset({"stay", "start", "end", "why"}))]
    assert rule_columns(parse_rule("max(at, known(stay, stays))")) == {"at", "stay"}
