"""The parts of the spec language that OMOP brought: days that bound times, lists, codes by row, first of several."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from wardround.core import UserError, to_microseconds
from wardround.records import Store, ingest, load_source_spec
from wardround.records.ingest.joins import DictionaryIndex
from wardround.records.rules.language import NO_TIME, evaluate, parse_rule
from wardround.records.specs.spec import DictionaryJoin

SPEC = """
[source]
name = "coded"
[source.lists]
early = ["7", "8"]
[tables.results]
path = "results"
event_time = "dated(moment, day)"
available_at = "when(kind, {early}, dated(moment, day), when(visit, '', dated(moment, day), never))"
code = "code"
code_system = "none"
code_system_column = "system"
label = "name"
required = ["day"]
[tables.results.columns]
subject_id = "int"
item = "int"
kind = "int"
visit = "int"
moment = "time"
day = "date"
words = "text"
[tables.results.late]
words = "shift(dated(moment, day), 60)"
[tables.results.dictionary]
table = "items"
on = ["item"]
add = { title = "title", system = "system", number = "number" }
[tables.results.first]
code = ["number", "title"]
name = ["title", "words"]
[dictionaries.items]
path = "items"
key = ["item"]
absent = ["0"]
[dictionaries.items.columns]
item = "int"
title = "text"
system = "text"
number = "text"
"""
FILES = {
    "items.csv": "item,title,system,number\n0,Nothing,X,0\n1,One,S,s1\n2,Two,,\n",
    "results.csv": "subject_id,item,kind,visit,moment,day,words\n"
    "1,1,7,5,2150-01-01 09:00:00,2150-01-01,a\n"
    "1,2,9,,,2150-01-02,b\n"
    "1,0,8,5,2150-01-03 00:00:00,2150-01-03,c\n"
    "1,1,9,5,2150-01-04 09:00:00,2150-01-04,d\n",
}


def _write(folder: Path, spec: str = SPEC) -> Path:
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (folder / "raw" / name).write_text(text)
    (folder / "coded.toml").write_text(spec)
    return folder / "coded.toml"


def test_codes_names_and_clocks_of_coded_rows(tmp_path: Path) -> None:
    spec = load_source_spec(_write(tmp_path))
    report = ingest(spec, tmp_path / "raw", tmp_path / "store")
    assert report.never_visible == {"results": 1}
    store = Store.open(tmp_path / "store")
    events = list(store.chart(1, datetime(2150, 2, 1)).events())
    assert [(event.time, event.code, event.description) for event in events] == [
        (datetime(2150, 1, 1, 9), "S//s1", "One"),
        (datetime(2150, 1, 2, 23, 59, 59), "none//Two", "Two"),
        (datetime(2150, 1, 3, 23, 59, 59), "results", "c"),
    ]
    assert store.dictionary("items").column("item").to_pylist() == [1, 2]
    assert store.manifest["dictionaries"]["items"]["rows"] == 2
    early = store.chart(1, datetime(2150, 1, 4)).table("results").batch.to_pylist()
    assert [row["name"] for row in early] == ["One", "Two", None]  # late words make no name before their time
    late = store.rows(1, "results").column("name").to_pylist()
    assert late == ["One", "Two", "c", "One"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('early = ["7", "8"]', "early = 7", "lists.*: expected array"),
        ('early = ["7", "8"]', 'early = ["seven"]', "is int, so when\\(\\) needs whole numbers"),
        ("when(kind,", "when(moment,", "needs a text or int column"),
        ('event_time = "dated(moment, day)"', 'event_time = "dated(moment)"', "dated takes two rules"),
        ('code = ["number", "title"]', 'code = ["number", "item"]', "only text columns"),
        ('code = ["number", "title"]', 'code = ["number", "tilte"]', "did you mean 'title'"),
        ('required = ["day"]', 'required = ["dya"]', "did you mean 'day'"),
        ('code_system_column = "system"', 'code_system_column = "sistem"', "did you mean 'system'"),
    ],
)
def test_what_is_wrong_in_such_a_spec_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SPEC
    with pytest.raises(UserError, match=message):
        load_source_spec(_write(tmp_path, SPEC.replace(old, new)))


def test_columns_late_by_different_rules_make_no_first_of_both(tmp_path: Path) -> None:
    spec = SPEC.replace("[tables.results.dictionary]", 'item = "never"\n[tables.results.dictionary]')
    with pytest.raises(UserError, match="its columns are late by different rules"):
        load_source_spec(_write(tmp_path, spec))


class _Times:
    """A frame of one time and one day."""

    num_rows = 1

    def __init__(self, **columns: datetime | None) -> None:
        self._columns = columns
        self.shared: dict[object, object] = {}

    def times(self, column: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        cell = self._columns[column]
        return np.array([NO_TIME if cell is None else to_microseconds(cell)], np.int64)


@pytest.mark.parametrize(
    ("moment", "day", "expected"),
    [
        (datetime(2150, 1, 2, 9), datetime(2150, 1, 2, 23, 59, 59), datetime(2150, 1, 2, 9)),
        (datetime(2150, 1, 2), datetime(2150, 1, 2, 23, 59, 59), datetime(2150, 1, 2, 23, 59, 59)),
        (None, datetime(2150, 1, 2, 23, 59, 59), datetime(2150, 1, 2, 23, 59, 59)),
        (datetime(2150, 1, 2), None, datetime(2150, 1, 2, 23, 59, 59)),
        (datetime(2150, 1, 1, 23), datetime(2150, 1, 2, 23, 59, 59), datetime(2150, 1, 2)),
        (datetime(2150, 1, 3, 1), datetime(2150, 1, 2, 23, 59, 59), datetime(2150, 1, 3, 1)),
        (datetime(1950, 1, 2, 9), datetime(1950, 1, 2, 23, 59, 59), datetime(1950, 1, 2, 9)),
        (datetime(1950, 1, 2), datetime(1950, 1, 2, 23, 59, 59), datetime(1950, 1, 2, 23, 59, 59)),
        (None, None, None),
    ],
)
def test_a_day_bounds_its_time(moment: datetime | None, day: datetime | None, expected: datetime | None) -> None:
    found = evaluate(parse_rule("dated(a, b)"), _Times(a=moment, b=day))  # type: ignore[arg-type]
    assert found.tolist() == [NO_TIME if expected is None else to_microseconds(expected)]


def test_whole_number_keys_are_found_in_any_order_and_the_first_of_equals_wins() -> None:
    dictionary = pa.table({"item": pa.array([30, 10, 20, 10], pa.int64())})
    index = DictionaryIndex(dictionary, ["item"])
    join = DictionaryJoin(table="items", on=("item",), add={})
    batch = pa.RecordBatch.from_arrays([pa.array([10, None, 40, 30, -5, 20], pa.int64())], names=["item"])
    assert index.places(batch, join).to_pylist() == [1, None, None, 0, None, 2]
