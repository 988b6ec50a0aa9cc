"""Blocks of cells: integers written as floats stay on the fast way, and no other column changes with them."""

from __future__ import annotations

from typing import Any

import pytest

from wardround.records.reading import csv_cells
from wardround.records.reading.csv_blocks import RecordsBlock
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
