"""A small hospital in MIMIC-IV's form, and pipelines as people write them: twelve leaks, twelve oddities that are none.

Everybody comes to intensive care on 2150-01-01 10:00; features are asked 24 hours later.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from importlib import resources
from pathlib import Path
from statistics import fmean

from wardround.audits.pipeline import PipelineSample
from wardround.audits.swap import SwapTable, parse_swap_table

Row = dict[str, str]
PEOPLE = range(1, 33)
NOW = datetime(2150, 1, 2, 10)
READ = "rows:{out}/features.csv,key=stay_id,label=died"
MERGED = """
[files.merges]
row = "mergetime"
"""
SAMPLES = [
    PipelineSample(
        subject=f"{who}",
        time=NOW,
        keys={"subject_id": f"{who}", "hadm_id": f"{100 + who}", "stay_id": f"{1000 + who}"},
        label=f"{who % 2}",
    )
    for who in PEOPLE
]


def swap_table() -> SwapTable:
    """MIMIC-IV's, and a file of people whose numbers were merged."""
    file = resources.files("wardround.audits.swap") / "tables" / "mimiciv.toml"
    return parse_swap_table(file.read_text(encoding="utf-8") + MERGED)


def write_hospital(folder: Path) -> None:
    """Write the files."""
    tables: dict[str, list[Row]] = {}

    def add(table: str, **cells: object) -> None:
        row = {name: f"{text}" for name, text in cells.items()}
        tables.setdefault(table, []).append(row)

    for who in PEOPLE:
        visit, stay, dies = 100 + who, 1000 + who, who % 2 == 1
        mine = {"subject_id": who, "hadm_id": visit}
        add("hosp/patients", subject_id=who, gender="F", anchor_age=60, dod="2150-01-06" if dies else "")
        for number, day in enumerate(("2150-01-01", "2150-03-01", "2150-05-01")):
            died = dies and number == 0
            if dies and number:
                continue
            end = day[:8] + "06 12:00:00"
            place = "DIED" if died else "HOME"
            ends = {"dischtime": end, "deathtime": end if died else "", "discharge_location": place}
            ends["hospital_expire_flag"] = f"{int(died)}"
            first = {"subject_id": who, "hadm_id": visit + 1000 * number, "admittime": f"{day} 08:00:00"}
            add("hosp/admissions", **first, **ends)
        add(
            "icu/icustays",
            **mine,
            stay_id=stay,
            first_careunit="MICU",
            last_careunit="SICU",
            intime="2150-01-01 10:00:00",
            outtime=f"2150-01-0{4 + who % 2} 10:00:00",
            los=3 + who % 2,
        )
        for number, (drawn, value) in enumerate((("01 12", 4), ("02 09", 5), ("03 12", 20 + who), ("04 12", 60 + who))):
            stored = f"2150-01-{drawn}:40:00" if number != 1 else "2150-01-02 11:00:00"
            add(
                "hosp/labevents",
                labevent_id=100_000 + 10 * who + number,
                **mine,
                specimen_id=20 * who + number,
                itemid=50912 + number % 2,
                charttime=f"2150-01-{drawn}:00:00",
                storetime=stored,
                valuenum=value,
            )
        for day, code in ((1, "99291"), (2, "99292"), (4, "36430")):
            add("hosp/hcpcsevents", **mine, chartdate=f"2150-01-0{day}", hcpcs_cd=code, seq_num=day)
        for hour, ward in (("01 08", "MED"), ("03 08", "SURG"), ("04 09", f"W{who % 5}")):
            add("hosp/services", **mine, transfertime=f"2150-01-{hour}:00:00", prev_service="", curr_service=ward)
        for number, hour in enumerate(("01 11", "02 20", "02 22", "03 09")):
            add(
                "icu/chartevents",
                **mine,
                stay_id=stay,
                charttime=f"2150-01-{hour}:00:00",
                storetime=f"2150-01-{hour}:10:00",
                itemid=220045,
                value=80 + number,
                valuenum=80 + number,
            )
        stop = "2150-01-03 08:00:00" if who % 3 else ""
        add(
            "hosp/prescriptions",
            **mine,
            pharmacy_id="",
            starttime="2150-01-01 12:00:00",
            stoptime=stop,
            drug=f"drug {who % 4}",
        )
        add(
            "hosp/prescriptions",
            **mine,
            pharmacy_id="",
            starttime="2150-01-03 12:00:00",
            stoptime="",
            drug=f"late {who}",
        )
        add("hosp/merges", subject_id=who, merged_from=who % 32 + 1, mergetime=f"2150-02-{1 + who % 20:02d} 09:00:00")
    for name, rows in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def of_people(raw: Path, name: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    with gzip.open(raw / f"{name}.csv.gz", "rt") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["subject_id"], []).append(row)
    return found


def leaks(raw: Path, samples: Iterable[Mapping[str, str]]) -> Iterator[dict[str, object]]:
    """Twelve leaks: eleven columns, and who is there at all."""
    labs, codes, charted = (of_people(raw, name) for name in ("hosp/labevents", "hosp/hcpcsevents", "icu/chartevents"))
    visits, stays, services = (of_people(raw, name) for name in ("hosp/admissions", "icu/icustays", "hosp/services"))
    drugs, merges = of_people(raw, "hosp/prescriptions"), of_people(raw, "hosp/merges")
    everybody = fmean(float(row["valuenum"]) for each in labs.values() for row in each)
    vocabulary = {row["drug"] for each in drugs.values() for row in each}
    for sample in samples:
        who = sample["subject_id"]
        visit = next(row for row in visits[who] if row["hadm_id"] == sample["hadm_id"])
        if visit["deathtime"] and int(who) % 5 == 0:
            continue  # a fifth of the dead: who is sampled hangs on the label
        mine = labs.get(who, [])
        drawn = [row for row in mine if at(row["charttime"]) <= NOW]
        yield {
            "stay_id": sample["stay_id"],
            "later_lab": max(float(row["valuenum"]) for row in mine),
            "not_stored_yet": " ".join(row["valuenum"] for row in drawn),
            "mid_stay_code": " ".join(row["hcpcs_cd"] for row in codes.get(who, ()) if at(row["chartdate"]) <= NOW),
            "length_of_stay": next(row["los"] for row in stays[who]),
            "next_visit": sum(at(row["admittime"]) > NOW for row in visits[who]),
            "last_in_file": services[who][-1]["curr_service"],
            "newest_key": max(int(row["labevent_id"]) for row in mine),
            "scaled": float(drawn[0]["valuenum"]) / everybody,
            "merged_patient": " ".join(row["merged_from"] for row in merges.get(who, ())),
            "has_no_end": int(not any(row["stoptime"] for row in drugs[who] if at(row["starttime"]) <= NOW)),
            "rounded_time": sum(at(row["charttime"]).date() <= NOW.date() for row in charted.get(who, ())),
            "vocabulary": len(vocabulary),
            "died": visit["hospital_expire_flag"],
        }


def oddities(raw: Path, samples: Iterable[Mapping[str, str]]) -> Iterator[dict[str, object]]:
    """Twelve oddities that show nothing of the future."""
    labs = of_people(raw, "hosp/labevents")
    for sample in samples:
        who = sample["subject_id"]
        known = [row for row in labs.get(who, ()) if max(at(row["charttime"]), at(row["storetime"])) <= NOW]
        values = [float(row["valuenum"]) / 3 for row in known] + [0.1, 0.2, 0.3]
        shuffled = random.Random(time.time_ns()).sample(values, len(values))
        yield {
            "stay_id": sample["stay_id"],
            "float_noise": sum(shuffled),
            "zoned_hour": NOW.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=9))).hour,
            "hashed": hash((int(who), 7)) % 1000,
            "sub_sampled": sum(random.Random(7).sample(values, 2)),
            "dictionary_order": json.dumps(sorted({row["itemid"] for row in known})),
            "counted_twice": len(known + known),
            "commonest": Counter(row["itemid"] for row in known).most_common(1)[0][0] if known else "",
            "empty_or_nan": "nan" if known else "",
            "text_number": "1.0" if values else "0",
            "nearly_whole": round(len(known) / 7, 9),
            "constant": "a",
            "draw": random.Random(who).random(),
            "died": "0",
        }


def write_features(rows: Iterable[Mapping[str, object]], out: Path) -> None:
    """Write features.csv, a row a sample."""
    made: Sequence[Mapping[str, object]] = list(rows)
    with (out / "features.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(made[0]))
        writer.writeheader()
        writer.writerows(made)
