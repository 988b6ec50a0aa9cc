"""MIMIC-IV's demo twice: nothing is known earlier from the MEDS files than from the CSV files, but for what is counted.

The counts are those of docs/design/clocks-meds.md, which gives the reason for each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, time
from pathlib import Path
from typing import Any

import pytest

from wardround.records import Store, ingest

Known = tuple[str, str, datetime, datetime]
"""A class, a code of MEDS, its time there, and when the CSV files make it known."""


def _store(source: str, folder: Path, path: Path) -> Store:
    ingest(source, folder, path)
    return Store.open(path)


@pytest.fixture(scope="module")
def both(shared_data: Path, mimic_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Store]:
    folder = shared_data / "mimic-iv-demo-meds" / "meds"
    if not folder.is_dir():
        pytest.skip("the MEDS demo is not here")
    place = tmp_path_factory.mktemp("both")
    return _store("meds", folder, place / "meds"), _store("mimiciv", mimic_demo, place / "csv")


def _midnight(day: Any) -> datetime:
    return datetime.combine(day, time.min)


def _told_by_csv(csv: Store, subject: int) -> Iterator[Known]:
    """Yield what the CSV files tell of a person, under the codes that MIMIC-IV's ETL to MEDS gives it."""

    def rows(table: str) -> list[dict[str, Any]]:
        return [{**row, "_from": max(row["_available"], row["_event"])} for row in csv.rows(subject, table).to_pylist()]

    ends = {}
    for row in rows("admissions"):
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
    for row in rows("diagnoses_icd"):
        code = f"DIAGNOSIS//ICD//{row['icd_version']}//{row['icd_code'].strip()}"
        yield "diagnosis", code, ends[row["hadm_id"]], row["_from"]
    for row in rows("procedures_icd"):
        code = f"PROCEDURE//ICD//{row['icd_version']}//{row['icd_code'].strip()}"
        yield "coded procedure", code, _midnight(row["chartdate"]), row["_from"]
    for row in rows("hcpcsevents"):
        yield "billed service", f"HCPCS//{row['short_description']}", _midnight(row["chartdate"]), row["_from"]
    for row in rows("omr"):
        yield "office measurement", row["result_name"], _midnight(row["chartdate"]), row["_from"]
    for row in rows("transfers"):
        code = f"TRANSFER_TO//{row['eventtype']}//{row['careunit'] or 'UNK'}"
        yield "transfer", code, row["intime"], row["_from"]
    for row in rows("icustays"):
        yield "unit stay", f"ICU_ADMISSION//{row['first_careunit']}", row["intime"], row["_from"]
        yield "unit stay", f"ICU_DISCHARGE//{row['last_careunit']}", row["outtime"], row["outtime"]
    for row in rows("pharmacy"):
        drug = row["medication"] or "UNK"
        if row["starttime"]:
            yield "drug start", f"MEDICATION//START//{drug}", row["starttime"], row["_from"]
        if row["stoptime"]:
            stopped = max(row["_late:stoptime"], row["_from"])
            yield "drug stop", f"MEDICATION//STOP//{drug}", row["stoptime"], stopped
    for row in rows("emar"):
        code = f"MEDICATION//{row['medication'] or 'UNK'}//{row['event_txt'] or 'UNK'}"
        yield "drug given", code, row["charttime"], row["_from"]
    for row in rows("inputevents"):
        start, end = f"INFUSION_START//{row['itemid']}", f"INFUSION_END//{row['itemid']}"
        yield "infusion start", start, row["starttime"], row["_from"]
        yield "infusion end", end, row["endtime"], max(row["endtime"], row["_from"])
        yield "weight at an infusion", "SUBJECT_WEIGHT_AT_INFUSION//KG", row["starttime"], row["_from"]
    for row in rows("procedureevents"):
        yield "bedside procedure start", f"PROCEDURE//START//{row['itemid']}", row["starttime"], row["_from"]
        ended = max(row["endtime"], row["_from"])
        yield "bedside procedure end", f"PROCEDURE//END//{row['itemid']}", row["endtime"], ended
    for row in rows("outputevents"):
        code = f"SUBJECT_FLUID_OUTPUT//{row['itemid']}//{row['valueuom'] or 'UNK'}"
        yield "output", code, row["charttime"], row["_from"]
    for row in rows("labevents"):
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


def _cells(store: Store, subject: int, *names: str) -> list[list[Any]]:
    batch = store.rows(subject, "events")
    return [batch.column(name).to_pylist() for name in names]
