"""How an outcome is written decides nothing before it: an end that cannot be read costs itself, not its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from records.eicu_tables import PATIENT, eicu_store
from records.fhir_moments import STAY
from records.fhir_resources import everything, ndjson, patient, reference, resource
from records.mimic_tables import write_folder
from records.sources.test_mimiciv_clocks import ADMIT, TABLES
from wardround.cli import main
from wardround.core import parse_time
from wardround.records import IngestReport, Store, ingest, load_source_spec

UNREAD = "the next day"
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def _admissions(**cells: Any) -> Tables:
    return {**TABLES, "admissions": [{**row, **cells} for row in TABLES["admissions"]]}


def _made(folder: Path, tables: Tables) -> tuple[Store, IngestReport]:
    report = ingest("mimiciv", write_folder(folder / "raw", tables), folder / "store")
    return Store.open(folder / "store"), report


def test_a_row_is_there_before_an_end_that_cannot_be_read(tmp_path: Path) -> None:
    ends = ("dischtime", "deathtime", "hospital_expire_flag")
    written, report = _made(tmp_path / "written", _admissions(**dict.fromkeys(ends, UNREAD)))
    missing, _ = _made(tmp_path / "missing", _admissions(**dict.fromkeys(ends, "")))
    count = len(TABLES["admissions"])
    kinds = ("dischtime is no time", "deathtime is no time", "hospital_expire_flag is no int")
    assert report.emptied_cells == {"admissions": dict.fromkeys(kinds, count)}
    assert not report.quarantined
    told, _ = _made(tmp_path / "told", TABLES)
    for as_of in (ADMIT, "2150-03-12 00:00:00"):
        moment = parse_time(as_of)
        assert everything(written.chart(1, moment)) == everything(told.chart(1, moment)), "nor does what it says"
    for as_of in (ADMIT, "2150-03-12 00:00:00", "2151-01-01 00:00:00"):
        moment = parse_time(as_of)
        assert everything(written.chart(1, moment)) == everything(missing.chart(1, moment))
    assert written.chart(1, parse_time(ADMIT)).table("admissions").num_rows == 1


def test_what_a_row_stands_on_still_costs_the_row(tmp_path: Path) -> None:
    _, report = _made(tmp_path, _admissions(admittime=UNREAD, dischtime=UNREAD))
    assert report.quarantined == {"admissions": len(TABLES["admissions"])}
    assert not report.emptied_cells


def test_only_columns_that_come_later_may_be_unread() -> None:
    tables = load_source_spec("mimiciv").tables
    assert {"dischtime", "deathtime", "discharge_location"} <= tables["admissions"].later_columns
    assert not {"subject_id", "hadm_id", "admittime"} & tables["admissions"].later_columns
    for table in tables.values():
        assert table.later_columns <= set(table.late)


def test_the_command_says_it_and_ends_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = write_folder(tmp_path / "raw", _admissions(deathtime=UNREAD))
    assert main(["ingest", "mimiciv", str(raw), "--store", str(tmp_path / "store")]) == 1
    said = capsys.readouterr().out
    assert f"admissions: deathtime is no time {len(TABLES['admissions'])}" in said
    assert UNREAD in (tmp_path / "store" / "quarantine" / "admissions.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("end", ["2150-01-05T10:00:00", UNREAD, {"text": "later"}])
def test_a_resource_is_there_before_an_end_that_cannot_be_read(tmp_path: Path, end: Any) -> None:
    stay = {**STAY, "period": {**STAY["period"], "end": end}}
    ndjson(tmp_path / "raw" / "a.ndjson", [{**patient(), "deceasedDateTime": end}, stay])
    report = ingest("fhir", tmp_path / "raw", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    (row,) = store.chart(int(store.subjects[0]), datetime(2150, 1, 2)).table("encounters").batch.to_pylist()
    assert row["end_time"] is None
    assert not report.quarantined
    unread = {name: count for name, count in report.left_out.items() if "cannot be read" in name}
    expected = {"Encounter: end times that cannot be read": 1, "Patient: end times that cannot be read": 1}
    assert unread == ({} if isinstance(end, str) and end != UNREAD else expected)


def test_what_is_read_again_is_counted_once(tmp_path: Path) -> None:
    """What a drug is called is looked for before its end is read."""
    drug = {"medicationReference": reference("Medication/m1"), "authoredOn": "2150-01-02T09:00:00", "status": "active"}
    left_out = []
    for end in ("2150-01-05T10:00:00", UNREAD):
        folder = tmp_path / str(len(left_out))
        order = resource("MedicationRequest", "r1", **drug, dispenseRequest={"validityPeriod": {"end": end}})
        ndjson(folder / "raw" / "a.ndjson", [patient(), order])
        left_out.append(dict(ingest("fhir", folder / "raw", folder / "store").left_out))
    assert left_out[1].pop("MedicationRequest: end times that cannot be read") == 1
    assert left_out[0] == left_out[1] == {"name of a medication whose Medication is not in the export": 1}


def test_a_unit_stay_is_there_before_a_discharge_that_cannot_be_read(tmp_path: Path) -> None:
    stores = []
    for name, end in (("written", UNREAD), ("missing", "")):
        row = {**PATIENT, "hospitaldischargeoffset": end, "unitdischargeoffset": end}
        stores.append(eicu_store(tmp_path / name, {"patient": [row]}))
    moments = (datetime(2014, 1, 1, 12), datetime(2015, 1, 1))
    for moment in moments:
        written, missing = (everything(store.chart(int(store.subjects[0]), moment)) for store in stores)
        assert written == missing
        assert written["patient"]
