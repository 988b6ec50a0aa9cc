"""The toolbox on a chart made from FHIR: tables read well, and SQL joins what the resources refer to."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from wardround.records import Store, ingest
from wardround.tools import Environment

ANN = {"reference": "Patient/ann"}


def _lab(key: str, words: str, value: float, hour: int) -> dict[str, Any]:
    named = {"coding": [{"system": "http://loinc.org", "code": f"{key}-1", "display": words}]}
    group = [{"coding": [{"code": "laboratory"}]}]
    times = {"effectiveDateTime": f"2150-01-01T0{hour}:00:00", "issued": f"2150-01-01T0{hour + 1}:00:00"}
    quantity = {"value": value, "unit": "mmol/L"}
    body = {"resourceType": "Observation", "id": key, "status": "final", "subject": ANN, "category": group}
    return body | times | {"code": named, "valueQuantity": quantity}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    report = {"resourceType": "DiagnosticReport", "id": "r1", "subject": ANN, "code": {"text": "Electrolytes"}}
    report |= {"issued": "2150-01-01T03:30:00", "result": [{"reference": "Observation/na"}]}
    people = [{"resourceType": "Patient", "id": "ann", "gender": "female", "birthDate": "2100-02-02"}]
    lines = [
        *people,
        _lab("na", "Sodium", 128, 1),
        _lab("k", "Potassium", 4.1, 2),
        _lab("late", "Lactate", 9, 7),
        report,
    ]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "all.ndjson").write_text("\n".join(map(json.dumps, lines)))
    ingest("fhir", tmp_path / "raw", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    return Environment(store.chart(int(store.subjects[0]), datetime(2150, 1, 1, 4)))


def test_tables_are_described_and_their_rows_read_well(environment: Environment) -> None:
    names = environment.call("get_table_names", {}).text
    [labs] = [line for line in names.splitlines() if line.startswith("labs | 2 | ")]
    assert "effective_time, description, value" in labs
    shown = environment.call("get_latest_records", {"table_name": "labs"}).text
    assert "Potassium | 4.1" in shown
    assert "Lactate" not in shown
    described = environment.call("get_column_names", {"table_name": "labs"}).text
    assert "issued_time | time | When the result was made known." in described
    assert "known_from" not in described


def test_sql_joins_a_report_with_its_results(environment: Environment) -> None:
    query = (
        "select r.description, l.description, l.value from diagnostic_reports r "
        "join report_results x on x.report_id = r.report_id join labs l on l.observation_id = x.observation_id"
    )
    assert "Electrolytes | Sodium | 128" in environment.call("run_sql_query", {"sql_query": query}).text
