"""MIMIC-IV's demo twice: nothing is known earlier from the MEDS files than from the CSV files, but for what is counted.

The counts are those of records/sources/meds/clocks.md, which gives the reason for each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from wardround.records import Store, ingest

Known = tuple[str, str, datetime, datetime]
"""A class, a code of MEDS, its time there, and when the CSV files make it known."""


@pytest.fixture(scope="module")
def both(meds_demo_store: Store, mimic_demo_store: Store) -> tuple[Store, Store]:
    return meds_demo_store, mimic_demo_store


def _midnight(day: Any) -> datetime:
    return datetime.combine(day, time.min)


def _told_by_csv(csv: Store, subject: int) -> Iterator[Known]:
    """Yield what the CSV files tell of a person, under the codes that MIMIC-IV's ETL to MEDS gives it."""

    def rows(table: str, *names: str) -> list[dict[str, Any]]:
        cells = csv.rows(subject, table).select([*names, "_available", "_event"]).to_pylist()
        return [{**row, "_from": max(row["_available"], row["_event"])} for row in cells]

    ends = {}
    for row in rows(
        "admissions",
        "hadm_id",
        "dischtime",
        "_late:dischtime",
        "admission_type",
        "admission_location",
        "admittime",
        "discharge_location",
        "deathtime",
    ):
        ends[row["hadm_id"]] = row["dischtime"]
        known = max(row["_late:dischtime"], row["_from"])
        named = f"{row['admission_type']}//{row['admission_location']}"
        observed = "OBSERVATION" in row["admission_type"]
        yield "admission", f"HOSPITAL_ADMISSION//{named}", row["admittime"], row["_from"]
        if observed:
            yield "kind of admission", f"HOSPITAL_ADMISSION//{named}", row["admittime"], known
        yield "discharge", f"HOSPITAL_DISCHARGE//{row['discharge_location'] or 'UNK'}", row["dischtime"], known
        if row["deathtime"]:
            yield "death", "MEDS_DEATH", row["deathtime"], row["deathtime"]
    for row in rows("diagnoses_icd", "icd_version", "icd_code", "hadm_id"):
        code = f"DIAGNOSIS//ICD//{row['icd_version']}//{row['icd_code'].strip()}"
        yield "diagnosis", code, ends[row["hadm_id"]], row["_from"]
    for row in rows("procedures_icd", "icd_version", "icd_code", "chartdate"):
        code = f"PROCEDURE//ICD//{row['icd_version']}//{row['icd_code'].strip()}"
        yield "coded procedure", code, _midnight(row["chartdate"]), row["_from"]
    for row in rows("hcpcsevents", "short_description", "chartdate"):
        yield "billed service", f"HCPCS//{row['short_description']}", _midnight(row["chartdate"]), row["_from"]
    for row in rows("omr", "result_name", "chartdate"):
        yield "office measurement", row["result_name"], _midnight(row["chartdate"]), row["_from"]
    for row in rows("transfers", "eventtype", "careunit", "intime"):
        code = f"TRANSFER_TO//{row['eventtype']}//{row['careunit'] or 'UNK'}"
        yield "transfer", code, row["intime"], row["_from"]
    for row in rows("icustays", "first_careunit", "intime", "last_careunit", "outtime"):
        yield "unit stay", f"ICU_ADMISSION//{row['first_careunit']}", row["intime"], row["_from"]
        yield "unit stay", f"ICU_DISCHARGE//{row['last_careunit']}", row["outtime"], row["outtime"]
    for row in rows("pharmacy", "medication", "starttime", "stoptime", "_late:stoptime"):
        drug = row["medication"] or "UNK"
        if row["starttime"]:
            yield "drug start", f"MEDICATION//START//{drug}", row["starttime"], row["_from"]
        if row["stoptime"]:
            stopped = max(row["_late:stoptime"], row["_from"])
            yield "drug stop", f"MEDICATION//STOP//{drug}", row["stoptime"], stopped
    for row in rows("emar", "medication", "event_txt", "charttime"):
        code = f"MEDICATION//{row['medication'] or 'UNK'}//{row['event_txt'] or 'UNK'}"
        yield "drug given", code, row["charttime"], row["_from"]
    for row in rows("inputevents", "itemid", "starttime", "endtime"):
        start, end = f"INFUSION_START//{row['itemid']}", f"INFUSION_END//{row['itemid']}"
        yield "infusion start", start, row["starttime"], row["_from"]
        yield "infusion end", end, row["endtime"], max(row["endtime"], row["_from"])
        yield "weight at an infusion", "SUBJECT_WEIGHT_AT_INFUSION//KG", row["starttime"], row["_from"]
    for row in rows("procedureevents", "itemid", "starttime", "endtime"):
        yield "bedside procedure start", f"PROCEDURE//START//{row['itemid']}", row["starttime"], row["_from"]
        ended = max(row["endtime"], row["_from"])
        yield "bedside procedure end", f"PROCEDURE//END//{row['itemid']}", row["endtime"], ended
    for row in rows("outputevents", "itemid", "valueuom", "charttime"):
        code = f"SUBJECT_FLUID_OUTPUT//{row['itemid']}//{row['valueuom'] or 'UNK'}"
        yield "output", code, row["charttime"], row["_from"]
    for row in rows("labevents", "itemid", "valueuom", "charttime"):
        yield "lab", f"LAB//{row['itemid']}//{row['valueuom'] or 'UNK'}", row["charttime"], row["_from"]


EARLIER = {
    "kind of admission": 87,
    "drug start": 1274,
    "drug given": 20482,
    "infusion start": 11836,
    "infusion end": 6882,
    "weight at an infusion": 11836,
    "bedside procedure start": 1104,
    "bedside procedure end": 1012,
    "lab": 425,
    "output": 6979,
}


def test_nothing_is_known_earlier_than_in_the_csv_files_but_for_what_is_listed(both: tuple[Store, Store]) -> None:
    meds, csv = both
    earlier: Counter[str] = Counter()
    unmatched: Counter[str] = Counter()
    for subject in meds.subjects.tolist():
        first: dict[tuple[str, datetime], datetime] = {}
        for code, at, event, known in zip(*_cells(meds, subject, "code", "time", "_event", "_available"), strict=True):
            first[code, at] = min(max(event, known), first.get((code, at), datetime.max))
        for kind, code, at, known in _told_by_csv(csv, subject):
            found = first.get((code, at))
            unmatched[kind] += found is None
            earlier[kind] += found is not None and found < known
    assert +earlier == Counter(EARLIER)
    assert not +unmatched


def test_the_rate_of_an_infusion_is_known_no_earlier_than_its_end(both: tuple[Store, Store]) -> None:
    meds, csv = both
    checked = 0
    for subject in meds.subjects.tolist():
        ends: dict[tuple[str, datetime], list[datetime]] = defaultdict(list)
        for row in csv.rows(subject, "inputevents").to_pylist():
            ends[f"INFUSION_START//{row['itemid']}", row["starttime"]].append(row["endtime"])
        names = ("code", "time", "numeric_value", "_late:numeric_value")
        for code, at, value, known in zip(*_cells(meds, subject, *names), strict=True):
            if value is not None and code.startswith("INFUSION_START"):
                checked += 1
                assert known >= min(ends[code, at])
    assert checked == 11038


def _survives(events: list[dict[str, Any]], discharged: Mapping[int, datetime]) -> list[dict[str, Any]]:
    """Everybody's last stay ends 5,000 minutes later and at home, with all that is coded at its end."""
    changed = []
    for event in events:
        at_end = event["time"] == discharged[event["subject_id"]]
        if at_end and event["code"].startswith(("HOSPITAL_DISCHARGE", "DIAGNOSIS", "DRG")):
            later = event["time"] + timedelta(minutes=5000)
            event = {**event, "time": later, "code": event["code"].replace("DIED", "HOME")}
        if not event["code"].startswith("MEDS_DEATH"):
            changed.append(event)
    return changed


def test_another_outcome_changes_nothing_before_the_death(shared_data: Path, tmp_path: Path) -> None:
    """The demo's fifteen deaths in hospital, in the files as they are and with everybody going home instead."""
    folder = shared_data / "mimic-iv-demo-meds" / "meds"
    if not folder.is_dir():
        pytest.skip("the MEDS demo is not here")
    every = pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("data/*/*.parquet"))])
    died = every.filter(pc.equal(every.column("code"), "HOSPITAL_DISCHARGE//DIED"))
    discharged = dict(zip(died.column("subject_id").to_pylist(), died.column("time").to_pylist(), strict=True))
    assert len(discharged) == 15
    events = every.filter(pc.is_in(every.column("subject_id"), died.column("subject_id").combine_chunks()))
    stores = []
    for name, rows in (("died", events.to_pylist()), ("survived", _survives(events.to_pylist(), discharged))):
        (tmp_path / name / "data").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=events.schema), tmp_path / name / "data" / "0.parquet")
        ingest("meds", tmp_path / name, tmp_path / name / "store")
        stores.append(Store.open(tmp_path / name / "store"))
    charts = 0
    for event in events.filter(pc.equal(events.column("code"), "MEDS_DEATH")).to_pylist():
        subject, death = event["subject_id"], event["time"]
        moments = {discharged[subject] + timedelta(hours=hours) for hours in (-24, -1, 0, 1, 10, 20)}
        for moment in sorted(each for each in moments | {death - timedelta(seconds=1)} if each < death):
            shown = [store.chart(subject, moment).table("events").batch for store in stores]
            assert shown[0].equals(shown[1]), (subject, moment)
            charts += 1
    assert charts == 61


def _cells(store: Store, subject: int, *names: str) -> list[list[Any]]:
    batch = store.rows(subject, "events")
    return [_listed(batch.column(name)) for name in names]


def _listed(column: Any) -> list[Any]:
    """The cells of a column; times by NumPy, which is ten times as fast."""
    return column.to_numpy(zero_copy_only=False).tolist() if str(column.type) == "timestamp[us]" else column.to_pylist()
