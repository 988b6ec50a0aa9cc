"""Blocks of cells: integers written as floats stay on the fast way, and no other column changes with them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from wardround.records.reading import cell_texts, csv_cells
from wardround.records.reading.csv_blocks import RecordsBlock
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.spec import ColumnType


def test_integers_written_like_floats_are_read_at_once_and_texts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("read row by row")

    monkeypatch.setattr(csv_cells, "_read_slowly", refused)
    data = b"28925885.0,007,1.5\n,8.0,2\n"
    columns: dict[str, ColumnType] = {"hadm_id": "int", "code": "text", "dose": "float"}
    cells = csv_cells.read_cells(
        RecordsBlock(buffer=data, size=len(data), first_line=2), tuple(columns), columns, (), "labs.csv"
    )
    assert cells.table.to_pylist() == [
        {"hadm_id": 28925885, "code": "007", "dose": 1.5},
        {"hadm_id": None, "code": "8.0", "dose": 2.0},
    ]


def block_of(text: str | bytes, *, line: int = 2, separator: str = ",", problem: str | None = None) -> RecordsBlock:
    data = text if isinstance(text, bytes) else text.encode()
    return RecordsBlock(buffer=data, size=len(data), first_line=line, separator=separator, problem=problem)


def cells_of(
    block: RecordsBlock, columns: dict[str, ColumnType], needed: tuple[str, ...] = (), files: FileFormat | None = None
) -> tuple[list[dict[str, Any]], list[tuple[int, str, str]], int]:
    """Rows, broken rows and the count of masked cells."""
    found = csv_cells.read_cells(block, tuple(columns), columns, needed, "labs.csv", files=files or FileFormat())
    assert all(row.file == "labs.csv" for row in found.broken)
    return found.table.to_pylist(), [(row.line, row.reason, row.raw) for row in found.broken], found.masked


TWO: dict[str, ColumnType] = {"id": "int", "value": "float"}


def test_good_rows_are_kept_in_order_and_each_broken_one_has_its_line_and_reason() -> None:
    text = "1,1.5\nx,2\n3\n4,4,4\n,5\n6,y\n\n7.0,___\n8,NaN\n"
    rows, broken, masked = cells_of(block_of(text, line=10), TWO, ("id",))
    assert rows == [
        {"id": 1, "value": 1.5},
        {"id": 7, "value": None},
        {"id": 8, "value": None},
    ]
    assert broken == [
        (11, "id: 'x' is no int", "x,2"),
        (12, "expected 2 cells, found 1", "3"),
        (13, "expected 2 cells, found 3", "4,4,4"),
        (14, "id is missing", ",5"),
        (15, "value: 'y' is no float", "6,y"),
    ]
    assert masked == 1


def test_a_missing_needed_cell_alone_sets_a_row_aside() -> None:
    rows, broken, _ = cells_of(block_of("1,1\n,2\n3,\n"), TWO, ("id",))
    assert rows == [{"id": 1, "value": 1.0}, {"id": 3, "value": None}]
    assert broken == [(3, "id is missing", ",2")]


def test_the_first_thing_wrong_with_a_row_is_its_reason() -> None:
    _, broken, _ = cells_of(block_of("x,y\n"), TWO, ("id", "value"))
    assert broken == [(2, "id: 'x' is no int", "x,y")]


def test_a_mask_in_a_text_is_text() -> None:
    rows, _, masked = cells_of(block_of("x,___\n1,___\n"), {"id": "int", "note": "text"})
    assert rows == [{"id": 1, "note": "___"}]
    assert masked == 0


def test_a_record_of_which_only_the_beginning_was_read_is_one_broken_row_of_empty_columns() -> None:
    rows, broken, _ = cells_of(block_of("é" * 3_000, line=7, problem="longer than 16 MB"), TWO, ("id",))
    assert rows == []
    assert broken == [(7, "longer than 16 MB", "é" * 1_000)]
    table = csv_cells.read_cells(block_of("x", problem="too long"), ("id", "value"), TWO, (), "f").table
    assert [str(kind) for kind in table.schema.types] == ["int64", "double"]


@pytest.mark.parametrize("blank", ["\n", "\r\n\n", " \n" * 40])
def test_blank_lines_are_no_rows(blank: str) -> None:
    assert cells_of(block_of(blank), TWO) == ([], [], 0)


@pytest.mark.parametrize(
    ("text", "lines", "cells"),
    [
        ('"a\nb",1\nc,2\n', [2, 4], [["a\nb", "1"], ["c", "2"]]),
        ('a,1\r\n"b""\r\nc",2\r\n', [2, 3], [["a", "1"], ['b"\r\nc', "2"]]),
        ("\n \na,1", [4], [["a", "1"]]),
    ],
)
def test_a_record_is_read_over_its_line_breaks(text: str, lines: list[int], cells: list[list[str]]) -> None:
    found = list(csv_cells._records(block_of(text)))
    assert [(line, own) for line, _, own, _ in found] == list(zip(lines, cells, strict=True))
    assert {problem for *_, problem in found} == {None}


def test_a_quote_that_never_closes_costs_its_own_line() -> None:
    rows, _, _ = cells_of(block_of('1,1\n2,"2\n3,3\n4,"\n5,5\n'), {"id": "int", "note": "text"})
    assert [(row["id"], row["note"]) for row in rows] == [(1, "1"), (2, "2\n3,3\n4,"), (5, "5")]
    rows, broken, _ = cells_of(block_of('1,1\n2,"2\n3,3\n'), {"id": "int", "note": "text"})
    assert [row["id"] for row in rows] == [1, 3]
    assert broken == [(3, "a quote is not closed", '2,"2')]


def test_a_record_may_not_take_more_lines_than_the_widest(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '1,"a\nb\nc"\n2,d\n'
    columns: dict[str, ColumnType] = {"id": "int", "note": "text"}
    monkeypatch.setattr(csv_cells, "_WIDEST_RECORD_LINES", 3)
    assert [end for end, *_ in [csv_cells._record(text.split("\n"), 0, ",")]] == [3]
    monkeypatch.setattr(csv_cells, "_WIDEST_RECORD_LINES", 2)
    assert csv_cells._record(text.split("\n"), 0, ",") == (1, [], "a quote is not closed")
    assert csv_cells._split([], ",") == []
    assert csv_cells._split(["a,b", "c"], ",") is None
    assert csv_cells._split(["a;b\r"], ";") == ["a", "b"]
    assert cells_of(block_of(text), columns)[0][0]["note"] == "a\nb\nc"


def test_tabs_separate_and_quotes_are_letters_on_both_ways() -> None:
    columns: dict[str, ColumnType] = {"id": "int", "note": "text"}
    good = '1\t"a\n2\tb"\n'
    assert [row["note"] for row in cells_of(block_of(good, separator="\t"), columns)[0]] == ['"a', 'b"']
    rows, broken, _ = cells_of(block_of(f"x\t1\n\n{good}3\tc\r\n", separator="\t", line=5), columns)
    assert [(row["id"], row["note"]) for row in rows] == [(1, '"a'), (2, 'b"'), (3, "c")]
    assert broken == [(5, "id: 'x' is no int", "x\t1")]


def test_bytes_that_are_no_text_cost_their_row_and_are_shown_as_unreadable() -> None:
    rows, broken, _ = cells_of(block_of(b"1,a\n2,\xff\n3,c\n"), {"id": "int", "note": "text"})
    assert [row["id"] for row in rows] == [1, 3]
    assert broken == [(3, "not UTF-8 text", "2,\ufffd")]


DAY = datetime(2150, 1, 2)
ISO, GERMAN = FileFormat(), FileFormat(decimal=",", times=("%d.%m.%Y %H:%M", "%d.%m.%Y"), empty=("k.A.",))


@pytest.mark.parametrize(
    ("kind", "text", "files", "value"),
    [
        ("int", " 12 ", ISO, 12),
        ("int", "+7.", ISO, 7),
        ("int", "-7.00", ISO, -7),
        ("int", "7,0", GERMAN, 7),
        ("int", "9223372036854775807", ISO, (1 << 63) - 1),
        ("int", "-9223372036854775808", ISO, -(1 << 63)),
        ("int", "1e+05", ISO, 100_000),
        ("float", "-nan", ISO, None),
        ("float", "1e-3", ISO, 0.001),
        ("float", "1,5", GERMAN, 1.5),
        ("float", "k.A.", GERMAN, None),
        ("text", " a ", ISO, " a "),
        ("text", "", ISO, None),
        ("text", "NULL", ISO, "NULL"),
        ("text", "k.A.", GERMAN, None),
        ("time", "2150-01-02 03:04", ISO, datetime(2150, 1, 2, 3, 4)),
        ("time", "02.01.2150 03:04", GERMAN, datetime(2150, 1, 2, 3, 4)),
        ("date", "2150-01-02", ISO, date(2150, 1, 2)),
        ("date", "2150-01-02 23:00:00", ISO, date(2150, 1, 2)),
        ("date", "02.01.2150", GERMAN, date(2150, 1, 2)),
        *(
            (kind, word, ISO, None)
            for kind in ("int", "float", "time", "date")
            for word in ("", " ", "NA", "___", "\\N")
        ),
        *((kind, None, ISO, None) for kind in ("int", "text")),
    ],
)
def test_a_cell_is_read_as_its_kind(kind: ColumnType, text: str | None, files: FileFormat, value: object) -> None:
    assert cell_texts.reader_of(kind, files)(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "files"),
    [
        ("int", "1.5", ISO),
        ("int", "9223372036854775808", ISO),
        ("int", "-9223372036854775809", ISO),
        ("int", "1.5e0", ISO),
        ("int", "1.000", GERMAN),
        ("int", "1,0", ISO),
        ("float", "1,5", ISO),
        ("float", "1.5", GERMAN),
        ("time", "2150-01-02 03:04", GERMAN),
        ("date", "31.02.2150", GERMAN),
    ],
)
def test_a_cell_that_is_not_of_its_kind_is_refused(kind: ColumnType, text: str, files: FileFormat) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the caller words it)
        cell_texts.reader_of(kind, files)(text)


ALONE = {
    "int": ("2601314283911413076", "-4353160957725823366", "9007199254740993", "1e+05", "5.0", " 5", "1.5", "NaN"),
    "float": ("NaN", "nan", "1e5", "-inf", " 5", "0x10", "2601314283911413076"),
    "time": ("2150-01-02", "2150-01-02 03:04", "2150-01-02 24:00:00", "2150-02-30 01:00:00", "2150-01-02T03:04:05.5"),
    "date": ("2150-01-02", "2150-01-02 03:04:05", "2150-13-01"),
    "text": ("NaN", "NULL", " ", "___", '"a""b"'),
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in ALONE.items() for text in texts])
@pytest.mark.parametrize("other", ["5.0,1", "5,___", "x,1"])
def test_what_a_cell_reads_as_does_not_hang_on_the_rows_beside_it(kind: ColumnType, text: str, other: str) -> None:
    """An outcome that is written oddly has its block read another way: an identifier of 19 digits was rounded beside
    ``5.0``, and its row set aside beside a masked cell."""
    columns: dict[str, ColumnType] = {"cell": kind, "id": "int", "value": "float"}
    alone, broken, _ = cells_of(block_of(f"{text},1,1\n"), columns)
    beside, broken_too, _ = cells_of(block_of(f"{text},1,1\n,{other}\n"), columns)
    assert [row for row in beside if row["id"] == 1] == alone
    assert [reason for line, reason, _ in broken_too if line == 2] == [reason for _, reason, _ in broken]


@pytest.mark.parametrize(("text", "files"), [("2150-01-02", {}), ("02.01.2150", {"times": GERMAN.times})])
def test_a_bare_date_is_the_end_of_its_day_only_where_that_is_said(text: str, files: dict[str, Any]) -> None:
    with pytest.raises(cell_texts.BareDate):
        cell_texts.reader_of("time", FileFormat(**files))(text)
    said = FileFormat(**files, bare_dates="end_of_day")
    assert cell_texts.reader_of("time", said)(text) == datetime(2150, 1, 2, 23, 59, 59)


TIMED: dict[str, ColumnType] = {"id": "int", "at": "time"}


@pytest.mark.parametrize(
    "text", ["1,2150-01-02\n", "1,2150-01-02 00:00:00\n2,2150-01-03\n", "1,2150-01-02T00:00:00\n2,2150-01-03\n"]
)
def test_a_bare_date_in_a_time_column_is_not_taken_for_midnight(text: str) -> None:
    rows, broken, _ = cells_of(block_of(text), TIMED)
    assert [row["at"] for row in rows] == [DAY] * (text.count("\n") - 1)
    assert [reason for _, reason, _ in broken] == [
        f"at: '{text.split(',')[-1].strip()}' is no time but a date, and the spec says no bare_dates"
    ]


@pytest.mark.parametrize("written", ["2150-01-02 00:00:00", "2150-01-02T00:00:00"])
def test_midnights_that_are_written_out_are_read_at_once(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(csv_cells, "_read_slowly")
    assert cells_of(block_of(f"1,{written}\n2,2150-01-02 07:00:00\n"), TIMED)[0][0]["at"] == DAY


def test_days_and_times_are_read_alike_on_both_ways() -> None:
    columns: dict[str, ColumnType] = {"id": "int", "day": "date", "at": "time"}
    row = {"id": 1, "day": date(2150, 1, 2), "at": datetime(2150, 1, 2, 3, 4, 5)}
    assert cells_of(block_of("1,2150-01-02,2150-01-02 03:04:05\n"), columns)[0] == [row]
    assert cells_of(block_of("x,,\n1,2150-01-02,2150-01-02 03:04:05\n"), columns)[0] == [row]
    german = {**row, "at": datetime(2150, 1, 2, 3, 4)}
    assert cells_of(block_of("1,02.01.2150,02.01.2150 03:04\n,,\n"), columns, (), GERMAN)[0] == [
        german,
        dict.fromkeys(columns),
    ]


def test_words_for_nothing_are_nothing_on_the_fast_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(csv_cells, "_read_slowly")
    rows, _, _ = cells_of(
        block_of("k.A.,k.A.\n1,a\n,\n"), {"id": "int", "note": "text"}, (), FileFormat(empty=("k.A.",))
    )
    assert rows == [{"id": None, "note": None}, {"id": 1, "note": "a"}, {"id": None, "note": None}]
