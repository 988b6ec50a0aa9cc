"""What records cost: ingest CPU per row and peak memory at several input sizes, and CPU per point-in-time chart.

Run: python benchmarks/records_speed.py [--raw FOLDER ... | --patients 500 4000] [--subjects 200] [--keep FOLDER]
     python benchmarks/records_speed.py --table 3000000   # one invented chartevents, read by one and by four processes

``--raw`` names raw folders, the smallest input first; without it synthetic hospitals are made. Every ingest runs in a
process of its own, so that its peak memory is its own. Charts are cut in the middle of each subject's record, in the
store of the last input. Bars of section 13 of the design: ingest <= 2.5 us CPU per row and a peak flat in the input and
under 1 GB; one table <= 0.4 ms median, p95 <= 1 ms; all tables <= 4 ms median, p95 <= 8 ms.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from wardround.core.executors import EXECUTORS, Job, Processes
from wardround.core.executors.processes import LOADED
from wardround.records import IngestSettings, Store, ingest
from wardround.synth import synthesize

SECONDS_TO_MS = 1e3
FORMS = ("csv", "gzip", "parquet")
Moments = Sequence[tuple[int, datetime]]


def measure_ingest(raw: Path, store: Path) -> dict[str, float]:
    """Ingest one folder in this process and say what it took."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    report = ingest("mimiciv", raw, store)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": sum(report.rows.values()),
        "subjects": report.subjects,
        "user": after.ru_utime - before.ru_utime,
        "system": after.ru_stime - before.ru_stime,
        "wall": report.seconds,
        "peak_mb": after.ru_maxrss / 1024,
        "idle_mb": before.ru_maxrss / 1024,
    }


def ingest_apart(raw: Path, store: Path) -> dict[str, float]:
    """Ingest in a process of its own."""
    command = [sys.executable, __file__, "--one", str(raw), str(store)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer))


def print_ingest(name: str, cost: dict[str, float], store: Path) -> None:
    """Print one line of the ingest table."""
    rows = cost["rows"]
    bytes_per_row = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / rows
    cpu = cost["user"] + cost["system"]
    print(
        f"{name:24}{rows:>12,.0f}{cost['subjects']:>10,.0f}{cpu / rows * 1e6:>10.2f}{cost['user'] / rows * 1e6:>10.2f}"
        f"{cost['wall']:>9.1f}{cost['peak_mb']:>10.0f}{bytes_per_row:>11.1f}"
    )


def middles(store: Store, most: int) -> Moments:
    """Return evenly spread subjects, each with the middle of its last admission (or of its record)."""
    places = np.unique(np.linspace(0, len(store.subjects) - 1, most).astype(int))
    moments = []
    for subject in store.subjects[places].tolist():
        stays = store.rows(subject, "admissions").to_pylist()
        last = max((stay for stay in stays if stay["dischtime"]), key=lambda stay: stay["admittime"], default=None)
        if last is not None:
            moments.append((subject, last["admittime"] + (last["dischtime"] - last["admittime"]) / 2))
    return moments


def chart_costs(store: Store, moments: Moments, tables: Sequence[str]) -> list[tuple[float, int]]:
    """Return (CPU ms, visible rows) of fetching tables, for every subject: the least of three rounds."""
    costs: list[tuple[float, int]] = []
    for subject, moment in moments:
        spent = []
        for _ in range(3):
            chart = store.chart(subject, moment)
            started = time.process_time()
            rows = sum(chart.table(name).num_rows for name in tables)
            spent.append(time.process_time() - started)
        costs.append((min(spent) * SECONDS_TO_MS, rows))
    return costs


def print_charts(store: Store, moments: Moments) -> None:
    """Print the chart table: every table alone, then all of them."""
    print(f"\n{'chart fetch':24}{'rows':>8}{'rows p95':>10}{'ms median':>12}{'ms p95':>10}{'ms max':>10}")
    for name, tables in [*((name, [name]) for name in store.table_names), ("ALL TABLES", store.table_names)]:
        costs = chart_costs(store, moments, tables)
        times, rows = [cost for cost, _ in costs], [count for _, count in costs]
        print(
            f"{name:24}{statistics.median(rows):>8,.0f}{np.percentile(rows, 95):>10,.0f}"
            f"{statistics.median(times):>12.3f}{np.percentile(times, 95):>10.3f}{max(times):>10.3f}"
        )


def make_table(folder: Path, rows: int) -> None:
    """Write one invented chartevents as plain CSV, gzip and Parquet, each into a folder of its own."""
    draw = np.random.default_rng(1)
    subjects = np.sort(draw.integers(10_000_000, 10_000_000 + rows // 500, rows))
    times = np.datetime64("2150-01-01T00:00:00") + draw.integers(0, 10**8, rows).astype("timedelta64[s]")
    values = np.round(draw.normal(80, 20, rows), 1)
    columns = {
        **{name: subjects + step * 10_000_000 for step, name in enumerate(("subject_id", "hadm_id", "stay_id"))},
        "charttime": times,
        "storetime": times + draw.integers(60, 3600, rows).astype("timedelta64[s]"),
        "itemid": draw.integers(220_000, 230_000, rows),
        "value": values.astype(str),
        "valuenum": values,
        "valueuom": np.where(draw.random(rows) < 0.3, "mmHg", "bpm"),
        "warning": np.zeros(rows, int),
    }
    table = pa.table({name: pa.array(cells) for name, cells in columns.items()})
    plain, packed, parquet = (folder / form / "icu" / "chartevents" for form in FORMS)
    for path in (plain, packed, parquet):
        path.parent.mkdir(parents=True)
    texts = [cells.cast(pa.string()) if pa.types.is_timestamp(cells.type) else cells for cells in table.columns]
    pa_csv.write_csv(pa.table(texts, table.column_names), plain.with_suffix(".csv"))
    with plain.with_suffix(".csv").open("rb") as source, gzip.open(packed.with_suffix(".csv.gz"), "wb", 1) as target:
        shutil.copyfileobj(source, target)
    pq.write_table(table, parquet.with_suffix(".parquet"), row_group_size=200_000)


def counted(folder: str, work: Callable[..., Any], *given: Any) -> Any:
    """Do a job and write down what its process has taken until now."""
    result = work(*given)
    (Path(folder) / str(os.getpid())).write_text(str(time.process_time()))
    return result


class CountedProcesses(Processes):
    """Processes whose CPU time stands in a folder, one for each time that some are opened."""

    folders: ClassVar[list[Path]] = []

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.folders.append(Path(tempfile.mkdtemp()))

    def start(self, job: Job) -> None:
        """Start a job that is counted."""
        super().start(replace(job, work=partial(counted, str(self.folders[-1]), job.work)))


def print_table(work: Path, rows: int) -> None:
    """Print what four processes make of one table: the CPU of one, by that of the parent and the longest worker."""
    make_table(work, rows)
    EXECUTORS.add("counted", CountedProcesses)
    LOADED.append("wardround.records.ingest.ingest")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; CPU s, by account and not by the clock")
    for form in FORMS:
        spent = []
        for workers in (1, 4):
            started = time.process_time()
            settings = IngestSettings(workers=workers, executor="counted", shards=16)
            ingest("mimiciv", work / form, work / f"{form}-{workers}", settings=settings)
            spent.append(time.process_time() - started)
        phases = [[float(file.read_text()) for file in folder.iterdir()] for folder in CountedProcesses.folders]
        longest, workers_sum = sum(map(max, phases)), sum(map(sum, phases))
        for folder in CountedProcesses.folders:
            shutil.rmtree(folder)
        CountedProcesses.folders.clear()
        print(
            f"{form:8} one process {spent[0]:.2f}; four: parent {spent[1]:.2f}, longest worker {longest:.2f}, all "
            f"{spent[1] + workers_sum:.2f}: {spent[0] / (spent[1] + longest):.2f} x",
            flush=True,
        )


def run(arguments: Any, work: Path) -> None:
    """Measure everything and print it."""
    raws = [Path(folder) for folder in arguments.raw]
    for patients in () if raws else arguments.patients:
        raws.append(work / f"synthetic-{patients}")
        synthesize(raws[-1], patients=patients, seed=7, workers=os.cpu_count() or 1)
    columns = (("input", 24), ("rows", 12), ("subjects", 10), ("us/row", 10), ("user us", 10), ("wall s", 9))
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print("".join(f"{name:{'<' if name == 'input' else '>'}{width}}" for name, width in columns), end="")
    print(f"{'peak MB':>10}{'disk B/row':>11}")
    for number, raw in enumerate(raws):
        print_ingest(raw.name, ingest_apart(raw, work / f"store-{number}"), work / f"store-{number}")
    store = Store.open(work / f"store-{len(raws) - 1}")
    print_charts(store, middles(store, arguments.subjects))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", nargs="*", default=[], help="raw folders, the smallest first")
    parser.add_argument("--patients", nargs="*", type=int, default=[500, 4000], help="sizes of synthetic hospitals")
    parser.add_argument("--subjects", type=int, default=200, help="how many subjects' charts to fetch")
    parser.add_argument("--keep", type=Path, help="where inputs and stores are kept (default: a temporary folder)")
    parser.add_argument("--table", type=int, metavar="ROWS", help="one table read by one and by four processes")
    parser.add_argument("--one", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.table:
        with tempfile.TemporaryDirectory() as folder:
            print_table(Path(folder), arguments.table)
        return
    if arguments.one:
        print(json.dumps(measure_ingest(*arguments.one)))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(arguments, arguments.keep or Path(folder))


if __name__ == "__main__":
    main()
