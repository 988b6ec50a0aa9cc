"""Features of ICU stays at a moment, as people write them, with two leaks; with --mended, without.

python examples/leaking_features.py RAW OUT SAMPLES [--mended]: see docs/leak-test.md.
"""

import csv
import gzip
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path


def rows(raw: Path, name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table."""
    with gzip.open(raw / f"{name}.csv.gz", "rt") as lines:
        yield from csv.DictReader(lines)


def main() -> None:
    """Write features.csv, a row a stay."""
    raw, out, samples = map(Path, sys.argv[1:4])
    mended = "--mended" in sys.argv
    stays = {row["stay_id"]: row for row in rows(raw, "icu/icustays")}
    results: dict[str, list[dict[str, str]]] = {}
    for row in rows(raw, "hosp/labevents"):
        results.setdefault(row["subject_id"], []).append(row)
    with samples.open() as lines, (out / "features.csv").open("w", newline="") as made:
        writer = csv.writer(made)
        writer.writerow(["stay_id", "results", "days"])
        for sample in csv.DictReader(lines):
            now, stay = datetime.fromisoformat(sample["time"]), stays[sample["stay_id"]]
            # A result bears the time of the draw (charttime); it can be read when it is stored.
            clock = "storetime" if mended else "charttime"
            known = [row for row in results.get(sample["subject_id"], ()) if row[clock]]
            count = sum(datetime.fromisoformat(row[clock]) <= now for row in known)
            # The length of stay is known when the stay is over.
            days = (now - datetime.fromisoformat(stay["intime"])).days if mended else stay["los"]
            writer.writerow([sample["stay_id"], count, days])


if __name__ == "__main__":
    main()
