"""What a newer release costs beside reading everything: synthetic hospital, CPU and wall time, each in a process.

    python benchmarks/release_speed.py FOLDER [--patients 2000] [--share 0.01]

Of the people who change, the last row of every file that has any of theirs is withdrawn.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from wardround.records import ingest
from wardround.synth import synthesize


def main() -> None:
    """Make the releases, ingest each with and without the first, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--patients", type=int, default=2000)
    parser.add_argument("--share", type=float, default=0.01)
    arguments = parser.parse_args()
    folder = arguments.folder
    before = folder / "before"
    if not before.exists():
        synthesize(before, patients=arguments.patients, seed=3)
    releases = {"nothing changed": (), "one file changed": ("labevents",), "every file changed": None}
    old = folder / "store"
    print(f"{'everything read':28} {_measured(before, old, None)}")
    for name, files in releases.items():
        after = _changed(before, folder / name.replace(" ", "-"), files, arguments.share)
        print(f"{name + ', read':28} {_measured(after, folder / 'whole', None)}")
        print(f"{name + ', from earlier':28} {_measured(after, folder / 'new', old)}", flush=True)


def _changed(before: Path, after: Path, names: Iterable[str] | None, share: float) -> Path:
    shutil.rmtree(after, ignore_errors=True)
    shutil.copytree(before, after)
    with gzip.open(after / "hosp" / "patients.csv.gz", "rt", newline="") as lines:
        people = sorted(row["subject_id"] for row in csv.DictReader(lines))
    some = set(people[:: round(1 / share)])
    for path in sorted(after.glob("*/*.csv.gz")):
        if names is None or path.name.removesuffix(".csv.gz") in names:
            _withdraw(path, some)
    return after


def _withdraw(path: Path, people: set[str]) -> None:
    with gzip.open(path, "rt", newline="") as lines:
        head, *rows = csv.reader(lines)
    if "subject_id" not in head or path.name.startswith("patients"):
        return
    last = {row[head.index("subject_id")]: place for place, row in enumerate(rows)}
    gone = {last[subject] for subject in people.intersection(last)}
    with gzip.open(path, "wt", newline="", compresslevel=1) as target:
        csv.writer(target).writerows([head, *(row for place, row in enumerate(rows) if place not in gone)])


def _measured(raw: Path, store: Path, earlier: Path | None) -> str:
    shutil.rmtree(store, ignore_errors=True)
    found = multiprocessing.get_context("spawn").SimpleQueue()
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(found.put, raw, store, earlier))
    process.start()
    said: str = found.get()
    process.join()
    return said


def _work(say: Callable[[str], None], raw: Path, store: Path, earlier: Path | None) -> None:
    wall, cpu = time.monotonic(), time.process_time()
    report = ingest("mimiciv", raw, store, earlier=earlier)
    spent = f"{time.process_time() - cpu:6.2f} s CPU {time.monotonic() - wall:6.2f} s wall"
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    said = (
        "" if report.made_from is None else f"  {report.made_from.subjects} {report.made_from.why_every_subject or ''}"
    )
    say(f"{spent} {peak:5.0f} MB {sum(report.rows.values()):,} rows{said}")


if __name__ == "__main__":
    main()
