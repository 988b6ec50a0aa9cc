"""Every rule of the MIMIC-IV specs on hand-made rows: what is there a second before, and at, each moment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from effort import often
from records.chart_moments import Row, View, appears, before, fills, view_of
from records.mimic_tables import SPEC, write_folder
from wardround.audits.leaks import audit_leaks
from wardround.core import parse_time
from wardround.records import IngestSettings, Store, ingest

S = {"subject_id": 1}
STAY = {"subject_id": 1, "hadm_id": 100}
OTHER = {"subject_id": 2}
SECOND = timedelta(seconds=1)

ADMIT, DISCHARGE = "2150-03-10 08:00:00", "2150-03-15 14:00:00"
ADMIT_2, DISCHARGE_2, DEATH_2 = "2150-03-18 10:00:00", "2150-03-20 16:00:00", "2150-03-20 16:30:00"
ED_IN, ED_OUT = "2150-03-10 05:00:00", "2150-03-10 09:30:00"
ICU_IN, ICU_OUT = "2150-03-11 06:00:00", "2150-03-12 18:00:00"
SUMMARY = """Chief Complaint:
fever

Major Surgical or Invasive Procedure:
SECRET PROCEDURE

History of Present Illness:
Three days of fever.

Brief Hospital Course:
SECRET COURSE
"""


def _micro(number: int, specimen: int, test: int, **cells: Any) -> Row:
    row = {"microevent_id": number, "micro_specimen_id": specimen, "test_seq": test, "chartdate": "2150-03-11"}
    return STAY | row | {"spec_itemid": 5, "spec_type_desc": "BLOOD CULTURE", "test_itemid": test} | cells


def _order(number: int, time: str, **cells: Any) -> Row:
    row = {"poe_id": f"1-{number}", "poe_seq": number, "ordertime": time, "order_type": "Medications"}
    return STAY | row | {"transaction_type": "New", "order_status": "Inactive"} | cells


_GROWN = {"test_name": "Blood Culture, Routine", "charttime": "2150-03-11 09:00:00", "storedate": "2150-03-13"}
_GROWN |= {"storetime": "2150-03-13 12:00:00", "org_itemid": 80002, "org_name": "ESCHERICHIA COLI", "isolate_num": 1}
_INTERVAL = STAY | {"stay_id": 1000, "itemid": 7, "orderid": 1, "linkorderid": 1, "starttime": "2150-03-11 08:00:00"}
_INTERVAL |= {"storetime": "2150-03-11 08:05:00", "endtime": "2150-03-11 20:00:00"}

TABLES: Mapping[str, list[Row]] = {
    "patients": [S | {"gender": "F", "anchor_age": 60, "anchor_year": 2151, "dod": "2150-03-20"}],
    "admissions": [
        STAY
        | {"admittime": ADMIT, "dischtime": DISCHARGE, "admission_type": "EW EMER.", "discharge_location": "HOME"}
        | {"edregtime": ED_IN, "edouttime": ED_OUT, "hospital_expire_flag": 0},
        {"subject_id": 1, "hadm_id": 150, "admittime": "2150-03-16 08:00:00", "dischtime": "2150-03-17 08:00:00"}
        | {"admission_type": "OBSERVATION ADMIT", "discharge_location": "HOME", "hospital_expire_flag": 0},
        {"subject_id": 1, "hadm_id": 200, "admittime": ADMIT_2, "dischtime": DISCHARGE_2, "deathtime": DEATH_2}
        | {"admission_type": "URGENT", "discharge_location": "DIED", "hospital_expire_flag": 1},
    ],
    "transfers": [
        STAY | {"transfer_id": 1, "eventtype": "ED", "careunit": "ED", "intime": ED_IN, "outtime": ED_OUT},
        STAY | {"transfer_id": 2, "eventtype": "admit", "careunit": "Med", "intime": ED_OUT, "outtime": DISCHARGE},
        STAY | {"transfer_id": 3, "eventtype": "discharge", "intime": DISCHARGE},
    ],
    "services": [STAY | {"transfertime": "2150-03-10 07:00:00", "curr_service": "MED"}],
    "diagnoses_icd": [STAY | {"seq_num": 1, "icd_code": "4280", "icd_version": 9}],
    "procedures_icd": [STAY | {"seq_num": 1, "chartdate": "2150-03-12", "icd_code": "3961", "icd_version": 9}],
    "drgcodes": [STAY | {"drg_type": "HCFA", "drg_code": "291", "description": "HEART FAILURE"}],
    "hcpcsevents": [STAY | {"chartdate": "2150-03-11", "hcpcs_cd": "99217", "seq_num": 1}],
    "labevents": [
        STAY | {"labevent_id": 1, "itemid": 1, "charttime": "2150-03-10 06:00:00", "storetime": "2150-03-10 07:00:00"},
        STAY | {"labevent_id": 2, "itemid": 1, "charttime": "2150-03-11 06:00:00", "storetime": "2150-03-11 07:00:00"},
        STAY | {"labevent_id": 3, "itemid": 2, "charttime": "2150-03-12 06:00:00", "value": "no storetime"},
        OTHER | {"labevent_id": 4, "itemid": 1, "charttime": "2150-03-10 06:00:00", "storetime": "2150-03-10 07:00:00"},
    ],
    "microbiologyevents": [
        _micro(1, 70, 1, ab_name="AMPICILLIN", interpretation="R", **_GROWN),
        _micro(2, 70, 1, ab_name="CEFAZOLIN", interpretation="S", **_GROWN),
        _micro(3, 70, 2, test_name="Aerobic Bottle Gram Stain", charttime="2150-03-11 09:00:00")
        | {"storetime": "2150-03-12 10:00:00", "comments": "GRAM NEGATIVE ROD(S)."},
        _micro(4, 71, 1, test_name="MRSA SCREEN", storetime="2150-03-11 15:00:00", comments="No MRSA isolated."),
        _micro(6, 73, 2, test_name="CYTOMEGALOVIRUS EARLY ANTIGEN TEST (SHELL VIAL METHOD)")
        | {"charttime": "2150-03-13 16:00:00", "storetime": "2150-03-19 12:00:00", "comments": "Negative."},
        _micro(5, 72, 1, test_name="ACID FAST CULTURE", comments="NO MYCOBACTERIA ISOLATED."),
    ],
    "omr": [S | {"chartdate": "2150-03-09", "seq_num": 1, "result_name": "Weight (Lbs)", "result_value": "150"}],
    "poe": [
        _order(1, "2150-03-10 07:30:00", discontinued_by_poe_id="1-3"),
        _order(2, "2150-03-10 12:00:00"),
        _order(3, "2150-03-12 10:40:00", transaction_type="D/C", discontinue_of_poe_id="1-1"),
        _order(4, "2150-03-13 09:00:00", order_type="Consults"),
    ],
    "poe_detail": [
        S | {"poe_id": "1-2", "poe_seq": 2, "field_name": "Code status", "field_value": "Full code"},
        S | {"poe_id": "1-4", "poe_seq": 4, "field_name": "Level of Urgency", "field_value": "Routine"},
        S | {"poe_id": "1-4", "poe_seq": 4, "field_name": "Consult Status", "field_value": "Accepted"},
        S | {"poe_id": "1-4", "poe_seq": 4, "field_name": "Consult Status Time", "field_value": "2150-03-13 15:00:00"},
    ],
    "pharmacy": [
        STAY
        | {"pharmacy_id": 50, "poe_id": "1-1", "medication": "Heparin", "entertime": "2150-03-10 08:30:00"}
        | {"starttime": "2150-03-10 10:00:00", "stoptime": "2150-03-12 10:00:00", "status": "Discontinued"}
        | {"verifiedtime": "2150-03-10 08:45:00"},
        STAY
        | {"pharmacy_id": 51, "poe_id": "1-3", "medication": "Cefepime", "entertime": "2150-03-10 09:00:00"}
        | {"starttime": "2150-03-10 10:00:00", "stoptime": "2150-03-14 12:00:00", "status": "Expired"},
        STAY | {"pharmacy_id": 52, "medication": "Bag", "entertime": "2150-03-10 09:00:00", "status": "H"},
    ],
    "prescriptions": [
        STAY
        | {"pharmacy_id": 50, "poe_id": "1-1", "poe_seq": 1, "drug": "Heparin", "drug_type": "MAIN"}
        | {"starttime": "2150-03-10 10:00:00", "stoptime": "2150-03-12 10:00:00"},
        STAY | {"pharmacy_id": 51, "poe_id": "1-3", "poe_seq": 3, "drug": "Cefepime", "drug_type": "MAIN"},
        STAY | {"pharmacy_id": 99, "drug": "Stray", "drug_type": "MAIN", "starttime": "2150-03-11 10:00:00"},
    ],
    "emar": [
        STAY
        | {"emar_id": "1-1", "emar_seq": 1, "poe_id": "1-3", "pharmacy_id": 50, "medication": "Heparin"}
        | {"charttime": "2150-03-11 10:00:00", "storetime": "2150-03-11 10:20:00", "event_txt": "Administered"}
        | {"scheduletime": "2150-03-11 11:00:00"},
    ],
    "emar_detail": [S | {"emar_id": "1-1", "emar_seq": 1, "dose_given": "5", "pharmacy_id": 50}],
    "icustays": [
        STAY
        | {"stay_id": 1000, "first_careunit": "MICU", "last_careunit": "SICU", "intime": ICU_IN, "outtime": ICU_OUT}
        | {"los": 1.5}
    ],
    "chartevents": [
        STAY
        | {"stay_id": 1000, "charttime": "2150-03-11 05:00:00", "storetime": "2150-03-11 05:30:00", "itemid": 7}
        | {"value": "88", "valuenum": 88.0},
    ],
    "datetimeevents": [
        STAY
        | {"stay_id": 1000, "charttime": "2150-03-11 07:00:00", "storetime": "2150-03-11 07:10:00", "itemid": 7}
        | {"value": "2150-03-14 00:00:00"},
    ],
    "outputevents": [
        STAY
        | {"stay_id": 1000, "charttime": "2150-03-11 08:00:00", "storetime": "2150-03-11 07:40:00", "itemid": 7}
        | {"value": 300.0},
    ],
    "inputevents": [
        _INTERVAL
        | {"amount": 500.0, "rate": 41.7, "originalamount": 500.0, "originalrate": 42.0, "totalamount": 1000.0}
        | {"statusdescription": "FinishedRunning", "continueinnextdept": 1}
    ],
    "ingredientevents": [
        _INTERVAL | {"amount": 500.0, "rate": 41.7, "originalamount": 500.0, "statusdescription": "Stopped"}
    ],
    "procedureevents": [
        _INTERVAL
        | {"value": 720.0, "originalamount": 720.0, "statusdescription": "FinishedRunning", "location": "Left Radial"}
        | {"continueinnextdept": 1, "originalrate": 1.0, "isopenbag": 1}
    ],
    "edstays": [
        STAY | {"stay_id": 3000, "intime": ED_IN, "outtime": ED_OUT, "disposition": "ADMITTED"},
    ],
    "triage": [S | {"stay_id": 3000, "chiefcomplaint": "Fever", "acuity": 2}],
    "vitalsign": [
        S | {"stay_id": 3000, "charttime": "2150-03-10 04:50:00", "heartrate": 90},
        S | {"stay_id": 3000, "charttime": "2150-03-10 06:00:00", "heartrate": 95},
    ],
    "medrecon": [S | {"stay_id": 3000, "charttime": "2150-03-10 05:30:00", "name": "aspirin", "gsn": "4381"}],
    "pyxis": [S | {"stay_id": 3000, "charttime": "2150-03-10 06:30:00", "name": "Ondansetron", "med_rn": 1}],
    "diagnosis": [S | {"stay_id": 3000, "seq_num": 1, "icd_code": "R509", "icd_version": 10, "icd_title": "Fever"}],
    "discharge": [
        STAY
        | {"note_id": "1-AD-3", "note_type": "AD", "note_seq": 3, "charttime": "2150-03-18 00:00:00"}
        | {"text": "History of Present Illness:\nHe came back and died: SECRET", "storetime": "2150-03-18 11:00:00"},
        STAY
        | {"note_id": "1-DS-1", "note_type": "DS", "note_seq": 1, "charttime": "2150-03-15 00:00:00", "text": SUMMARY}
        | {"storetime": "2150-03-16 11:00:00"},
        {"subject_id": 1, "hadm_id": 200, "note_id": "1-DS-2", "note_type": "DS", "note_seq": 2}
        | {"charttime": "2150-03-20 00:00:00", "text": "Brief Hospital Course:\nSECRET COURSE"},
    ],
    "discharge_detail": [S | {"note_id": "1-DS-1", "field_name": "author", "field_value": "A", "field_ordinal": 1}],
    "radiology": [
        STAY
        | {"note_id": "1-RR-1", "note_type": "RR", "note_seq": 1, "charttime": "2150-03-11 09:00:00", "text": "CXR"}
        | {"storetime": "2150-03-11 12:00:00"},
        STAY
        | {"note_id": "1-AR-2", "note_type": "AR", "note_seq": 2, "charttime": "2150-03-11 09:00:00", "text": "Add"}
        | {"storetime": "2150-03-13 12:00:00"},
        STAY | {"note_id": "1-RR-3", "note_type": "RR", "charttime": "2150-03-12 09:00:00", "text": "no storetime"},
    ],
    "cxr_images": [
        S | {"study_id": 9, "dicom_id": "9-1", "acquired": "2150-03-11 08:50:00", "view_position": "AP"},
        S | {"study_id": 10, "dicom_id": "10-1", "acquired": "2150-03-12 08:55:00", "view_position": "PA"},
    ],
    "cxr_reports": [
        S
        | {"study_id": 9, "charttime": "2150-03-11 09:00:00", "storetime": "2150-03-11 12:30:00", "text": "Effusion."},
        S | {"study_id": 10, "charttime": "2150-03-12 09:00:00", "text": "No time of its own."},
    ],
    "cxr_labels": [
        S | {"study_id": 9, "finding": "Pleural Effusion", "value": 1.0},
        S | {"study_id": 10, "finding": "No Finding", "value": 1.0},
    ],
    "radiology_detail": [
        S | {"note_id": "1-RR-1", "field_name": "exam_name", "field_value": "CHEST", "field_ordinal": 1},
        S | {"note_id": "1-RR-1", "field_name": "addendum_note_id", "field_value": "1-AR-2", "field_ordinal": 1},
        S | {"note_id": "1-AR-2", "field_name": "parent_note_id", "field_value": "1-RR-1", "field_ordinal": 1},
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("raw"), TABLES)


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("store") / "store"
    ingest("mimiciv", folder, path)
    return Store.open(path)


@pytest.fixture
def rows(store: Store) -> View:
    """Return the rows of a table on the chart as of a moment."""
    return view_of(store, 1)


def test_every_table_of_the_spec_has_a_row_here() -> None:
    assert set(SPEC.tables) - set(TABLES) == {"admission_note"}


def test_patients_show_age_and_death_once_the_day_is_over(rows: View, store: Store) -> None:
    assert [set(row) for row in rows("patients", "1900-01-01")] == [{"row_id", "subject_id", "gender", "age", "dod"}]
    (row,) = rows("patients", "2150-03-19")
    assert (row["age"], row["dod"]) == (59, None)
    assert store.chart(1, parse_time("2150-03-19")).age == 59
    fills(rows, "patients", "2150-03-20 23:59:59", S, dod=datetime(2150, 3, 20).date())


def test_admissions(rows: View) -> None:
    appears(rows, "admissions", ADMIT)
    first = {"hadm_id": 100}
    fills(rows, "admissions", ED_OUT, first, edouttime=parse_time(ED_OUT))
    fills(rows, "admissions", DISCHARGE, first, dischtime=parse_time(DISCHARGE), discharge_location="HOME")
    fills(rows, "admissions", DISCHARGE, first, hospital_expire_flag=0)
    second = {"hadm_id": 200}
    fills(rows, "admissions", DEATH_2, second, hospital_expire_flag=1, discharge_location="DIED")
    fills(rows, "admissions", DEATH_2, second, dischtime=parse_time(DISCHARGE_2))
    fills(rows, "admissions", DEATH_2, second, deathtime=parse_time(DEATH_2))


def test_a_stay_that_ends_in_death_does_not_end_before_it(rows: View) -> None:
    """dischtime may be the midnight before the death: an end without an outcome would foretell it."""
    assert parse_time(DISCHARGE_2) < parse_time(before(DEATH_2))
    (stay,) = (row for row in rows("admissions", before(DEATH_2)) if row["hadm_id"] == 200)
    assert {stay[name] for name in ("dischtime", "discharge_location", "hospital_expire_flag")} == {None}


def test_observation_does_not_say_whether_it_will_end_in_an_admission(rows: View) -> None:
    fills(rows, "admissions", "2150-03-17 08:00:00", {"hadm_id": 150}, admission_type="OBSERVATION ADMIT")
    assert [row["admission_type"] for row in rows("admissions", ADMIT)] == ["EW EMER."]


def test_the_emergency_visit_does_not_say_that_an_admission_follows(rows: View) -> None:
    for table, where in (("transfers", {"transfer_id": 1}), ("edstays", {"stay_id": 3000}), ("services", S)):
        fills(rows, table, ADMIT, where, hadm_id=100)
    assert rows("admissions", before(ADMIT)) == []
    assert {row["hadm_id"] for row in rows("poe", before(ADMIT))} == {None}


def test_transfers_and_stays_end_when_they_end(rows: View) -> None:
    appears(rows, "transfers", DISCHARGE)
    fills(rows, "transfers", ED_OUT, {"transfer_id": 1}, outtime=parse_time(ED_OUT))
    appears(rows, "icustays", ICU_IN)
    fills(rows, "icustays", ICU_OUT, {"stay_id": 1000}, outtime=parse_time(ICU_OUT), last_careunit="SICU", los=1.5)
    appears(rows, "edstays", ED_IN)
    fills(rows, "edstays", ED_OUT, {"stay_id": 3000}, outtime=parse_time(ED_OUT), disposition="ADMITTED")


@pytest.mark.parametrize("table", ["diagnoses_icd", "procedures_icd", "drgcodes", "hcpcsevents"])
def test_codes_come_with_discharge(rows: View, table: str) -> None:
    assert rows(table, before(DISCHARGE)) == []
    appears(rows, table, DISCHARGE)


def test_codes_come_after_the_coding_lag(folder: Path, tmp_path: Path) -> None:
    ingest("mimiciv", folder, tmp_path / "s", settings=IngestSettings(coding_lag=timedelta(days=2)))
    store = Store.open(tmp_path / "s")
    ready = parse_time(DISCHARGE) + timedelta(days=2)
    for table in ("diagnoses_icd", "procedures_icd", "drgcodes", "hcpcsevents"):
        assert store.chart(1, ready - SECOND).table(table).num_rows == 0
        assert store.chart(1, ready).table(table).num_rows == 1


def test_labs_come_when_stored_or_after_the_declared_delay_of_65_minutes(rows: View) -> None:
    appears(rows, "labevents", "2150-03-10 07:00:00")
    appears(rows, "labevents", "2150-03-11 07:00:00")
    appears(rows, "labevents", "2150-03-12 07:05:00")
    fills(rows, "labevents", ADMIT, {"itemid": 1}, hadm_id=100)
    assert all("labevent_id" not in row and ":" in row["row_id"] for row in rows("labevents", DISCHARGE))


def test_lab_row_ids_do_not_count_the_results_that_are_not_in(rows: View) -> None:
    numbers = [row["row_id"].partition(":")[2] for row in rows("labevents", DISCHARGE)]
    assert len(set(numbers)) == 3
    assert not {"1", "2", "3"} & set(numbers)


def test_a_growing_culture_is_one_row_until_it_is_known(rows: View) -> None:
    appears(rows, "microbiologyevents", "2150-03-11 09:00:00")
    (order,) = (row for row in rows("microbiologyevents", "2150-03-11 09:00:00"))
    known = {name for name, cell in order.items() if cell is not None} - {"row_id"}
    assert known == {
        *("subject_id", "hadm_id", "micro_specimen_id", "chartdate", "charttime", "spec_itemid"),
        *("spec_type_desc", "test_itemid", "test_name"),
    }
    before = rows("microbiologyevents", "2150-03-13 11:59:59")
    assert [row["test_name"] for row in before].count("Blood Culture, Routine") == 1
    after = rows("microbiologyevents", "2150-03-13 12:00:00")
    assert sorted(row["ab_name"] for row in after if row["org_name"]) == ["AMPICILLIN", "CEFAZOLIN"]
    assert order["row_id"] not in {row["row_id"] for row in after}


def test_a_reflex_stain_is_not_there_before_its_result(rows: View) -> None:
    assert not any("Stain" in row["test_name"] for row in rows("microbiologyevents", "2150-03-12 09:59:59"))
    assert any("Stain" in row["test_name"] for row in rows("microbiologyevents", "2150-03-12 10:00:00"))


def test_a_test_set_up_with_its_culture_is_there_from_the_start(rows: View) -> None:
    """The early antigen test of cytomegalovirus is no reflex test: the demo's are all negative."""
    appears(rows, "microbiologyevents", "2150-03-13 16:00:00")
    (running,) = (r for r in rows("microbiologyevents", "2150-03-19 11:59:59") if "EARLY ANTIGEN" in r["test_name"])
    (known,) = (r for r in rows("microbiologyevents", "2150-03-19 12:00:00") if "EARLY ANTIGEN" in r["test_name"])
    assert (running["comments"], known["comments"]) == (None, "Negative.")


def test_a_date_only_specimen_waits_for_the_earlier_of_result_and_end_of_day(rows: View) -> None:
    def names(as_of: str) -> list[str]:
        return [row["test_name"] for row in rows("microbiologyevents", as_of)]

    assert "MRSA SCREEN" not in names("2150-03-11 14:59:59")
    assert "MRSA SCREEN" in names("2150-03-11 15:00:00")
    assert "ACID FAST CULTURE" not in names("2150-03-11 23:59:58")
    assert "ACID FAST CULTURE" in names("2150-03-11 23:59:59")
    (never,) = (row for row in rows("microbiologyevents", "2160-01-01") if row["test_name"] == "ACID FAST CULTURE")
    assert never["comments"] is None


def test_microbiology_hands_out_no_running_numbers(rows: View) -> None:
    for row in rows("microbiologyevents", "2160-01-01"):
        assert not {"microevent_id", "test_seq"} & set(row)


def test_omr_waits_for_the_end_of_the_day(rows: View) -> None:
    appears(rows, "omr", "2150-03-09 23:59:59")


def test_orders(rows: View) -> None:
    appears(rows, "poe", "2150-03-12 10:40:00")
    first = {"poe_id": "1-1"}
    fills(rows, "poe", "2150-03-12 10:40:00", first, discontinued_by_poe_id="1-3", order_status="Inactive")
    fills(rows, "poe", DISCHARGE, {"poe_id": "1-2"}, order_status="Inactive")
    appears(rows, "poe_detail", "2150-03-10 12:00:00")


def test_what_became_of_a_consult_waits_for_the_end_of_the_order(rows: View) -> None:
    def fields(as_of: str) -> set[str]:
        return {row["field_name"] for row in rows("poe_detail", as_of) if row["poe_id"] == "1-4"}

    assert fields("2150-03-13 09:00:00") == {"Level of Urgency"}
    assert fields(DISCHARGE) == {"Level of Urgency", "Consult Status", "Consult Status Time"}


def test_pharmacy_orders_come_when_entered_and_end_when_the_end_is_known(rows: View) -> None:
    appears(rows, "pharmacy", "2150-03-10 08:30:00")
    (row,) = rows("pharmacy", "2150-03-10 08:30:00")
    assert row["starttime"] == parse_time("2150-03-10 10:00:00")
    first = {"pharmacy_id": 50}
    fills(rows, "pharmacy", "2150-03-10 08:45:00", first, verifiedtime=parse_time("2150-03-10 08:45:00"))
    # The recorded stop is 10:00, rounded down to the hour: the order to stop was given at 10:40.
    stopped = {"stoptime": parse_time("2150-03-12 10:00:00"), "status": "Discontinued"}
    fills(rows, "pharmacy", "2150-03-12 11:00:00", first, **stopped)
    expired = {"stoptime": parse_time("2150-03-14 12:00:00"), "status": "Expired"}
    fills(rows, "pharmacy", "2150-03-14 13:00:00", {"pharmacy_id": 51}, **expired)


def test_an_empty_status_does_not_say_that_the_order_goes_on(rows: View, tmp_path: Path) -> None:
    """Whether an order will be stopped, and when, changes nothing before that is known: not at discharge either."""
    assert {row["status"] for row in rows("pharmacy", "2160-01-01") if row["pharmacy_id"] == 52} == {None}
    stops_later = [*TABLES["pharmacy"][:2], {**TABLES["pharmacy"][2], "stoptime": "2150-03-16 12:00:00"}]
    stopped_later = [
        {**row, "discontinued_by_poe_id": "1-9"} if row["poe_id"] == "1-2" else row for row in TABLES["poe"]
    ]
    stopped_later.append(_order(9, "2150-03-16 12:00:00", transaction_type="D/C", discontinue_of_poe_id="1-2"))
    other = write_folder(tmp_path / "raw", {**TABLES, "pharmacy": stops_later, "poe": stopped_later})
    ingest("mimiciv", other, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    for as_of in (before(DISCHARGE), DISCHARGE, "2150-03-16 11:59:59"):
        for table in ("pharmacy", "poe", "poe_detail"):
            assert store.chart(1, parse_time(as_of)).table(table).batch.to_pylist() == rows(table, as_of)


def test_whether_an_order_was_renewed_does_not_show_before_discharge(rows: View) -> None:
    for number in (50, 51):
        fills(rows, "pharmacy", DISCHARGE, {"pharmacy_id": number}, poe_id="1-1" if number == 50 else "1-3")
    fills(rows, "prescriptions", DISCHARGE, {"drug": "Heparin"}, poe_id="1-1", poe_seq=1)
    fills(rows, "prescriptions", DISCHARGE, {"drug": "Cefepime"}, poe_id="1-3", poe_seq=3)


def test_prescriptions_follow_their_pharmacy_order(rows: View) -> None:
    appears(rows, "prescriptions", "2150-03-10 08:30:00")
    first = {"drug": "Heparin"}
    fills(rows, "prescriptions", "2150-03-12 11:00:00", first, stoptime=parse_time("2150-03-12 10:00:00"))
    appears(rows, "prescriptions", "2150-03-11 10:00:00")


def test_administrations_come_when_written_down(rows: View) -> None:
    for table in ("emar", "emar_detail"):
        appears(rows, table, "2150-03-11 10:20:00")
    (row,) = rows("emar", "2150-03-11 10:20:00")
    assert row["scheduletime"] > parse_time("2150-03-11 10:20:00")
    fills(rows, "emar", "2150-03-12 10:40:00", {"emar_id": "1-1"}, poe_id="1-3")


def test_charted_rows_come_when_stored_and_name_the_stay_once_it_exists(rows: View) -> None:
    appears(rows, "chartevents", "2150-03-11 05:30:00")
    fills(rows, "chartevents", ICU_IN, {"itemid": 7}, stay_id=1000)
    appears(rows, "datetimeevents", "2150-03-11 07:10:00")
    assert rows("datetimeevents", "2150-03-11 07:10:00")[0]["value"] == datetime(2150, 3, 14)
    appears(rows, "outputevents", "2150-03-11 08:00:00")


@pytest.mark.parametrize(
    ("table", "late"),
    [
        ("inputevents", ("amount", "rate", "originalamount", "statusdescription", "continueinnextdept")),
        ("ingredientevents", ("amount", "rate", "originalamount", "statusdescription")),
        ("procedureevents", ("value", "originalamount", "originalrate", "statusdescription", "isopenbag")),
    ],
)
def test_running_intervals_do_not_say_how_they_end(rows: View, table: str, late: tuple[str, ...]) -> None:
    appears(rows, table, "2150-03-11 08:05:00")
    cells = {name: TABLES[table][0][name] for name in late}
    fills(rows, table, "2150-03-11 20:00:00", {"orderid": 1}, endtime=parse_time("2150-03-11 20:00:00"), **cells)


def test_emergency_rows(rows: View) -> None:
    appears(rows, "triage", ED_IN)
    fills(rows, "vitalsign", ED_IN, {"heartrate": 90.0}, stay_id=3000)
    appears(rows, "medrecon", "2150-03-10 05:30:00")
    appears(rows, "pyxis", "2150-03-10 06:30:00")
    appears(rows, "diagnosis", ED_OUT)


def test_notes(rows: View) -> None:
    appears(rows, "discharge", "2150-03-16 11:00:00")
    appears(rows, "discharge", "2150-03-20 23:59:59")
    appears(rows, "discharge_detail", "2150-03-16 11:00:00")
    appears(rows, "radiology", "2150-03-11 12:00:00")
    appears(rows, "radiology", "2150-03-12 23:59:59")
    appears(rows, "radiology_detail", "2150-03-11 12:00:00")
    appears(rows, "radiology_detail", "2150-03-13 12:00:00", 2)


def test_a_film_is_there_when_it_was_taken_and_what_was_read_in_it_with_its_report(rows: View) -> None:
    appears(rows, "cxr_images", "2150-03-11 08:50:00")
    appears(rows, "cxr_images", "2150-03-12 08:55:00")
    for table in ("cxr_reports", "cxr_labels"):
        appears(rows, table, "2150-03-11 12:30:00")
        appears(rows, table, "2150-03-13 23:59:59")  # no storetime: the end of the day after


def test_the_admission_note_comes_with_the_admission_and_holds_nothing_of_the_stay(rows: View) -> None:
    appears(rows, "admission_note", ADMIT)
    (row,) = rows("admission_note", "2160-01-01")
    assert set(row) == {"row_id", "subject_id", "hadm_id", "text"}
    assert "Three days of fever" in row["text"]
    assert "SECRET" not in row["text"]


MOMENTS = sorted(
    {
        parse_time(cell) + shift
        for table in TABLES.values()
        for row in table
        for cell in row.values()
        if isinstance(cell, str) and cell.startswith("2150-")
        for shift in (-SECOND, timedelta(0), timedelta(minutes=1))
    }
)


def test_no_moment_leaks_and_every_chart_equals_that_of_a_deleted_copy(store: Store, folder: Path) -> None:
    report = audit_leaks(store, [(1, moment) for moment in MOMENTS[:: often(27, 9)]], raw_folder=folder)
    assert report.clean, report.as_text()
    assert report.deletion_samples == len(MOMENTS[:: often(27, 9)])


def test_nothing_once_shown_is_taken_back(store: Store) -> None:
    shown: dict[str, Row] = {}
    for moment in MOMENTS:
        chart = store.chart(1, moment)
        now = {row["row_id"]: row for name in chart.table_names for row in chart.table(name).batch.to_pylist()}
        for row_id, row in shown.items():
            if row_id not in now and row_id.startswith("microbiologyevents:"):
                assert row["storetime"] is None, "only the row of a running test goes, when its results come"
                continue
            assert row_id in now, (row_id, moment)
            for name, cell in row.items():
                assert cell is None or name == "age" or now[row_id][name] == cell, (row_id, name, moment)
        shown = now


def test_the_published_clock_is_that_of_the_papers(store: Store) -> None:
    def chart(as_of: str) -> Any:
        return store.chart(1, parse_time(as_of), policy="published")

    assert chart("2150-03-15 13:58:59").table("diagnoses_icd").num_rows == 0
    assert chart("2150-03-15 13:59:00").table("diagnoses_icd").num_rows == 1
    assert chart("2150-03-10 09:28:59").table("diagnosis").num_rows == 0
    assert chart("2150-03-10 09:29:00").table("diagnosis").num_rows == 1
    assert chart("2150-03-12 23:59:58").table("procedures_icd").num_rows == 0
    assert chart("2150-03-12 23:59:59").table("procedures_icd").num_rows == 1
    assert chart("2150-03-11 06:00:00").table("labevents").num_rows == 2
    hidden = {"dischtime", "deathtime", "discharge_location", "edouttime", "hospital_expire_flag"}
    assert not hidden & set(chart(ADMIT).table("admissions").columns)
    assert not {"last_careunit", "outtime", "los"} & set(chart(ICU_IN).table("icustays").columns)
    assert not {"outtime", "disposition"} & set(chart(ED_IN).table("edstays").columns)
    assert chart(ADMIT).table("drgcodes").num_rows == 1
