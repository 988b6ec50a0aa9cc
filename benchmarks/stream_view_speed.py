"""What the viewer's pages of a live stream cost over HTTP, beside the process that follows it.

Run: python benchmarks/stream_view_speed.py [--patients 10000] [--hours 6] [--rate 500] [--keep FOLDER]

Every patient has a bundle in each of the hours; then lines go on coming at a rate and another process follows them
while pages are asked for. Bars of issue 13: p95 <= 200 ms a page, <= 300 KB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from starlette.testclient import TestClient

from page_times import print_page_times
from wardround.records import load_source_spec
from wardround.serve.viewer import ViewedStream, ViewerPages, viewer_app
from wardround.stream import FollowSettings, coded_responder, follow

CONCEPTS = ("Heart Rate", "Respiratory Rate", "Lactate", "Creatinine", "Sodium", "Potassium", "Hemoglobin")
BEGIN = datetime(2150, 1, 1)
OF_AN_HOUR = 4
"""Lines of one patient in one hour."""
PROTOCOL = Path(__file__).parents[1] / "examples" / "sepsis.toml"


def lines_of_hour(dice: random.Random, patients: int, hour: int) -> Iterator[str]:
    """Yield the lines of all patients in an hour, patients one after another and again."""
    for number in range(patients * OF_AN_HOUR):
        when = BEGIN + timedelta(hours=hour, seconds=3_600 * number / (patients * OF_AN_HOUR))
        row = {"row_id": f"l:{hour}-{number}", "subject_id": number % patients, "label": dice.choice(CONCEPTS)}
        row |= {"valuenum": round(dice.uniform(0.5, 6), 1), "valueuom": "mmol/L"}
        yield json.dumps({"table": "labevents", "row": row, "known": f"{when:%Y-%m-%d %H:%M:%S}"}) + "\n"


def prepare(work: Path, patients: int, hours: int) -> None:
    """Write the first hours, and follow them."""
    dice = random.Random(1)
    (work / "lines").mkdir(parents=True)
    with (work / "lines" / "a.jsonl").open("w", encoding="utf-8") as target:
        for hour in range(hours):
            target.writelines(lines_of_hour(dice, patients, hour))
    begun = time.perf_counter()
    settings = FollowSettings(once=True)
    spec = load_source_spec("mimiciv")
    made = follow(spec, work / "lines", work / "live", settings=settings, responder=coded_responder(PROTOCOL))
    print(f"{made.lines:,} lines followed in {time.perf_counter() - begun:.0f} s, {made.bundles:,} bundles written")


def feed(work: Path, patients: int, hour: int, rate: int, ended: threading.Event) -> None:
    """Write lines of the next hour at a rate until it is ended."""
    with (work / "lines" / f"next-{time.time_ns()}.jsonl").open("w", encoding="utf-8", buffering=1) as target:
        for line in lines_of_hour(random.Random(2), patients, hour):
            target.write(line)
            if ended.wait(1 / rate):
                return


def kinds(patients: int, requests: int) -> Mapping[str, Sequence[str]]:
    """Return addresses of each kind of page, drawn by chance."""
    dice = random.Random(3)
    drawn = dice.sample(range(patients), min(requests, patients))
    asked = [f"sort={dice.choice(('alerts', 'hour', 'abnormal', 'bundles', 'patient'))}" for _ in range(requests)]
    chosen = [f"{one}&show={dice.choice(('alerts', 'proposals', 'abnormal'))}" for one in asked]
    return {
        "the stream": ["/streams/1/"] * requests,
        "sorted": [f"/streams/1/?{one}&page={dice.randrange(1, patients // 100 + 1)}" for one in asked],
        "chosen": [f"/streams/1/?{one}" for one in chosen],
        "a patient, another each time": [f"/streams/1/patients/{subject}.html" for subject in drawn],
        "a patient's bundles": [f"/streams/1/patients/{subject}.bundles-1.html" for subject in drawn],
    }


def measure(work: Path, patients: int, requests: int) -> None:
    """Print the table."""
    begun, cpu = time.perf_counter(), time.process_time()
    stream = ViewedStream(work / "live")
    print(f"opening: {time.perf_counter() - begun:.1f} s, {time.process_time() - cpu:.1f} CPU s")
    client = TestClient(viewer_app(ViewerPages([], streams=[stream])), base_url="http://127.0.0.1:8765")
    client.get("/streams/1/patients/0.html")  # the source's spec is read once
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    before = stream.look()
    print_page_times(client, kinds(patients, requests))
    after = stream.look()
    lines, bundles = after.lines - before.lines, after.bundles - before.bundles
    print(f"meanwhile {lines:,} lines were read and {bundles:,} bundles closed")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=10_000, help="how many have a bundle in every hour")
    parser.add_argument("--hours", type=int, default=6)
    parser.add_argument("--rate", type=int, default=500, help="lines a second while pages are asked for")
    parser.add_argument("--requests", type=int, default=40, help="how many pages of each kind are asked for")
    parser.add_argument("--keep", type=Path, help="where the stream is kept, and taken from if it is there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = given.keep or Path(scratch) / "work"
        if not (work / "live").is_dir():
            prepare(work, given.patients, given.hours)
        words = ["stream", "follow", "--source", "mimiciv", "--lines", str(work / "lines"), "--out", str(work / "live")]
        follower = subprocess.Popen(
            [sys.executable, "-m", "wardround", *words, "--protocol", str(PROTOCOL)], stderr=subprocess.DEVNULL
        )
        ended = threading.Event()
        feeder = threading.Thread(target=feed, args=(work, given.patients, given.hours, given.rate, ended))
        feeder.start()
        try:
            time.sleep(5)  # the follower has begun
            measure(work, given.patients, given.requests)
        finally:
            ended.set()
            feeder.join()
            follower.terminate()
            follower.wait()


if __name__ == "__main__":
    main()
