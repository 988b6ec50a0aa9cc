"""The live stream at scale: lines that come at a rate, from the moment each is written to the commit that holds it.
What a correction costs of a patient with a long history.

python benchmarks/stream_scale.py live                  # 100,000 open patients, 20,000 lines/s, 2 processes, 60 s
python benchmarks/stream_scale.py live --protocol examples/sepsis.toml
python benchmarks/stream_scale.py corrections --protocol examples/sepsis.toml
python benchmarks/stream_scale.py kills STORE --times 200 --protocol examples/sepsis.toml

The hour turns in the middle of the run, so that every open bundle is closed within it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from wardround.cli import main as wardround
from wardround.core import Progress
from wardround.records import load_source_spec
from wardround.records.shards.layout import bucket_numbers
from wardround.stream import FollowSettings, SourceRules, coded_responder, follow
from wardround.stream.patients import Patients

CONCEPTS = ("Heart Rate", "Respiratory Rate", "Lactate", "Creatinine", "Sodium", "Potassium", "Hemoglobin")
HOUR = datetime(2150, 1, 1, 9)
"""The hour that begins in the middle of a run."""
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
CORRECTED = 100
"""One line of so many corrects or withdraws what was told."""
AN_HOUR = 20
"""Results an hour of the patient whose results are corrected."""
BAR = 0.25
"""Seconds from written to committed that 99 of 100 lines may take."""
SLICE = 0.01
"""Seconds between two writes of the feeder."""


def invented_lines(patients: int, count: int, rate: int) -> Iterator[tuple[int, str]]:
    """Yield subject and text: first a line for every patient, then one after another at a rate.

    One in a hundred of these corrects a result that was told, or every fifth time withdraws it. The source's
    clock stands before the line with which the hour turns.
    """
    dice = random.Random(1)
    begin = HOUR - timedelta(seconds=count / rate / 2)
    told: list[tuple[int, str, str]] = []
    for number in range(-patients, count):
        known = f"{begin + timedelta(seconds=max(number, 0) / rate):%Y-%m-%d %H:%M:%S}"
        clock = json.dumps({"clock": f"{HOUR:%Y-%m-%d %H:%M:%S}"}) + "\n" if number == count // 2 else ""
        if number >= 0 and number % CORRECTED == 0:
            place = dice.randrange(len(told))
            subject, row_id, label = told[place]
            told[place] = told[-1]
            told.pop()
            again: dict[str, Any] = {"revision": 1, "withdrawn": True} if dice.random() < 0.2 else {"revision": 1}
        else:
            subject = number + patients if number < 0 else dice.randrange(patients)
            row_id, label, again = f"l:{number}", dice.choice(CONCEPTS), {}
            told.append((subject, row_id, label))
        row = {"row_id": row_id, "subject_id": subject, "label": label}
        row |= {"valuenum": round(dice.uniform(1, 100), 1), "valueuom": "u"}
        line = {"table": "labevents", "row": row, "known": known, "time": known, **again}
        yield subject, clock + json.dumps(line) + "\n"


def live(given: argparse.Namespace) -> None:
    """Feed partitions at a rate, and print how long lines waited for their commit."""
    count = given.rate * given.seconds
    with tempfile.TemporaryDirectory(dir=given.scratch) as name:
        folder = Path(name)
        (folder / "lines").mkdir()
        subjects, ends = _prepared(folder, given.patients, count, given.rate)
        parts = bucket_numbers(subjects, given.partitions)
        running = [_partition(folder, given, parts, number) for number in range(given.partitions)]
        while len(list(folder.glob("ready-*"))) < given.partitions:
            time.sleep(0.1)
        written = _feed(folder, ends[given.patients - 1 :], given.rate)
        results = [json.loads(process.communicate()[0]) for process in running]
        behind = written - written[0] - np.arange(count) / given.rate
        print(f"{count:,} lines at {given.rate:,}/s of {given.patients:,} open patients, {given.partitions} processes")
        print(f"  the feeder was behind by at most {behind.max() * 1e3:.0f} ms")
        _print(given, parts, written, results)


def _prepared(folder: Path, patients: int, count: int, rate: int) -> tuple[Integers, Integers]:
    """Write all lines beside the folder, the first of every patient into it; return whose each is and where it ends."""
    subjects, ends, end = [], [], 0
    with (folder / "all").open("w", encoding="utf-8") as target:
        for subject, text in invented_lines(patients, count, rate):
            target.write(text)
            end += len(text)
            subjects.append(subject)
            ends.append(end)
    with (folder / "all").open("rb") as source:
        (folder / "lines" / "a.jsonl").write_bytes(source.read(ends[patients - 1]))
    return np.array(subjects, np.int64), np.array(ends, np.int64)


def _partition(folder: Path, given: argparse.Namespace, parts: Integers, number: int) -> subprocess.Popen[str]:
    own = parts == number
    words = [sys.executable, __file__, "partition", str(folder), "--partitions", str(given.partitions)]
    words += ["--number", str(number), "--lines", str(own.sum()), "--first", str(own[: given.patients].sum())]
    words += ["--protocol", str(given.protocol)] if given.protocol else []
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def _feed(folder: Path, ends: Integers, rate: int) -> Floats:
    """Write the lines behind the first end at a rate; return when each was written."""
    count = len(ends) - 1
    written = np.zeros(count)
    done, started = 0, time.monotonic()
    with (folder / "all").open("rb") as source, (folder / "lines" / "a.jsonl").open("ab", buffering=0) as target:
        source.seek(int(ends[0]))
        while done < count:
            due = min(count, int((time.monotonic() - started) * rate))
            target.write(source.read(int(ends[due] - ends[done])))
            written[done:due] = time.monotonic()
            done = due
            time.sleep(SLICE)
    return written


def _print(given: argparse.Namespace, parts: Integers, written: Floats, results: list[dict[str, Any]]) -> None:
    waits, cpu, shares = np.zeros(len(written)), 0.0, []
    for number, result in enumerate(results):
        own = np.flatnonzero(parts[given.patients :] == number)
        lines, times = np.array(result["lines"]), np.array(result["times"])
        commit = np.searchsorted(lines, lines[-1] - len(own) + 1 + np.arange(len(own)))
        waits[own] = times[commit] - written[own]
        own_cpu = result["cpu"][-1] - result["cpu"][int(np.searchsorted(times, written[0]))]
        shares.append(own_cpu / (times[-1] - written[0]))
        cpu += own_cpu
    turn = len(waits) // 2
    parts_of_run = {"all": waits, "before the hour turns": waits[:turn], "10 s after": waits[turn:][: 10 * given.rate]}
    for what, some in parts_of_run.items():
        p50, p99, most = np.quantile(some, [0.5, 0.99, 1]) * 1e3
        print(f"  {what}: p50 {p50:.0f}, p99 {p99:.0f}, longest {most:.0f} ms from written to committed")
    print(f"  {np.mean(waits > BAR):.2%} of lines waited longer than {BAR * 1e3:.0f} ms")
    print(f"  {cpu / len(waits) * 1e6:.1f} us CPU a line of all processes; busy {_percent(shares)} of the time each")
    print(f"  headroom by CPU: {1 / max(shares):.1f} times the rate; load {os.getloadavg()[0]:.1f} at the end")
    print("  peak memory " + ", ".join(f"{result['rss'] / 1e6:.2f}" for result in results) + " GB")


def _percent(shares: list[float]) -> str:
    return ", ".join(f"{share:.0%}" for share in shares)


class _AllThere(Exception):
    """The last line is committed."""


def partition(given: argparse.Namespace) -> None:
    """Follow one partition until its last line is committed, and print when each commit was."""
    folder, commits = given.paths[0], []

    def note(progress: Progress) -> None:
        commits.append((time.monotonic(), progress.done, time.process_time()))
        if progress.done >= given.first and (len(commits) == 1 or commits[-2][1] < given.first):
            (folder / f"ready-{given.number}").touch()
        if progress.done >= given.lines:
            raise _AllThere

    settings = FollowSettings(partition=given.number, partitions=given.partitions)
    responder = coded_responder(given.protocol) if given.protocol else None
    out = folder / f"live-{given.number}"
    try:
        follow(load_source_spec("mimiciv"), folder / "lines", out, settings=settings, responder=responder, report=note)
    except _AllThere:
        times, lines, cpu = zip(*commits, strict=True)
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"times": times, "lines": lines, "cpu": cpu, "rss": rss}))


def corrections(given: argparse.Namespace) -> None:
    """Correct results of the day before of one patient, and print what closing their bundles takes."""
    rules = SourceRules.of_source(load_source_spec("mimiciv"))
    responder = coded_responder(given.protocol) if given.protocol else None
    for history in (1_000, 20_000):
        with tempfile.TemporaryDirectory(dir=given.scratch) as name:
            lines = [text.encode() for text in corrected_lines(history, given.times)]
            (Path(name) / "lines").mkdir()
            (Path(name) / "lines" / "a.jsonl").write_bytes(b"\n".join([*lines, b""]))
            closing: dict[bool, list[float]] = {False: [], True: []}
            close = Patients.close

            with patch.object(Patients, "close", partialmethod(_timed_close, close, closing)):
                settings = FollowSettings(once=True, finish=True, lines_per_commit=AN_HOUR, seconds_per_commit=0)
                follow(rules, Path(name) / "lines", Path(name) / "out", settings=settings, responder=responder)
        print(f"{history:,} events of history, {len(closing[True])} corrections; CPU of closing a bundle of {AN_HOUR}:")
        for what, some in (("corrected", closing[True]), ("others", closing[False][-2 * given.times :])):
            p50, p95, most = np.quantile(some, [0.5, 0.95, 1]) * 1e3
            print(f"  {what}: p50 {p50:.1f}, p95 {p95:.1f}, longest {most:.1f} ms; load {os.getloadavg()[0]:.1f}")


def _timed_close(
    patients: Patients, close: Callable[..., dict[str, Any]], into: dict[bool, list[float]], *of: Any
) -> dict[str, Any]:
    started = time.process_time()
    closed = close(patients, *of)
    into[closed["amended"]].append(time.process_time() - started)
    return closed


def corrected_lines(history: int, corrections: int) -> Iterator[str]:
    """Yield lines of one patient: 20 results an hour, in the end in every second hour one of the last day corrected."""
    dice = random.Random(3)
    told: list[tuple[int, str, str]] = []
    for number in range(history + 2 * corrections * AN_HOUR):
        known = f"{HOUR + timedelta(minutes=number * 60 / AN_HOUR):%Y-%m-%d %H:%M:%S}"
        row_id, label, revision = f"l:{number}", dice.choice(CONCEPTS), 0
        if number > history and number % (2 * AN_HOUR) == AN_HOUR - 1:
            recent = [place for place, each in enumerate(told) if number - 24 * AN_HOUR <= each[0] < number - AN_HOUR]
            _, row_id, label = told.pop(dice.choice(recent))
            revision = 1
        else:
            told.append((number, row_id, label))
        row = {"row_id": row_id, "subject_id": 7, "label": label}
        row |= {"valuenum": round(dice.uniform(1, 100), 1), "valueuom": "u"}
        yield json.dumps({"table": "labevents", "row": row, "known": known, "revision": revision})


def kills(given: argparse.Namespace) -> None:
    """Kill a stream again and again and compare what it told with one that was left alone. Children are forked from
    this process, which has loaded everything and done nothing."""
    dice = random.Random(7)
    with tempfile.TemporaryDirectory(dir=given.scratch) as name:
        folder = Path(name)
        lines, alone, told = (folder / part for part in ("lines", "alone/bundles.jsonl", "live/bundles.jsonl"))
        os.waitpid(_forked(["replay", "--store", str(given.paths[0]), "--out", str(lines)]), 0)
        words = ["follow", "--source", "mimiciv", "--lines", str(lines), "--once", "--finish"]
        words += ["--protocol", str(given.protocol)] if given.protocol else []
        os.waitpid(_forked([*words, "--out", str(alone.parent)]), 0)
        expected = alone.read_bytes()
        words += ["--out", str(told.parent), "--lines-per-commit", "100", "--entries-in-memory", "2000"]
        for each in range(given.times):
            goal = len(expected) * each // (given.times + 2)
            process = _forked(words)
            while not told.exists() or told.stat().st_size <= goal:
                time.sleep(dice.uniform(0, 0.01))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        os.waitpid(_forked(words), 0)
        same = "the same byte for byte" if told.read_bytes() == expected else "DIFFERENT"
        print(f"{given.times} kills over {len(expected):,} bytes told: {same}")


def _forked(words: list[str]) -> int:
    """Run a command of the stream in a child; return its process id."""
    process = os.fork()
    if process == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(wardround(["stream", *words]))
    return process


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["live", "partition", "corrections", "kills"])
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--patients", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=20_000, help="lines a second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--protocol", type=Path)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--scratch", type=Path, help="where files are made, several hundred MB")
    for name in ("--number", "--lines", "--first"):
        parser.add_argument(name, type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    {"live": live, "partition": partition, "corrections": corrections, "kills": kills}[given.what](given)


if __name__ == "__main__":
    main()
