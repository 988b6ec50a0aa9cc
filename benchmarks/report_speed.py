"""What the report of a large run costs: seconds of scoring, figures and page, and megabytes on disk.

Run: python benchmarks/report_speed.py [--episodes 20000] [--samples 200] [--pages 200] [--keep FOLDER]

A few hundred episodes are really played by the offline policy on a synthetic hospital; their log rows are then copied
under the names of more agents and epochs until the run has as many episodes as asked for. Bar of section 13 of the
design: 20,000 episodes in <= 10 s and <= 20 MB without episode pages. ``all`` is the wall time with a process for each
CPU, and the CPU time of one process that does it all.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from wardround.core.sqlite import register_seals
from wardround.records import Store, ingest
from wardround.reports import summarise_run, write_report
from wardround.runs import RunFolder, RunSettings, execute, score_run, start
from wardround.synth import synthesize
from wardround.tasks.benchmarks.agentehr import build_agentehr

AGENTS = tuple(f"react-{number}" for number in range(10))
BYTES_IN_MB = 1e6


def play(work: Path, samples: int) -> RunFolder:
    """Play some episodes for real and return their run."""
    synthesize(work / "hospital", patients=400, seed=7)
    ingest("mimiciv", work / "hospital", work / "store")
    build_agentehr(Store.open(work / "store"), work / "bench", per_task=samples)
    settings = RunSettings.of(
        benchmark=str(work / "bench"), store=str(work / "store"), split="train", limit=-(-samples // 6)
    )
    folder = start(work / "run", settings)
    execute(folder, workers=os.cpu_count() or 1)
    return folder


def multiply(folder: RunFolder, episodes: int) -> RunFolder:
    """Copy the rows of every played episode under other agents and epochs, in its own log file."""
    logs = sorted(folder.logs.glob("*.sqlite"))
    played = sum(_count(log) for log in logs)
    epochs = -(-episodes // (played * len(AGENTS)))
    for log in logs:
        with closing(sqlite3.connect(log, isolation_level=None)) as connection:
            register_seals(connection)
            connection.execute("BEGIN")
            for agent in AGENTS:
                for epoch in range(epochs):
                    _copy(connection, agent, epoch)
            connection.execute("COMMIT")
    manifest = dict(folder.manifest)
    run = {**manifest["settings"]["run"], "agents": ["react", *AGENTS], "epochs": epochs}
    manifest["settings"] = {**manifest["settings"], "run": run}
    manifest["episodes"] = played * (1 + len(AGENTS) * epochs)
    (folder.path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return RunFolder.open(folder.path)


def _count(log: Path) -> int:
    with closing(sqlite3.connect(log)) as connection:
        register_seals(connection)
        return int(connection.execute("SELECT count(*) FROM episode").fetchone()[0])


def _copy(connection: sqlite3.Connection, agent: str, epoch: int) -> None:
    """A key is ``agent|model|task|sample|epoch``; played ones are of agent react and epoch 0."""
    key = f"'{agent}' || substr({{0}}, length('react') + 1, length({{0}}) - length('react') - 1) || '{epoch}'"
    for table, column in (("episode", "key"), ("turn", "episode"), ("tool", "episode"), ("note", "episode")):
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        new = {column: key.format(column), "facts": f"json_set(facts, '$.agent', '{agent}', '$.epoch', {epoch})"}
        chosen = ", ".join(new.get(name, name) for name in names)
        connection.execute(f"INSERT INTO {table} SELECT {chosen} FROM {table} WHERE {column} LIKE 'react|%'")


def timed(name: str, work: Callable[[], Any], *, shows_cpu: bool = True) -> Any:
    """Do something and print what it took; the CPU time of forked workers is none of ours."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    used = f"{time.process_time() - cpu:>9.1f}" if shows_cpu else ""
    print(f"{name:<28}{time.perf_counter() - wall:>9.1f}{used}")
    return result


def measure(folder: RunFolder, pages: int) -> None:
    """Print the table."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; {folder.manifest['episodes']:,} episodes")
    print(f"{'step':<28}{'wall s':>9}{'CPU s':>9}")
    workers = os.cpu_count() or 1
    cpu = time.process_time()
    timed("score, one process", lambda: score_run(folder))
    cpu, wall = time.process_time() - cpu, time.perf_counter()
    scores = timed(f"score, {workers} processes", lambda: score_run(folder, workers=workers), shows_cpu=False)
    rest = time.process_time()
    summary = timed("figures", lambda: summarise_run(scores, seed=0))
    index = timed("page", lambda: write_report(folder, scores, summary, pages=()))
    print(f"{'all':<28}{time.perf_counter() - wall:>9.1f}{cpu + time.process_time() - rest:>9.1f}")
    print(f"report {_size(index.parent):.1f} MB, results {folder.results.stat().st_size / BYTES_IN_MB:.1f} MB")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
    if pages:
        timed(f"{pages} episode pages", lambda: write_report(folder, scores, summary, pages=scores[:pages]))
        files = [path.stat().st_size for path in _files(index.parent / "episodes")]
        print(f"a page is {sum(files) / max(len(files), 1) / 1e3:.0f} kB on average")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in _files(folder)) / BYTES_IN_MB


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=20_000, help="how many episodes the run has")
    parser.add_argument("--samples", type=int, default=200, help="about how many are really played")
    parser.add_argument("--pages", type=int, default=0, help="measure so many episode pages too")
    parser.add_argument("--keep", type=Path, help="where the run is kept, and taken from if it is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.keep or Path(scratch)
        is_there = (work / "run" / "manifest.json").is_file()
        folder = RunFolder.open(work / "run") if is_there else None
        measure(folder or multiply(play(work, arguments.samples), arguments.episodes), arguments.pages)


if __name__ == "__main__":
    main()
