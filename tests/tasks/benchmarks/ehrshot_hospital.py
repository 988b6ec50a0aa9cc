"""A small invented hospital in which every label of EHRSHOT's tasks can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from records.mimic_tables import write_folder
from wardround.core import parse_time

Rows = dict[str, list[dict[str, Any]]]

STAYS = {
    # subject: (hadm_id, admitted, discharged, died)
    1: [
        (11, "2150-01-01 10:00:00", "2150-01-08 10:00:00", ""),
        (12, "2150-01-30 08:00:00", "2150-02-01 09:00:00", ""),
        (13, "2150-06-01 08:00:00", "2150-06-01 20:00:00", ""),
    ],
    2: [(21, "2151-03-01 12:00:00", "2151-03-05 00:00:00", "2151-03-05 21:00:00")],
    3: [(31, "2152-01-01 00:00:00", "2152-01-03 00:00:00", "")],
}
ICU = [
    (1, 11, 111, "2150-01-03 01:00:00", "2150-01-04 01:00:00"),
    (3, 31, 311, "2152-01-01 00:10:00", "2152-01-02 00:00:00"),
]
DIAGNOSES = [(1, 12, 1, "4019", 9), (1, 13, 1, "I2101", 10), (1, 13, 2, "I10", 10), (2, 21, 1, "E785", 10)]
# subject, itemid, charttime, value, unit
HEMOGLOBIN, PLATELETS, POTASSIUM, SODIUM, GLUCOSE = 51222, 51265, 50971, 50983, 50931
LABS = [
    (1, HEMOGLOBIN, "2149-12-24 08:00:00", "6.0", "g/dL"),  # the first event of the record
    (1, HEMOGLOBIN, "2150-01-01 11:00:00", "6.9", "g/dL"),
    (1, HEMOGLOBIN, "2150-01-01 11:00:00", "7.0", "g/dL"),  # another tube of the same minute
    (1, HEMOGLOBIN, "2150-01-02 00:00:00", "120", "g/L"),
    (1, HEMOGLOBIN, "2150-01-02 06:00:00", "7.4", "mmol/L"),  # nobody says how to convert it
    (1, HEMOGLOBIN, "2150-01-02 07:00:00", "7.4", ""),
    (1, HEMOGLOBIN, "2150-01-02 08:00:00", "hemolyzed", "g/dL"),
    (1, PLATELETS, "2150-01-02 08:00:00", "Adequate", "K/uL"),
    (1, PLATELETS, "2150-01-02 09:00:00", "49", "K/uL"),
    (1, POTASSIUM, "2150-01-02 09:00:00", "5.5", "mEq/L"),
    (1, POTASSIUM, "2150-01-02 10:00:00", "5.6", "mEq/L"),
    (1, GLUCOSE, "2150-01-02 09:00:00", "70", "mg/dL"),  # 3.89 mmol/L
    (1, GLUCOSE, "2150-01-02 10:00:00", "71", "mg/dL"),  # 3.94
    (1, SODIUM, "2150-01-02 09:00:00", "135", "mEq/L"),
    (1, SODIUM, "2150-01-02 10:00:00", "136", "mEq/L"),
]
LABELS = {
    "guo_los": {
        (1, "2150-01-01 23:59:59", "1"),
        (1, "2150-01-30 23:59:59", "0"),
        (2, "2151-03-01 23:59:59", "0"),
        (3, "2152-01-01 23:59:59", "0"),
    },
    "guo_icu": {(1, "2150-01-01 23:59:59", "1"), (1, "2150-01-30 23:59:59", "0"), (2, "2151-03-01 23:59:59", "0")},
    "guo_readmission": {
        (1, "2150-01-08 23:59:59", "1"),
        (1, "2150-02-01 23:59:59", "0"),
        (1, "2150-06-01 23:59:59", "0"),
        (3, "2152-01-03 23:59:59", "0"),
    },
    "lab_anemia": {(1, "2150-01-01 10:59:00", "3"), (1, "2150-01-01 10:59:00", "2"), (1, "2150-01-01 23:59:00", "0")},
    "lab_thrombocytopenia": {(1, "2150-01-02 07:59:00", "0"), (1, "2150-01-02 08:59:00", "3")},
    "lab_hyperkalemia": {(1, "2150-01-02 08:59:00", "0"), (1, "2150-01-02 09:59:00", "1")},
    "lab_hypoglycemia": {(1, "2150-01-02 08:59:00", "1"), (1, "2150-01-02 09:59:00", "0")},
    "lab_hyponatremia": {(1, "2150-01-02 08:59:00", "1"), (1, "2150-01-02 09:59:00", "0")},
    "new_hypertension": {(1, "2150-01-08 23:59:59", "1"), (3, "2152-01-03 23:59:59", "0")},
    "new_hyperlipidemia": {
        (1, "2150-01-08 23:59:59", "0"),
        (1, "2150-02-01 23:59:59", "0"),
        (1, "2150-06-01 23:59:59", "0"),
        (3, "2152-01-03 23:59:59", "0"),
    },
    "new_acutemi": {(1, "2150-01-08 23:59:59", "1"), (1, "2150-02-01 23:59:59", "1"), (3, "2152-01-03 23:59:59", "0")},
}
"""Every question that can be asked, with its answer."""

DICTIONARY = [
    {"icd_code": code, "icd_version": version, "long_title": title}
    for code, version, title in (
        ("4019", 9, "Hypertension"),
        ("I10", 10, "Hypertension"),
        ("I2101", 10, "Infarction"),
        ("E785", 10, "Hyperlipidemia"),
        ("C259", 10, "Pancreatic cancer"),
        ("K900", 10, "Celiac disease"),
        ("M329", 10, "Lupus"),
    )
]


def mimic_tables(labs: list[tuple[int, int, str, str, str]] = LABS) -> Rows:
    """Return it as tables of MIMIC-IV."""
    return {
        "patients": [
            {
                "subject_id": n,
                "gender": "F",
                "anchor_age": 50,
                "anchor_year": 2150,
                "dod": "2151-03-05" if n == 2 else "",
            }
            for n in STAYS
        ],
        "admissions": [
            {"subject_id": subject, "hadm_id": stay, "admittime": start, "dischtime": end, "deathtime": death}
            | {"admission_type": "URGENT", "hospital_expire_flag": int(bool(death))}
            for subject, stays in STAYS.items()
            for stay, start, end, death in stays
        ],
        "icustays": [
            {"subject_id": subject, "hadm_id": stay, "stay_id": icu, "intime": start, "outtime": end}
            | {"first_careunit": "MICU", "last_careunit": "MICU", "los": 1}
            for subject, stay, icu, start, end in ICU
        ],
        "diagnoses_icd": [
            {"subject_id": subject, "hadm_id": stay, "seq_num": rank, "icd_code": code, "icd_version": version}
            for subject, stay, rank, code, version in DIAGNOSES
        ],
        "labevents": [
            {"labevent_id": n, "subject_id": subject, "specimen_id": n, "itemid": item, "charttime": time}
            | {"storetime": time[:11] + "23:00:00", "value": value, "valuenum": _number(value), "valueuom": unit}
            for n, (subject, item, time, value, unit) in enumerate(labs, start=1)
        ],
        "d_icd_diagnoses": DICTIONARY,
        "d_labitems": [
            {"itemid": item, "label": label, "fluid": "Blood", "category": "Chemistry"}
            for item, label in (
                (HEMOGLOBIN, "Hemoglobin"),
                (PLATELETS, "Platelet Count"),
                (POTASSIUM, "Potassium"),
                (SODIUM, "Sodium"),
                (GLUCOSE, "Glucose"),
            )
        ],
    }


def write_mimic(folder: Path, tables: Mapping[str, list[dict[str, Any]]] | None = None) -> Path:
    """Write it as files of MIMIC-IV."""
    return write_folder(folder, tables or mimic_tables(), every=True)


def write_meds(folder: Path, *, ehrshot: bool = False, results: str = "LAB//RESULT//") -> Path:
    """Write it as MEDS: with the codes of MIMIC-IV's ETL, or with EHRSHOT's (the end of a visit on its start)."""
    rows: list[dict[str, Any]] = [_event(n, "2100-01-01 00:00:00", "MEDS_BIRTH") for n in STAYS]
    for subject, stays in STAYS.items():
        for _, start, end, death in stays:
            last = max(end, death)
            if ehrshot:
                rows.append(_event(subject, start, "Visit/IP", end=last))
            else:
                rows.append(_event(subject, start, "HOSPITAL_ADMISSION//URGENT//X"))
                rows.append(_event(subject, last, "HOSPITAL_DISCHARGE//HOME"))
            if death:
                rows.append(_event(subject, death, "MEDS_DEATH"))
    for subject, _, _, start, end in ICU:
        rows.append(_event(subject, start, "ICU_ADMISSION//MICU"))
        rows.append(_event(subject, end, "ICU_DISCHARGE//MICU"))
    ends = {stay: max(end, death) for stays in STAYS.values() for stay, _, end, death in stays}
    for subject, stay, _, code, version in DIAGNOSES:
        name = f"SNOMED/{_SNOMED[code]}" if ehrshot else f"DIAGNOSIS//ICD//{version}//{code}"
        rows.append(_event(subject, ends[stay], name))
    for subject, item, time, value, unit in LABS:
        name = f"LOINC/{_LOINC[item]}" if ehrshot else f"{results}{item}//{unit or 'UNK'}"
        number = _number(value)
        words = None if number else value
        rows.append(
            _event(subject, time, name, value=number or None, text=words, unit=unit or None if ehrshot else None)
        )
    rows.sort(key=lambda row: (row["subject_id"], row["time"]))
    if not ehrshot:
        rows = [{name: cell for name, cell in row.items() if name not in ("unit", "end")} for row in rows]
    (folder / "data").mkdir(parents=True)
    (folder / "metadata").mkdir()
    types = {"subject_id": pa.int64(), "time": pa.timestamp("us"), "code": pa.string(), "numeric_value": pa.float32()}
    types |= {"text_value": pa.large_string(), "unit": pa.string(), "end": pa.timestamp("us")}
    schema = pa.schema([(name, types[name]) for name in rows[0]])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "data" / "0.parquet")
    codes = [{"code": code, "description": None, "parent_codes": []} for code in sorted({row["code"] for row in rows})]
    shape = pa.schema([("code", pa.string()), ("description", pa.string()), ("parent_codes", pa.list_(pa.string()))])
    pq.write_table(pa.Table.from_pylist(codes, shape), folder / "metadata" / "codes.parquet")
    splits = [
        {"subject_id": 1, "split": "train"},
        {"subject_id": 2, "split": "tuning"},
        {"subject_id": 3, "split": "held_out"},
    ]
    pq.write_table(pa.Table.from_pylist(splits), folder / "metadata" / "subject_splits.parquet")
    (folder / "metadata" / "dataset.json").write_text('{"dataset_name": "invented", "meds_version": "0.4.0"}')
    return folder


_LOINC = {HEMOGLOBIN: "718-7", PLATELETS: "777-3", POTASSIUM: "2823-3", SODIUM: "2951-2", GLUCOSE: "2345-7"}
_SNOMED = {"4019": "59621000", "I10": "59621000", "I2101": "57054005", "E785": "55822004"}


def _event(subject: int, time: str, code: str, **cells: Any) -> dict[str, Any]:
    return {
        "subject_id": subject,
        "time": parse_time(time),
        "code": code,
        "numeric_value": None if cells.get("value") is None else float(cells["value"]),
        "text_value": cells.get("text"),
        "unit": cells.get("unit"),
        "end": parse_time(cells["end"]) if cells.get("end") else None,
    }


def _number(value: str) -> str:
    return value if value.replace(".", "").isdigit() else ""
