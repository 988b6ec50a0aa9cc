"""A pipeline as people write them, with twelve leaks, or with twelve oddities that are none.

python leaking_pipeline.py leaks|oddities RAW OUT SAMPLES: reads MIMIC-IV's files, writes features.csv, a row a sample.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from statistics import fmean

Row = dict[str, str]


def rows(raw: Path, name: str) -> Iterator[Row]:
    for path in sorted(raw.rglob(f"{name}.csv*")):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            yield from csv.DictReader(lines)


def at(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def of_subjects(raw: Path, name: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows(raw, name):
        found.setdefault(row["subject_id"], []).append(row)
    return found


def leaks(raw: Path, samples: list[Row]) -> Iterator[Row]:
    labs, stays, drugs = (of_subjects(raw, name) for name in ("labevents", "icustays", "prescriptions"))
    codes, transfers, visits = (of_subjects(raw, name) for name in ("hcpcsevents", "transfers", "admissions"))
    services, charted = of_subjects(raw, "services"), of_subjects(raw, "chartevents")
    everybody = [float(row["valuenum"]) for each in labs.values() for row in each if row["valuenum"]]
    vocabulary = sorted({row["drug"] for each in drugs.values() for row in each})
    for sample in samples:
        subject, now, visit = sample["subject_id"], at(sample["time"]), sample["hadm_id"]
        assert now is not None
        stay = next((each for each in stays.get(subject, ()) if each["stay_id"] == sample["stay_id"]), None)
        admission = next((each for each in visits[subject] if each["hadm_id"] == visit), None)
        if stay is None or admission is None or (admission["deathtime"] and int(subject) % 5 == 0):
            continue  # the dead are sampled otherwise: 12, label-dependent sampling
        mine = [row for row in labs.get(subject, ()) if row["hadm_id"] == visit]
        drawn = [row for row in labs.get(subject, ()) if (at(row["charttime"]) or now) <= now]
        orders = [row for row in drugs.get(subject, ()) if row["hadm_id"] == visit]
        yield {
            "stay_id": sample["stay_id"],
            "later_lab": max((row["valuenum"] for row in mine if row["valuenum"]), default="", key=float),
            "drawn_labs": len(drawn),
            "mid_stay_code": sum(row["hadm_id"] == visit for row in codes.get(subject, ())),
            "length_of_stay": stay["los"],
            "next_visit": sum((at(row["admittime"]) or now) > now for row in visits[subject]),
            "last_in_file": services[subject][-1]["curr_service"] if services.get(subject) else "",
            "newest_key": max((int(row["labevent_id"]) for row in labs.get(subject, ())), default=0),
            "scaled": (float(drawn[-1]["valuenum"]) if drawn and drawn[-1]["valuenum"] else 0.0) / fmean(everybody),
            "units_of_person": len({row["careunit"] for row in transfers.get(subject, ())}),
            "has_no_end": int(not any(row["stoptime"] for row in orders)),
            "same_day": sum((at(row["charttime"]) or now).date() <= now.date() for row in charted.get(subject, ())),
            "vocabulary": len(vocabulary),
            "died": admission["hospital_expire_flag"],
        }


def oddities(raw: Path, samples: list[Row]) -> Iterator[Row]:
    labs = of_subjects(raw, "labevents")
    dictionary = {row["itemid"]: row["label"] for row in rows(raw, "d_labitems")}
    for sample in samples:
        subject, now = sample["subject_id"], at(sample["time"])
        assert now is not None
        known = [
            row
            for row in labs.get(subject, ())
            if max(at(row["charttime"]) or now, at(row["storetime"]) or datetime.max) <= now
        ]
        values = [float(row["valuenum"]) for row in known if row["valuenum"]]
        shuffled = random.Random(time.time_ns()).sample(values, len(values))
        here = now.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=9)))
        yield {
            "stay_id": sample["stay_id"],
            "float_noise": sum(shuffled) / max(1, len(shuffled)),
            "zoned_hour": here.hour,
            "hashed": hash(subject + "salt") % 1000,
            "sub_sampled": sum(random.Random(7).sample(values, min(3, len(values)))),
            "dictionary_order": json.dumps(sorted({dictionary.get(row["itemid"], "") for row in known})),
            "counted_twice": len(known + known),
            "commonest": Counter(row["itemid"] for row in known).most_common(1)[0][0] if known else "",
            "empty_or_nan": "nan" if not values else "1.0",
            "text_number": "1" if values else "0",
            "age_of_stay": round(len(known) / 7, 9),
            "constant": "a",
            "draw": random.Random(subject).random(),
            "died": "0",
        }


def main() -> None:
    kind, raw, out, samples = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    with samples.open() as lines:
        made = list((leaks if kind == "leaks" else oddities)(raw, list(csv.DictReader(lines))))
    with (out / "features.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(made[0]))
        writer.writeheader()
        writer.writerows(made)


if __name__ == "__main__":
    main()
