"""The columns that stand beside the rows of a table in a store, and what of them a chart hands out: by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from wardround.records.ingest.clocks import ClockSettings, ShardClocks
from wardround.records.ingest.finalise import _first_of_each_key, _groups, _is_reflex, _versions, table_clocks
from wardround.records.ingest.sections import derive_rows
from wardround.records.rules.language import NO_TIME, Column, parse_rule
from wardround.records.shards.layout import (
    NEVER_TIME,
    LateGroup,
    bucket_numbers,
    dictionary_file,
    shard_folder,
    table_layout,
)
from wardround.records.specs.spec import (
    WRITTEN,
    AgeColumns,
    Amendments,
    Derivation,
    DictionaryJoin,
    GroupJoin,
    PendingRows,
    PublishedClock,
    ReflexTests,
    TableSpec,
    integers,
    microseconds,
    one_array,
    one_batch,
    timestamps,
)

NEVER = int(NEVER_TIME)
COLUMNS: Any = {"who": "int", "lab": "int", "at": "time", "seen": "time", "word": "text", "secret": "int"}
SPEC = TableSpec(
    name="labs",
    module="m",
    path="labs",
    columns=COLUMNS,
    event_time=Column("at"),
    available_at=Column("seen"),
    key=("lab",),
    subject="who",
    late={"word": Column("seen"), "secret": parse_rule("max(at, seen)")},
)
PENDING = PendingRows(
    group=("lab", "secret"), columns=("lab",), at=Column("at"), until=Column("seen"),
    reflex=ReflexTests(column="word", patterns=("stain", "Reflex")),
)  # fmt: skip


def times(*values: int | None) -> Any:
    return pa.array(values, pa.timestamp("us"))


def batch_of(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows of lab, at, seen, word and secret."""
    lab, at, seen, word, secret = zip(*rows, strict=True)
    return pa.record_batch(
        {
            "who": [1] * len(rows),
            "lab": pa.array(lab, pa.int64()),
            "at": times(*at),
            "seen": times(*seen),
            "word": pa.array(word, pa.string()),
            "secret": pa.array(secret, pa.int64()),
        }
    )


ROWS = batch_of(
    (1, 5, 9, "a", 1), (2, None, 7, "Gram STAIN x", 2), (3, 4, None, None, 3), (4, None, None, "reflexive", 4)
)


def clocks_of(spec: TableSpec, batch: pa.RecordBatch = ROWS) -> dict[str, list[int]]:
    shard = ShardClocks(
        spec=None,  # type: ignore[arg-type]
        settings=ClockSettings(lags={}, medians={}),
        load=lambda name, columns: None,
    )
    return {name: found.tolist() for name, found in table_clocks(shard.frame(spec, batch)).items()}


def test_a_row_without_a_moment_happened_when_it_was_known_and_without_both_never() -> None:
    assert clocks_of(SPEC) == {
        "_event": [5, 7, 4, NEVER],
        "_available": [9, 7, NEVER, NEVER],
        "_late:secret": [9, NEVER, NEVER, NEVER],
    }


def test_the_papers_clock_and_that_of_orders_stand_beside_them() -> None:
    found = clocks_of(replace(SPEC, published=PublishedClock(time=Column("at")), pending=PENDING, late={}))
    assert found["_published"] == [5, NEVER, 4, NEVER]
    assert found["_pending"] == [5, NEVER, 4, NEVER]
    assert set(found) == {"_event", "_available", "_published", "_pending"}


def test_a_test_that_is_only_done_because_of_a_result_is_told_by_its_words() -> None:
    assert _is_reflex(PENDING, ROWS).tolist() == [False, True, False, True]
    assert _is_reflex(PENDING, ROWS.drop_columns(["word"])).tolist() == [False] * 4
    assert _is_reflex(replace(PENDING, reflex=ReflexTests(column="word")), ROWS).tolist() == [False] * 4


def test_only_tables_that_are_amended_have_versions() -> None:
    plain = {"_available": np.array([9, 7, 4, 4])}
    assert _versions(SPEC, ROWS, plain) == {}
    assert set(plain) == {"_available"}
    amended = replace(SPEC, version="at", amended=Amendments(status="word", withdrawn=("a",)))
    found = _versions(amended, ROWS, plain)
    assert {name: numbers.tolist() for name, numbers in found.items()} == {"_version": [0] * 4}
    assert plain["_until"].tolist() == [5, NEVER, NEVER, NEVER]


def groups(spec: TableSpec, batch: pa.RecordBatch, pending: list[int]) -> list[int]:
    found: list[int] = _groups(spec, batch, {"_pending": np.array(pending)})["_group"].tolist()
    return found


def test_rows_of_one_order_have_one_number_and_it_does_not_tell_what_is_withheld() -> None:
    assert _groups(SPEC, ROWS, {}) == {}
    batch = batch_of((1, 1, 1, "a", 7), (1, 1, 1, "b", 7), (1, 1, 1, "a", 8), (2, 1, 1, "a", 7))
    shown = groups(replace(SPEC, pending=PENDING), batch, [1, 1, 1, 1])
    assert shown[0] == shown[1]
    assert len(set(shown)) == 3
    hidden = replace(SPEC, pending=PENDING, withhold=("secret",))
    numbers = groups(hidden, batch, [5, 3, 4, 1])
    assert numbers[0] == numbers[1]
    assert len(set(numbers)) == 3
    other = batch_of((1, 1, 1, "a", 70), (1, 1, 1, "b", 70), (1, 1, 1, "a", 80), (2, 1, 1, "a", 70))
    assert groups(hidden, other, [5, 3, 4, 1]) == numbers
    assert groups(replace(SPEC, pending=PENDING), other, [5, 3, 4, 1]) != shown
    turned = groups(hidden, batch, [5, 4, 3, 1])
    assert (turned[0], turned[2]) == (numbers[2], numbers[0])


def test_of_derived_rows_the_first_written_of_a_key_stays_wherever_it_stands() -> None:
    """A second report on a stay, written later, does not replace what the first told of its beginning."""
    rows = [(3, 1, 1, "later", 1), (1, 1, 1, "b", 1), (3, 1, 1, "first", 1), (2, 1, 1, "d", 1), (3, 1, 1, "undated", 1)]
    batch = batch_of(*rows).append_column(WRITTEN, times(9, 2, 4, None, None))
    assert _first_of_each_key(SPEC, batch).column("word").to_pylist() == ["b", "first", "d"]
    copies = batch_of((3, 1, 1, "one", 1), (3, 1, 1, "other", 1), (3, 1, 1, "third", 1))
    turned = copies.take(pa.array([2, 1, 0]))
    assert _first_of_each_key(SPEC, copies).to_pylist() == _first_of_each_key(SPEC, turned).to_pylist()


def test_derived_rows_without_a_text_are_none() -> None:
    rows = pa.table({"n": [1, 2, 3], "text": ["Allergies:\nnone", None, "Brief Hospital Course:\nwell"]})
    found = derive_rows(rows, Derivation(source="notes", function="admission_sections", text="text"))
    assert found.to_pylist() == [{"n": 1, "text": "Allergies:\nnone"}]


JOINED = replace(
    SPEC,
    joined={"label": "text", "group": "text", "name": "text"},
    dictionary=(
        DictionaryJoin(table="other", on=("word",), add={"place": "x"}),
        DictionaryJoin(table="d", on=("lab",), add={"label": "title", "unit": "absent"}),
    ),
    group=GroupJoin(system="atc", code="word", name="group"),
    first={"name": ("word", "label")},
    withhold=("secret",),
    default_columns=("label",),
)
WORDS = {"d": pa.table({"id": [1], "title": ["Glucose"]})}


@pytest.mark.parametrize(
    ("present", "dictionaries", "columns"),
    [
        (list(COLUMNS), WORDS, ["label", "who", "lab", "at", "seen", "word", "group", "name"]),
        (list(COLUMNS), {}, ["who", "lab", "at", "seen", "word", "group", "name"]),
        (["who", "lab"], WORDS, ["label", "who", "lab", "name"]),
        (["who", "at"], WORDS, ["who", "at"]),
    ],
)
def test_a_store_hands_out_what_its_files_had_and_what_could_be_joined(
    present: list[str], dictionaries: Any, columns: list[str]
) -> None:
    layout = table_layout(JOINED, present, dictionaries)
    assert list(layout.columns) == columns
    assert set(layout.all_columns) == {*columns, *({"secret"} & set(present))}
    assert layout.empty().schema.names == ["row_id", *columns]
    assert layout.empty(("who",)).schema.names == ["row_id", *(name for name in columns if name != "who")]
    assert {name: join.places for name, join in layout.joined.items()} == (
        {"label": "_dictionary:1"} if "label" in columns else {}
    )


def test_late_columns_are_those_that_are_there_each_with_its_clock() -> None:
    assert table_layout(SPEC, list(COLUMNS), {}).late == (
        LateGroup(clock="seen", columns=frozenset({"word"})),
        LateGroup(clock="_late:secret", columns=frozenset({"secret"})),
    )
    assert [group.clock for group in table_layout(SPEC, ["who", "secret"], {}).late] == ["_late:secret"]


def test_an_age_is_handed_out_and_made_beside_the_stored_columns() -> None:
    aged = replace(SPEC, age=AgeColumns(birth="at"))
    layout = table_layout(aged, list(COLUMNS), {})
    assert list(layout.columns) == ["who", "lab", "seen", "word", "secret", "age"]
    stored = pa.schema(
        [("row_id", pa.string()), *((name, pa.string()) for name in ("secret", "who", "lab", "seen", "word"))]
    )
    view = layout.view(pa.RecordBatch.from_pylist([], schema=stored))
    assert view.places == (0, 2, 3, 4, 5, 1)
    assert view.added == ((6, "age"),)
    assert view.position["age"] == 6
    assert layout.view(pa.RecordBatch.from_pylist([], schema=stored)) is view


def test_a_date_is_the_last_second_of_its_day_and_nothing_is_no_time() -> None:
    days = pa.array([date(1970, 1, 1), None, date(1970, 1, 3), date(1969, 12, 31)])
    second, day = 1_000_000, 86_400_000_000
    assert microseconds(days).tolist() == [day - second, NO_TIME, 3 * day - second, -second]
    assert microseconds(days.slice(2)).tolist() == [3 * day - second, -second]
    moments = pa.array([datetime(1970, 1, 1, 0, 0, 1), None], pa.timestamp("us"))
    assert microseconds(moments).tolist() == [second, NO_TIME]
    assert timestamps(np.array([second, NEVER])).to_pylist() == [datetime(1970, 1, 1, 0, 0, 1), datetime.max]


def test_integers_are_read_from_where_an_array_begins() -> None:
    assert integers(pa.array([1, None, 3]).slice(1), null=-7).tolist() == [-7, 3]
    assert integers(pa.array([1, 2, 3], pa.int32()).slice(2), null=0).tolist() == [3]
    assert integers(pa.array([], pa.int64()), null=0).tolist() == []


def test_pieces_become_one_array_and_one_batch() -> None:
    whole = pa.chunked_array([[1, 2]])
    assert one_array(whole).to_pylist() == [1, 2]
    assert one_array(pa.chunked_array([[1], [2]])).to_pylist() == [1, 2]
    assert one_batch(pa.table({"a": pa.chunked_array([[1], [2]])})).column("a").to_pylist() == [1, 2]
    empty = one_batch(pa.table({"a": pa.chunked_array([], pa.int64())}))
    assert (empty.num_rows, empty.schema.names) == (0, ["a"])


def test_where_things_lie_in_a_store_never_changes(tmp_path: Any) -> None:
    assert shard_folder(tmp_path, 12) == tmp_path / "shards" / "00012"
    assert dictionary_file("d_labs") == "dictionaries/d_labs.arrow"
    subjects = np.array([1, 2, 10_000_032, -5])
    mixed = [(int(np.uint64(one.astype(np.uint64))) * 0x9E3779B97F4A7C15 % 2**64) >> 33 for one in subjects]
    assert bucket_numbers(subjects, 7).tolist() == [one % 7 for one in mixed]
