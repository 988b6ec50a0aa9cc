"""On paper: what measured costs come to for all of MIMIC-IV and ten million subjects, and what is assumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
ONE_PROCESS: Mapping[str, float] = {"gzip": 0.42, "plain CSV": 0.15, "Parquet": 0.034}
"""CPU µs a row of what only one process can do with one file (records_speed.py --table): it unpacks gzip and finds the
ends of records, or, beside the others, hashes the file's bytes."""
MOST_SHARDS = 4_096
BENCHMARK_EPISODES, BENCHMARK_TURNS = 3_600, 20
"""A method on a whole benchmark: six tasks of 600 samples, some twenty calls each."""


def paper(figures: Path) -> None:
    """Print what the measured costs come to, and what is taken for granted."""
    known = json.loads(figures.read_text())
    size = max(known["subjects"], key=int)
    read, cut, bundled = (known["subjects"][size][name] for name in ("records", "charts", "bundles"))
    played = known["episodes"][max(known["episodes"], key=int)]
    rows = sum(MIMIC_ROWS.values())
    cpu = read["us"] / 1e6
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
    alone = {form: CHARTEVENTS / all_rows * rows * us / 6e7 for form, us in ONE_PROCESS.items()}
    print(f"{name}: {subjects:,} subjects, {rows:,.0f} rows")
    print(f"  ingest   {rows * cpu / 3600:,.1f} CPU-hours, {rows * mb / 1e6:,.2f} TB of store")
    longest = ", ".join(f"{form} {minutes:,.1f}" for form, minutes in alone.items())
    print(f"           {everywhere / 60:,.1f} minutes of the cluster; what one process does of one chartevents:")
    print(f"           {longest} minutes; {rows / MOST_SHARDS:,.0f} rows a shard if there are {MOST_SHARDS:,}")
    print(f"  bundles  {rows * bundled['us'] / 3.6e9:,.1f} CPU-hours if every row is an event")
