"""The synthetic hospital in the OMOP CDM 5.3, with rows that tempt to leak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from wardround.core import parse_time
from wardround.synth.dialects.source import HospitalTables, later, some_twice, write_csv

# Rows of an OMOP conversion that reveal the future if their dates are read as availability times.


_CLAIM = 32855
_BILLED = {
    "condition_occurrence": "condition_start",
    "procedure_occurrence": "procedure",
    "device_exposure": "device_exposure_start",
    "observation": "observation",
}
"""Tables that hold bills, and how the columns of their dates begin."""
_HISTORY_DAYS = 40


def omop_traps(source: HospitalTables) -> Mapping[str, list[dict[str, object]]]:
    """Return further rows by table, without their running numbers."""
    rows = {table: list(_bills_on_a_day(source, table)) for table in _BILLED}
    rows["procedure_occurrence"] += _ventilations(source)
    rows["observation"] += _histories(source)
    rows["specimen"] = list(_grown(source))
    return rows


def _bills_on_a_day(source: HospitalTables, table: str) -> Iterator[dict[str, object]]:
    """Bill something on a day in the middle of a stay, with neither the visit nor a part of it named."""
    for row in source.admissions.values():
        day = later(row["admittime"], days=1)
        if day < row["dischtime"]:
            yield {
                "person_id": row["subject_id"],
                **_day(_BILLED[table], day),
                **_plain(table.partition("_")[0], f"billed in {row['hadm_id']}"),
                f"{table.partition('_')[0]}_type_concept_id": _CLAIM,
            }


def _histories(source: HospitalTables) -> Iterator[dict[str, object]]:
    """Note at an admission what has been so for weeks, and date it back."""
    for row in source.admissions.values():
        yield {
            "person_id": row["subject_id"],
            **_day("observation", later(row["admittime"], days=-_HISTORY_DAYS)),
            **_plain("observation", "has smoked"),
            "observation_type_concept_id": 32817,
            "visit_occurrence_id": row["hadm_id"],
        }


def _ventilations(source: HospitalTables) -> Iterator[dict[str, object]]:
    """Chart at its start a procedure that ends with the stay, with the minutes that it took."""
    for row in source.admissions.values():
        start = later(row["admittime"], hours=2)
        minutes = (parse_time(row["dischtime"]) - parse_time(start)).total_seconds() / 60
        if minutes > 0:
            yield {
                "person_id": row["subject_id"],
                "procedure_date": start[:10],
                "procedure_datetime": start,
                **_plain("procedure", "invasive ventilation"),
                "procedure_type_concept_id": 32833,
                "quantity": round(minutes),
                "visit_occurrence_id": row["hadm_id"],
            }


def _grown(source: HospitalTables) -> Iterator[dict[str, object]]:
    """Draw blood an hour before a stay ends and write a row for each of the organisms that it grows."""
    for place, row in enumerate(source.admissions.values()):
        drawn = later(row["deathtime"] or row["dischtime"], hours=-1)
        for _ in range(1 + place % 3):
            yield {
                "person_id": row["subject_id"],
                "specimen_date": drawn[:10],
                "specimen_datetime": drawn,
                **_plain("specimen", "blood culture"),
            }


def _day(name: str, time: str) -> dict[str, object]:
    return {f"{name}_date": time[:10], f"{name}_datetime": f"{time[:10]} 00:00:00"}


def _plain(name: str, words: str) -> dict[str, object]:
    return {f"{name}_concept_id": 0, f"{name}_source_value": words}


# The synthetic hospital in the OMOP CDM 5.3, converted as MIMIC-IV was.
#
# Its traps: visits begin at the registration in the emergency department and name the admission that comes of it, every
# bed carries the destination of the whole stay, drug ends are planned, a specimen's source names a number that runs on;
# more in `omop_traps.py`.


_FIRST_CONCEPT = 2_000_100_000
_PERSON, _INPATIENT, _EMERGENCY, _BOTH, _OBSERVED = 8532, 9201, 9203, 262, 581385
_KNOWN = """concept_id,concept_name,domain_id,vocabulary_id,concept_class_id,standard_concept,concept_code
0,No matching concept,Metadata,None,Undefined,,No matching concept
8507,MALE,Gender,Gender,Gender,S,M
8532,FEMALE,Gender,Gender,Gender,S,F
9201,Inpatient Visit,Visit,Visit,Visit,S,IP
9203,Emergency Room Visit,Visit,Visit,Visit,S,ER
262,Emergency Room and Inpatient Visit,Visit,Visit,Visit,S,ERIP
581385,Observation Room,Visit,Visit,Visit,S,OMOP4822459
8717,Inpatient Hospital,Visit,CMS Place of Service,Visit,S,21
8870,Emergency Room - Hospital,Visit,CMS Place of Service,Visit,S,23
32037,Intensive Care,Visit,Visit,Visit,S,OMOP4822460
4216643,Patient died,Observation,SNOMED,Clinical Finding,S,419099009
8536,Home,Visit,CMS Place of Service,Visit,S,12
2000001807,OBSERVATION ADMIT,Visit,mimiciv_vis_admission_type,Visit,,OBSERVATION ADMIT
2000001805,EW EMER.,Visit,mimiciv_vis_admission_type,Visit,,EW EMER.
2000001802,URGENT,Visit,mimiciv_vis_admission_type,Visit,,URGENT"""
_ROW_NUMBERS = {
    "condition_occurrence": "condition_occurrence_id",
    "procedure_occurrence": "procedure_occurrence_id",
    "device_exposure": "device_exposure_id",
    "observation": "observation_id",
    "specimen": "specimen_id",
}
_KINDS = {"OBSERVATION ADMIT": 2000001807, "EW EMER.": 2000001805}


class _Concepts:
    """Concepts of the hospital's own codes, numbered as they are met."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str, str], int] = {}
        self.names: dict[tuple[str, str, str], str] = {}

    def number(self, vocabulary: str, code: str, domain: str, name: str) -> int:
        key = (vocabulary, code, domain)
        self.names.setdefault(key, name)
        return self.numbers.setdefault(key, _FIRST_CONCEPT + len(self.numbers))

    def rows(self) -> Iterator[dict[str, object]]:
        header, *known = (line.split(",") for line in _KNOWN.splitlines())
        for line in known:
            yield dict(zip(header, line, strict=True))
        for (vocabulary, code, domain), number in self.numbers.items():
            name = self.names[vocabulary, code, domain]
            yield dict(zip(header, (number, name, domain, vocabulary, "", "S", code), strict=True))


class _Numbers:
    """Running numbers of rows."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


def write_omop(hospital: Path, folder: Path) -> None:
    """Write the tables of the CDM."""
    source, concepts, numbers = HospitalTables(hospital), _Concepts(), _Numbers()
    visits = [*_hospital_visits(source), *_emergency_visits(source)]
    details = list(_details(source))
    tables: dict[str, list[dict[str, object]]] = {
        "person": list(_persons(source)),
        "observation_period": list(_periods(source, numbers)),
        "visit_occurrence": visits,
        "visit_detail": details,
        "condition_occurrence": list(_conditions(source, concepts, numbers)),
        "procedure_occurrence": list(_procedures(source, concepts, numbers)),
        "drug_exposure": list(_drugs(source, concepts, numbers)),
        "measurement": list(_measurements(source, concepts, numbers)),
        "specimen": list(_specimens(source, concepts, numbers)),
        "death": list(_deaths(source)),
    }
    for name, rows in omop_traps(source).items():
        tables.setdefault(name, []).extend({_ROW_NUMBERS[name]: numbers.next(), **row} for row in rows)
    tables["concept"] = list(concepts.rows())
    for name, rows in tables.items():
        if not rows:
            continue  # of a small hospital: no one died
        write_csv(folder / f"{name}.csv", [*some_twice(rows)] if name in _ROW_NUMBERS else rows)


def _dated(name: str, time: str) -> dict[str, object]:
    return {f"{name}_date": time[:10], f"{name}_datetime": time}


def _persons(source: HospitalTables) -> Iterator[dict[str, object]]:
    for key, row in source.patients.items():
        yield {
            "person_id": key,
            "gender_concept_id": 8532 if row["gender"] == "F" else 8507,
            "year_of_birth": source.born(row),
            "race_concept_id": 0,
            "ethnicity_concept_id": 0,
            "person_source_value": key,
            "gender_source_value": row["gender"],
        }


def _periods(source: HospitalTables, numbers: _Numbers) -> Iterator[dict[str, object]]:
    for key in source.patients:
        own = [row for row in source.admissions.values() if row["subject_id"] == key]
        if own:
            start, end = min(row["admittime"] for row in own), max(row["dischtime"] for row in own)
            dates = {"observation_period_start_date": start[:10], "observation_period_end_date": end[:10]}
            yield (
                {"observation_period_id": numbers.next(), "person_id": key} | dates | {"period_type_concept_id": 32828}
            )


def _hospital_visits(source: HospitalTables) -> Iterator[dict[str, object]]:
    before: dict[str, str] = {}
    for row in sorted(source.admissions.values(), key=lambda each: each["admittime"]):
        start = row["edregtime"] or row["admittime"]
        kind = (
            _OBSERVED
            if "OBSERVATION" in row["admission_type"] and row["admission_type"] != "OBSERVATION ADMIT"
            else _INPATIENT
        )
        yield {
            "visit_occurrence_id": row["hadm_id"],
            "person_id": row["subject_id"],
            "visit_concept_id": _BOTH if row["edregtime"] and kind == _INPATIENT else kind,
            **_dated("visit_start", start),
            **_dated("visit_end", row["dischtime"]),
            "visit_type_concept_id": 32817,
            "visit_source_value": f"{row['subject_id']}|{row['hadm_id']}",
            "visit_source_concept_id": _KINDS.get(row["admission_type"], 2000001802),
            "admitting_source_concept_id": 8870 if row["edregtime"] else 0,
            "admitting_source_value": row["admission_location"],
            "discharge_to_concept_id": 4216643 if row["discharge_location"] == "DIED" else 8536,
            "discharge_to_source_value": row["discharge_location"],
            "preceding_visit_occurrence_id": before.get(row["subject_id"], ""),
        }
        before[row["subject_id"]] = row["hadm_id"]


def _emergency_visits(source: HospitalTables) -> Iterator[dict[str, object]]:
    """Yield the visits to the emergency department that no admission came of."""
    for row in source.rows("edstays"):
        if not row["hadm_id"]:
            yield {
                "visit_occurrence_id": row["stay_id"],
                "person_id": row["subject_id"],
                "visit_concept_id": _EMERGENCY,
                **_dated("visit_start", row["intime"]),
                **_dated("visit_end", row["outtime"]),
                "visit_type_concept_id": 32817,
                "visit_source_value": f"{row['subject_id']}|{row['intime'][:10]}",
                "visit_source_concept_id": 0,
            }


def _details(source: HospitalTables) -> Iterator[dict[str, object]]:
    for place, row in enumerate(source.rows("transfers")):
        stay = source.admissions.get(row["hadm_id"])
        if stay is None or row["eventtype"] == "discharge" or not row["outtime"]:
            continue
        icu = "Intensive" in row["careunit"] or "ICU" in row["careunit"] or "(CCU)" in row["careunit"]
        emergency = row["eventtype"] == "ED"
        yield {
            "visit_detail_id": row["transfer_id"],
            "person_id": row["subject_id"],
            "visit_detail_concept_id": 8870 if emergency else 32037 if icu else 8717,
            **_dated("visit_detail_start", row["intime"]),
            **_dated("visit_detail_end", row["intime"] if place % 9 == 4 else row["outtime"]),
            "visit_detail_type_concept_id": 32817,
            "admitting_source_concept_id": 8870 if stay["edregtime"] else 0,
            "discharge_to_concept_id": 4216643 if stay["discharge_location"] == "DIED" else 8536,
            "visit_detail_source_value": f"{row['subject_id']}|{row['hadm_id']}|{row['transfer_id']}",
            "visit_detail_source_concept_id": 0,
            "admitting_source_value": stay["admission_location"],
            "discharge_to_source_value": stay["discharge_location"],
            "visit_occurrence_id": row["hadm_id"],
        }


def _conditions(source: HospitalTables, concepts: _Concepts, numbers: _Numbers) -> Iterator[dict[str, object]]:
    for row in source.rows("diagnoses_icd"):
        stay = source.admissions[row["hadm_id"]]
        vocabulary = "ICD9CM" if row["icd_version"] == "9" else "ICD10CM"
        yield {
            "condition_occurrence_id": numbers.next(),
            "person_id": row["subject_id"],
            "condition_concept_id": concepts.number(
                vocabulary, row["icd_code"], "Condition", f"code {row['icd_code']}"
            ),
            **_dated("condition_start", stay["edregtime"] or stay["admittime"]),
            **_dated("condition_end", stay["dischtime"]),
            "condition_type_concept_id": 32821,
            "visit_occurrence_id": row["hadm_id"],
            "visit_detail_id": "",
            "condition_source_value": row["icd_code"],
        }
    beds = {
        row["hadm_id"]: row["transfer_id"]
        for row in source.rows("transfers")
        if row["eventtype"] == "ED" and row["hadm_id"]
    }
    for hadm_id, transfer_id in beds.items():
        stay = source.admissions[hadm_id]
        yield {
            "condition_occurrence_id": numbers.next(),
            "person_id": stay["subject_id"],
            "condition_concept_id": concepts.number("ICD10CM", "R69", "Condition", "Illness, unspecified"),
            **_dated("condition_start", stay["edregtime"] or stay["admittime"]),
            "condition_type_concept_id": 32821,
            "visit_detail_id": transfer_id,
            "condition_source_value": "R69",
        }


def _procedures(source: HospitalTables, concepts: _Concepts, numbers: _Numbers) -> Iterator[dict[str, object]]:
    for table, code, vocabulary in (("procedures_icd", "icd_code", "ICD10PCS"), ("hcpcsevents", "hcpcs_cd", "HCPCS")):
        for row in source.rows(table):
            yield {
                "procedure_occurrence_id": numbers.next(),
                "person_id": row["subject_id"],
                "procedure_concept_id": concepts.number(vocabulary, row[code], "Procedure", f"procedure {row[code]}"),
                **_dated("procedure", f"{row['chartdate'][:10]} 00:00:00"),
                "procedure_type_concept_id": 32821,
                "visit_occurrence_id": row["hadm_id"],
                "procedure_source_value": row[code],
            }


def _drugs(source: HospitalTables, concepts: _Concepts, numbers: _Numbers) -> Iterator[dict[str, object]]:
    for row in source.rows("prescriptions"):
        end = row["stoptime"] or row["starttime"]
        yield {
            "drug_exposure_id": numbers.next(),
            "person_id": row["subject_id"],
            "drug_concept_id": concepts.number("RxNorm", row["ndc"], "Drug", row["drug"]),
            **_dated("drug_exposure_start", row["starttime"]),
            **_dated("drug_exposure_end", end),
            "drug_type_concept_id": 32838,
            "quantity": row["dose_val_rx"] if row["dose_val_rx"].replace(".", "").isdigit() else "",
            "visit_occurrence_id": row["hadm_id"],
            "drug_source_value": row["drug"],
            "route_source_value": row["route"],
            "dose_unit_source_value": row["dose_unit_rx"],
        }


def _measurements(source: HospitalTables, concepts: _Concepts, numbers: _Numbers) -> Iterator[dict[str, object]]:
    labels = {
        "labevents": source.titles("d_labitems", "itemid", "label"),
        "chartevents": source.titles("d_items", "itemid", "label"),
    }
    for table, kind in (("labevents", 32856), ("chartevents", 32817)):
        for row in source.rows(table):
            name = labels[table].get(row["itemid"], row["itemid"])
            yield {
                "measurement_id": numbers.next(),
                "person_id": row["subject_id"],
                "measurement_concept_id": concepts.number(f"mimiciv_{table}", row["itemid"], "Measurement", name),
                **_dated("measurement", row["charttime"]),
                "measurement_type_concept_id": kind,
                "value_as_number": row["valuenum"],
                "visit_occurrence_id": row["hadm_id"],
                "measurement_source_value": row["itemid"],
                "unit_source_value": row["valueuom"],
                "value_source_value": row["value"],
            }


def _specimens(source: HospitalTables, concepts: _Concepts, numbers: _Numbers) -> Iterator[dict[str, object]]:
    for row in source.rows("microbiologyevents"):
        time = row["charttime"] or f"{row['chartdate'][:10]} 00:00:00"
        named = {"subject_id": int(row["subject_id"]), "microevent_id": int(row["microevent_id"])}
        yield {
            "specimen_id": numbers.next(),
            "person_id": row["subject_id"],
            "specimen_concept_id": concepts.number(
                "mimiciv_spec", row["spec_itemid"], "Specimen", row["spec_type_desc"]
            ),
            "specimen_type_concept_id": 32856,
            **_dated("specimen", time),
            "specimen_source_id": json.dumps(named),
            "specimen_source_value": row["spec_itemid"],
        }


def _deaths(source: HospitalTables) -> Iterator[dict[str, object]]:
    inside = {row["subject_id"]: row["deathtime"] for row in source.admissions.values() if row["deathtime"]}
    for key, row in source.patients.items():
        time = inside.get(key) or (f"{row['dod'][:10]} 00:00:00" if row["dod"] else "")
        if time:
            yield {"person_id": key, **_dated("death", time), "death_type_concept_id": 32817}
