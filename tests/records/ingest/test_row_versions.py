"""From when on each version of a row is shown and until when, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from wardround.records.ingest.shard_rows import keyed_rows, version_clocks, with_versions
from wardround.records.rules.language import ALWAYS, parse_rule
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.spec import Amendments, TableSpec

TABLE = TableSpec(
    name="t",
    module="m",
    path="t",
    columns={"key": "text", "since": "time", "status": "text"},
    event_time=ALWAYS,
    available_at=ALWAYS,
    key=("key",),
    version="since",
    amended=Amendments(status="status", withdrawn=("gone", "void")),
)
NEVER = int(NEVER_TIME)
ROWS = [
    # key, since, status, available: number, shown, until
    ("a", 20, "final", 5, 1, 20, NEVER),
    ("a", 10, "draft", 5, 0, 5, 20),
    ("b", 30, "gone", 7, 0, 7, 30),
    (None, None, "void", 8, 0, 8, NEVER),
    (None, None, "final", 9, 0, 9, NEVER),
    ("c", 20, "final", 50, 0, 50, 50),
    ("c", 40, "void", 1, 1, NEVER, NEVER),
    ("d", 5, "gone", 2, 0, 2, 5),
    ("d", 9, "final", 2, 1, 9, NEVER),
    ("e", 1, None, 3, 0, 3, 8),
    ("e", 8, None, 3, 1, 8, 11),
    ("e", 11, None, 4, 2, 11, NEVER),
]


def batch_of(*names: str) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        "key": pa.array([row[0] for row in ROWS], pa.string()),
        "since": pa.array([row[1] for row in ROWS], pa.timestamp("us")),
        "status": pa.array([row[2] for row in ROWS], pa.string()),
    }
    return pa.record_batch({name: columns[name] for name in names})


def test_a_version_is_shown_from_its_time_until_the_next_or_until_it_is_taken_back() -> None:
    available = np.array([row[3] for row in ROWS])
    found = version_clocks(TABLE, batch_of("key", "since", "status"), available)
    assert found.number.tolist() == [row[4] for row in ROWS]
    assert found.available.tolist() == [row[5] for row in ROWS]
    assert found.until.tolist() == [row[6] for row in ROWS]


def test_without_a_status_nothing_is_taken_back() -> None:
    available = np.array([row[3] for row in ROWS])
    found = version_clocks(TABLE, batch_of("key", "since"), available)
    assert [int(found.until[place]) for place in (2, 5, 6, 7)] == [NEVER, 50, NEVER, 9]
    assert int(found.available[6]) == 50


def test_a_file_without_version_times_shows_its_rows_when_they_are_available() -> None:
    keys = pa.record_batch({"key": ["a", "b", "c"]})
    found = version_clocks(TABLE, keys, np.array([3, 1, 2]))
    assert found.available.tolist() == [3, 1, 2]
    assert found.until.tolist() == [NEVER] * 3
    assert found.number.tolist() == [0, 0, 0]


def test_a_version_of_unknown_time_hides_no_other() -> None:
    """A correction that was begun and never released: what was released at 10 was read at 10."""
    keys = ["a", "a", "b", "b", "b"]
    since = pa.array([None, 10, 10, 20, 30], pa.timestamp("us"))
    batch = pa.record_batch({"key": pa.array(keys), "since": since, "status": pa.array([None] * 5, pa.string())})
    found = version_clocks(TABLE, batch, np.array([NEVER, 10, 10, NEVER, 30]))
    assert found.available.tolist() == [NEVER, 10, 10, NEVER, 30]
    assert found.until.tolist() == [NEVER, NEVER, 30, NEVER, NEVER]
    assert found.number.tolist() == [1, 0, 0, 1, 2], "what was released is no correction of what never was"


@pytest.mark.parametrize(
    ("seen", "stays"),
    [
        (None, True),  # the file has no such column
        ((5, 5), True),
        ((5, 6), False),  # known at another time: which of the two was nobody knows
    ],
)
def test_a_version_that_says_no_time_stays_with_what_the_next_says_too(seen: Any, stays: bool) -> None:
    table = replace(TABLE, columns={**TABLE.columns, "seen": "time"}, available_at=parse_rule("seen"))
    columns = {
        "key": pa.array(["a", "a", "b"]),
        "since": pa.array([None, 20, 7], pa.timestamp("us")),
        "status": pa.array(["draft", "final", "final"]),
    }
    if seen:
        columns["seen"] = pa.array([*seen, 5], pa.timestamp("us"))
    batch = pa.record_batch(columns)
    found = with_versions(table, keyed_rows(table, batch), batch)
    rows = found.of(batch).select(["key", "status"]).to_pylist()
    dated = [{"key": "a", "status": "final"}, {"key": "b", "status": "final"}]
    assert rows == dated + ([{"key": "a", "status": None}] if stays else [])
    assert found.conflicting.tolist() == ([] if stays else [0])
