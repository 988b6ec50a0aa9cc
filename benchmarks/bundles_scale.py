"""Bundles, states and the live stream at scale: events a CPU second, cost per event by size, seconds to commit, kills.

python benchmarks/bundles_scale.py batch STORE [STORE ...]
python benchmarks/bundles_scale.py live --patients 100000 --lines 400000 --partitions 2
python benchmarks/bundles_scale.py kills STORE --times 200
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from wardround.bundles import batch_states, bundle_text, step_targets, store_bundles
from wardround.records import Store, load_source_spec
from wardround.stream import FollowSettings, follow, write_replay

CONCEPTS = (
    "Heart Rate",
    "Respiratory Rate",
    "O2 saturation pulseoxymetry",
    "Lactate",
    "Creatinine",
    "Sodium",
    "Potassium",
)


def batch(paths: list[Path]) -> None:
    """Print events a CPU second of bundling with states, with targets beside, and with text, for every store."""
    base = 0.0
    for path in paths:
        store = Store.open(path)
        started = time.process_time()
        events = sum(len(batch_states(stream).events) for stream in store_bundles(store))
        seconds = time.process_time() - started
        base = base or seconds / events
        each = seconds / events
        print(
            f"{path}: {len(store.subjects):,} subjects, {events:,} events: {events / seconds:,.0f} events a CPU second"
        )
        print(f"  {each * 1e6:.2f} us an event, {each / base:.2f} x the first store")
    store = Store.open(paths[0])
    for name, work in (("targets", step_targets), ("text", lambda stream: [bundle_text(each) for each in stream])):
        started = time.process_time()
        events = sum(len(stream.columns) for stream in store_bundles(store) if work(stream) is not None)
        print(f"{paths[0]}, with {name}: {events / (time.process_time() - started):,.0f} events a CPU second")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def invented_lines(folder: Path, patients: int, lines: int) -> None:
    """Write lines of many open patients: a value each, in the order of a clock that goes on 20,000 lines a second."""
    dice = random.Random(1)
    start = datetime(2150, 1, 1, 8)
    folder.mkdir()
    with (folder / "a.jsonl").open("w", encoding="utf-8") as target:
        for number in range(lines):
            known = f"{start + timedelta(seconds=number / 20_000):%Y-%m-%d %H:%M:%S}"
            row = {"row_id": f"l:{number}", "subject_id": 1 + dice.randrange(patients), "label": dice.choice(CONCEPTS)}
            row |= {"valuenum": round(dice.uniform(1, 100), 1), "valueuom": "u"}
            target.write(json.dumps({"table": "labevents", "row": row, "known": known, "time": known}) + "\n")


def live(patients: int, lines: int, partitions: int) -> None:
    """Print lines a second over all partitions, and how long commits took; one process each, side by side."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        invented_lines(folder / "lines", patients, lines)
        words = [sys.executable, __file__, "partition", str(folder), "--partitions", str(partitions), "--number"]
        started = time.perf_counter()
        running = [subprocess.Popen([*words, str(n)], stdout=subprocess.PIPE, text=True) for n in range(partitions)]
        results = [json.loads(process.communicate()[0]) for process in running]
        seconds = time.perf_counter() - started
        cpu = sum(result["cpu"] for result in results)
        print(f"{lines:,} lines of {patients:,} open patients, {partitions} processes: {lines / seconds:,.0f} lines/s,")
        print(f"  {cpu / lines * 1e6:.1f} us CPU a line; seconds from read to commit: " + ", ".join(map(str, results)))


def partition(folder: Path, number: int, partitions: int) -> None:
    """Follow one partition and print its figures."""
    settings = FollowSettings(once=True, partition=number, partitions=partitions, lines_per_commit=1_000)
    report = follow(load_source_spec("mimiciv"), folder / "lines", folder / f"live-{number}", settings=settings)
    p50, p99 = np.quantile(report.commit_seconds, [0.5, 0.99]).round(3).tolist()
    print(json.dumps({"lines": report.lines, "p50": p50, "p99": p99, "cpu": time.process_time()}))


def kills(path: Path, times: int) -> None:
    """Kill a stream again and again and compare what it told with one that was left alone."""
    spec, dice = load_source_spec("mimiciv"), random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_replay(Store.open(path), folder / "lines")
        follow(spec, folder / "lines", folder / "alone", settings=FollowSettings(once=True, finish=True))
        expected, told = (folder / "alone" / "told.jsonl").read_bytes(), folder / "live" / "told.jsonl"
        words = ["-m", "wardround", "stream", "follow", "--source", "mimiciv", "--lines", str(folder / "lines")]
        words += ["--out", str(folder / "live"), "--once", "--finish", "--lines-per-commit", "200"]
        for each in range(times):
            goal = len(expected) * each // (times + 2)
            process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
            while process.poll() is None and (not told.exists() or told.stat().st_size < goal):
                time.sleep(dice.uniform(0, 0.01))
            process.send_signal(signal.SIGKILL)
            process.wait()
        subprocess.run([sys.executable, *words], check=False)
        print(f"{times} kills: {'the same byte for byte' if told.read_bytes() == expected else 'DIFFERENT'}")


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["batch", "live", "partition", "kills"])
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--patients", type=int, default=100_000)
    parser.add_argument("--lines", type=int, default=400_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--times", type=int, default=200)
    given = parser.parse_args()
    if given.what == "batch":
        batch(given.paths)
    elif given.what == "live":
        live(given.patients, given.lines, given.partitions)
    elif given.what == "partition":
        partition(given.paths[0], given.number, given.partitions)
    else:
        kills(given.paths[0], given.times)


if __name__ == "__main__":
    main()
