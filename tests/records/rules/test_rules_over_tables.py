"""Rules that read the rows which name a row, or a rule of the row that it names, on files made by hand."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from wardround.core import UserError
from wardround.records import Store, ingest, load_source_spec

SPEC = """
[source]
name = "wards"
[source.lists]
closed = ["9", "8"]
[source.rules]
left = "when(kind, {closed}, never, outtime)"
over = "given(endtime, last(endtime, latest(beds, visit_id, {left})), never)"

[tables.visits]
path = "visits"
key = ["visit_id"]
event_time = "starttime"
available_at = "given(earliest(beds, visit_id, intime), max(starttime, earliest(beds, visit_id, intime)), starttime)"
[tables.visits.columns]
subject_id = "int"
visit_id = "int"
starttime = "time"
endtime = "time"
[tables.visits.late]
endtime = "{over}"

[tables.beds]
path = "beds"
key = ["bed_id"]
event_time = "intime"
available_at = "intime"
[tables.beds.columns]
subject_id = "int"
bed_id = "int"
visit_id = "int"
kind = "int"
intime = "time"
outtime = "time"
[tables.beds.late]
"outtime, visit_id" = "cell(visit_id, visits, endtime)"

[tables.bills]
path = "bills"
key = ["bill_id"]
event_time = "billtime"
available_at = "at(bed_id, beds, cell(visit_id, visits, endtime))"
[tables.bills.columns]
subject_id = "int"
bill_id = "int"
bed_id = "int"
billtime = "time"
"""
FILES = {
    "visits": """subject_id,visit_id,starttime,endtime
1,10,2150-01-01 08:00:00,2150-01-05 08:00:00
1,11,2150-02-01 08:00:00,2150-02-05 08:00:00
2,12,2150-01-01 08:00:00,
""",
    "beds": """subject_id,bed_id,visit_id,kind,intime,outtime
1,100,10,1,2150-01-01 09:00:00,2150-01-04 09:00:00
1,101,10,1,2150-01-04 09:00:00,2150-01-05 10:30:00
1,102,10,9,2150-01-01 09:00:00,2150-01-09 09:00:00
2,103,12,1,2150-01-01 07:00:00,2150-01-09 09:00:00
1,104,,1,2150-01-01 07:00:00,2150-03-09 09:00:00
""",
    "bills": """subject_id,bill_id,bed_id,billtime
1,1000,100,2150-01-02 00:00:00
1,1001,77,2150-01-02 00:00:00
""",
}


def _store(folder: Path, files: dict[str, str], spec: str = SPEC) -> Store:
    (folder / "raw").mkdir()
    (folder / "wards.toml").write_text(spec)
    for name, text in files.items():
        (folder / "raw" / f"{name}.csv").write_text(text)
    ingest(load_source_spec(folder / "wards.toml"), folder / "raw", folder / "store")
    return Store.open(folder / "store")


def _cells(store: Store, subject: int, table: str, moment: str, column: str) -> list[object]:
    batch = store.chart(subject, datetime.fromisoformat(moment)).table(table).batch
    return list(batch.column(column).to_pylist())


def test_a_row_waits_for_the_rows_that_name_it(tmp_path: Path) -> None:
    store = _store(tmp_path, FILES)
    assert _cells(store, 1, "visits", "2150-01-01 08:59:59", "visit_id") == []
    assert _cells(store, 1, "visits", "2150-01-01 09:00:00", "visit_id") == [10]
    assert _cells(store, 1, "visits", "2150-02-01 08:00:00", "visit_id") == [10, 11]
    assert _cells(store, 2, "visits", "2150-01-01 08:00:00", "visit_id") == [12]


def test_the_end_is_that_of_the_last_row_that_counts_and_of_the_row_itself_without_any(tmp_path: Path) -> None:
    store = _store(tmp_path, FILES)
    assert _cells(store, 1, "visits", "2150-01-05 10:29:59", "endtime") == [None]
    assert _cells(store, 1, "visits", "2150-01-05 10:30:00", "endtime") == [datetime(2150, 1, 5, 8)]
    assert _cells(store, 1, "visits", "2150-02-05 08:00:00", "endtime")[1] == datetime(2150, 2, 5, 8)
    assert _cells(store, 2, "visits", "2190-01-01", "endtime") == [None]


def test_a_rule_of_the_row_that_is_named_reads_on_from_there(tmp_path: Path) -> None:
    store = _store(tmp_path, FILES)
    assert _cells(store, 1, "bills", "2150-01-05 10:29:59", "bill_id") == []
    assert _cells(store, 1, "bills", "2150-01-05 10:30:00", "bill_id") == [1000]
    assert _cells(store, 1, "bills", "2190-01-01", "bill_id") == [1000]


def test_without_the_other_table_nobody_names_a_row(tmp_path: Path) -> None:
    store = _store(tmp_path, {"visits": FILES["visits"]})
    assert _cells(store, 1, "visits", "2150-01-01 08:00:00", "visit_id") == [10]
    assert _cells(store, 1, "visits", "2150-01-05 08:00:00", "endtime") == [datetime(2150, 1, 5, 8)]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("earliest(beds, visit_id, intime), max", "earliest(bed, visit_id, intime), max", "no table 'bed'"),
        ("earliest(beds, visit_id, intime), max", "earliest(beds, visit, intime), max", "did you mean 'visit_id'"),
        ("{left})", "known(visit_id, visits))", "takes a rule over cells of beds alone"),
        ("at(bed_id, beds, cell", "at(bed_id, beds, outcome, cell", "at takes"),
        ("at(bed_id, beds, cell(visit_id", "at(bed_id, beds, cell(stay_id", "no column 'stay_id'"),
        ('left = "when', 'closed = "when', "a name that no list has"),
    ],
)
def test_what_such_rules_may_not_say(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert SPEC.count(old) == 1
    (tmp_path / "wards.toml").write_text(SPEC.replace(old, new))
    with pytest.raises(UserError, match=complaint):
        load_source_spec(tmp_path / "wards.toml")
