"""Every rule of the MIMIC-III specs on hand-made rows: what is there a second before, and at, each moment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from records.chart_moments import Row, View, appears, before, fills, view_of
from wardround.audits import audit_leaks
from wardround.core import parse_time
from wardround.records import IngestSettings, Store, ingest, load_source_spec
from wardround.synth.dialects.mimiciii import HEADERS, write_table

SPEC = load_source_spec("mimiciii")
S = {"subject_id": 7}
STAY = {"subject_id": 7, "hadm_id": 100}
OTHER = {"subject_id": 9}
ICU = STAY | {"icustay_id": 1000}
SECOND = timedelta(seconds=1)

ADMIT, DISCHARGE = "2150-03-10 08:00:00", "2150-03-15 14:00:00"
ADMIT_2, DISCHARGE_2 = "2150-03-18 10:00:00", "2150-03-20 16:00:00"
ED_IN, ED_OUT = "2150-03-10 05:00:00", "2150-03-10 09:30:00"
ICU_IN, ICU_OUT = "2150-03-11 06:00:00", "2150-03-12 18:00:00"
SUMMARY = """Admission Date:  [**2150-3-10**]       Discharge Date:  [**2150-3-15**]

Service:  MEDICINE

HISTORY OF PRESENT ILLNESS:  Three days of fever.

PAST MEDICAL HISTORY:
1.  Hypertension.

PHYSICAL EXAMINATION:  SECRET FINDING

HOSPITAL COURSE:  SECRET COURSE

DISCHARGE DIAGNOSIS:  SECRET DIAGNOSIS
"""


def _micro(time: str, specimen: str, item: int, **cells: Any) -> Row:
    clock = {"charttime": time} if time else {}
    return STAY | {"chartdate": "2150-03-11 00:00:00", "spec_itemid": item, "spec_type_desc": specimen} | clock | cells


def _drug(drug: str, start: str, end: str, **cells: Any) -> Row:
    return STAY | {"startdate": start, "enddate": end, "drug_type": "MAIN", "drug": drug, "dose_val_rx": "5"} | cells


_STRETCH = ICU | {"itemid": 225158, "starttime": "2150-03-11 08:00:00", "storetime": "2150-03-11 08:05:00"}
_STRETCH |= {"endtime": "2150-03-11 20:00:00", "linkorderid": 1, "statusdescription": "FinishedRunning"}
_OUTCOME = {"callout_status": "Inactive", "callout_outcome": "Discharged", "discharge_wardid": 29, "curr_wardid": 29}
_OUTCOME |= {"acknowledge_status": "Acknowledged", "curr_careunit": "MICU"}
_ASKED = {"callout_wardid": 1, "callout_service": "MED", "request_tele": 1, "request_mrsa": 0}
_CULTURE = "2150-03-11 09:00:00"

TABLES: Mapping[str, list[Row]] = {
    "PATIENTS": [
        S
        | {"gender": "F", "dob": "2090-03-12 00:00:00", "dod": "2150-03-25 00:00:00", "expire_flag": 1}
        | {"dod_ssn": "2150-03-25 00:00:00"},
        {"subject_id": 8, "gender": "M", "dob": "1850-03-10 00:00:00", "expire_flag": 0},
    ],
    "ADMISSIONS": [
        STAY
        | {"admittime": ADMIT, "dischtime": DISCHARGE, "admission_type": "EMERGENCY", "diagnosis": "FEVER"}
        | {"discharge_location": "HOME", "edregtime": ED_IN, "edouttime": ED_OUT, "hospital_expire_flag": 0}
        | {"has_chartevents_data": 1},
        {"subject_id": 7, "hadm_id": 200, "admittime": ADMIT_2, "dischtime": DISCHARGE_2, "admission_type": "URGENT"}
        | {"discharge_location": "SNF", "hospital_expire_flag": 0, "has_chartevents_data": 0},
        {"subject_id": 8, "hadm_id": 300, "admittime": ADMIT, "dischtime": DISCHARGE},
    ],
    "TRANSFERS": [
        STAY | {"eventtype": "admit", "curr_wardid": 5, "intime": ADMIT, "outtime": ICU_IN, "los": 22.0},
        ICU
        | {"eventtype": "transfer", "curr_careunit": "MICU", "prev_wardid": 5, "curr_wardid": 29, "intime": ICU_IN}
        | {"outtime": ICU_OUT, "los": 36.0, "dbsource": "both"},
        STAY | {"eventtype": "discharge", "prev_wardid": 29, "intime": DISCHARGE},
    ],
    "SERVICES": [STAY | {"transfertime": "2150-03-10 07:00:00", "curr_service": "MED"}],
    "CALLOUT": [
        STAY
        | _ASKED
        | _OUTCOME
        | {"submit_wardid": 29, "submit_careunit": "MICU", "createtime": "2150-03-12 10:00:00"}
        | {"updatetime": "2150-03-12 10:30:00", "acknowledgetime": "2150-03-12 11:00:00", "outcometime": ICU_OUT}
        | {"firstreservationtime": "2150-03-12 12:00:00", "currentreservationtime": "2150-03-12 13:00:00"}
    ],
    "DIAGNOSES_ICD": [STAY | {"seq_num": 1, "icd9_code": "4280"}, STAY],
    "PROCEDURES_ICD": [STAY | {"seq_num": 1, "icd9_code": "3961"}],
    "DRGCODES": [STAY | {"drg_type": "HCFA", "drg_code": "127", "description": "HEART FAILURE"}],
    "CPTEVENTS": [
        STAY | {"costcenter": "ICU", "cpt_cd": "99291", "cpt_number": 99291, "ticket_id_seq": 1},
        STAY | {"costcenter": "Resp", "chartdate": "2150-03-11 00:00:00", "cpt_cd": "94002"},
        STAY | {"costcenter": "Resp", "chartdate": "2150-03-15 00:00:00", "cpt_cd": "94003"},
    ],
    "LABEVENTS": [
        STAY | {"itemid": 50912, "charttime": "2150-03-09 06:00:00", "value": "1.0", "valuenum": 1.0},
        STAY | {"itemid": 50912, "charttime": "2150-03-11 06:00:00", "value": "1.2", "valuenum": 1.2},
        STAY | {"itemid": 50912, "charttime": "2150-03-11 06:00:00", "value": "1.2", "valuenum": 1.2},
    ],
    "MICROBIOLOGYEVENTS": [
        _micro(_CULTURE, "BLOOD CULTURE", 70012, org_itemid=80002, org_name="ESCHERICHIA COLI", isolate_num=1)
        | {"ab_itemid": 90004, "ab_name": "AMPICILLIN", "interpretation": "R"},
        _micro(_CULTURE, "BLOOD CULTURE", 70012, org_itemid=80002, org_name="ESCHERICHIA COLI", isolate_num=1)
        | {"ab_itemid": 90008, "ab_name": "CEFAZOLIN", "interpretation": "S"},
        _micro(_CULTURE, "URINE", 70079),
        _micro("", "MRSA SCREEN", 70091),
    ],
    "PRESCRIPTIONS": [
        _drug("Heparin", "2150-03-11 00:00:00", "2150-03-13 00:00:00", icustay_id=1000),
        _drug("Aspirin", "2150-03-10 00:00:00", ""),
        _drug("Undated", "", ""),
    ],
    "ICUSTAYS": [
        ICU
        | {"first_careunit": "MICU", "last_careunit": "SICU", "first_wardid": 29, "last_wardid": 31}
        | {"intime": ICU_IN, "outtime": ICU_OUT, "los": 1.5, "dbsource": "both"}
    ],
    "CHARTEVENTS": [
        ICU
        | {"charttime": "2150-03-11 05:00:00", "storetime": "2150-03-11 05:30:00", "itemid": 220045, "value": "88"}
        | {"valuenum": 88.0, "error": 1},
        ICU | {"charttime": "2150-03-11 07:00:00", "itemid": 211, "value": "90", "stopped": "NotStopd"},
        OTHER | {"charttime": "2150-03-11 05:00:00", "storetime": "2150-03-11 05:30:00", "itemid": 211},
    ],
    "DATETIMEEVENTS": [
        ICU
        | {"charttime": "2150-03-11 07:00:00", "storetime": "2150-03-11 07:10:00", "itemid": 224280}
        | {"value": "2150-03-14 00:00:00", "valueuom": "Date", "error": 0}
    ],
    "OUTPUTEVENTS": [
        ICU
        | {"charttime": "2150-03-11 08:00:00", "storetime": "2150-03-11 07:40:00", "itemid": 40055, "value": 300.0}
        | {"iserror": 1}
    ],
    "INPUTEVENTS_CV": [
        ICU
        | {"charttime": "2150-03-11 10:00:00", "storetime": "2150-03-11 10:40:00", "itemid": 30013, "amount": 50.0}
        | {"amountuom": "ml", "orderid": 5},
        ICU | {"charttime": "2150-03-11 11:00:00", "itemid": 30013, "rate": 20.0, "orderid": 6},
        OTHER | {"charttime": "2150-03-11 10:00:00", "storetime": "2150-03-11 10:40:00", "itemid": 30013},
    ],
    "INPUTEVENTS_MV": [
        _STRETCH
        | {"orderid": 1, "amount": 500.0, "rate": 41.7, "originalamount": 500.0, "originalrate": 42.0}
        | {"cancelreason": 0, "continueinnextdept": 1},
        _STRETCH
        | {"orderid": 2, "amount": 10.0, "cancelreason": 2, "statusdescription": "Rewritten"}
        | {"comments_date": "2150-03-11 21:00:00", "comments_editedby": "RN"},
        _STRETCH
        | {"orderid": 3, "amount": 20.0, "cancelreason": 1, "statusdescription": "Rewritten"}
        | {"comments_date": "2150-03-16 09:00:00", "comments_canceledby": "RN"},
    ],
    "PROCEDUREEVENTS_MV": [
        _STRETCH
        | {"orderid": 9, "value": 720.0, "location": "Left Radial", "isopenbag": 1, "continueinnextdept": 0}
        | {"cancelreason": 0}
    ],
    "NOTEEVENTS": [
        STAY | {"chartdate": "2150-03-14", "category": "Discharge summary", "description": "Report", "text": SUMMARY},
        STAY
        | {"chartdate": "2150-03-16", "category": "Discharge summary", "description": "Addendum"}
        | {"text": "CHIEF COMPLAINT:  SECRET ADDENDUM"},
        STAY
        | {"chartdate": "2150-03-11", "charttime": "2150-03-11 09:00:00", "storetime": "2150-03-11 09:20:00"}
        | {"category": "Nursing", "description": "Nursing Progress Note", "text": "stable", "iserror": "1"},
        STAY
        | {"chartdate": "2150-03-11", "charttime": "2150-03-11 09:00:00", "category": "Radiology", "text": "CXR"}
        | {"description": "CHEST (PORTABLE AP)"},
        STAY | {"chartdate": "2150-03-12", "category": "ECG", "description": "Report", "text": "Sinus rhythm"},
    ],
    "D_ICD_DIAGNOSES": [{"icd9_code": "4280", "short_title": "CHF NOS", "long_title": "Congestive heart failure"}],
    "D_ICD_PROCEDURES": [{"icd9_code": "3961", "short_title": "ECC", "long_title": "Extracorporeal circulation"}],
    "D_LABITEMS": [{"itemid": 50912, "label": "Creatinine", "fluid": "Blood", "category": "Chemistry"}],
    "D_ITEMS": [{"itemid": 220045, "label": "Heart Rate", "dbsource": "metavision", "category": "Vital Signs"}],
    "CAREGIVERS": [{"cgid": 1, "label": "RN"}],
    "D_CPT": [{"category": 1, "subsectionrange": "99291-99292", "subsectionheader": "Critical care"}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for name in HEADERS:
        write_table(folder, name, TABLES[name])
    return folder


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("store") / "store"
    report = ingest("mimiciii", folder, path)
    noticed = (report.missing_tables, report.missing_columns, report.unknown_columns, report.quarantined)
    assert not any(noticed), noticed
    return Store.open(path)


@pytest.fixture
def rows(store: Store) -> View:
    """Return the rows of a table on the chart as of a moment."""
    return view_of(store, 7)


def test_the_spec_has_the_26_tables_of_mimic_iii() -> None:
    files = {table.path for table in SPEC.tables.values()} | {each.path for each in SPEC.dictionaries.values()}
    assert files - {"ADMISSION_NOTE"} == set(HEADERS) == set(TABLES)
    assert len(HEADERS) == 26
    for table in (*SPEC.tables.values(), *SPEC.dictionaries.values()):
        if table.path in HEADERS:
            assert set(HEADERS[table.path].lower().split()) == set(table.columns), table.path


def test_no_chart_hands_out_what_counts_or_foretells(store: Store) -> None:
    for name, table in SPEC.tables.items():
        assert not {"dob", "dbsource", "has_chartevents_data"} & set(table.public_columns), name
        ids = store.chart(7, parse_time("2160-01-01")).table(name).batch.column("row_id").to_pylist()
        assert ids, name
        assert len(set(ids)) == len(ids)


def test_patients_have_an_age_and_die_at_the_end_of_the_day(rows: View, store: Store) -> None:
    assert (rows("patients", "2150-03-11")[0]["age"], rows("patients", "2150-03-12")[0]["age"]) == (59, 60)
    day = date(2150, 3, 25)
    fills(rows, "patients", "2150-03-25 23:59:59", S, dod=day, dod_ssn=day, expire_flag=1)
    assert store.chart(8, parse_time(ADMIT)).age == 90
    assert store.chart(8, parse_time("2160-01-01")).table("patients").batch.to_pylist()[0]["expire_flag"] is None


def test_admissions(rows: View) -> None:
    appears(rows, "admissions", ADMIT)
    first = {"hadm_id": 100, "diagnosis": "FEVER"}
    fills(rows, "admissions", ED_OUT, first, edouttime=parse_time(ED_OUT))
    fills(rows, "admissions", DISCHARGE, first, dischtime=parse_time(DISCHARGE), discharge_location="HOME")
    fills(rows, "admissions", DISCHARGE, first, hospital_expire_flag=0)


def test_moves_and_stays_end_when_they_end(rows: View) -> None:
    for moment in (ADMIT, ICU_IN, DISCHARGE):
        appears(rows, "transfers", moment)
    fills(rows, "transfers", ICU_OUT, {"curr_careunit": "MICU"}, outtime=parse_time(ICU_OUT), los=36.0)
    appears(rows, "icustays", ICU_IN)
    end = {"outtime": parse_time(ICU_OUT), "last_careunit": "SICU", "last_wardid": 31, "los": 1.5}
    fills(rows, "icustays", ICU_OUT, {"icustay_id": 1000}, **end)
    fills(rows, "services", ADMIT, {"curr_service": "MED"}, hadm_id=100)


def test_a_callout_says_what_became_of_it_only_then(rows: View) -> None:
    appears(rows, "callout", "2150-03-12 10:00:00")
    where = {"submit_careunit": "MICU"}
    asked = _ASKED | {"updatetime": parse_time("2150-03-12 10:30:00")}
    fills(rows, "callout", "2150-03-12 10:30:00", where, **asked)
    for column, moment in (("acknowledgetime", 11), ("firstreservationtime", 12), ("currentreservationtime", 13)):
        at = f"2150-03-12 {moment}:00:00"
        fills(rows, "callout", at, where, **{column: parse_time(at)})
    fills(rows, "callout", ICU_OUT, where, outcometime=parse_time(ICU_OUT), **_OUTCOME)


@pytest.mark.parametrize(("table", "count"), [("diagnoses_icd", 2), ("procedures_icd", 1), ("drgcodes", 1)])
def test_codes_come_with_discharge(rows: View, table: str, count: int) -> None:
    assert rows(table, before(DISCHARGE)) == []
    appears(rows, table, DISCHARGE, count)


def test_codes_are_icd9_with_titles_and_ccs_labels(rows: View) -> None:
    labels = {row["icd9_code"]: (row["long_title"], row["ccs_label"]) for row in rows("diagnoses_icd", DISCHARGE)}
    title, label = labels["4280"]
    assert title == "Congestive heart failure"
    assert label.startswith("Congestive heart failure")
    assert labels[None] == (None, None)
    (row,) = rows("procedures_icd", DISCHARGE)
    assert row["long_title"] == "Extracorporeal circulation"


def test_cpt_codes_come_with_discharge_but_not_before_their_day_is_over(rows: View) -> None:
    assert rows("cptevents", before(DISCHARGE)) == []
    appears(rows, "cptevents", DISCHARGE, 2)
    appears(rows, "cptevents", "2150-03-15 23:59:59")


def test_labs_come_after_the_assumed_lag(rows: View, folder: Path, tmp_path: Path) -> None:
    appears(rows, "labevents", "2150-03-10 06:00:00")
    appears(rows, "labevents", "2150-03-12 06:00:00", 2)
    fills(rows, "labevents", ADMIT, {"value": "1.0"}, hadm_id=100)
    ids = {row["row_id"] for row in rows("labevents", "2150-03-12 06:00:00")}
    assert len(ids) == 3
    assert rows("labevents", "2150-03-12 06:00:00")[0]["label"] == "Creatinine"
    ingest("mimiciii", folder, tmp_path / "s", settings=IngestSettings(result_lag=timedelta(hours=2)))
    sooner = Store.open(tmp_path / "s")
    assert sooner.chart(7, parse_time("2150-03-11 07:59:59")).table("labevents").num_rows == 1
    assert sooner.chart(7, parse_time("2150-03-11 08:00:00")).table("labevents").num_rows == 3


def test_a_growing_culture_is_one_row_until_the_assumed_lag_is_over(rows: View) -> None:
    appears(rows, "microbiologyevents", _CULTURE, 2)
    sent = {row["spec_type_desc"]: row for row in rows("microbiologyevents", _CULTURE)}
    known = {name for name, cell in sent["BLOOD CULTURE"].items() if cell is not None} - {"row_id"}
    assert known == {"subject_id", "hadm_id", "chartdate", "charttime", "spec_itemid", "spec_type_desc"}
    assert known == {name for name, cell in sent["URINE"].items() if cell is not None} - {"row_id"}
    ready = "2150-03-18 09:00:00"
    assert [row["org_name"] for row in rows("microbiologyevents", before(ready))] == [None] * 3
    after = rows("microbiologyevents", ready)
    assert sorted(row["ab_name"] for row in after if row["org_name"]) == ["AMPICILLIN", "CEFAZOLIN"]
    assert sent["BLOOD CULTURE"]["row_id"] not in {row["row_id"] for row in after}
    appears(rows, "microbiologyevents", "2150-03-11 23:59:59")


def test_prescriptions_come_at_the_end_of_their_first_day(rows: View) -> None:
    appears(rows, "prescriptions", "2150-03-10 23:59:59")
    appears(rows, "prescriptions", "2150-03-11 23:59:59")
    fills(rows, "prescriptions", "2150-03-13 23:59:59", {"drug": "Heparin"}, enddate=date(2150, 3, 13))
    appears(rows, "prescriptions", DISCHARGE)


def test_charting_comes_when_stored_and_is_corrected_after_the_stay(rows: View) -> None:
    appears(rows, "chartevents", "2150-03-11 05:30:00")
    fills(rows, "chartevents", ICU_IN, {"value": "88"}, icustay_id=1000)
    fills(rows, "chartevents", DISCHARGE, {"value": "88", "label": "Heart Rate"}, error=1)
    appears(rows, "chartevents", "2150-03-12 07:00:00")  # no storetime: the result lag
    appears(rows, "datetimeevents", "2150-03-11 07:10:00")
    assert rows("datetimeevents", "2150-03-11 07:10:00")[0]["value"] == parse_time("2150-03-14 00:00:00")
    appears(rows, "outputevents", "2150-03-11 08:00:00")
    fills(rows, "outputevents", DISCHARGE, {"value": 300.0}, iserror=1)


def test_carevue_inputs_come_when_stored_or_after_the_result_lag(rows: View) -> None:
    appears(rows, "inputevents_cv", "2150-03-11 10:40:00")
    appears(rows, "inputevents_cv", "2150-03-12 11:00:00")


def test_metavision_stretches_end_when_they_end_and_are_judged_after_the_stay(rows: View) -> None:
    appears(rows, "inputevents_mv", "2150-03-11 08:05:00", 3)
    end = parse_time("2150-03-11 20:00:00")
    given = {"endtime": end, "amount": 500.0, "rate": 41.7, "originalamount": 500.0, "continueinnextdept": 1}
    fills(rows, "inputevents_mv", str(end), {"orderid": 1, "originalrate": 42.0}, **given)
    fills(rows, "inputevents_mv", DISCHARGE, {"orderid": 1}, statusdescription="FinishedRunning", cancelreason=0)
    fills(rows, "inputevents_mv", DISCHARGE, {"orderid": 2}, statusdescription="Rewritten", comments_editedby="RN")
    late = {"cancelreason": 1, "comments_canceledby": "RN", "statusdescription": "Rewritten"}
    fills(rows, "inputevents_mv", "2150-03-16 09:00:00", {"orderid": 3}, **late)
    fills(rows, "procedureevents_mv", str(end), {"orderid": 9}, value=720.0, endtime=end, isopenbag=1)
    fills(rows, "procedureevents_mv", DISCHARGE, {"orderid": 9}, statusdescription="FinishedRunning")


def test_notes_come_when_stored_else_at_the_end_of_their_day(rows: View) -> None:
    appears(rows, "noteevents", "2150-03-11 09:20:00")
    appears(rows, "noteevents", "2150-03-11 23:59:59")
    appears(rows, "noteevents", "2150-03-12 23:59:59")
    fills(rows, "noteevents", DISCHARGE, {"text": "stable"}, iserror="1")


def test_a_discharge_summary_dated_before_the_discharge_waits_for_it(rows: View) -> None:
    assert not any("SECRET" in row["text"] for row in rows("noteevents", before(DISCHARGE)))
    appears(rows, "noteevents", DISCHARGE)
    appears(rows, "noteevents", "2150-03-16 23:59:59")


def test_what_was_known_at_admission_is_there_at_admission(rows: View) -> None:
    appears(rows, "admission_note", ADMIT)
    (note,) = rows("admission_note", ADMIT)
    assert "Three days of fever" in note["text"]
    assert "Hypertension" in note["text"]
    assert "SECRET" not in note["text"]
    assert rows("admission_note", "2160-01-01") == [note]


def test_a_second_summary_does_not_replace_what_was_known_at_admission(rows: View, tmp_path: Path) -> None:
    """Some stays have two reports; the second may stand first in the file."""
    second = {"chartdate": "2150-03-16", "category": "Discharge summary", "description": "Report"}
    told = [STAY | second | {"text": "CHIEF COMPLAINT:  SECRET SECOND REPORT"}, *TABLES["NOTEEVENTS"]]
    for name in ("PATIENTS", "ADMISSIONS", "NOTEEVENTS"):
        write_table(tmp_path / "raw", name, told if name == "NOTEEVENTS" else TABLES[name])
    ingest("mimiciii", tmp_path / "raw", tmp_path / "store")
    assert view_of(Store.open(tmp_path / "store"), 7)("admission_note", ADMIT) == rows("admission_note", ADMIT)


def _clone(row: Row, number: int) -> Row:
    """Return a row of patient 7 as that of another one, whose keys are hers and 10,000 more, and so on."""
    keys = ("subject_id", "hadm_id", "icustay_id", "orderid", "linkorderid")
    return row | {name: row[name] + 10_000 * number for name in keys if name in row}


def test_both_audits_are_clean_at_every_moment_and_name_what_is_assumed(tmp_path: Path) -> None:
    """A copy of the files without the future serves one moment of each patient: so there is one like her for each."""
    moments = sorted(
        {parse_time(str(cell)) for each in TABLES.values() for row in each for cell in row.values() if _is_time(cell)}
    )
    asked = sorted({moment + shift for moment in moments for shift in (-SECOND, timedelta(0), timedelta(days=1))})
    for name in HEADERS:
        hers = [row for row in TABLES[name] if row.get("subject_id") == 7]
        others = [_clone(row, number) for row in hers for number in range(1, len(asked))]
        write_table(tmp_path / "raw", name, TABLES[name] + others)
    ingest("mimiciii", tmp_path / "raw", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    samples = [(7 + 10_000 * number, moment) for number, moment in enumerate(asked)]
    report = audit_leaks(store, samples, raw_folder=tmp_path / "raw")
    assert report.clean, report.as_text()
    assert report.deletion_samples == len(asked) > 80
    assert [line.count("result_lag") + line.count("culture_lag") for line in report.assumptions] == [1, 1]
    assert set(report.assumptions) <= set(report.as_text().splitlines())
    assert list(report.assumptions) == store.manifest["assumptions"]


def _is_time(cell: object) -> bool:
    return isinstance(cell, str) and cell.startswith("2150-")


@pytest.mark.parametrize(
    ("table", "there", "count"),
    [
        ("labevents", "2150-03-11 06:00:00", 2),
        ("microbiologyevents", _CULTURE, 3),
        ("prescriptions", "2150-03-11 00:00:59", 1),
        ("diagnoses_icd", "2150-03-15 13:59:00", 2),
        ("procedures_icd", "2150-03-15 13:59:00", 1),
        ("transfers", ICU_IN, 1),
    ],
)
def test_the_published_clock_is_the_papers(store: Store, table: str, there: str, count: int) -> None:
    at, earlier = (
        store.chart(7, moment, policy="published").table(table).num_rows
        for moment in (parse_time(there), parse_time(before(there)))
    )
    assert at - earlier == count
    hidden = {"admissions": "dischtime", "icustays": "los", "prescriptions": "enddate"}
    for name, column in hidden.items():
        assert column not in store.chart(7, parse_time(there), policy="published").table(name).columns
