"""A hospital of the shape of MIMIC-III 1.4, made from the synthetic one: upper-case headers, ROW_ID, quoted text.

The invented people, stays and results are those of ``synth``; what MIMIC-III does not record (result times, specimen
numbers, days of procedures, times of prescriptions) is dropped, what only it has (callouts, CPT codes, CareVue rows,
rewritten infusions, free-text admission diagnoses) is added by simple rules.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

from wardround.clinical.codes import load_ccs
from wardround.synth.dialects.source import HospitalTables, Row, later, midnight

HEADERS: Mapping[str, str] = {
    "ADMISSIONS": "SUBJECT_ID HADM_ID ADMITTIME DISCHTIME DEATHTIME ADMISSION_TYPE ADMISSION_LOCATION "
    "DISCHARGE_LOCATION INSURANCE LANGUAGE RELIGION MARITAL_STATUS ETHNICITY EDREGTIME EDOUTTIME DIAGNOSIS "
    "HOSPITAL_EXPIRE_FLAG HAS_CHARTEVENTS_DATA",
    "CALLOUT": "SUBJECT_ID HADM_ID SUBMIT_WARDID SUBMIT_CAREUNIT CURR_WARDID CURR_CAREUNIT CALLOUT_WARDID "
    "CALLOUT_SERVICE REQUEST_TELE REQUEST_RESP REQUEST_CDIFF REQUEST_MRSA REQUEST_VRE CALLOUT_STATUS CALLOUT_OUTCOME "
    "DISCHARGE_WARDID ACKNOWLEDGE_STATUS CREATETIME UPDATETIME ACKNOWLEDGETIME OUTCOMETIME FIRSTRESERVATIONTIME "
    "CURRENTRESERVATIONTIME",
    "CAREGIVERS": "CGID LABEL DESCRIPTION",
    "CHARTEVENTS": "SUBJECT_ID HADM_ID ICUSTAY_ID ITEMID CHARTTIME STORETIME CGID VALUE VALUENUM VALUEUOM WARNING "
    "ERROR RESULTSTATUS STOPPED",
    "CPTEVENTS": "SUBJECT_ID HADM_ID COSTCENTER CHARTDATE CPT_CD CPT_NUMBER CPT_SUFFIX TICKET_ID_SEQ SECTIONHEADER "
    "SUBSECTIONHEADER DESCRIPTION",
    "DATETIMEEVENTS": "SUBJECT_ID HADM_ID ICUSTAY_ID ITEMID CHARTTIME STORETIME CGID VALUE VALUEUOM WARNING ERROR "
    "RESULTSTATUS STOPPED",
    "DIAGNOSES_ICD": "SUBJECT_ID HADM_ID SEQ_NUM ICD9_CODE",
    "DRGCODES": "SUBJECT_ID HADM_ID DRG_TYPE DRG_CODE DESCRIPTION DRG_SEVERITY DRG_MORTALITY",
    "D_CPT": "CATEGORY SECTIONRANGE SECTIONHEADER SUBSECTIONRANGE SUBSECTIONHEADER CODESUFFIX MINCODEINSUBSECTION "
    "MAXCODEINSUBSECTION",
    "D_ICD_DIAGNOSES": "ICD9_CODE SHORT_TITLE LONG_TITLE",
    "D_ICD_PROCEDURES": "ICD9_CODE SHORT_TITLE LONG_TITLE",
    "D_ITEMS": "ITEMID LABEL ABBREVIATION DBSOURCE LINKSTO CATEGORY UNITNAME PARAM_TYPE CONCEPTID",
    "D_LABITEMS": "ITEMID LABEL FLUID CATEGORY LOINC_CODE",
    "ICUSTAYS": "SUBJECT_ID HADM_ID ICUSTAY_ID DBSOURCE FIRST_CAREUNIT LAST_CAREUNIT FIRST_WARDID LAST_WARDID INTIME "
    "OUTTIME LOS",
    "INPUTEVENTS_CV": "SUBJECT_ID HADM_ID ICUSTAY_ID CHARTTIME ITEMID AMOUNT AMOUNTUOM RATE RATEUOM STORETIME CGID "
    "ORDERID LINKORDERID STOPPED NEWBOTTLE ORIGINALAMOUNT ORIGINALAMOUNTUOM ORIGINALROUTE ORIGINALRATE "
    "ORIGINALRATEUOM ORIGINALSITE",
    "INPUTEVENTS_MV": "SUBJECT_ID HADM_ID ICUSTAY_ID STARTTIME ENDTIME ITEMID AMOUNT AMOUNTUOM RATE RATEUOM STORETIME "
    "CGID ORDERID LINKORDERID ORDERCATEGORYNAME SECONDARYORDERCATEGORYNAME ORDERCOMPONENTTYPEDESCRIPTION "
    "ORDERCATEGORYDESCRIPTION PATIENTWEIGHT TOTALAMOUNT TOTALAMOUNTUOM ISOPENBAG CONTINUEINNEXTDEPT CANCELREASON "
    "STATUSDESCRIPTION COMMENTS_EDITEDBY COMMENTS_CANCELEDBY COMMENTS_DATE ORIGINALAMOUNT ORIGINALRATE",
    "LABEVENTS": "SUBJECT_ID HADM_ID ITEMID CHARTTIME VALUE VALUENUM VALUEUOM FLAG",
    "MICROBIOLOGYEVENTS": "SUBJECT_ID HADM_ID CHARTDATE CHARTTIME SPEC_ITEMID SPEC_TYPE_DESC ORG_ITEMID ORG_NAME "
    "ISOLATE_NUM AB_ITEMID AB_NAME DILUTION_TEXT DILUTION_COMPARISON DILUTION_VALUE INTERPRETATION",
    "NOTEEVENTS": "SUBJECT_ID HADM_ID CHARTDATE CHARTTIME STORETIME CATEGORY DESCRIPTION CGID ISERROR TEXT",
    "OUTPUTEVENTS": "SUBJECT_ID HADM_ID ICUSTAY_ID CHARTTIME ITEMID VALUE VALUEUOM STORETIME CGID STOPPED NEWBOTTLE "
    "ISERROR",
    "PATIENTS": "SUBJECT_ID GENDER DOB DOD DOD_HOSP DOD_SSN EXPIRE_FLAG",
    "PRESCRIPTIONS": "SUBJECT_ID HADM_ID ICUSTAY_ID STARTDATE ENDDATE DRUG_TYPE DRUG DRUG_NAME_POE DRUG_NAME_GENERIC "
    "FORMULARY_DRUG_CD GSN NDC PROD_STRENGTH DOSE_VAL_RX DOSE_UNIT_RX FORM_VAL_DISP FORM_UNIT_DISP ROUTE",
    "PROCEDUREEVENTS_MV": "SUBJECT_ID HADM_ID ICUSTAY_ID STARTTIME ENDTIME ITEMID VALUE VALUEUOM LOCATION "
    "LOCATIONCATEGORY STORETIME CGID ORDERID LINKORDERID ORDERCATEGORYNAME SECONDARYORDERCATEGORYNAME "
    "ORDERCATEGORYDESCRIPTION ISOPENBAG CONTINUEINNEXTDEPT CANCELREASON STATUSDESCRIPTION COMMENTS_EDITEDBY "
    "COMMENTS_CANCELEDBY COMMENTS_DATE",
    "PROCEDURES_ICD": "SUBJECT_ID HADM_ID SEQ_NUM ICD9_CODE",
    "SERVICES": "SUBJECT_ID HADM_ID TRANSFERTIME PREV_SERVICE CURR_SERVICE",
    "TRANSFERS": "SUBJECT_ID HADM_ID ICUSTAY_ID DBSOURCE EVENTTYPE PREV_CAREUNIT CURR_CAREUNIT PREV_WARDID CURR_WARDID "
    "INTIME OUTTIME LOS",
}
"""The 26 tables of MIMIC-III 1.4 and their columns after ROW_ID."""

_LEVEL = 6  # the usual 9 takes three times as long for a hundredth less
UNITS = ("CCU", "CSRU", "MICU", "SICU", "TSICU")
PROCEDURES = {"9604": 216, "9671": 216, "3893": 54, "9904": 222, "3995": 58, "4513": 70, "8872": 193, "0331": 4}
"""ICD-9 procedures and their CCS categories: what HCUP's table, which may not be shipped, says of these few."""


def write_table(folder: Path, name: str, rows: Iterable[Mapping[str, object]], *, compress: bool = False) -> None:
    """Write one table as MIMIC-III has it. Keys of the rows may be in lower case; unknown ones are an error."""
    header = ["ROW_ID", *HEADERS[name].split()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv{'.gz' if compress else ''}"
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    for number, row in enumerate(rows, 1):
        writer.writerow({"ROW_ID": number, **{key.upper(): value for key, value in row.items()}})
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, _LEVEL, mtime=0) if compress else content)  # no time: same seed, same bytes


def write_mimiciii(hospital: Path, folder: Path) -> None:
    """Write the 26 tables of a MIMIC-III shaped hospital from a synthetic MIMIC-IV shaped one."""
    source = _Source(hospital)
    for name in HEADERS:
        made = _MAKERS[name](source) if name in _MAKERS else (dict(row) for row in source.rows(name.lower()))
        columns = HEADERS[name].lower().split()
        kept = ({key: value for key, value in row.items() if key in columns} for row in made)
        write_table(folder, name, kept, compress=True)


class _Source(HospitalTables):
    """The synthetic hospital's tables, and what several of the new ones need."""

    def __init__(self, hospital: Path) -> None:
        super().__init__(hospital)
        self.stays = self.rows("icustays")
        self.of_admission: dict[str, list[Row]] = {}
        for stay in self.stays:
            self.of_admission.setdefault(stay["hadm_id"], []).append(stay)
        self.systems = {
            stay["stay_id"]: "carevue" if int(stay["subject_id"]) % 2 else "metavision" for stay in self.stays
        }

    def charted(self, table: str, *, system: str | None = None) -> Iterator[Row]:
        """Rows of an intensive care table with MIMIC-III's names of the stay and the caregiver."""
        for row in self.rows(table):
            if system is None or self.systems[row["stay_id"]] == system:
                yield row | {"icustay_id": row["stay_id"], "cgid": row["caregiver_id"]}

    def icu_stay(self, hadm_id: str, moment: str) -> str:
        stays = (stay for stay in self.of_admission.get(hadm_id, ()) if stay["intime"] <= moment < stay["outtime"])
        return next((stay["stay_id"] for stay in stays), "")


def _unit(name: str) -> str:
    """Return one of the five units of adults; empty for a ward."""
    if "Intensive" not in name and "(CCU)" not in name:
        return ""
    short = name.rpartition("(")[2].rstrip(")")
    return short if short in UNITS else UNITS[sum(map(ord, name)) % len(UNITS)]


def _ward(name: str) -> str:
    return str(1 + sum(map(ord, name)) % 60) if name else ""


@cache
def _icd9_of() -> dict[int, str]:
    """Return an ICD-9 diagnosis code per CCS category."""
    return {category: code for code, category in reversed(list(load_ccs("diagnoses").codes[9].items()))}


def _icd9(row: Row) -> str:
    if row["icd_version"] == "9":
        return row["icd_code"]
    category = load_ccs("diagnoses").category(row["icd_code"], 10)
    return _icd9_of().get(category.number, "78099") if category else "78099"


def _patients(source: _Source) -> Iterator[Row]:
    died_here = {row["subject_id"]: row["deathtime"] for row in source.rows("admissions") if row["deathtime"]}
    for row in source.rows("patients"):
        age, year = int(row["anchor_age"]), int(row["anchor_year"])
        born = year - (300 if age > 89 else age)
        in_hospital = midnight(died_here.get(row["subject_id"], ""))
        death = midnight(row["dod"]) or in_hospital
        yield row | {
            "dob": f"{born}-03-05 00:00:00",
            "dod": death,
            "dod_hosp": in_hospital,
            "dod_ssn": "" if in_hospital else death,
            "expire_flag": "1" if death else "0",
        }


def _admissions(source: _Source) -> Iterator[Row]:
    charted = {row["hadm_id"] for row in source.rows("chartevents")}
    for row in source.rows("admissions"):
        urgent = "EMERGENCY" if row["edregtime"] else "ELECTIVE"
        extra = {"religion": "NOT SPECIFIED", "ethnicity": row["race"], "diagnosis": f"{urgent} CARE"}
        flag = {"has_chartevents_data": str(int(row["hadm_id"] in charted)), "admission_type": urgent}
        yield row | extra | flag


def _transfers(source: _Source) -> Iterator[Row]:
    before: dict[str, str] = {}
    for row in source.rows("transfers"):
        if row["eventtype"] == "ED":
            continue
        hours = ""
        if row["outtime"]:
            span = datetime.fromisoformat(row["outtime"]) - datetime.fromisoformat(row["intime"])
            hours = f"{span.total_seconds() / 3600:.2f}"
        last, here = before.get(row["hadm_id"], ""), row["careunit"] if row["eventtype"] != "discharge" else ""
        before[row["hadm_id"]] = here
        stay = source.icu_stay(row["hadm_id"], row["intime"])
        yield row | {
            "icustay_id": stay,
            "dbsource": source.systems.get(stay, ""),
            "prev_careunit": _unit(last),
            "curr_careunit": _unit(here),
            "prev_wardid": _ward(last),
            "curr_wardid": _ward(here),
            "los": hours,
        }


def _icustays(source: _Source) -> Iterator[Row]:
    for row in source.stays:
        first, last = row["first_careunit"], row["last_careunit"]
        yield row | {
            "icustay_id": row["stay_id"],
            "dbsource": source.systems[row["stay_id"]],
            "first_careunit": _unit(first) or "MICU",
            "last_careunit": _unit(last) or "MICU",
            "first_wardid": _ward(first),
            "last_wardid": _ward(last),
        }


def _callout(source: _Source) -> Iterator[Row]:
    for row in source.stays:
        created = later(row["outtime"], hours=-5)
        if created < row["intime"]:
            continue
        yield row | {
            "submit_wardid": _ward(row["last_careunit"]),
            "submit_careunit": _unit(row["last_careunit"]),
            "curr_wardid": _ward(row["last_careunit"]),
            "curr_careunit": _unit(row["last_careunit"]),
            "callout_wardid": "1",
            "callout_service": "MED",
            **dict.fromkeys(("request_tele", "request_resp", "request_cdiff", "request_mrsa", "request_vre"), "0"),
            "callout_status": "Inactive",
            "callout_outcome": "Discharged",
            "discharge_wardid": "29",
            "acknowledge_status": "Acknowledged",
            "createtime": created,
            "updatetime": later(created, minutes=30),
            "acknowledgetime": later(created, hours=1),
            "outcometime": row["outtime"],
        }


def _procedures(source: _Source) -> Iterator[Row]:
    codes = list(PROCEDURES)
    for row in source.rows("procedures_icd"):
        known = row["icd_version"] == "9" and row["icd_code"] in PROCEDURES
        code = row["icd_code"] if known else codes[sum(map(ord, row["icd_code"])) % len(codes)]
        yield row | {"icd9_code": code}


def _diagnoses(source: _Source) -> Iterator[Row]:
    for row in source.rows("diagnoses_icd"):
        yield row | {"icd9_code": _icd9(row)}


def _titles(table: str, code: Callable[[Row], str]) -> Callable[[_Source], Iterator[Row]]:
    def make(source: _Source) -> Iterator[Row]:
        seen: set[str] = set()
        for row in source.rows(table):
            if code(row) not in seen:
                seen.add(code(row))
                yield {"icd9_code": code(row), "short_title": row["long_title"][:24], "long_title": row["long_title"]}

    return make


def _cpt(source: _Source) -> Iterator[Row]:
    for stay in source.stays:
        section = {"sectionheader": "Evaluation and management", "subsectionheader": "Critical care services"}
        yield stay | section | {"costcenter": "ICU", "cpt_cd": "99291", "cpt_number": "99291", "ticket_id_seq": "1"}
        section = {"sectionheader": "Medicine", "subsectionheader": "Pulmonary", "description": "VENT MGMT"}
        day = {"chartdate": midnight(stay["intime"]), "cpt_cd": "94002", "cpt_number": "94002"}
        yield stay | section | day | {"costcenter": "Resp"}


def _prescriptions(source: _Source) -> Iterator[Row]:
    for row in source.rows("prescriptions"):
        yield row | {
            "icustay_id": source.icu_stay(row["hadm_id"], row["starttime"]),
            "startdate": midnight(row["starttime"]),
            "enddate": midnight(row["stoptime"]),
            "drug_name_generic": row["drug"],
        }


def _notes(source: _Source) -> Iterator[Row]:
    for row in source.rows("discharge"):
        yield row | {
            "chartdate": row["charttime"][:10],
            "charttime": "",
            "storetime": "",
            "category": "Discharge summary",
            "description": "Report",
        }
    for row in source.rows("radiology"):
        kind = {"category": "Radiology", "description": "CHEST (PORTABLE AP)", "storetime": ""}
        yield row | kind | {"chartdate": row["charttime"][:10]}
    for stay in source.stays:
        charted = later(stay["intime"], hours=2)
        times = {"charttime": charted, "storetime": later(charted, minutes=25), "chartdate": charted[:10]}
        yield stay | times | {"category": "Nursing", "description": "Nursing Progress Note", "text": "Resting, stable."}
        yield stay | {"category": "ECG", "description": "Report", "chartdate": charted[:10], "text": "Sinus rhythm."}


def _inputs_carevue(source: _Source) -> Iterator[Row]:
    for row in source.charted("inputevents", system="carevue"):
        given = {"charttime": row["starttime"], "originalroute": "Intravenous", "newbottle": ""}
        yield row | given | {"originalamountuom": row["amountuom"], "originalrateuom": row["rateuom"]}


def _inputs_metavision(source: _Source) -> Iterator[Row]:
    for number, row in enumerate(source.charted("inputevents", system="metavision")):
        yield row | {"cancelreason": "0"}
        if number % 11 == 0:
            edited = {"comments_date": later(row["endtime"], hours=3), "comments_editedby": "RN"}
            yield row | edited | {"cancelreason": "2", "statusdescription": "Rewritten"}


def _procedure_events(source: _Source) -> Iterator[Row]:
    for row in source.charted("procedureevents", system="metavision"):
        yield row | {"cancelreason": "0"}


_MAKERS: Mapping[str, Callable[[_Source], Iterable[Row]]] = {
    "PATIENTS": _patients,
    "ADMISSIONS": _admissions,
    "TRANSFERS": _transfers,
    "ICUSTAYS": _icustays,
    "CALLOUT": _callout,
    "DIAGNOSES_ICD": _diagnoses,
    "PROCEDURES_ICD": _procedures,
    "D_ICD_DIAGNOSES": _titles("d_icd_diagnoses", _icd9),
    "D_ICD_PROCEDURES": lambda source: [
        {"icd9_code": code, "short_title": f"procedure {code}", "long_title": f"Procedure {code}"}
        for code in PROCEDURES
    ],
    "CPTEVENTS": _cpt,
    "D_CPT": lambda source: [
        {"category": "1", "sectionrange": "99201-99499", "subsectionrange": "99289-99292"}
        | {"mincodeinsubsection": "99289", "maxcodeinsubsection": "99292", "sectionheader": "Evaluation"}
    ],
    "PRESCRIPTIONS": _prescriptions,
    "NOTEEVENTS": _notes,
    "CAREGIVERS": lambda source: [
        {"cgid": row["caregiver_id"], "label": "RN", "description": "RN"} for row in source.rows("caregiver")
    ],
    "CHARTEVENTS": lambda source: source.charted("chartevents"),
    "DATETIMEEVENTS": lambda source: source.charted("datetimeevents"),
    "OUTPUTEVENTS": lambda source: source.charted("outputevents"),
    "INPUTEVENTS_CV": _inputs_carevue,
    "INPUTEVENTS_MV": _inputs_metavision,
    "PROCEDUREEVENTS_MV": _procedure_events,
}
