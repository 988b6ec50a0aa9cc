"""Write the synthetic hospital as eICU: every hospital stay as a unit stay, times as minutes since unit admission.

Its traps: a stay in which the person died is numbered before the person's earlier stays of the year; a hospital
discharge is recorded before the unit's; the outcome of the stay is beside the score of its first day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.synth.dialects.source import HospitalTables, Row, minutes_between, moment, write_csv

_YEAR = 2014
_HOSPITAL = 7


@dataclass(frozen=True, slots=True)
class _Unit:
    """One unit stay: its number, the stay that it belongs to, and when its minutes begin."""

    number: int
    stay: Row
    start: str
    end: str

    def minutes(self, time: str) -> int | str:
        """Return a time as this stay counts it; empty for none."""
        return minutes_between(self.start, time) if time else ""

    def holds(self, time: str) -> bool:
        """Return whether a time lies in the hospital stay."""
        return bool(time) and self.stay["admittime"] <= time <= max(self.end, self.stay["dischtime"])


def write_eicu(hospital: Path, folder: Path) -> None:
    """Write the raw tables of eICU."""
    source = HospitalTables(hospital)
    units = list(_units(source))
    of_stay: dict[str, list[_Unit]] = {}
    for unit in units:
        of_stay.setdefault(unit.stay["hadm_id"], []).append(unit)
    tables: dict[str, list[dict[str, object]]] = {
        "patient": [_patient(source, unit, place) for place, unit in enumerate(units)],
        "hospital": [
            {"hospitalid": _HOSPITAL, "numbedscategory": "100 - 249", "teachingstatus": "t", "region": "South"}
        ],
        "lab": list(_labs(source, of_stay)),
        "medication": list(_medications(source, of_stay)),
        "infusionDrug": list(_infusions(source, of_stay)),
        "diagnosis": list(_diagnoses(source, of_stay)),
        "treatment": list(_treatments(units)),
        "microLab": list(_cultures(source, of_stay)),
        "vitalAperiodic": list(_vitals(source, of_stay)),
        "apachePatientResult": [row for unit in units for row in _scores(unit)],
    }
    for name, rows in tables.items():
        write_csv(folder / f"{name}.csv", rows)


def _units(source: HospitalTables) -> Iterator[_Unit]:
    """Yield a unit stay for every stay in intensive care, and for every hospital stay that has none."""
    icu: dict[str, list[Row]] = {}
    for row in source.rows("icustays"):
        icu.setdefault(row["hadm_id"], []).append(row)
    for stay in source.admissions.values():
        parts = [(row["stay_id"], row["intime"], row["outtime"]) for row in icu.get(stay["hadm_id"], ())]
        alone = (str(int(stay["hadm_id"]) - 100_000_000), stay["admittime"], stay["deathtime"] or stay["dischtime"])
        for number, start, end in parts or [alone]:
            yield _Unit(int(number) % 100_000_000, stay, start, end)


def _patient(source: HospitalTables, unit: _Unit, place: int) -> dict[str, object]:
    stay, person = unit.stay, source.patients[unit.stay["subject_id"]]
    died = bool(stay["deathtime"])
    own = [row["hadm_id"] for row in source.admissions.values() if row["subject_id"] == stay["subject_id"]]
    turn = own.index(stay["hadm_id"])
    end = max(unit.end, stay["deathtime"] or unit.end)
    early = place % 6 == 1 and not died and unit.end == stay["dischtime"]
    discharge = unit.minutes(unit.start if early else stay["dischtime"])
    return {
        "patientunitstayid": unit.number,
        "patienthealthsystemstayid": int(stay["hadm_id"]) - (150_000_000 if died else 0),
        "gender": "Female" if person["gender"] == "F" else "Male",
        "age": "> 89" if int(person["anchor_age"]) > 89 else person["anchor_age"],
        "ethnicity": "Caucasian",
        "hospitalid": _HOSPITAL,
        "apacheadmissiondx": "Sepsis, pulmonary",
        "hospitaladmittime24": stay["admittime"][11:],
        "hospitaladmitoffset": unit.minutes(stay["admittime"]),
        "hospitaladmitsource": stay["admission_location"],
        "hospitaldischargeyear": _YEAR + (turn // 2),
        "hospitaldischargetime24": stay["dischtime"][11:],
        "hospitaldischargeoffset": discharge,
        "hospitaldischargelocation": "Death" if died else "Home",
        "hospitaldischargestatus": "Expired" if died else "Alive",
        "unittype": "MICU",
        "unitadmittime24": unit.start[11:],
        "unitvisitnumber": 1,
        "unitstaytype": "admit",
        "admissionweight": 80,
        "dischargeweight": 78,
        "unitdischargetime24": end[11:],
        "unitdischargeoffset": unit.minutes(end),
        "unitdischargelocation": "Death" if died else "Floor",
        "unitdischargestatus": "Expired" if died else "Alive",
        "uniquepid": stay["subject_id"],
    }


def _of(of_stay: dict[str, list[_Unit]], row: Row, time: str) -> _Unit | None:
    """Return the unit stay that a row belongs to: the last that has begun, else the first."""
    units = [unit for unit in of_stay.get(row["hadm_id"], ()) if unit.holds(time)]
    begun = [unit for unit in units if unit.start <= time]
    return begun[-1] if begun else units[0] if units else None


def _labs(source: HospitalTables, of_stay: dict[str, list[_Unit]]) -> Iterator[dict[str, object]]:
    names = source.titles("d_labitems", "itemid", "label")
    for row in source.rows("labevents"):
        unit = _of(of_stay, row, row["charttime"])
        if unit is not None and row["valuenum"]:
            yield {
                "labid": row["labevent_id"],
                "patientunitstayid": unit.number,
                "labresultoffset": unit.minutes(row["charttime"]),
                "labtypeid": 1,
                "labname": names[row["itemid"]],
                "labresult": row["valuenum"],
                "labresulttext": row["value"],
                "labmeasurenamesystem": row["valueuom"],
                "labmeasurenameinterface": row["valueuom"],
                "labresultrevisedoffset": unit.minutes(row["storetime"] or row["charttime"]),
            }


def _medications(source: HospitalTables, of_stay: dict[str, list[_Unit]]) -> Iterator[dict[str, object]]:
    entered = {row["pharmacy_id"]: row for row in source.rows("pharmacy")}
    for place, row in enumerate(source.rows("prescriptions")):
        ordered = entered[row["pharmacy_id"]]["entertime"] if row["pharmacy_id"] in entered else row["starttime"]
        unit = _of(of_stay, row, ordered)
        if unit is not None:
            yield {
                "medicationid": place + 1,
                "patientunitstayid": unit.number,
                "drugorderoffset": unit.minutes(ordered),
                "drugstartoffset": unit.minutes(row["starttime"]),
                "drugivadmixture": "No",
                "drugordercancelled": "Yes" if place % 8 == 3 else "No",
                "drugname": row["drug"],
                "drughiclseqno": row["gsn"],
                "dosage": f"{row['dose_val_rx']} {row['dose_unit_rx']}",
                "routeadmin": row["route"],
                "frequency": "Daily",
                "loadingdose": "",
                "prn": "No",
                "drugstopoffset": unit.minutes(row["stoptime"]),
                "gtc": 0,
            }


def _infusions(source: HospitalTables, of_stay: dict[str, list[_Unit]]) -> Iterator[dict[str, object]]:
    names = source.titles("d_items", "itemid", "label")
    for place, row in enumerate(source.rows("inputevents")):
        unit = _of(of_stay, row, row["starttime"])
        if unit is not None:
            yield {
                "infusiondrugid": place + 1,
                "patientunitstayid": unit.number,
                "infusionoffset": unit.minutes(row["starttime"]),
                "drugname": names[row["itemid"]],
                "drugrate": row["originalrate"],
                "infusionrate": "",
                "drugamount": "",
                "volumeoffluid": "",
                "patientweight": "",
            }


def _diagnoses(source: HospitalTables, of_stay: dict[str, list[_Unit]]) -> Iterator[dict[str, object]]:
    titles = source.titles("d_icd_diagnoses", "icd_code", "long_title")
    for place, row in enumerate(source.rows("diagnoses_icd")):
        for unit in of_stay.get(row["hadm_id"], ())[:1]:
            yield {
                "diagnosisid": place + 1,
                "patientunitstayid": unit.number,
                "activeupondischarge": "True" if place % 2 else "False",
                "diagnosisoffset": 30 + 90 * int(row["seq_num"]),
                "diagnosisstring": f"general|{titles.get(row['icd_code'], row['icd_code'])}",
                "icd9code": row["icd_code"],
                "diagnosispriority": "Primary" if row["seq_num"] == "1" else "Other",
            }


def _treatments(units: list[_Unit]) -> Iterator[dict[str, object]]:
    """Yield a treatment every few hours to the end of the unit stay."""
    for unit in units:
        last = int(unit.minutes(unit.end) or 0)
        for place, offset in enumerate(range(60, max(61, last), max(240, last // 12))):
            yield {
                "treatmentid": unit.number * 100 + place,
                "patientunitstayid": unit.number,
                "treatmentoffset": offset,
                "treatmentstring": "pulmonary|ventilation and oxygenation|oxygen therapy",
                "activeupondischarge": "True" if place % 3 == 0 else "False",
            }


def _cultures(source: HospitalTables, of_stay: dict[str, list[_Unit]]) -> Iterator[dict[str, object]]:
    for place, row in enumerate(source.rows("microbiologyevents")):
        taken_at = row["charttime"] or f"{row['chartdate'][:10]} 12:00:00"
        unit = _of(of_stay, row, taken_at)
        if unit is not None:
            yield {
                "microlabid": place + 1,
                "patientunitstayid": unit.number,
                "culturetakenoffset": unit.minutes(taken_at),
                "culturesite": row["spec_type_desc"],
                "organism": row["org_name"] or "no growth",
                "antibiotic": row["ab_name"],
                "sensitivitylevel": row["interpretation"],
            }


def _vitals(source: HospitalTables, of_stay: dict[str, list[_Unit]]) -> Iterator[dict[str, object]]:
    for place, row in enumerate(source.rows("chartevents")):
        unit = _of(of_stay, row, row["charttime"])
        if unit is not None and row["itemid"] == "220179" and row["valuenum"]:
            yield {
                "vitalaperiodicid": place + 1,
                "patientunitstayid": unit.number,
                "observationoffset": unit.minutes(row["charttime"]),
                "noninvasivesystolic": row["valuenum"],
                "noninvasivediastolic": "",
                "noninvasivemean": "",
            }


def _scores(unit: _Unit) -> Iterator[dict[str, object]]:
    end = "EXPIRED" if unit.stay["deathtime"] else "ALIVE"
    days = round(max(0.0, (moment(unit.end) - moment(unit.start)).total_seconds()) / 86_400, 4)
    for version in ("IV", "IVa"):
        yield {
            "apachepatientresultsid": unit.number * 10 + len(version),
            "patientunitstayid": unit.number,
            "acutephysiologyscore": 52,
            "apachescore": 79,
            "apacheversion": version,
            "predictedicumortality": 0.1,
            "actualicumortality": end,
            "predictediculos": 4.3,
            "actualiculos": days,
            "predictedhospitalmortality": 0.2,
            "actualhospitalmortality": end,
            "predictedhospitallos": 10.6,
            "actualhospitallos": days,
            "unabridgedunitlos": days,
            "unabridgedhosplos": days,
        }
