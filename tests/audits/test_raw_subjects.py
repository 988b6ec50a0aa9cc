"""Whose a raw row is: by the text in its own column, or by its parent's key, whole numbers written as floats too."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from records.small_source import small_spec
from wardround.audits import audit_leaks
from wardround.audits.deletion import _owners, _read_table
from wardround.records import SourceSpec, Store, ingest, load_source_spec

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


def test_who_has_no_row_of_a_table_has_its_columns_in_the_audits_copy_too(tmp_path: Path) -> None:
    """The dictionary gives the table a column: without it charts of people without results differed."""
    (tmp_path / "haus.toml").write_text(WITH_DICTIONARY, encoding="utf-8")
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "stays.csv").write_text("person,came\n1,2150-01-01 08:00:00\n2,2150-01-01 08:00:00\n", encoding="utf-8")
    (raw / "results.csv").write_text("person,drawn,code\n1,2150-01-01 09:00:00,Na\n", encoding="utf-8")
    (raw / "tests.csv").write_text("code,name\nNa,Sodium\n", encoding="utf-8")
    ingest(load_source_spec(tmp_path / "haus.toml"), raw, tmp_path / "store")
    moments = [(person, datetime(2150, 1, 1, 12)) for person in (1, 2)]
    store = Store.open(tmp_path / "store")
    for moment in moments:  # two subjects are audited one by one
        report = audit_leaks(store, [moment], raw_folder=raw)
        assert report.clean, report.as_text()


WITH_DICTIONARY = """
[source]
name = "haus"
[tables.stays]
path = "stays"
subject = "person"
event_time = "came"
available_at = "came"
columns = { person = "int", came = "time" }
[tables.results]
path = "results"
subject = "person"
event_time = "drawn"
available_at = "drawn"
dictionary = { table = "tests", on = ["code"], add = { name = "name" } }
label = "name"
columns = { person = "int", drawn = "time", code = "text" }
[dictionaries.tests]
path = "tests"
key = ["code"]
columns = { code = "text", name = "text" }
"""
