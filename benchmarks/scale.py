"""What wardround costs as size grows tenfold twice: a row, a chart, an event, a turn, an episode; and on paper what all
of MIMIC-IV and ten million subjects would take.

python benchmarks/scale.py subjects 1000 10000 --scratch FOLDER      # 100000 too: 10 GB and hours of two cores
python benchmarks/scale.py episodes 100 1000 10000 --scratch FOLDER  # 256 at once, scripted model, one process
python benchmarks/scale.py paper

Every size runs in a process of its own, so that its peak memory is its own; its files are removed when it is measured.
Figures are CPU time and go to FIGURES too (``--figures``), from where ``paper`` takes the largest size of each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from records_speed import chart_costs, measure_ingest, middles
from wardround.benchmarks import Benchmark
from wardround.benchmarks.agentehr import build_agentehr
from wardround.bundles import batch_states, store_bundles
from wardround.models import MODELS, ModelEntry, Reply, Request
from wardround.models.scripted import call
from wardround.records import Store, ingest
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.synth import synthesize

FIGURES = Path("scale-figures.json")
AT_ONCE = 256
TURNS = 5
"""Calls of an episode: four of a tool, then the answer."""
MODEL_SECONDS = 0.02
CHARTS = 200
SAMPLES = 1_000
TABLES = ("labevents", "prescriptions", "microbiologyevents", "diagnoses_icd")

MIMIC_SUBJECTS = 364_627
CHARTEVENTS = 432_997_491
MIMIC_ROWS: Mapping[str, int] = {
    "hosp": 158_374_764 + 87_371_064 + 52_212_109 + 42_808_593 + 20_292_611 + 17_847_567 + 8_504_982 + 7_753_027
    + 6_364_488 + 3_988_224 + 2_413_581 + 859_655 + 761_856 + 593_071 + 546_028 + 364_627 + 186_074,
    "icu": CHARTEVENTS + 14_253_480 + 10_953_713 + 9_979_761 + 5_359_395 + 808_706 + 94_458,
}  # fmt: skip
"""Rows of MIMIC-IV 3.1 by module, as the mimic-code repository's validation lists them (dictionaries left out)."""
CORES, EFFICIENCY = 32 * 32, 0.7
"""A cluster of 32 machines with 32 cores, of whose time 0.7 is spent on the work."""
TEN_MILLION = 10_000_000
SPREADING = 0.5
"""The part of an ingest that reads a table and spreads it over shards; a table is read by one process."""
MOST_SHARDS = 4_096
BENCHMARK_EPISODES, BENCHMARK_TURNS = 3_600, 20
"""A method on a whole benchmark: six tasks of 600 samples, some twenty calls each."""


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a piece of work gives, and the CPU seconds it took in this process."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def peak_mb() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def disk_mb(folder: Path) -> float:
    """What a folder takes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def hospital(scratch: Path, subjects: int) -> dict[str, Any]:
    """Make a hospital and say what that took."""
    started = time.monotonic()
    synthesize(scratch / "raw", patients=subjects, seed=7, workers=os.cpu_count() or 1)
    return {"wall": time.monotonic() - started, "mb": disk_mb(scratch / "raw")}


def records(scratch: Path, subjects: int) -> dict[str, Any]:
    """Ingest it."""
    return {**measure_ingest(scratch / "raw", scratch / "store"), "mb": disk_mb(scratch / "store")}


def charts(scratch: Path, subjects: int) -> dict[str, Any]:
    """Cut charts in the middle of admissions, evenly spread over the subjects: all tables, and one."""
    store, opening = measured(lambda: Store.open(scratch / "store"))
    moments = middles(store, CHARTS)
    whole = sorted(cost for cost, _ in chart_costs(store, moments, store.table_names))
    one = sorted(cost for cost, _ in chart_costs(store, moments, TABLES[:1]))
    return {
        "open_ms": opening * 1e3,
        "all_ms": statistics.median(whole),
        "all_p95_ms": whole[int(0.95 * len(whole))],
        "labs_ms": statistics.median(one),
        "peak_mb": peak_mb(),
    }


def bundles(scratch: Path, subjects: int) -> dict[str, Any]:
    """Bundle the whole store, with the states after the last of every subject's bundles."""
    store = Store.open(scratch / "store")
    events, seconds = measured(lambda: sum(len(batch_states(one).events) for one in store_bundles(store)))
    return {"events": events, "us": seconds / events * 1e6, "peak_mb": peak_mb()}


OF_SUBJECTS = ("hospital", "records", "charts", "bundles")


def of_subjects(subjects: int, scratch: Path) -> dict[str, Any]:
    """Measure every part; the raw files go as soon as they are read."""
    found = {}
    for name in OF_SUBJECTS:
        found[name] = _apart("--part", name, str(scratch), str(subjects))
        if name == "records":
            shutil.rmtree(scratch / "raw")
    return found


def print_subjects(subjects: int, found: Mapping[str, Any]) -> None:
    """Print one size in four lines."""
    made, read, cut, bundled = (found[name] for name in OF_SUBJECTS)
    cpu = read["user"] + read["system"]
    print(f"{subjects:,} subjects, {read['rows']:,} rows; made in {made['wall']:,.0f} s, {made['mb']:,.0f} MB of CSV")
    print(f"  ingest   {cpu / read['rows'] * 1e6:.2f} us a row, peak {read['peak_mb']:,.0f} MB, {read['mb']:,.0f} MB")
    print(
        f"  chart    {cut['all_ms']:.2f} ms all tables (p95 {cut['all_p95_ms']:.2f}), {cut['labs_ms']:.3f} ms labs; "
        f"open {cut['open_ms']:.0f} ms, peak {cut['peak_mb']:,.0f} MB"
    )
    print(f"  bundles  {bundled['us']:.2f} us an event of {bundled['events']:,}, peak {bundled['peak_mb']:,.0f} MB")


class Script:
    """Four looks into the record, then an answer; every reply takes a moment. It keeps nothing."""

    name = identity = "script"

    async def check(self) -> None:
        """Nothing to reach."""

    async def complete(self, request: Request) -> Reply:
        """Say what follows from how often was asked."""
        await asyncio.sleep(MODEL_SECONDS)
        asked = sum(message.role == "tool" for message in request.messages)
        if asked < TURNS - 1:
            return call("get_latest_records", table_name=TABLES[asked], limit=20)
        return call("finish", response=["Essential hypertension"])

    async def close(self) -> None:
        """Nothing is open."""


class Memory:
    """The memory of this process as a run goes on: what it is when a tenth is done, when half is, and at the end."""

    def __init__(self, total: int) -> None:
        self._left = [(share, int(share * total)) for share in (0.1, 0.5, 1.0)]
        self.at: dict[float, float] = {}

    def __call__(self, progress: Any) -> None:
        while self._left and progress.done >= self._left[0][1]:
            self.at[self._left.pop(0)[0]] = _resident_mb()


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def episodes(scratch: Path, number: int) -> dict[str, Any]:
    """Play so many episodes of a scripted model, ``AT_ONCE`` at once, in this process."""
    MODELS.add("script", ModelEntry(name="script", takes="", description="for scale", open=lambda opening: Script()))
    folder = _run_of(number, scratch)
    memory = Memory(number)
    started = time.monotonic()
    counts, seconds = measured(lambda: execute(folder, concurrency=AT_ONCE, report=memory))
    assert counts.done == number, counts
    return {
        "episodes": number,
        "turn_ms": seconds / number / TURNS * 1e3,
        "episode_ms": seconds / number * 1e3,
        "wall": time.monotonic() - started,
        "memory_mb": list(memory.at.values()),
        "peak_mb": peak_mb(),
        "log_kb": disk_mb(folder.logs) / number * 1e3,
    }


def _run_of(episodes: int, scratch: Path) -> RunFolder:
    """A run of so many: of at most a thousand training samples of all tasks, as often as it takes."""
    samples = [sample.id for sample in Benchmark.open(scratch / "bench").samples(split="train")]
    chosen = samples[:: len(samples) // min(episodes, SAMPLES)][: min(episodes, SAMPLES)]
    settings = RunSettings.of(
        benchmark=str(scratch / "bench"),
        store=str(scratch / "store"),
        models=("script",),
        split="train",
        samples=tuple(chosen),
        epochs=episodes // len(chosen),
    )
    return start(scratch / f"run-{episodes}", settings)


def ground(scratch: Path) -> None:
    """Make what episodes are played on: 1,000 subjects, all tasks."""
    synthesize(scratch / "raw", patients=1_000, seed=7)
    ingest("mimiciv", scratch / "raw", scratch / "store")
    build_agentehr(Store.open(scratch / "store"), scratch / "bench", per_task=600)


def print_episodes(found: Mapping[str, Any]) -> None:
    """Print one size in two lines."""
    memory = " / ".join(f"{one:,.0f}" for one in found["memory_mb"])
    print(f"{found['episodes']:,} episodes of {TURNS} turns, {AT_ONCE} at once, in {found['wall']:,.0f} s of wall time")
    print(
        f"  {found['turn_ms']:.2f} ms a turn, {found['episode_ms']:.1f} ms an episode, {found['log_kb']:.1f} KB of log"
    )
    print(f"  memory {memory} MB when a tenth, half and all are done; peak {found['peak_mb']:,.0f} MB")


def _apart(*words: str) -> dict[str, Any]:
    """Measure in a process of its own."""
    answer = subprocess.run([sys.executable, __file__, *words], check=True, capture_output=True, text=True)
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def paper(figures: Path) -> None:
    """Print what the measured costs come to, and what is taken for granted."""
    known = json.loads(figures.read_text())
    size = max(known["subjects"], key=int)
    read, cut, bundled = (known["subjects"][size][name] for name in ("records", "charts", "bundles"))
    played = known["episodes"][max(known["episodes"], key=int)]
    rows = sum(MIMIC_ROWS.values())
    cpu = (read["user"] + read["system"]) / read["rows"]
    print(f"Costs as measured at {int(size):,} subjects and {played['episodes']:,} episodes; assumed:")
    print("  - a row, a chart, an event and a turn cost there what they cost here: they did not grow with the size")
    print("  - MIMIC's rows are as wide as the synthetic hospital's; its charts are larger, by rows per subject")
    print(f"  - a cluster of {CORES:,} cores is at work {EFFICIENCY:.0%} of the time; its file system keeps up")
    print(f"  - ten million subjects have MIMIC's rows per subject ({rows / MIMIC_SUBJECTS:,.0f})")
    print("  - the time of the model is not in it")
    _print_size("MIMIC-IV 3.1", MIMIC_SUBJECTS, cpu, read["mb"] / read["rows"], bundled)
    _print_size("ten million subjects", TEN_MILLION, cpu, read["mb"] / read["rows"], bundled)
    own_rows = read["rows"] / read["subjects"]
    print(f"  a chart with all tables: {cut['all_ms'] * rows / MIMIC_SUBJECTS / own_rows:.0f} ms, by rows per subject")
    episode = played["turn_ms"] * BENCHMARK_TURNS * BENCHMARK_EPISODES / 1e3
    print(f"a method on {BENCHMARK_EPISODES:,} samples, {BENCHMARK_TURNS} calls each: {episode / 60:.0f} CPU-minutes")


def _print_size(name: str, subjects: int, cpu: float, mb: float, bundled: Mapping[str, Any]) -> None:
    all_rows = sum(MIMIC_ROWS.values())
    rows = all_rows / MIMIC_SUBJECTS * subjects
    everywhere = rows * cpu / (CORES * EFFICIENCY)
    longest = CHARTEVENTS / all_rows * rows * cpu * SPREADING
    print(f"{name}: {subjects:,} subjects, {rows:,.0f} rows")
    print(f"  ingest   {rows * cpu / 3600:,.1f} CPU-hours, {rows * mb / 1e6:,.2f} TB of store")
    print(f"           {everywhere / 60:,.1f} minutes of the cluster; one process reads chartevents, which takes")
    print(
        f"           {longest / 3600:,.1f} hours; {rows / MOST_SHARDS:,.0f} rows a shard if there are {MOST_SHARDS:,}"
    )
    print(f"  bundles  {rows * bundled['us'] / 3.6e9:,.1f} CPU-hours if every row is an event")


PARTS: Mapping[str, Callable[[Path, int], dict[str, Any]]] = {
    "hospital": hospital,
    "records": records,
    "charts": charts,
    "bundles": bundles,
    "episodes": episodes,
}
"""What is measured of a size, each in a process of its own."""


def _keep(figures: Path, kind: str, size: int, found: Mapping[str, Any]) -> None:
    """Add a size to the file of figures."""
    known = json.loads(figures.read_text()) if figures.is_file() else {"subjects": {}, "episodes": {}}
    known[kind][str(size)] = found
    figures.write_text(json.dumps(known, indent=1) + "\n")


def run(given: argparse.Namespace, scratch: Path) -> None:
    """Measure every size that was asked for, the smallest first."""
    if given.what == "episodes":
        ground(scratch)
    for size in sorted(given.sizes):
        if given.what == "subjects":
            found = of_subjects(size, scratch)
            print_subjects(size, found)
            shutil.rmtree(scratch / "store")
        else:
            found = _apart("--part", "episodes", str(scratch), str(size))
            print_episodes(found)
            shutil.rmtree(scratch / f"run-{size}")
        _keep(given.figures, given.what, size, found)
        print(f"  load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["subjects", "episodes", "paper"])
    parser.add_argument("sizes", type=int, nargs="*")
    parser.add_argument("--scratch", type=Path, help="where hospitals, stores and runs are made")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="where the figures are kept")
    parser.add_argument("--part", nargs=3, metavar=("PART", "FOLDER", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        name, scratch, size = given.part
        print(json.dumps(PARTS[name](Path(scratch), int(size))))
    elif given.what == "paper":
        paper(given.figures)
    else:
        with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
            run(given, Path(scratch))


if __name__ == "__main__":
    main()
