"""Plant records that reveal the future to a careless reader into a synthetic hospital.

Each kind occurs in real data: a discharge at the midnight before the death, stop times that are rounded or planned,
statuses without a stop, final rates. The writers of the other forms add the traps of their sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wardround.synth.dialects.source import HospitalTables, Row, later, midnight, moment, write_csv

_SEVENTH = 7


def plant_traps(hospital: Path, folder: Path) -> Path:
    """Write a copy of a hospital, in plain CSV files, with the traps planted."""
    source = HospitalTables(hospital)
    changed = {
        **_deaths(source),
        **_drug_orders(source),
        "inputevents": [_final_rate(row) for row in source.rows("inputevents")],
        "hcpcsevents": _early_services(source),
    }
    for path in sorted(hospital.glob("*/*.csv*")):
        table = path.name.partition(".")[0]
        rows = changed.get(table, source.rows(table))
        write_csv(folder / path.parent.name / f"{table}.csv", rows, _header(source, table))
    return folder


def _header(source: HospitalTables, table: str) -> list[str]:
    rows = source.rows(table)
    return list(rows[0]) if rows else ["subject_id"]


def _deaths(source: HospitalTables) -> Mapping[str, list[Row]]:
    """Let every fifth person die in the last stay; every other of them leaves at the midnight before."""
    last: dict[str, Row] = {}
    for row in source.rows("admissions"):
        if row["subject_id"] not in last or row["admittime"] > last[row["subject_id"]]["admittime"]:
            last[row["subject_id"]] = row
    dying = {row["hadm_id"] for place, row in enumerate(last.values()) if place % 5 == 2 or row["deathtime"]}
    died: dict[str, str] = {}
    admissions = []
    for row in source.rows("admissions"):
        if row["hadm_id"] not in dying:
            admissions.append(row)
            continue
        death = row["deathtime"] or row["dischtime"]
        before = midnight(death)
        leaves = before if before > row["admittime"] and len(died) % 2 == 0 else row["dischtime"]
        died[row["subject_id"]] = death
        ending = {"deathtime": death, "dischtime": leaves, "discharge_location": "DIED", "hospital_expire_flag": "1"}
        admissions.append(row | ending)
    patients = [
        row | {"dod": died[row["subject_id"]][:10]} if row["subject_id"] in died else row
        for row in source.rows("patients")
    ]
    return {"admissions": admissions, "patients": patients}


def _drug_orders(source: HospitalTables) -> Mapping[str, list[Row]]:
    """Plan some stops long before the order that really stops the drug, and leave some drugs without a stop."""
    stopped = {row["poe_id"]: row["discontinued_by_poe_id"] for row in source.rows("poe")}
    ordered = {row["poe_id"]: row["ordertime"] for row in source.rows("poe")}
    stops: dict[str, str] = {}
    pharmacy = []
    for place, row in enumerate(source.rows("pharmacy")):
        stop = row["stoptime"]
        by = ordered.get(stopped.get(row["poe_id"], ""), "")
        if stop and by and place % 2 == 0:
            early = later(row["starttime"], hours=2)
            stop = f"{early[:13]}:00:00" if moment(early) < moment(by) else stop
        elif place % _SEVENTH == 3:
            stop = ""
        stops[row["pharmacy_id"]] = stop
        pharmacy.append(row | {"stoptime": stop})
    prescriptions = [
        row | {"stoptime": stops.get(row["pharmacy_id"], row["stoptime"])} for row in source.rows("prescriptions")
    ]
    return {"pharmacy": pharmacy, "prescriptions": prescriptions}


def _final_rate(row: Row) -> Row:
    """Write down the rate as it came out, not as it was set."""
    return row | {"rate": f"{float(row['rate']) * 1.31:.3f}"} if row["rate"] else row


def _early_services(source: HospitalTables) -> list[Row]:
    """Bill a service on the day of admission in every third stay."""
    made = list(source.rows("hcpcsevents"))
    stays_with_service = {row["hadm_id"] for row in made}
    for row in list(source.rows("admissions"))[::3]:
        if row["hadm_id"] not in stays_with_service:
            day = {"chartdate": row["admittime"][:10], "hcpcs_cd": "G0378", "seq_num": "1"}
            service = {"short_description": "Hospital observation per hr"}
            made.append({"subject_id": row["subject_id"], "hadm_id": row["hadm_id"]} | day | service)
    return made
