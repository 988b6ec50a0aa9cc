"""Mutation testing by a seeded sample: of N small faults put into the code, how many does a test find?

    python -m pytest -n 2 --cov=wardround --cov-context=test --cov-report= \\
        --durations=0 --durations-min=0 -vv > durations.txt
    python scripts/mutation_sample.py --coverage .coverage --durations durations.txt --mutants 40 --out mutants

Each mutant is one site drawn at random from a room (every site of it equally likely), in a copy of the tree; so many
from every room, a mutant of each in turn, so that a sample that is stopped is of all rooms. Tests whose coverage
touches the changed line run, quickest first, until one fails or the budget of test seconds is spent; where shared
fixtures touch it, or an import does (defaults, bounds, tables), the rest of their files and of the room, too. They run
in a fork of a process that has loaded what the mutant cannot change (mutation_server.py). A mutant that no test fails
for has survived; one that takes all its time counts as found (an endless loop). Results are appended to
OUT/results.jsonl, so a stopped sample goes on; survivors and the kill rate of each room with its Wilson interval are
printed at the end. Tests that fail without any mutation found nothing. The time of a run is the processor's, so a busy
machine finds nothing either. Needs pytest-cov.

One module while its tests are written, with those tests alone (they are run once for coverage and durations):

    python scripts/mutation_sample.py --only src/wardround/runs/queue.py --tests tests/runs/test_queue.py --out queue
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from queue import Empty, Queue

from mutation_sites import Equivalents, Mutation, mutations, sites

BAR = 0.85
"""Of each room's mutants a test finds at least so many."""
_CARRIED = (
    "src",
    "tests",
    "scripts",
    "examples",
    "benchmarks",
    "conformance",
    "docs",
    "pyproject.toml",
    "README.md",
    "Makefile",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
_FAIR_SECONDS = 900
"""What waits longer without a processor's work waits forever: seconds of a machine that nobody else uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one mutant: `killed`, `endless`, `survived` or `untested` (no test touches its line)."""

    file: str
    line: int
    before: str
    after: str
    verdict: str
    tests: int
    killer: str = ""

    @property
    def site(self) -> tuple[str, int, str, str]:
        """Which mutant it is."""
        return self.file, self.line, self.before, self.after


class Coverage:
    """Which tests touch a line, from a coverage file with test contexts and pytest's list of durations."""

    def __init__(self, data: Path, durations: Path) -> None:
        self._connection = sqlite3.connect(f"file:{data}?mode=ro", uri=True, check_same_thread=False)
        self._seconds = _durations(durations.read_text())
        self._lock = threading.Lock()

    def tests(self, file: str, line: int) -> list[str]:
        """Tests that touch the line, quickest first; then, where a fixture touches it, others that may have used that.

        What a fixture touches stands under the first test that asked for it; what an import touches stands under none,
        so that all of the room may have used it.
        """
        direct, setup, imported = self._contexts(file, line)
        files = {name.split("::")[0] for name in setup} | {f"tests/{Path(file).parts[2]}/"}
        beside = {name for name in self._seconds if name.startswith(tuple(files))} if setup or imported else set()
        if imported:
            return self._quickest(direct | setup | beside)
        return [*self._quickest(direct | setup), *self._quickest(beside - direct - setup)]

    def seconds(self, test: str) -> float:
        """What the test's call took."""
        return self._seconds.get(test, 0.01)

    def _quickest(self, names: set[str]) -> list[str]:
        return sorted(names, key=lambda name: (self.seconds(name), name))

    def _contexts(self, file: str, line: int) -> tuple[set[str], set[str], bool]:
        query = (
            "SELECT c.context, l.numbits FROM line_bits l JOIN file f ON f.id = l.file_id "
            "JOIN context c ON c.id = l.context_id WHERE f.path LIKE ?"
        )
        with self._lock:
            rows = self._connection.execute(query, (f"%/{file}",)).fetchall()
        touching = [name for name, bits in rows if _has(bits, line)]
        imported = touching == [""]
        if imported:  # a line of the module itself: whoever uses the module, and then the room
            touching = [name for name, _ in rows]
        names = {name.rpartition("|")[0] for name in touching if name.endswith("|run")}
        return names, {name.rpartition("|")[0] for name in touching if name.endswith("|setup")} - names, imported


def _has(bits: bytes, line: int) -> bool:
    byte, bit = divmod(line, 8)
    return byte < len(bits) and bool(bits[byte] >> bit & 1)


def _durations(text: str) -> dict[str, float]:
    found = re.findall(r"^([0-9.]+)s call +(tests/.+?)$", text, re.MULTILINE)

    return {name.strip(): float(seconds) for seconds, name in found}


def by_room(root: Path, rooms: Sequence[str]) -> list[list[Path]]:
    """The modules of each room, of all without any named."""
    source = root / "src/wardround"
    named = rooms or sorted(path.parent.name for path in source.glob("*/__init__.py"))
    return [sorted((source / room).rglob("*.py")) for room in named]


def draw_from_each(root: Path, rooms: Sequence[Sequence[Path]], count: int, seed: int) -> list[tuple[str, Mutation]]:
    """`count` mutants of each room, one of every room in turn."""
    drawn = [draw(root, files, count, seed) for files in rooms]
    return [one for several in zip_longest(*drawn) for one in several if one is not None]


def draw(root: Path, files: Sequence[Path], count: int, seed: int) -> list[tuple[str, Mutation]]:
    """`count` mutants: a site at random, then one of its mutations."""
    equivalents = Equivalents.read()
    found = [(path, node) for path in files for node in sites(path.read_text(), path, equivalents)]
    aside = sum(len(sites(path.read_text())) for path in files) - len(found)
    room = files[0].relative_to(root).parts[2]
    print(f"{room}: {len(found):,} sites; {aside:,} are set aside by mutation_equivalents.toml", flush=True)
    generator = random.Random(seed)
    generator.shuffle(found)
    drawn: list[tuple[str, Mutation]] = []
    for path, node in found:
        options = mutations(path.read_text(), node, equivalents)
        if options:
            drawn.append((str(path.relative_to(root)), generator.choice(options)))
        if len(drawn) == count:
            break
    return drawn


class Tree:
    """A copy of the repository, and one process for each room that forks test runs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._servers: dict[str, subprocess.Popen[str]] = {}
        environment = os.environ | {"PYTHONPATH": str(path / "src"), "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
        subprocess.run(collect, cwd=path, env=environment, capture_output=True, check=True)  # compiles code and tests
        kept = {"PYTHONDONTWRITEBYTECODE": "1", "WARDROUND_TEST_BYTECODE": "0"}
        self._environment = environment | kept  # no mutant is ever kept compiled

    def output(self) -> str:
        """What the last test run printed."""
        return (self.path / "last.txt").read_text(errors="replace")

    def run(self, room: str, tests: list[str], *, cpu_seconds: int) -> int:
        """Return pytest's exit status, or a negative signal of a run that was ended."""
        request = {"tests": tests, "cpu_seconds": cpu_seconds, "fair_seconds": _FAIR_SECONDS, "last": "last.txt"}
        server = self._server(room)
        assert server.stdin is not None
        assert server.stdout is not None
        print(json.dumps(request), file=server.stdin, flush=True)
        return int(server.stdout.readline())

    def start(self, room: str) -> None:
        """Have the room's process load what it needs, while no mutant stands in the tree."""
        self._server(room)

    def close(self) -> None:
        """End the processes."""
        for server in self._servers.values():
            server.communicate()

    def _server(self, room: str) -> subprocess.Popen[str]:
        if room not in self._servers:
            command = [sys.executable, "scripts/mutation_server.py", room]
            self._servers[room] = subprocess.Popen(
                command,
                cwd=self.path,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            pipe = self._servers[room].stdout
            if pipe is None or pipe.readline() != "ready\n":
                raise SystemExit(f"the process for {room} did not start")
        return self._servers[room]


def measure(root: Path, tests: Sequence[str], out: Path) -> tuple[Path, Path]:
    """Run these tests once, unmutated, for their coverage and durations."""
    data, durations = out / "only.coverage", out / "only.txt"
    command = [sys.executable, "-m", "pytest", "--cov=wardround", "--cov-context=test", "--cov-report=", "-vv", "-q"]
    command += ["-p", "no:cacheprovider", "--durations=0", "--durations-min=0", *tests]
    with durations.open("w") as output:
        subprocess.run(command, cwd=root, env=os.environ | {"COVERAGE_FILE": str(data)}, stdout=output, check=True)
    return data, durations


def judge(tree: Tree, file: str, mutation: Mutation, coverage: Coverage, budget_seconds: float) -> Outcome:
    """Put one mutation into a copy of the tree, run its tests, take it out again."""
    chosen = _within(coverage, coverage.tests(file, mutation.line), budget_seconds)
    verdict = _run(tree, file, mutation, chosen, budget_seconds) if chosen else "untested"
    killer = _first_failure(tree) if verdict == "killed" else ""
    site = {"file": file, "line": mutation.line, "before": mutation.before, "after": mutation.after}
    return Outcome(**site, verdict=verdict, tests=len(chosen), killer=killer)


def _within(coverage: Coverage, tests: list[str], budget_seconds: float) -> list[str]:
    chosen, spent = [], 0.0
    for test in tests:
        spent += coverage.seconds(test)
        if spent > budget_seconds and chosen:
            break
        chosen.append(test)
    return chosen


def _run(tree: Tree, file: str, mutation: Mutation, tests: list[str], budget_seconds: float) -> str:
    tree.start(Path(file).parts[2])
    path = tree.path / file
    original, times = path.read_text(), path.stat()
    path.write_text(mutation.source)
    try:
        status = tree.run(Path(file).parts[2], tests, cpu_seconds=int(budget_seconds * 3) + 60)
    finally:
        path.write_text(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if status < 0:
        return "endless"
    if status == 4 and "error:" in tree.output():
        return "untested"  # a test of the list is not there any more
    return "survived" if status == 0 else "killed"


def _first_failure(tree: Tree) -> str:
    """The test that found the mutant; empty where the tests could not even be collected."""
    found = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", tree.output(), re.MULTILINE)
    return found[1] if found and "::" in found[1] else ""


def unsound(tree: Tree, outcomes: list[Outcome]) -> set[str]:
    """Tests that found a mutant and fail on the code as it is, too: what they found is nothing."""
    killers = sorted({outcome.killer for outcome in outcomes if outcome.killer})
    if not killers or tree.run("core", killers, cpu_seconds=3600) == 0:
        return set()
    return {killer for killer in killers if tree.run("core", [killer], cpu_seconds=600) != 0}


def wilson(killed: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """The Wilson score interval of a share."""
    share = killed / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return middle - half, middle + half


def _copies(root: Path, out: Path, count: int) -> list[Path]:
    trees = [out / f"tree-{n}" for n in range(count)]
    for tree in trees:
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        for name in _CARRIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (root / name).exists():
                shutil.copy(root / name, tree / name)
    return trees


def _work(
    tree: Tree, queue: Queue[tuple[str, Mutation]], coverage: Coverage, budget: float, out: Path, lock: threading.Lock
) -> None:
    while True:
        try:
            file, mutation = queue.get_nowait()
        except Empty:
            return
        outcome = judge(tree, file, mutation, coverage, budget)
        with lock, (out / "results.jsonl").open("a") as lines:
            lines.write(json.dumps(asdict(outcome)) + "\n")
        change = f"{mutation.before[:50]!r} -> {mutation.after[:50]!r}"
        print(f"{outcome.verdict:9} {file}:{mutation.line} {change} ({queue.qsize()} left)", flush=True)


def _done(out: Path) -> list[Outcome]:
    path = out / "results.jsonl"
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def report(outcomes: list[Outcome]) -> None:
    """Print the survivors, then the rate by room and over all; a room that misses the bar is marked."""
    for outcome in outcomes:
        if outcome.verdict in {"survived", "untested"}:
            print(f"{outcome.verdict:9} {outcome.file}:{outcome.line}  {outcome.before!r} -> {outcome.after!r}")
    for room in sorted({Path(outcome.file).parts[2] for outcome in outcomes}):
        _rate(room, [outcome for outcome in outcomes if Path(outcome.file).parts[2] == room])
    _rate("all", outcomes)


def _rate(name: str, outcomes: list[Outcome]) -> None:
    if not outcomes:
        return
    killed = sum(outcome.verdict in {"killed", "endless"} for outcome in outcomes)
    low, high = wilson(killed, len(outcomes))
    missed = "" if killed >= BAR * len(outcomes) else f"  below {BAR}"
    print(
        f"{name:12} {killed} of {len(outcomes)} found: {killed / len(outcomes):.3f} ({low:.3f} to {high:.3f}){missed}"
    )


def main() -> None:
    """Draw, judge what is not judged yet, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--coverage", type=Path)
    parser.add_argument("--durations", type=Path)
    parser.add_argument("--rooms", nargs="+", default=(), help="rooms to change (default: every one)")
    parser.add_argument("--only", nargs="+", type=Path, help="modules to change, instead of whole rooms")
    parser.add_argument("--tests", nargs="+", help="tests to run, instead of --coverage and --durations")
    parser.add_argument("--mutants", type=int, default=40, help="of each room (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--test-seconds", type=float, default=40.0, help="tests per mutant, by what they took unmutated"
    )
    parser.add_argument("--out", type=Path, required=True)
    settings = parser.parse_args()
    root, out = Path(__file__).resolve().parents[1], settings.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if settings.tests:
        settings.coverage, settings.durations = measure(root, settings.tests, out)
    elif not (settings.coverage and settings.durations):
        parser.error("give --coverage and --durations, or --tests")
    coverage = Coverage(settings.coverage, settings.durations)
    rooms = [[path.resolve() for path in settings.only]] if settings.only else by_room(root, settings.rooms)
    drawn = draw_from_each(root, rooms, settings.mutants, settings.seed)
    judged = {outcome.site for outcome in _done(out)}
    queue: Queue[tuple[str, Mutation]] = Queue()
    for file, mutation in drawn:
        if (file, mutation.line, mutation.before, mutation.after) not in judged:
            queue.put((file, mutation))
    lock = threading.Lock()
    trees = [Tree(path) for path in _copies(root, out, settings.workers)]
    threads = [
        threading.Thread(target=_work, args=(tree, queue, coverage, settings.test_seconds, out, lock)) for tree in trees
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    of_draw = {(file, mutation.line, mutation.before, mutation.after) for file, mutation in drawn}
    outcomes = [outcome for outcome in _done(out) if outcome.site in of_draw]
    broken = unsound(trees[0], outcomes)
    for tree in trees:
        tree.close()
    if broken:
        print("fail without any mutation, so what they found does not count:", *sorted(broken), sep="\n  ")
    report([outcome for outcome in outcomes if outcome.killer not in broken])


if __name__ == "__main__":
    main()
