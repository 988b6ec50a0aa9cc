"""The parts of the spec language that MIMIC-III brought: one ICD version, conditions, ignored columns, assumed lags."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from wardround.core import UserError
from wardround.records import IngestSettings, Store, ingest, load_source_spec

SPEC = """
[source]
name = "old"
ignored = ["row_id"]
[source.assumed]
result_lag = "results have no time of their own"

[tables.stays]
path = "STAYS"
key = ["hadm_id"]
event_time = "admittime"
available_at = "admittime"
[tables.stays.columns]
subject_id = "int"
hadm_id = "int"
admittime = "time"

[tables.codes]
path = "CODES"
key = ["hadm_id", "icd9_code"]
event_time = "known(hadm_id, stays)"
available_at = "lag(known(hadm_id, stays), result_lag)"
[tables.codes.columns]
subject_id = "int"
hadm_id = "int"
icd9_code = "text"
[tables.codes.group]
system = "ccs-diagnoses"
code = "icd9_code"
fixed_version = 9

[tables.notes]
path = "NOTES"
event_time = "known(hadm_id, stays)"
available_at = "known(hadm_id, stays)"
[tables.notes.columns]
subject_id = "int"
hadm_id = "int"
kind = "text"
text = "text"

[tables.first_note]
path = "FIRST_NOTE"
key = ["hadm_id"]
event_time = "known(hadm_id, stays)"
available_at = "known(hadm_id, stays)"
[tables.first_note.columns]
subject_id = "int"
hadm_id = "int"
text = "text"
[tables.first_note.derive]
from = "notes"
function = "admission_sections"
where = { kind = "Summary" }
"""
FILES = {
    "STAYS.csv": "ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME\n1,1,10,2150-01-01 08:00:00\n2,2,20,2150-01-01 08:00:00\n",
    "codes.csv": "ROW_ID,SUBJECT_ID,HADM_ID,ICD9_CODE,EXTRA\n1,1,10,4280,x\n",
    "NOTES.csv": "ROW_ID,SUBJECT_ID,HADM_ID,KIND,TEXT\n"
    '1,1,10,Nursing,"Chief Complaint: wrong"\n2,1,10,"Summary ","Chief Complaint: fever"\n'
    '3,2,20,Addendum,"Chief Complaint: wrong"\n',
}


def _spec_file(folder: Path, text: str = SPEC) -> Path:
    path = folder / "old.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "raw").mkdir()
    for name, text in FILES.items():
        (tmp_path / "raw" / name).write_text(text, encoding="utf-8")
    spec = load_source_spec(_spec_file(tmp_path))
    settings = IngestSettings(result_lag=timedelta(hours=2))
    report = ingest(spec, tmp_path / "raw", tmp_path / "store", settings=settings)
    assert report.assumptions == ("assumed: results have no time of their own: 2:00:00 (result_lag)",)
    assert report.unknown_columns == {"codes": ("extra",)}
    assert report.missing_tables == ()
    return Store.open(tmp_path / "store")


def test_one_icd_version_for_all_codes(store: Store) -> None:
    (row,) = store.rows(1, "codes").to_pylist()
    assert row["ccs_label"].startswith("Congestive heart failure")


def test_only_rows_that_fit_are_derived_from(store: Store) -> None:
    assert [row["text"] for row in store.rows(1, "first_note").to_pylist()] == ["Chief Complaint:\nfever"]
    assert store.rows(2, "first_note").num_rows == 0


def test_ignored_columns_are_nowhere(store: Store) -> None:
    assert list(store.spec.ignored) == ["row_id"]
    assert store.rows(1, "stays").column("row_id").to_pylist() == ["stays:10"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("fixed_version = 9", "", "needs 'version'"),
        ("fixed_version = 9", 'fixed_version = 9\nversion = "icd9_code"', "needs 'version'"),
        ("where = { kind", "where = { kinds", "did you mean 'kind'"),
        ('result_lag = "results', 'results_lag = "results', "result_lag"),
        ('result_lag = "results have no time of their own"', "result_lag = 5", "assumed.*: expected str"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in SPEC
    with pytest.raises(UserError, match=complaint):
        load_source_spec(_spec_file(tmp_path, SPEC.replace(old, new)))
