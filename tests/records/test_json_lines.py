"""JSON lines as a table: what stands in them is what a CSV file of the same rows would give."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from wardround.core import RecordError
from wardround.records.reading.csv_blocks import JsonLinesFile
from wardround.records.reading.table_reader import TableReader
from wardround.records.specs.file_format import FileFormat

COLUMNS: dict[str, Any] = {"nr": "int", "zeiten.von": "time", "wert": "float", "text": "text", "ja": "text"}
LINES = (
    '{"nr": 1, "zeiten": {"von": "2021-01-02 03:04"}, "wert": 1.50, "text": "a \\"b\\", c", "ja": true}',
    "",
    '{"wert": null, "nr": 2, "text": "zwei\\nZeilen", "Liste": [1, {"a": 2}]}',
    "kein JSON",
    '{"nr": 12345678901234567, "wert": 1e3}',
    '{"nr": "drei"}',
    '{"text": "\\ud800", "nr": 4}',
    "[1, 2]",
)


def read(path: Path, files: FileFormat = FileFormat()) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:  # noqa: B008
    reader = TableReader(path=path, name="x", columns=COLUMNS, required=("nr",), needed=("nr",), files=files)
    cells = list(reader.read())
    broken = [(row.line, row.reason) for each in cells for row in each.broken]
    return pa.concat_tables([each.table for each in cells], promote_options="default").to_pylist(), broken


@pytest.mark.parametrize("name", ["x.jsonl", "x.ndjson.gz"])
def test_objects_are_rows_and_broken_lines_are_set_aside_with_their_number(tmp_path: Path, name: str) -> None:
    text = "\ufeff" + "\n".join(LINES)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    rows, broken = read(path)
    assert [row["nr"] for row in rows] == [1, 2, 12345678901234567]
    assert [row["wert"] for row in rows] == [1.5, None, 1000.0]
    assert str(rows[0]["zeiten.von"]) == "2021-01-02 03:04:00"
    assert (rows[0]["text"], rows[0]["ja"], rows[1]["text"]) == ('a "b", c', "true", "zwei\nZeilen")
    assert [line for line, _ in broken] == [4, 6, 7, 8]
    assert [reason for _, reason in broken].count("no JSON object") == 2


def test_a_name_that_only_a_late_line_has_is_a_column(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("\n".join(['{"A": 1}'] * 3000 + ['{"a": 2, "B": {"C": 3}}']), encoding="utf-8")
    assert JsonLinesFile(tmp_path / "x.jsonl").columns == ("a", "b.c")
    named = JsonLinesFile(tmp_path / "x.jsonl", FileFormat(headers={"b.c": "c"}))
    assert named.columns == ("a", "c")


def test_a_number_is_one_whatever_decimal_sign_the_texts_have(tmp_path: Path) -> None:
    lines = [json.dumps({"nr": 1, "wert": 2.25}), json.dumps({"nr": 2, "wert": "3,5"})]
    (tmp_path / "x.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows, broken = read(tmp_path / "x.jsonl", FileFormat(decimal=","))
    assert [row["wert"] for row in rows] == [2.25, 3.5]
    assert not broken


def test_a_file_without_any_object_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("[]\n", encoding="utf-8")
    with pytest.raises(RecordError, match="no line is a JSON object"):
        JsonLinesFile(tmp_path / "x.jsonl")


def test_a_truncated_gzip_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * 9999)[:-40])
    with pytest.raises(RecordError, match="truncated or damaged"):
        JsonLinesFile(tmp_path / "x.jsonl.gz")
