"""Take the power away: replay the recorded writes of a command without what was not synced, go on, compare.

    python benchmarks/power_loss.py                        # 200 points each of run, ingest, bank and ledger (make long)
    python benchmarks/power_loss.py --only bank --points 50

A command runs once under strace, which records every write, sync, rename and deletion below one folder. For each of so
many points the folder is made as a disk may hold it when the power fails there: what was synced is there; of other
writes none (every second point), or each by the toss of a coin; of names that no sync of their folder has seen, the
first few in order, as a journal keeps them. Then the command is run again on what is left. It must end as the
undisturbed one did, and of the bank's experiences none may be gone that was there when the writer said so.
Needs strace.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "memory")]

from memory_doubles import lesson  # noqa: E402

from kills import compare_counts, files_of, learnt, scores_of  # noqa: E402
from wardround.cli import main as wardround  # noqa: E402
from wardround.core import UserError  # noqa: E402
from wardround.memory import Bank  # noqa: E402
from wardround.records.ingest import plan  # noqa: E402
from wardround.runs import RunFolder  # noqa: E402
from wardround.synth import synthesize  # noqa: E402

CALLS = (
    "openat,open,creat,write,pwrite64,writev,pwritev,sendfile,copy_file_range,ftruncate,truncate,lseek,"
    "fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat"
)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing done to a file or a folder: ``write`` (offset, data), ``truncate`` (size), ``sync``, ``create``,
    ``mkdir``, ``rename`` (to), ``unlink``."""

    what: str
    path: str
    offset: int = 0
    data: bytes = b""
    to: str = ""


_CALL = re.compile(r"^(\w+)\((.*)\) += (-?\d+)(<[^>]*>)?.*$", re.DOTALL)
_HEX = re.compile(r"\\x([0-9a-f]{2})")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"^(?:\d+|AT_FDCWD)<([^>]*)>")


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _path(text: str) -> str:
    return _HEX.sub(lambda found: chr(int(found[1], 16)), text)


def read_trace(lines: Iterable[str], folder: str) -> Iterator[Event]:
    """Yield what strace saw below a folder, in order."""
    begun: dict[str, str] = {}
    places: dict[str, int] = {}
    there: set[str] = set()
    for line in lines:
        thread, _, text = line.rstrip("\n").partition(" ")
        text = text.lstrip()
        if text.endswith("<unfinished ...>"):
            begun[thread] = text.removesuffix("<unfinished ...>")
            continue
        if text.startswith("<... "):
            text = begun.pop(thread, "") + text.partition(" resumed>")[2]
        call = _CALL.match(text)
        if call is None or int(call[3]) < 0:
            continue
        yield from _events(call, folder, places, there)


def _events(call: re.Match[str], folder: str, places: dict[str, int], there: set[str]) -> Iterator[Event]:
    name, words, result = call[1], call[2], int(call[3])
    strings = [_bytes(one) for one in _STRING.findall(words)]
    held = _DESCRIPTOR.match(words)
    path = _path(held[1]) if held else ""
    if name in ("openat", "open", "creat"):
        path = _path((call[4] or "<>")[1:-1])
        if not _inside(path, folder):
            return
        if path not in there and "O_CREAT" in words:
            there.add(path)
            yield Event("create", path)
        elif "O_TRUNC" in words:
            yield Event("truncate", path)
        places[path] = -1 if "O_APPEND" in words else 0
    elif name in ("rename", "renameat", "renameat2"):
        source, target = (one.decode() for one in strings[:2])
        if _inside(source, folder) or _inside(target, folder):
            for one in [one for one in there if one == source or one.startswith(f"{source}/")]:
                there.discard(one)
                there.add(target + one[len(source) :])
            yield Event("rename", source, to=target)
    elif name in ("unlink", "unlinkat", "rmdir"):
        gone = strings[0].decode()
        gone = gone if gone.startswith("/") else f"{path}/{gone}"
        if _inside(gone, folder):
            there.discard(gone)
            yield Event("unlink", gone)
    elif name in ("mkdir", "mkdirat"):
        made = strings[0].decode()
        if _inside(made, folder):
            there.add(made)
            yield Event("mkdir", made)
    elif not _inside(path, folder):
        return
    elif name in ("fsync", "fdatasync"):
        yield Event("sync", path)
    elif name in ("ftruncate", "truncate"):
        yield Event("truncate", path, int(words.rpartition(", ")[2]))
    elif name == "lseek":
        places[path] = result
    elif name == "pwrite64":
        yield Event("write", path, int(words.rpartition(", ")[2]), strings[0][:result])
    elif name in ("write", "writev"):
        place = places.get(path, 0)
        yield Event("write", path, place, b"".join(strings)[:result])
        places[path] = place if place < 0 else place + result
    else:
        raise SystemExit(f"{name} of {path}: not known here")


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


@dataclass(slots=True)
class Change:
    """A change of a file's bytes, or of a name; ``kept``: a sync has seen it onto the disk."""

    event: Event
    inode: int = 0
    kept: bool = False


@dataclass(slots=True)
class Disk:
    """What a disk is sure to hold, and what it may."""

    names: list[Change] = field(default_factory=list)
    bytes: dict[int, list[Change]] = field(default_factory=dict)
    _now: dict[str, int] = field(default_factory=dict)
    _made: dict[int, Change] = field(default_factory=dict)

    def do(self, event: Event) -> None:
        """Take one event in."""
        if event.what in ("write", "truncate"):
            inode = self._now.get(event.path)
            if inode is not None:
                self.bytes.setdefault(inode, []).append(Change(event, inode))
        elif event.what == "sync":
            self._sync(event.path)
        else:
            self._rename(event)

    def _sync(self, path: str) -> None:
        inode = self._now.get(path)
        if inode in self._made:  # a file: its bytes, and that it is there
            self._made[inode].kept = True
            for change in self.bytes.get(inode, ()):
                change.kept = True
            return
        for change in self.names:
            if path in (os.path.dirname(change.event.path), os.path.dirname(change.event.to)):
                change.kept = True

    def _rename(self, event: Event) -> None:
        change = Change(event, len(self.names) + 1)
        self.names.append(change)
        if event.what == "create":
            self._now[event.path] = change.inode
            self._made[change.inode] = change
        _apply(self._now, change)

    def left(self, dice: random.Random | None) -> dict[str, bytes | None]:
        """Return files (None: a folder) after a loss of power; without dice nothing is there that was not synced."""
        open_names = [change for change in self.names if not change.kept]
        kept = 0 if dice is None else dice.randrange(len(open_names) + 1)
        lost = set(map(id, open_names[kept:]))
        names: dict[str, int] = {}
        for change in self.names:
            if id(change) not in lost:
                _apply(names, change)
        return {path: None if inode < 0 else _content(self.bytes.get(inode, ()), dice) for path, inode in names.items()}


def _apply(names: dict[str, int], change: Change) -> None:
    event = change.event
    if event.what == "create":
        names[event.path] = change.inode
    elif event.what == "mkdir":
        names[event.path] = -1
    elif event.what == "unlink":
        names.pop(event.path, None)
    elif event.path in names:
        moved = [one for one in names if one == event.path or one.startswith(f"{event.path}/")]
        for one in moved:
            names[event.to + one[len(event.path) :]] = names.pop(one)


def _content(changes: Iterable[Change], dice: random.Random | None) -> bytes:
    body = bytearray()
    for change in changes:
        if not change.kept and (dice is None or dice.random() < 0.5):
            continue
        event = change.event
        if event.what == "truncate":
            del body[event.offset :]
            body.extend(bytes(max(0, event.offset - len(body))))
            continue
        place = len(body) if event.offset < 0 else event.offset
        body.extend(bytes(max(0, place - len(body))))
        body[place : place + len(event.data)] = event.data
    return bytes(body)


def put_back(folder: Path, left: dict[str, bytes | None]) -> None:
    """Make the folder as the disk holds it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path, body in sorted(left.items()):
        if body is None:
            Path(path).mkdir(parents=True, exist_ok=True)
    for path, body in sorted(left.items()):
        if body is not None and Path(path).parent.is_dir() and not Path(path).is_dir():
            Path(path).write_bytes(body)


@dataclass(slots=True, kw_only=True)
class Row:
    """The table's row of one command."""

    command: str
    points: int = 0
    events: int = 0
    unsynced: int = 0
    lost: int = 0
    different: int = 0
    refused: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command. ``first`` is recorded, ``again`` is run on what is left and returns its status; ``found``: what the
    folder holds in the end; ``said``: how much of it the command itself said was there, at any moment."""

    name: str
    first: list[str]
    again: Callable[[Path], int]
    found: Callable[[Path], Counter[str]]
    said: Callable[[Path], int] | None = None


def record(words: list[str], folder: Path, place: Path) -> list[Event]:
    """Run a command under strace; return what it did below the folder."""
    trace = place / "trace.txt"
    tracing = ["strace", "-f", "-y", "-xx", "-s", str(1 << 24), "--seccomp-bpf", "-e", f"trace={CALLS}"]
    done = subprocess.run([*tracing, "-o", str(trace), sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    with trace.open(encoding="utf-8") as lines:
        return list(read_trace(lines, str(folder)))


def lose(case: Case, folder: Path, place: Path, points: int, seed: int) -> Row:
    """Lose the power at so many points of a command, and count what that did."""
    events = record(case.first, folder, place)
    expected = case.found(folder)
    row = Row(command=case.name, events=len(events))
    draw = random.Random(f"{seed} {case.name}")
    chosen = sorted(draw.choices(range(1, len(events) + 1), k=points))
    disk, done = Disk(), 0
    for number, point in enumerate(chosen):
        for event in events[done:point]:
            disk.do(event)
        done = point
        left = disk.left(None if number % 2 else draw)
        put_back(folder, left)
        row.points += 1
        row.unsynced += sum(not change.kept for some in disk.bytes.values() for change in some)
        if case.said is not None:
            said = sum(event.what == "write" and event.path.endswith("/said") for event in events[:point])
            short = said - case.said(folder)
            row.lost += max(0, short)
            row.examples += [f"{short} gone at event {point}"] if short > 0 else []
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
            status = case.again(folder)
        if status:
            row.refused += 1
            row.examples.append(f"event {point}: {errors.getvalue().strip().splitlines()[-1:]}")
            continue
        compare_counts(row, expected, case.found(folder))  # type: ignore[arg-type]
    shutil.rmtree(folder)
    return row


def cases(place: Path) -> Iterator[Case]:
    """The commands, each below a folder of its name."""
    hospital, store, bench, lines = (place / name for name in ("hospital", "store", "bench", "lines"))
    program = ["-c", "import sys; from wardround.cli import main; sys.exit(main(sys.argv[1:]))"]
    agent = ["--agent", "react", "--model", "offline", "--workers", "1", "--limit", "2", "--split", "test"]
    running = ["run", "--benchmark", str(bench), "--store", str(store), *agent, "--out", str(place / "run" / "run")]

    def go_on(folder: Path) -> int:
        begun = (folder / "run" / "manifest.json").is_file()
        return wardround(["run", "--resume", str(folder / "run"), "--workers", "1"] if begun else running)

    def scores(folder: Path) -> Counter[str]:
        return Counter(f"{name} {score.score}" for name, score in scores_of(RunFolder.open(folder / "run")).items())

    yield Case(name="run", first=[*program, *running], again=go_on, found=scores)
    ingest = ["ingest", "mimiciv", str(hospital), "--store", str(place / "ingest" / "store")]
    stored = lambda folder: files_of(folder / "store")  # noqa: E731

    def ingest_again(_: Path) -> int:
        boot = f"{random.random()}"  # the machine was started since
        with mock.patch.object(plan, "this_boot", return_value=boot):
            return wardround(ingest)

    yield Case(name="ingest", first=[*program, *ingest], again=ingest_again, found=stored)
    writer = "import sys; sys.path[:0] = sys.argv[2:]; import power_loss; sys.exit(power_loss.learn(sys.argv[1]))"
    yield Case(
        name="bank",
        first=["-c", writer, str(place / "bank"), str(Path(__file__).parent)],
        again=lambda folder: learn(str(folder)),
        found=lambda folder: Counter("|".join(one) for one in learnt(folder / "bank.sqlite").elements()),
        said=_experiences,
    )
    follow = ["stream", "follow", "--source", "mimiciv", "--lines", str(lines), "--out", str(place / "ledger" / "live")]
    follow += ["--once", "--lines-per-commit", "50"]
    told = lambda folder: Counter((folder / "live" / "bundles.jsonl").read_text("utf-8").splitlines())  # noqa: E731
    yield Case(name="ledger", first=[*program, *follow], again=lambda _: wardround(follow), found=told)


def learn(folder: str) -> int:
    """Add experiences to the bank of a folder one by one, and say in the file ``said`` how many there are."""
    try:
        with Bank.open(Path(folder) / "bank.sqlite") as bank, (Path(folder) / "said").open("w") as said:
            for number in range(len(bank), 60):
                bank.add([lesson(bank, f"lesson {number}", number)])
                print(number + 1, file=said, flush=True)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _experiences(folder: Path) -> int:
    """How many experiences can be read; none of a bank whose making was cut off."""
    path = folder / "bank.sqlite"
    try:
        return learnt(path).total() if path.is_file() and path.stat().st_size else 0
    except UserError:
        return 0


def show(rows: Iterable[Row]) -> str:
    """The table."""
    lines = ["| command | writes and names | points | open writes a point | lost | different | refused |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        cells = (row.command, row.events, row.points, f"{row.unsynced / max(1, row.points):.1f}")
        lines.append(f"| {' | '.join(map(str, (*cells, row.lost, row.different, row.refused)))} |")
    return "\n".join(lines)


def main() -> int:
    """Record, lose the power, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("run", "ingest", "bank", "ledger")
    parser.add_argument("--only", nargs="+", default=names, choices=names)
    parser.add_argument("--points", type=int, default=200, help="of each command (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=26)
    options = parser.parse_args()
    if shutil.which("strace") is None:
        print("strace is not here: nothing was lost", file=sys.stderr)
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch).resolve()
        synthesize(place / "hospital", patients=12, seed=3, notes=False)
        build = ["bench", "build", "agentehr", "--store", str(place / "store"), "--out", str(place / "bench")]
        for words in (
            ["ingest", "mimiciv", str(place / "hospital"), "--store", str(place / "store")],
            [*build, "--per-task", "2"],
            ["stream", "replay", "--store", str(place / "store"), "--out", str(place / "lines")],
        ):
            assert wardround(words) == 0
        for case in cases(place):
            if case.name in options.only:
                (place / case.name).mkdir()
                rows.append(lose(case, place / case.name, place, options.points, options.seed))
                print(f"{show(rows[-1:])}\n{rows[-1].examples[:4]}", file=sys.stderr, flush=True)
    print(show(rows))
    return int(any(row.lost or row.different or row.refused for row in rows))


if __name__ == "__main__":
    sys.exit(main())
