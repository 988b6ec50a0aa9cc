"""``wardround ingest fhir``, through the real command: what came in, what did not, and one line where nothing can."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from cli.test_bad_input import refused, wardround

ANN = {"resourceType": "Patient", "id": "ann", "birthDate": "1950-06-05"}
COUGH = {
    "resourceType": "Condition",
    "id": "c1",
    "subject": {"reference": "Patient/ann"},
    "recordedDate": "2020-01-02",
    "code": {"text": "Cough"},
}


def test_a_bulk_export_comes_in_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    lines = [ANN, COUGH, {"resourceType": "Claim", "id": "x"}, {**COUGH, "id": "c2", "recordedDate": "soon"}]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "all.ndjson").write_text("\n".join(map(json.dumps, lines)))
    done = wardround("ingest", "fhir", tmp_path / "raw", "--store", tmp_path / "store")
    assert done.returncode == 1, done.stderr
    assert "1 subjects, 2 rows in 2 tables" in done.stdout
    assert "not used from the raw files: Claim 1" in done.stdout
    assert "set aside 1 broken rows (raw_records 1)" in done.stdout
    assert "(coding_lag)" in done.stdout


def test_a_truncated_export_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    data = gzip.compress("\n".join(json.dumps(COUGH | {"id": f"c{n}"}) for n in range(500)).encode())
    (tmp_path / "raw" / "Condition.ndjson.gz").write_bytes(data[:-100])
    line = refused("ingest", "fhir", tmp_path / "raw", "--store", tmp_path / "store")
    assert "Condition.ndjson.gz: the file is truncated or damaged" in line


def test_a_folder_without_fhir_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "patients.csv").write_text("subject_id\n1\n")
    line = refused("ingest", "fhir", tmp_path, "--store", tmp_path / "store")
    assert "no file of source 'fhir' is there; expected names ending in .ndjson" in line
