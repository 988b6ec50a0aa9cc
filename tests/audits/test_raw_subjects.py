"""Whose a raw row is: by the text in its own column, or by its parent's key, whole numbers written as floats too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from records.small_source import small_spec
from wardround.audits.raw_subjects import _owners, _read_table
from wardround.records import SourceSpec

LABS = {7: [70, 71], 8: [80]}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SourceSpec:
    return small_spec(tmp_path_factory.mktemp("spec"))


def rows(subject: int, table: str) -> Any:
    assert table == "labs"
    return pa.record_batch({"lab_id": pa.array(LABS[subject])})


STORE: Any = SimpleNamespace(subject_key=str, rows=rows)


def test_a_row_is_that_of_its_subject_or_of_its_parents(spec: SourceSpec) -> None:
    assert _owners(spec, spec.tables["labs"], STORE, [7, 8]) == {"7": 7, "7.0": 7, "8": 8, "8.0": 8}
    assert _owners(spec, spec.tables["triage"], STORE, [7, 8]) == {
        text: subject for subject, labs in LABS.items() for lab in labs for text in (str(lab), f"{lab}.0")
    }


def test_rows_of_the_subjects_alone_are_read_from_all_of_a_tables_files(spec: SourceSpec, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("subject_id,lab_id,charttime\n7, 70,x\n9,90,y\n 8.0,80,z\n")
    (tmp_path / "b.csv").write_text("Lab_ID,Subject_ID,Extra\n71,7,e\n")
    table = spec.tables["labs"]
    found = _read_table(spec, table, [tmp_path / "a.csv", tmp_path / "b.csv"], STORE, [7, 8])
    assert found.header == ("subject_id", "lab_id", "charttime", "extra")
    assert dict(found.rows) == {
        7: [("7", " 70", "x", ""), ("7", "71", "", "e")],
        8: [(" 8.0", "80", "z", "")],
    }
