"""Keys that name more than one row: what stays, against a slow oracle, and which tables have a key to check."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.records import list_sources, load_source_spec
from wardround.records.ingest.shard_rows import EVERY_ROW, KeyedRows, _agreed, first_known, has_repeats, keyed_rows
from wardround.records.rules.language import ALWAYS
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.spec import TableSpec

COLUMNS = {"a": "int", "b": "text", "c": "float"}
CELLS = st.tuples(
    st.one_of(st.none(), st.integers(0, 3)),
    st.one_of(st.none(), st.sampled_from(["x", "y", ""])),
    st.one_of(st.none(), st.sampled_from([0.0, 1.5])),
)


def _table(*key: str) -> TableSpec:
    return TableSpec(
        name="t", module="m", path="t", columns=COLUMNS, event_time=ALWAYS, available_at=ALWAYS, key=key  # type: ignore[arg-type]
    )  # fmt: skip


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    types = {"a": pa.int64(), "b": pa.string(), "c": pa.float64()}
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(types.values())]
    return pa.RecordBatch.from_arrays(columns, names=list(types))


@given(st.lists(CELLS, max_size=12), st.sampled_from([("a",), ("b",), ("a", "b"), ("a", "b", "c")]))
def test_the_first_of_equal_rows_stays_and_none_of_those_that_differ(
    rows: list[tuple[Any, ...]], key: tuple[str, ...]
) -> None:
    table, batch = _table(*key), _batch(rows)
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        cells = tuple(row["abc".index(name)] for name in key)
        groups[cells if len(key) > 1 or cells != (None,) else ("no key", place)].append(place)
    shared = [places for places in groups.values() if len(places) > 1]
    if any(all(row["abc".index(name)] is None for row in rows) for name in key):
        shared = []  # a column that is empty throughout names nothing
    assert has_repeats(table, batch) == bool(shared)
    if shared:
        found = keyed_rows(table, batch)
        clash = sorted(place for places in shared if len({rows[p] for p in places}) > 1 for place in places)
        copies = [place for places in shared if len({rows[p] for p in places}) == 1 for place in places[1:]]
        assert found.conflicting.tolist() == clash
        assert found.repeated == len(copies)
        assert found.of(batch).to_pylist() == [
            row for place, row in enumerate(batch.to_pylist()) if place not in {*clash, *copies}
        ]


def test_every_table_has_a_key_that_is_checked_or_is_known_to_have_none() -> None:
    """What MIMIC and MEDS publish without a primary key: two equal rows may be two."""
    without = {
        f"{source}.{table.name}"
        for source in list_sources()
        for table in load_source_spec(source).tables.values()
        if not table.row_key
    }
    mimic = "services omr poe_detail prescriptions emar_detail vitalsign medrecon pyxis chartevents datetimeevents"
    assert without == {f"mimiciv.{name}" for name in [*mimic.split(), "outputevents"]} | {"meds.events"}


@pytest.mark.parametrize(
    ("rows", "known", "late", "version", "stay", "left"),
    [
        ([(1, "x", 0.0), (1, "y", 0.0)], [5, 3], (), None, [(1, "y", 0.0)], [10]),
        ([(1, "x", 0.0), (1, "y", 0.0)], [3, 3], (), None, [(1, None, 0.0)], [11]),
        ([(1, None, 0.0), (1, "y", 0.0)], [3, 3], (), None, [(1, "y", 0.0)], [11]),
        ([(1, "x", 0.0), (1, "y", 0.0)], [3, 3], ("b",), None, [(1, None, 0.0)], [11]),
        ([(1, None, 0.0), (1, "y", 0.0)], [3, 3], ("b",), None, [(1, "y", 0.0)], [11]),
        ([(1, "x", 2.0), (1, "y", 1.0)], [3, 3], (), "c", [(1, "y", 1.0)], [10]),
        ([(1, "x", None), (1, "y", 1.0)], [3, 3], (), "c", [(1, None, 1.0)], [11]),
        ([(1, "x", 0.0), (1, "y", 0.0)], [NEVER_TIME, NEVER_TIME], (), None, [], [10, 11]),
        ([(1, "x", 0.0), (2, "y", 0.0), (1, "z", 0.0), (2, "w", 0.0)], [1, 9, 2, 4], (), None,
         [(1, "x", 0.0), (2, "w", 0.0)], [11, 12]),
    ],
)  # fmt: skip
def test_of_rows_that_differ_under_one_key_the_first_known_stays(
    rows: list[Any], known: list[int], late: tuple[str, ...], version: str | None, stay: list[Any], left: list[int]
) -> None:
    table = replace(_table("a"), late=dict.fromkeys(late, ALWAYS), version=version)
    found = KeyedRows(conflicting=np.arange(10, 10 + len(rows)))
    kept = first_known(table, found, _batch(rows), np.array(known))
    merged = [] if kept.merged is None else [tuple(row.values()) for row in kept.merged.to_pylist()]
    if version is not None and merged:
        merged = [row[:2] for row in merged]
        stay = [row[:2] for row in stay]
    assert merged == stay
    assert kept.conflicting.tolist() == left


def test_rows_that_stay_stand_before_those_that_were_merged() -> None:
    batch = _batch([(1, "x", 0.0), (2, "y", 0.0), (3, "z", 0.0)])
    assert EVERY_ROW.of(batch) is batch
    kept = KeyedRows(kept=np.array([0, 2]))
    assert kept.of(batch).column("a").to_pylist() == [1, 3]
    merged = KeyedRows(kept=np.array([2]), merged=_batch([(9, None, None)]))
    assert merged.of(batch.select(["b", "a"])).to_pylist() == [{"b": "z", "a": 3}, {"b": None, "a": 9}]


def test_several_values_agree_on_none() -> None:
    assert [_agreed(cells) for cells in ([1, None, 1], [1, 2], [None], [])] == [1, None, None, None]


def test_a_table_without_its_key_or_with_rising_numbers_has_no_repeats() -> None:
    assert not has_repeats(_table("absent"), _batch([(1, "x", 0.0)] * 2))
    assert not has_repeats(_table("a"), _batch([(1, "x", 0.0), (2, "x", 0.0)]))
    assert not has_repeats(_table("a"), _batch([(1, "x", 0.0)]))
    assert not has_repeats(_table(), _batch([(1, "x", 0.0)] * 2))
    assert has_repeats(_table("a"), _batch([(1, "x", 0.0), (2, "x", 0.0), (2, "y", 0.0)]))
    assert has_repeats(_table("a"), _batch([(2, "x", 0.0), (1, "x", 0.0), (2, "y", 0.0)]))
