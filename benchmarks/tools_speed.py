"""What a tool call costs: CPU per call over the subjects of a store, first touch of a table and warm, eight at once.

Run: python benchmarks/tools_speed.py [--store FOLDER | --patients 120] [--subjects 100]

Every subject's whole record is open (the most rows a call can meet). Bars of section 13 of the design: a record tool
call <= 0.5 ms CPU median, <= 3 ms at the first touch of its tables; run_sql_query <= 0.5 ms with the table built,
<= 3 ms at its first touch, median subject, p95 <= 15 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from wardround.clinical.codes import LabelSet
from wardround.records import Chart, Store, ingest
from wardround.synth import synthesize
from wardround.tools import Environment, EnvironmentOptions, open_toolset
from wardround.tools.candidates import CandidateSpace

LATE = datetime(2300, 1, 1)
TABLES = ("labevents", "prescriptions", "diagnoses_icd")
JOIN = "SELECT l.label, count(*) FROM labevents l JOIN admissions a ON a.hadm_id = l.hadm_id GROUP BY l.label"
Call = tuple[str, dict[str, Any]]


def calls(middle: str, table: str) -> dict[str, Call]:
    """One natural call of every tool."""
    return {
        "get_table_names": ("get_table_names", {}),
        "get_column_names": ("get_column_names", {"table_name": table}),
        "get_table_description": ("get_table_description", {"table_name": table}),
        "get_records_by_time": ("get_records_by_time", {"table_name": table, "start_time": middle}),
        "get_event_counts_by_time": ("get_event_counts_by_time", {"start_time": middle}),
        "get_latest_records": ("get_latest_records", {"table_name": table}),
        "get_records_by_keyword": ("get_records_by_keyword", {"table_name": table, "keyword": "so"}),
        "get_records_by_value": (
            "get_records_by_value",
            {"table_name": table, "column_name": "subject_id", "value": "1"},
        ),
        "get_unique_values": ("get_unique_values", {"table_name": table, "column_name": "hadm_id"}),
        "run_sql_query, count": ("run_sql_query", {"sql_query": f"SELECT count(*) FROM {table}"}),
        "run_sql_query, group": ("run_sql_query", {"sql_query": f"SELECT hadm_id, count(*) FROM {table} GROUP BY 1"}),
        "run_sql_query, rows": ("run_sql_query", {"sql_query": f"SELECT * FROM {table} LIMIT 100"}),
        "run_sql_query, join": ("run_sql_query", {"sql_query": JOIN}),
        "get_candidates_by_keyword": ("get_candidates_by_keyword", {"table_name": "names", "keyword": "renal"}),
        "get_candidates_by_fuzzy_matching": (
            "get_candidates_by_fuzzy_matching",
            {"table_name": "names", "keywords": "kidny failure"},
        ),
        "get_candidates_by_semantic_similarity": (
            "get_candidates_by_semantic_similarity",
            {"table_name": "names", "query": "high blood pressure"},
        ),
        "think": ("think", {"response": "so far so good"}),
    }


def milliseconds(action: Callable[[], object]) -> float:
    """CPU time of this thread for an action."""
    start = time.thread_time()
    action()
    return (time.thread_time() - start) * 1e3


def middle_of(chart: Chart) -> str:
    """A time in the middle of the subject's laboratory record."""
    times = chart.table("labevents").event_time if "labevents" in chart.table_names else []
    return str(times[len(times) // 2])[:19] if len(times) else "2150-01-01"


def measure(store: Store, subjects: list[int], space: CandidateSpace) -> dict[str, list[tuple[float, float]]]:
    """First-touch and warm CPU of every call on every subject. First touch includes reading and preparing the table."""
    found: dict[str, list[tuple[float, float]]] = {}
    for subject in subjects:
        middle = middle_of(store.chart(subject, LATE))
        for name, (tool, arguments) in calls(middle, "labevents").items():
            options = EnvironmentOptions(candidates={"names": space})
            environment = Environment(store.chart(subject, LATE), open_toolset("agentehr"), options)
            first = milliseconds(lambda: environment.call(tool, arguments))  # noqa: B023
            result = environment.call(tool, arguments)
            assert not result.is_error, result.text
            again = [milliseconds(lambda: environment.call(tool, again_of(arguments, n))) for n in range(5)]  # noqa: B023
            found.setdefault(name, []).append((first, statistics.median(again)))
            environment.close()
    return found


def again_of(arguments: dict[str, Any], number: int) -> dict[str, Any]:
    """The same call, worded so that no finished answer is at hand."""
    if "sql_query" in arguments:
        return {"sql_query": arguments["sql_query"] + " " * (number + 1)}
    return arguments


FIRST_STATEMENTS = {
    "count": "SELECT count(*) FROM {table}",
    "three columns": "SELECT row_id, hadm_id, count(*) FROM {table} GROUP BY hadm_id ORDER BY subject_id",
    "six columns": "SELECT row_id, charttime, label, value, valuenum, valueuom FROM labevents ORDER BY 2 DESC",
    "all columns": "SELECT * FROM {table}",
}


def first_touch(store: Store, subjects: list[int], table: str) -> dict[str, list[tuple[float, float]]]:
    """CPU of a statement that is the first to name a table, when the chart has read it already, and of the same again;
    and of SQLite's insert alone of the same rows, every column prepared."""
    found: dict[str, list[tuple[float, float]]] = {}
    for subject in subjects:
        chart = store.chart(subject, LATE)
        chart.table(table)
        for name, query in FIRST_STATEMENTS.items():
            sql = query.format(table=table)
            if table not in sql:
                continue
            environment = Environment(chart, open_toolset("agentehr"))
            environment.call("run_sql_query", {"sql_query": "SELECT 1"})
            first, again = (milliseconds(lambda text=text: environment.gate.query(text)) for text in (sql, sql + " "))  # noqa: B023
            found.setdefault(name, []).append((first, again))
            if name == "all columns":
                found.setdefault("SQLite's insert alone", []).append((insert_alone(environment, table),) * 2)
            environment.close()
    return found


def insert_alone(environment: Environment, table: str) -> float:
    """CPU of inserting a table's prepared rows, as the gate has them, into another database in memory."""
    source = environment.gate._connection
    source.set_authorizer(None)
    source.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000_000)
    (created,) = source.execute(f"SELECT sql FROM sqlite_master WHERE name = '{table}'").fetchone()
    rows = source.execute(f"SELECT * FROM {table}").fetchall()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as target:
        target.execute(created)
        marks = ",".join("?" * len(rows[0])) if rows else "NULL"

        def insert() -> None:
            target.execute("BEGIN")
            target.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            target.execute("COMMIT")

        return milliseconds(insert)


def quantiles(values: list[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


async def together(environments: list[Environment], call: Call, rounds: int) -> tuple[float, float]:
    """Milliseconds, wall and CPU, of one round of concurrent calls."""
    start, spent = time.perf_counter(), time.process_time()
    for number in range(rounds):
        arguments = again_of(call[1], number)
        await asyncio.gather(*(environment.call_async(call[0], arguments) for environment in environments))
    return (time.perf_counter() - start) / rounds * 1e3, (time.process_time() - spent) / rounds * 1e3


def open_store(arguments: argparse.Namespace) -> Store:
    """The named store, or one made of invented patients."""
    if arguments.store:
        return Store.open(Path(arguments.store))
    folder = Path(tempfile.mkdtemp(prefix="wardround-speed-"))
    synthesize(folder / "hospital", patients=arguments.patients, seed=1)
    ingest("mimiciv", folder / "hospital", folder / "store")
    return Store.open(folder / "store")


def candidate_space(names: int) -> CandidateSpace:
    """Labels made of clinical words, as many as wanted."""
    parts = "acute chronic renal cardiac hepatic failure injury infection hypertension disorder".split()  # noqa: SIM905
    labels = {f"{parts[n % 10]} {parts[n // 10 % 10]} {parts[n // 100 % 10]} {n // 1000}" for n in range(names)}
    return CandidateSpace(name="names", labels=LabelSet(name="names", labels=tuple(sorted(labels))))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="a store made by `wardround ingest`; default: invented patients")
    parser.add_argument("--patients", type=int, default=120)
    parser.add_argument("--subjects", type=int, default=100)
    arguments = parser.parse_args()
    store = open_store(arguments)
    subjects = [int(subject) for subject in store.subjects][: arguments.subjects]
    gc.collect()
    gc.freeze()
    for table in TABLES:
        rows = [float(store.chart(subject, LATE).table(table).num_rows) for subject in subjects]
        print(f"{table}: rows per subject median {quantiles(rows)[0]:,.0f}, p95 {quantiles(rows)[1]:,.0f}")
    found = measure(store, subjects, candidate_space(300))
    print(f"\nCPU ms per call on labevents, {len(subjects)} subjects       first touch          warm")
    for name, pairs in found.items():
        first, warm = quantiles([pair[0] for pair in pairs]), quantiles([pair[1] for pair in pairs])
        print(f"{name:40s} {first[0]:8.2f} p95 {first[1]:7.2f} {warm[0]:8.3f} p95 {warm[1]:7.3f}")
    print("\nCPU ms of the first statement on a table (the chart has read it)    of it before the statement runs")
    for table in TABLES:
        for name, pairs in first_touch(store, subjects, table).items():
            first, build = quantiles([pair[0] for pair in pairs]), quantiles([pair[0] - pair[1] for pair in pairs])
            print(f"{table + ', ' + name:40s} {first[0]:8.2f} p95 {first[1]:7.2f} {build[0]:8.2f} p95 {build[1]:7.2f}")
    concurrency(store, subjects)


def concurrency(store: Store, subjects: list[int]) -> None:
    """Wall time and CPU of eight calls at once on eight charts against the mean of the same calls one at a time."""
    print("\nms, wall (CPU): one call, eight at once (the same eight subjects)")
    middle = (LATE - timedelta(days=60_000)).strftime("%Y-%m-%d")
    for name in ("get_records_by_time", "run_sql_query, group"):
        environments = [Environment(store.chart(subject, LATE), open_toolset("agentehr")) for subject in subjects[:8]]
        one, eight = asyncio.run(one_and_eight(environments, calls(middle, "labevents")[name]))
        ratios = f"{eight[0] / one[0]:.1f} (CPU {eight[1] / one[1]:.1f})"
        print(f"{name:40s} {one[0]:8.3f} ({one[1]:.3f}) {eight[0]:8.3f} ({eight[1]:.3f})  ratio {ratios}")


async def one_and_eight(environments: list[Environment], call: Call) -> list[tuple[float, float]]:
    """Mean milliseconds, wall and CPU, of one call and of eight at once, measured in turn."""
    await together(environments, call, 3)
    alone, eight = [], []
    for _ in range(10):
        alone += [await together([environment], call, 10) for environment in environments]
        eight.append(await together(environments, call, 10))
    return [tuple(map(statistics.fmean, zip(*found, strict=True))) for found in (alone, eight)]  # type: ignore[misc]


if __name__ == "__main__":
    main()
