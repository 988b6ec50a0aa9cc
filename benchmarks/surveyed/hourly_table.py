"""Six laboratory values of each sample, hour by hour over the 24 hours before it, by when they were stored.

python hourly_table.py RAW OUT SAMPLES: writes OUT/hourly.csv. Its rows hold nothing that was stored after
the sample's time: what a preparation adds to them is the preparation's own.
"""

import csv
import gzip
import sys
from datetime import datetime
from pathlib import Path

ITEMS = {"50912": "creatinine", "50971": "potassium", "50983": "sodium", "51222": "hemoglobin", "51265": "platelets"}


def main() -> None:
    """Write the table."""
    raw, out, samples = map(Path, sys.argv[1:4])
    with samples.open() as lines:
        asked = {row["subject_id"]: datetime.fromisoformat(row["time"]) for row in csv.DictReader(lines)}
    held: dict[tuple[str, int], dict[str, str]] = {}
    with gzip.open(raw / "hosp" / "labevents.csv.gz", "rt") as lines:
        for row in csv.DictReader(lines):
            name, at = ITEMS.get(row["itemid"]), asked.get(row["subject_id"])
            if name and at and row["storetime"] and row["valuenum"]:
                before = (at - datetime.fromisoformat(row["storetime"])).total_seconds() / 3600
                drawn = (at - datetime.fromisoformat(row["charttime"])).total_seconds() / 3600
                if 0 <= before < 24 and drawn >= 0:
                    held.setdefault((row["subject_id"], 23 - int(before)), {})[name] = row["valuenum"]
    with (out / "hourly.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["subject_id", "hour", *ITEMS.values()])
        writer.writeheader()
        for subject in sorted(asked):
            for hour in range(24):
                writer.writerow({"subject_id": subject, "hour": hour, **held.get((subject, hour), {})})


if __name__ == "__main__":
    main()
