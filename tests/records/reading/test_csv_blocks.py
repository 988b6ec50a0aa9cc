"""Blocks of a CSV file end where records end, wherever a quote or a line break falls."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.core import RecordError, UserError
from wardround.records.reading import csv_blocks
from wardround.records.reading.csv_blocks import CsvFile, split_header
from wardround.records.specs.file_format import FileFormat

CELLS = st.text(alphabet='ab,"\n', max_size=5)
RECORDS = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12)


@given(RECORDS, st.integers(1, 9))
def test_records_come_whole_and_in_order_with_the_line_they_start_on(records: list[tuple[str, str]], size: int) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("one", "two"), *records])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK_BYTES", size)
        path = Path(folder) / "table.csv"
        path.write_text(text.getvalue())
        file = csv_blocks.CsvFile(path)
        blocks = list(file.blocks())
        file.close()
    found: list[tuple[str, ...]] = []
    line = 2
    for block in blocks:
        assert block.first_line == line
        part = bytes(block.data).decode()
        found += map(tuple, csv.reader(io.StringIO(part, newline="")))
        line += part.count("\n")
    assert found == records


def opened(folder: Path, data: bytes, name: str = "table.csv", files: FileFormat | None = None) -> CsvFile:
    (folder / name).write_bytes(data)
    return CsvFile(folder / name, files or FileFormat())


def read_whole(folder: Path, data: bytes) -> list[tuple[int, bytes, str | None]]:
    file = opened(folder, data)
    found = [(block.first_line, bytes(block.data), block.problem) for block in file.blocks()]
    file.close()
    return found


@pytest.mark.parametrize(
    ("line", "delimiter", "expected"),
    [
        ("a,b", "", (",", ["a", "b"])),
        ('"a,1",b', "", (",", ["a,1", "b"])),
        ('a\t"b" \tc', "", ("\t", ["a", "b", "c"])),
        ("a\tb,c", "", (",", ["a\tb", "c"])),
        ("a\tb,c", "\t", ("\t", ["a", "b,c"])),
        ("a\tb;c", ";", (";", ["a\tb", "c"])),
        ("", "", (",", [])),
    ],
)
def test_what_separates_cells_is_seen_in_the_header_unless_it_is_said(
    line: str, delimiter: str, expected: tuple[str, list[str]]
) -> None:
    assert split_header(line, delimiter) == expected


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", 0),
        (b"no break", 0),
        (b"\n", 1),
        (b"a\nb", 2),
        (b'a\n"b\nc', 2),
        (b'"b\nc', 0),
        (b'a\n"b\nc"\nd', 8),
        (b'a\n""\n"\n\nx', 5),
    ],
)
def test_a_record_ends_at_the_last_break_outside_quotes(data: bytes, end: int) -> None:
    assert csv_blocks._record_end(data) == end


def test_names_are_small_letters_without_spaces_and_a_mark_of_byte_order(tmp_path: Path) -> None:
    file = opened(tmp_path, b"\xef\xbb\xbf Subject_ID ,FALL\r\n1,2\n", files=FileFormat(headers={"fall": "stay"}))
    assert file.columns == ("subject_id", "stay")
    assert [bytes(block.data) for block in file.blocks()] == [b"1,2\n"]


def test_a_header_alone_has_no_records_and_nothing_at_all_is_no_table(tmp_path: Path) -> None:
    assert read_whole(tmp_path, b"a,b") == []
    assert read_whole(tmp_path, b"a,b\n") == []
    for nothing in (b"", b"\n", b"  \n1,2\n"):
        with pytest.raises(RecordError, match=r"table\.csv: the file is empty, expected a header line"):
            opened(tmp_path, nothing)


def test_a_header_may_be_long_but_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "_STEP", 4)
    monkeypatch.setattr(csv_blocks, "_WIDEST_HEADER", 8)
    assert opened(tmp_path, b"abcdefghij\n1\n").columns == ("abcdefghij",)
    with pytest.raises(RecordError, match=r"table\.csv: the header line has no end within 0 MB; is it a CSV file"):
        opened(tmp_path, b"abcdefghijkl\n1\n")


def test_a_line_longer_than_a_record_may_be_costs_itself_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 4)
    monkeypatch.setattr(csv_blocks, "WIDEST_RECORD", 8)
    monkeypatch.setattr(csv_blocks, "_STEP", 6)
    blocks = read_whole(tmp_path, b"a\n1\n" + b"x" * 30 + b"\n2\n3\n")
    assert blocks[0] == (2, b"1\n", None)
    assert blocks[1] == (3, b"xxxxxx", "longer than 0 MB")
    assert b"".join(data for _, data, problem in blocks[2:] if problem is None) == b"2\n3\n"
    assert blocks[2][0] == 4


def test_a_long_last_line_without_an_end_is_set_aside_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 4)
    monkeypatch.setattr(csv_blocks, "WIDEST_RECORD", 8)
    monkeypatch.setattr(csv_blocks, "_STEP", 2)
    assert read_whole(tmp_path, b"a\n" + b"x" * 30) == [(2, b"xx", "longer than 0 MB")]


def test_a_quote_that_never_closes_does_not_hold_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 4)
    monkeypatch.setattr(csv_blocks, "WIDEST_RECORD", 8)
    monkeypatch.setattr(csv_blocks, "_STEP", 4)
    blocks = read_whole(tmp_path, b'a\n"1\n2\n3\n4\n5\n6\n')
    assert all(problem is None for _, _, problem in blocks)
    assert blocks[0][0] == 2
    assert len(blocks[0][1]) <= 12
    assert b"".join(data for _, data, _ in blocks) == b'"1\n2\n3\n4\n5\n6\n'


@pytest.mark.parametrize(
    ("data", "size", "quotes"),
    [(b"a,b", 3, 0), (b'"a",b', 5, 2), (b'"a",b', 1, 1), (b'a,b"', 3, 0), (b"", 0, 0), (b'""""', 3, 3)],
)
def test_quotes_are_those_of_the_block_s_records(data: bytes, size: int, quotes: int) -> None:
    assert csv_blocks.RecordsBlock(buffer=data, size=size, first_line=2).quotes == quotes


def test_tab_separated_blocks_know_no_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 5)
    monkeypatch.setattr(csv_blocks, "_STEP", 4)
    file = opened(tmp_path, b'a\tb\n"1\t2\n3\t4\n')
    blocks = list(file.blocks())
    assert {block.separator for block in blocks} == {"\t"}
    assert not any(block.is_quoted for block in blocks)
    assert (blocks[0].first_line, bytes(blocks[0].data)) == (2, b'"1\t2\n')
    assert b"".join(bytes(block.data) for block in blocks) == b'"1\t2\n3\t4\n'


def test_a_cut_gzip_file_says_where_and_what_cannot_be_opened_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 50_000, compresslevel=0)
    with pytest.raises(
        RecordError, match=r"t\.csv\.GZ: the file is truncated or damaged after [\d,]+ bytes of content"
    ):
        list(opened(tmp_path, whole[: len(whole) // 2], "t.csv.GZ").blocks())
    with pytest.raises(UserError, match=r"gone\.csv: cannot be opened"):
        CsvFile(tmp_path / "gone.csv")


def test_letters_of_two_bytes_are_read_whole_across_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 3)
    monkeypatch.setattr(csv_blocks, "_STEP", 1)
    file = opened(tmp_path, "a,b\nä,ö\nü,ß\n".encode("utf-16-le"), files=FileFormat(encoding="utf-16-le"))
    assert b"".join(bytes(block.data) for block in file.blocks()).decode() == "ä,ö\nü,ß\n"


def test_a_closed_file_is_closed(tmp_path: Path) -> None:
    file = opened(tmp_path, b"a\n1\n")
    file.close()
    with pytest.raises(ValueError, match="closed"):
        list(file.blocks())
