"""Blocks of a CSV file end where records end, wherever a quote or a line break falls."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.records.reading import csv_blocks

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
