"""The parts of scale.py that a hospital of so many subjects goes through, each measured in a process of its own."""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from records_speed import Moments, chart_costs, measure_ingest, middles
from wardround.audits import check_store
from wardround.clinical.bundles import batch_states, store_bundles
from wardround.clinical.bundles.files import write_bundles
from wardround.records import Store
from wardround.synth import synthesize

CHARTS = 200
RANDOM_CHARTS = 500
LABS = "labevents"
Figures = Mapping[str, Any]


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a piece of work gives, and the CPU seconds it took in this process."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def peak_mb() -> float:
    """The most memory that this process ever held, mapped files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def disk_mb(folder: Path) -> float:
    """What a folder takes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def hospital(raw: Path, store: Path, subjects: int) -> Figures:
    """Make a hospital with as many processes as there are cores."""
    started = time.monotonic()
    synthesize(raw, patients=subjects, seed=7, workers=os.cpu_count() or 1)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in used)
    return {"wall": time.monotonic() - started, "cpu": cpu, "peak_mb": peak_mb(), "mb": disk_mb(raw)}


def records(raw: Path, store: Path, subjects: int) -> Figures:
    """Ingest it."""
    cost = measure_ingest(raw, store)
    return {**cost, "us": (cost["user"] + cost["system"]) / cost["rows"] * 1e6, "mb": disk_mb(store)}


def charts(raw: Path, store: Path, subjects: int) -> Figures:
    """Cut charts in the middle of admissions: of evenly spread subjects the least of three, then random ones that are
    touched for the first time."""
    opened, opening = measured(lambda: Store.open(store))
    moments = middles(opened, CHARTS)
    whole = sorted(cost for cost, _ in chart_costs(opened, moments, opened.table_names))
    one = sorted(cost for cost, _ in chart_costs(opened, moments, [LABS]))
    first = sorted(_first_touches(Store.open(store), _random_moments(opened)))
    return {
        "open_ms": opening * 1e3,
        "all_ms": statistics.median(whole),
        "all_p95_ms": _p95(whole),
        "labs_ms": statistics.median(one),
        "first_ms": statistics.median(first),
        "first_p95_ms": _p95(first),
        "first_most_ms": first[-1],
        "own_mb": own_mb(),
        "peak_mb": peak_mb(),
    }


def _random_moments(store: Store) -> list[tuple[int, datetime]]:
    """Return random subjects that were ever admitted, each with the moment after its last admission's first day."""
    dice, found = random.Random(1), []
    for subject in dice.sample(store.subjects.tolist(), min(RANDOM_CHARTS, len(store.subjects))):
        stays = [one["admittime"] for one in store.rows(subject, "admissions").to_pylist()]
        found += [(subject, max(stays).replace(hour=23))] if stays else []
    return found


def _first_touches(store: Store, moments: Moments) -> list[float]:
    """Return CPU ms of every chart with all its tables; a shard's index is read with the first of its subjects."""
    costs = []
    for subject, moment in moments:
        started = time.process_time()
        chart = store.chart(subject, moment)
        assert sum(chart.table(name).num_rows for name in store.table_names)
        costs.append((time.process_time() - started) * 1e3)
    return costs


def _p95(ordered: Sequence[float]) -> float:
    return ordered[int(0.95 * len(ordered))]


def whole(raw: Path, store: Path, subjects: int) -> Figures:
    """Count all rows by the indexes of the shards, scan the largest table, and check every byte."""
    opened = Store.open(store)
    rows, counting = measured(lambda: _row_count(opened))
    labs, scanning = measured(lambda: sum(batch.num_rows for _, batch in opened.scan(LABS)))
    check, checking = measured(lambda: check_store(store))
    assert check.whole
    assert rows == sum(table["rows"] for table in opened.manifest["tables"].values())
    return {
        "shards": opened.shard_count,
        "count_ms": counting * 1e3,
        "scan_us": scanning / labs * 1e6,
        "labs": labs,
        "check_seconds": checking,
        "check_mb_second": check.bytes / 1e6 / checking,
        "peak_mb": peak_mb(),
    }


def _row_count(store: Store) -> int:
    parts = (part for shard in range(store.shard_count) for _, part in store.shard_tables(shard))
    return sum(int(part.rows.sum()) for part in parts)


def bundles(raw: Path, store: Path, subjects: int) -> Figures:
    """Bundle the whole store, with the states after the last of every subject's bundles."""
    opened, events, memory = Store.open(store), 0, []
    started = time.process_time()
    for stream in store_bundles(opened):
        events += len(batch_states(stream).events)
        memory.append(resident_mb())
    seconds = time.process_time() - started
    tenth = [memory[int(share * (len(memory) - 1))] for share in (0.1, 0.5, 1.0)]
    return {"events": events, "us": seconds / events * 1e6, "memory_mb": tenth, "peak_mb": peak_mb()}


def written(raw: Path, store: Path, subjects: int) -> Figures:
    """Write the bundles of the whole store, with targets, as ``wardround export bundles`` does."""
    folder = store.with_name(f"{store.name}-bundles")
    made, seconds = measured(lambda: write_bundles(Store.open(store), folder))
    size = disk_mb(folder)
    shutil.rmtree(folder)
    return {"events": made.events, "us": seconds / made.events * 1e6, "mb": size, "peak_mb": peak_mb()}


def resident_mb() -> float:
    """What this process holds now, mapped files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def own_mb() -> float:
    """What this process holds now without the pages of mapped files, which the system takes back when it needs them."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(entry.split()[1]) / 1024 for entry in status if entry.startswith("RssAnon"))


OF_SUBJECTS: Mapping[str, Callable[[Path, Path, int], Figures]] = {
    "hospital": hospital,
    "records": records,
    "charts": charts,
    "bundles": bundles,
    "whole": whole,
    "written": written,
}
"""What is measured of a hospital, in this order; each is given the raw folder, the store and the number of subjects."""


_LINES: Mapping[str, str] = {
    "hospital": "made     {cpu:,.0f} CPU s ({wall:,.0f} s), {mb:,.0f} MB of CSV, peak {peak_mb:,.0f} MB",
    "records": "ingest   {us:.2f} us a row of {rows:,}, peak {peak_mb:,.0f} MB, store {mb:,.0f} MB",
    "charts": "chart    {all_ms:.2f} ms all tables (p95 {all_p95_ms:.2f}), {labs_ms:.3f} labs; random, first touch "
    "{first_ms:.2f} (p95 {first_p95_ms:.2f}, most {first_most_ms:.1f}); open {open_ms:.0f} ms, "
    "own memory {own_mb:,.0f} MB, peak {peak_mb:,.0f} MB",
    "whole": "whole    {shards:,} shards: rows counted in {count_ms:,.0f} ms, labs scanned at {scan_us:.2f} us a row, "
    "checked in {check_seconds:.1f} s, {check_mb_second:,.0f} MB/s, peak {peak_mb:,.0f} MB",
    "bundles": "bundles  {us:.2f} us an event of {events:,}, memory {memory_mb[0]:,.0f} / {memory_mb[1]:,.0f} / "
    "{memory_mb[2]:,.0f} MB at a tenth, half, end, peak {peak_mb:,.0f} MB",
    "written": "written  {us:.2f} us an event with targets, {mb:,.0f} MB, peak {peak_mb:,.0f} MB",
}


def line(name: str, found: Figures) -> str:
    """Say what was measured of a part."""
    return _LINES[name].format(**found)
