"""Write the synthetic hospital as a MEDS data set, coded as the ETL of MIMIC-IV codes it.

Its own traps: every row has one time; stops and rates of infusions are the final ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround.synth.dialects.source import HospitalTables, Row, moment

Event = tuple[int, datetime | None, str, float | None]
_SCHEMA = pa.schema(
    [
        pa.field("subject_id", pa.int64()),
        pa.field("time", pa.timestamp("us")),
        pa.field("code", pa.string()),
        pa.field("numeric_value", pa.float32()),
    ]
)
_SPLITS = ("train", "train", "train", "tuning", "held_out")


def write_meds(hospital: Path, folder: Path) -> None:
    """Write data and metadata of a MEDS data set."""
    source = HospitalTables(hospital)
    events = [*_people(source), *_stays(source), *_codes(source), *_results(source), *_drugs(source)]
    events.sort(key=lambda event: (event[0], event[1] or datetime.min))
    splits = {int(subject): _SPLITS[place % len(_SPLITS)] for place, subject in enumerate(source.patients)}
    for split in dict.fromkeys(splits.values()):
        own = [event for event in events if splits[event[0]] == split]
        columns: list[list[Any]] = [list(column) for column in zip(*own, strict=True)]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        path = folder / "data" / split / "0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(arrays, schema=_SCHEMA), path)
    _write_metadata(source, folder / "metadata", splits, sorted({event[2] for event in events}))


def _write_metadata(source: HospitalTables, folder: Path, splits: dict[int, str], codes: list[str]) -> None:
    folder.mkdir(parents=True)
    titles = {f"LAB//{key}": label for key, label in source.titles("d_labitems", "itemid", "label").items()}
    described = [titles.get("//".join(code.split("//")[:2])) for code in codes]
    parents = pa.array([None] * len(codes), pa.list_(pa.string()))
    table = {"code": codes, "description": pa.array(described, pa.string()), "parent_codes": parents}
    pq.write_table(pa.table(table), folder / "codes.parquet")
    pq.write_table(
        pa.table({"subject_id": list(splits), "split": list(splits.values())}), folder / "subject_splits.parquet"
    )
    about = {"dataset_name": "synthetic hospital", "meds_version": "0.4.1"}
    (folder / "dataset.json").write_text(json.dumps(about), encoding="utf-8")


def _event(row: Row, time: str, code: str, value: str = "") -> Iterator[Event]:
    """Yield an event, if it has a time."""
    if time:
        yield int(row["subject_id"]), moment(time), code, _number(value)


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _people(source: HospitalTables) -> Iterator[Event]:
    for row in source.patients.values():
        yield int(row["subject_id"]), None, f"GENDER//{row['gender']}", None
        yield from _event(row, f"{source.born(row)}-01-01 00:00:00", "MEDS_BIRTH")
        yield from _event(row, f"{row['dod'][:10]} 00:00:00" if row["dod"] else "", "MEDS_DEATH")
    for row in source.rows("omr"):
        yield from _event(row, f"{row['chartdate'][:10]} 00:00:00", row["result_name"], row["result_value"])


def _stays(source: HospitalTables) -> Iterator[Event]:
    for row in source.admissions.values():
        yield from _event(row, row["edregtime"], "ED_REGISTRATION")
        yield from _event(row, row["edouttime"], "ED_OUT")
        kind = f"HOSPITAL_ADMISSION//{row['admission_type']}//{row['admission_location']}"
        yield from _event(row, row["admittime"], kind)
        yield from _event(row, row["dischtime"], f"HOSPITAL_DISCHARGE//{row['discharge_location'] or 'UNK'}")
    for row in source.rows("transfers"):
        place = f"TRANSFER_TO//{row['eventtype']}//{row['careunit'] or 'UNK'}"
        yield from _event(row, row["intime"], place)
    for row in source.rows("icustays"):
        yield from _event(row, row["intime"], f"ICU_ADMISSION//{row['first_careunit']}")
        yield from _event(row, row["outtime"], f"ICU_DISCHARGE//{row['last_careunit']}")


def _codes(source: HospitalTables) -> Iterator[Event]:
    stays = source.admissions
    for row in source.rows("diagnoses_icd"):
        code = f"DIAGNOSIS//ICD//{row['icd_version']}//{row['icd_code']}"
        yield from _event(row, stays[row["hadm_id"]]["dischtime"], code)
    for row in source.rows("drgcodes"):
        code = f"DRG//{row['drg_type']}//{row['drg_code']}//{row['description']}"
        yield from _event(row, stays[row["hadm_id"]]["dischtime"], code)
    for row in source.rows("procedures_icd"):
        code = f"PROCEDURE//ICD//{row['icd_version']}//{row['icd_code']}"
        yield from _event(row, f"{row['chartdate'][:10]} 00:00:00", code)
    for row in source.rows("hcpcsevents"):
        yield from _event(row, f"{row['chartdate'][:10]} 00:00:00", f"HCPCS//{row['short_description']}")


def _results(source: HospitalTables) -> Iterator[Event]:
    for row in source.rows("labevents"):
        yield from _event(row, row["charttime"], f"LAB//{row['itemid']}//{row['valueuom'] or 'UNK'}", row["valuenum"])
    for row in source.rows("chartevents"):
        yield from _event(row, row["charttime"], f"LAB//{row['itemid']}//{row['valueuom'] or 'UNK'}", row["valuenum"])
    for row in source.rows("outputevents"):
        code = f"SUBJECT_FLUID_OUTPUT//{row['itemid']}//{row['valueuom']}"
        yield from _event(row, row["charttime"], code, row["value"])


def _drugs(source: HospitalTables) -> Iterator[Event]:
    for row in source.rows("prescriptions"):
        yield from _event(row, row["starttime"], f"MEDICATION//START//{row['drug']}")
        yield from _event(row, row["stoptime"], f"MEDICATION//STOP//{row['drug']}")
    for row in source.rows("emar"):
        code = f"MEDICATION//{row['medication'] or 'UNK'}//{row['event_txt'] or 'UNK'}"
        yield from _event(row, row["charttime"], code)
    for row in source.rows("inputevents"):
        yield from _event(row, row["starttime"], f"INFUSION_START//{row['itemid']}", row["rate"])
        yield from _event(row, row["endtime"], f"INFUSION_END//{row['itemid']}", row["amount"])
    for row in source.rows("procedureevents"):
        yield from _event(row, row["starttime"], f"PROCEDURE//START//{row['itemid']}")
        yield from _event(row, row["endtime"], f"PROCEDURE//END//{row['itemid']}")
