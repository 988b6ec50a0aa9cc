"""OMOP and eICU: CPU per row and peak memory of an ingest, on a small data set whose people are repeated under new ids.

    python benchmarks/omop_eicu_speed.py --omop FOLDER --eicu FOLDER [--times 10 40]

FOLDER holds CSV files (.csv or .csv.gz), as they come. Every ingest runs in a process of its own.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from wardround.records import ingest
from wardround.records.specs.spec_file import load_source_spec

PEOPLE: Mapping[str, frozenset[str]] = {
    "omop": frozenset(
        {"person_id", "visit_occurrence_id", "visit_detail_id", "preceding_visit_occurrence_id"}
        | {"preceding_visit_detail_id", "parent_visit_detail_id"}
    ),
    "eicu": frozenset({"patientunitstayid", "patienthealthsystemstayid", "uniquepid"}),
}
"""Columns that tell people and stays apart; files without any of them are written once."""


def shifted(source: str) -> frozenset[str]:
    """Return the columns with other values in every copy: people, stays and the keys of rows."""
    keys = (name for table in load_source_spec(source).tables.values() for name in table.row_key)
    return frozenset(keys) - {"subject_id"} | PEOPLE[source]


def _rows(path: Path) -> Iterator[list[str]]:
    with (gzip.open if path.name.endswith(".gz") else open)(path, "rt", encoding="utf-8", newline="") as lines:
        yield from (row for row in csv.reader(lines) if row)


def _again(cell: str, copy: int) -> str:
    if not copy or not cell:
        return cell
    return str(int(cell) + copy * 1_000_000_000) if cell.removeprefix("-").isdecimal() else f"{cell}-{copy}"


def _places(header: Collection[str], names: Collection[str]) -> list[int]:
    return [place for place, name in enumerate(header) if name.lower() in names]


def repeat(source: str, folder: Path, target: Path, times: int) -> None:
    """Write the files of a folder with their people ``times`` times."""
    names = shifted(source)
    for path in sorted(folder.glob("*.csv*")):
        header, *rows = _rows(path)
        places = _places(header, names) if _places(header, PEOPLE[source]) else []
        with (target / f"{path.name.partition('.')[0]}.csv").open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(header)
            for copy in range(times if places else 1):
                for row in rows:
                    writer.writerow([_again(cell, copy if place in places else 0) for place, cell in enumerate(row)])


def one(source: str, raw: Path, store: Path) -> dict[str, float]:
    """Ingest here and measure it."""
    start = time.process_time()
    rows = sum(ingest(source, raw, store).rows.values())
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": rows, "seconds": seconds, "us": seconds / rows * 1e6, "peak": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--omop", type=Path)
    parser.add_argument("--eicu", type=Path)
    parser.add_argument("--times", type=int, nargs="+", default=[10, 40])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        source, raw, store = arguments.one
        print(json.dumps(one(source, Path(raw), Path(store))))
        return
    for source in ("omop", "eicu"):
        folder = getattr(arguments, source)
        for times in arguments.times if folder else ():
            with tempfile.TemporaryDirectory(prefix="wardround-speed-") as name:
                raw, store = Path(name) / "raw", Path(name) / "store"
                raw.mkdir()
                repeat(source, folder, raw, times)
                command = [sys.executable, __file__, "--one", source, str(raw), str(store)]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            text = "{rows:>10,.0f} rows  {seconds:6.2f} s CPU  {us:5.2f} us a row  peak {peak:6.0f} MB"
            print(f"{source} x {times:<4}" + text.format(**found))


if __name__ == "__main__":
    main()
