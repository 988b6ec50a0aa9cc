"""One file as typed tables: which columns it has, what is counted, and which rows have gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.core import RecordError, UserError
from wardround.records.reading.table_reader import ReadCounts, TableReader
from wardround.records.specs.spec import ColumnType

COLUMNS: dict[str, ColumnType] = {"id": "int", "code": "text", "value": "float"}


def reader_of(path: Path, **settings: Any) -> TableReader:
    return TableReader(**{"path": path, "name": "labs", "columns": COLUMNS, "required": ("id",), **settings})


def csv_at(folder: Path, text: str) -> Path:
    (folder / "labs.csv").write_text(text)
    return folder / "labs.csv"


def parquet_at(folder: Path, name: str = "labs.parquet", **columns: Any) -> Path:
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def rows_of(reader: TableReader) -> list[dict[str, Any]]:
    return [row for cells in reader.read() for row in cells.table.to_pylist()]


def test_columns_that_are_missing_unknown_and_ignored_are_told_apart(tmp_path: Path) -> None:
    path = csv_at(tmp_path, "extra,code,note,id\n1,a,x,7\n")
    reader = reader_of(path, ignored=("note",))
    assert reader.header() == {"id", "code"}
    assert reader.counts.missing_columns == ("value",)
    assert reader.counts.unknown_columns == ("extra",)
    assert rows_of(reader) == [{"id": 7, "code": "a"}]


def test_a_parquet_file_has_its_columns_in_small_letters_too(tmp_path: Path) -> None:
    path = parquet_at(tmp_path, "LABS.PARQUET", ID=[1, 2], Extra=["x", "y"], value=[0.5, None])
    reader = reader_of(path)
    assert reader.header() == {"id", "value"}
    assert rows_of(reader) == [{"id": 1, "value": 0.5}, {"id": 2, "value": None}]
    assert (reader.counts.missing_columns, reader.counts.unknown_columns) == (("code",), ("extra",))
    assert reader.counts.rows == 2


@pytest.mark.parametrize(
    ("header", "hint"),
    [("idd,code", r"no column id; is it idd\?"), ("code,value", "no column id; the file has code, value")],
)
def test_a_required_column_that_is_missing_is_an_error_with_a_hint(tmp_path: Path, header: str, hint: str) -> None:
    with pytest.raises(UserError, match=rf"labs\.csv: wrong schema for 'labs', {hint}$"):
        reader_of(csv_at(tmp_path, f"{header}\n")).header()


def test_what_is_broken_is_counted_by_reason_and_called_as_shown(tmp_path: Path) -> None:
    path = csv_at(tmp_path, "id,code,value\n1,a,1\nx,b,2\ny,c,___\n4,d,___\n")
    reader = reader_of(path, shown="hosp/labs.csv")
    cells = list(reader.read())
    assert {row.file for one in cells for row in one.broken} == {"hosp/labs.csv"}
    assert (reader.counts.rows, reader.counts.quarantined, reader.counts.masked) == (2, 2, 2)
    assert reader.counts.reasons == {"id is no int": 2}
    unnamed = list(reader_of(path).read())
    assert {row.file for one in unnamed for row in one.broken} == {"labs.csv"}


@pytest.mark.parametrize(
    ("needed", "kept", "broken"),
    [
        ((), 5, []),
        (("id",), 4, [(5, "id is missing")]),
        (("id", "value"), 3, [(3, "id or value is missing"), (5, "id or value is missing")]),
        (
            ("id", "code", "value"),
            2,
            [(line, "id or code or value is missing") for line in (2, 3, 5)],
        ),
    ],
)
def test_rows_of_a_parquet_file_with_gaps_are_set_aside_with_their_number(
    tmp_path: Path, needed: tuple[str, ...], kept: int, broken: list[tuple[int, str]]
) -> None:
    path = parquet_at(
        tmp_path, id=[1, 2, 3, 4, None], code=["a", None, "c", "d", "e"], value=[1.0, 2.0, None, 4.0, 5.0]
    )
    reader = reader_of(path, needed=needed)
    cells = list(reader.read())
    assert sum(one.table.num_rows for one in cells) == kept
    assert [(row.line, row.reason) for one in cells for row in one.broken] == broken
    assert all(row.file == "labs.parquet" and "'id':" in row.raw for one in cells for row in one.broken)


def test_rows_are_numbered_on_through_a_files_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.records.reading.table_reader._PARQUET_ROWS", 2)
    path = parquet_at(tmp_path, id=[1, None, 3, 4, None])
    cells = list(reader_of(path, needed=("id",)).read())
    assert [row.line for one in cells for row in one.broken] == [2, 5]
    assert [one.table.num_rows for one in cells] == [1, 2, 0]


def test_cells_of_another_type_are_counted_by_column_and_cast(tmp_path: Path) -> None:
    path = parquet_at(tmp_path, id=[1.0, 2.0, None], code=[1, None, None], value=[1.0, 2.0, 3.0])
    reader = reader_of(path)
    assert [row["code"] for row in rows_of(reader)] == ["1", None, None]
    assert reader.counts.casts == {"id: double as int": 2, "code: int64 as text": 1}


def test_a_damaged_parquet_file_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "labs.parquet").write_bytes(b"PAR1 no parquet")
    with pytest.raises(RecordError, match=r"labs\.parquet: the file is truncated or damaged"):
        reader_of(tmp_path / "labs.parquet").header()


def test_counts_of_several_files_are_added() -> None:
    one = ReadCounts(rows=1, quarantined=2, masked=3, unknown_columns=("a", "b"), reasons={"x": 1}, casts={"c": 4})
    one.add(ReadCounts(rows=10, quarantined=20, masked=30, unknown_columns=("b", "c"), reasons={"x": 2, "y": 5}))
    one.add(ReadCounts(casts={"c": 1, "d": 2}, missing_columns=("z",)))
    assert one == ReadCounts(
        rows=11,
        quarantined=22,
        masked=33,
        unknown_columns=("a", "b", "c"),
        reasons={"x": 3, "y": 5},
        casts={"c": 5, "d": 2},
    )
