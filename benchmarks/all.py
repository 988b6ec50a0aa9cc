"""Print the table of docs/performance.md again: each limit beside what this machine needs now.

    python benchmarks/all.py                             # every script at a small size: some twenty minutes
    python benchmarks/all.py --only records tools        # of these areas
    python benchmarks/all.py --data ../shared/data       # what is measured on open data, too
    python benchmarks/all.py --full                      # at the sizes of the page: hours, and 30 GB of disk

Limits are read from the page; benchmarks/all.toml says which script prints a row's figure, and where. Small sizes are
for seeing that nothing became slower: what grows with size (reports, banks, streams) takes less here than on the page.
A wall time is left out where the load average is above 1.5 before or after its script: it would tell of other programs.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"
BUSY = 1.5
"""Above this load average a wall time says nothing."""
_SECONDS = {"words": 900, "full": 6 * 3600}
_COLUMNS = ("area", "what", "limit", "figure", "met", "load before", "load after", "command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A row of the page.

    ``what``: the words that it begins with there. ``pattern``: where its figure stands, as a group, in what the script
    prints; of several the worst counts. ``wall``: it is no CPU time. ``at_least``: more is better.
    """

    what: str
    pattern: str
    wall: bool = False
    at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script with its arguments, and the rows that it measures.

    ``words`` are those of a small size, ``full`` those of the page. In them ``{store}``, ``{bench}`` and ``{run}`` are
    made beforehand, ``{data}`` is the folder of open data, ``{scratch}`` a folder that is removed again.
    """

    area: str
    words: str
    full: str
    figures: tuple[Figure, ...]


def read_scripts(path: Path = HERE / "all.toml") -> tuple[list[Script], dict[str, str]]:
    """Read which scripts there are, and why rows are left out, by the beginning of their words."""
    body = tomllib.loads(path.read_text(encoding="utf-8"))
    scripts = [
        Script(
            area=one["area"],
            words=one["words"],
            full=one.get("full", one["words"]),
            figures=tuple(Figure(**figure) for figure in one["figures"]),
        )
        for one in body["script"]
    ]
    return scripts, body["beside"]


def read_page(text: str) -> list[dict[str, str]]:
    """Return the rows of the page's first table by column."""
    lines = text[text.index("| area |") :].partition("\n\n")[0].splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


def row_of(page: Iterable[Mapping[str, str]], area: str, what: str) -> Mapping[str, str]:
    """Return the row of an area that begins with these words; ValueError unless there is one."""
    (found,) = [row for row in page if row["area"] == area and row["what"].startswith(what)]
    return found


def verdict(figure: float, limit: str, *, at_least: bool) -> str:
    """Say whether a figure meets the limit, whose first number counts."""
    numbers = re.findall(r"[\d,]*\.?\d+", limit)
    if not numbers:
        return "–"
    most = float(numbers[0].replace(",", ""))
    by = (most - figure if at_least else figure - most) / most
    return "yes" if by <= 0 else f"**no, by {by:.0%}**"


def measure(script: Script, size: str, places: Mapping[str, str]) -> tuple[str, str]:
    """Run a script; return what it printed, and why it failed."""
    words = [word.format_map(places) for word in shlex.split(getattr(script, size))]
    command = [sys.executable, str(HERE / words[0]), *words[1:]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS[size], cwd=HERE.parent)
    except subprocess.TimeoutExpired:
        return "", f"took more than {_SECONDS[size]:,} s"
    lines = done.stderr.strip().splitlines() or ["nothing said"]
    return done.stdout, "" if done.returncode == 0 else lines[-1][:200]


def rows_of(
    script: Script, size: str, places: Mapping[str, str], page: Sequence[Mapping[str, str]]
) -> Iterable[list[str]]:
    """Run a script and yield a row for each of its figures."""
    before = os.getloadavg()[0]
    text, why_not = measure(script, size, places)
    after = os.getloadavg()[0]
    for one in script.figures:
        row = row_of(page, script.area, one.what)
        values = [float(found.replace(",", "")) for found in re.findall(one.pattern, text)]
        figure, met = why_not or "not printed", "**?**"
        if values and one.wall and max(before, after) > BUSY:
            figure, met = "–", f"load above {BUSY}"
        elif values:
            worst = min(values) if one.at_least else max(values)
            figure, met = f"{worst:,g}", verdict(worst, row["limit"], at_least=one.at_least)
        command = f"`{getattr(script, size)}`"
        yield [script.area, row["what"], row["limit"], figure, met, f"{before:.1f}", f"{after:.1f}", command]


def make_inputs(scratch: Path, patients: int) -> dict[str, str]:
    """Make a hospital, its store, a benchmark and a finished run."""
    names = ("hospital", "store", "bench", "run")
    hospital, store, bench, run = (str(scratch / name) for name in names)
    for words in (
        ["synth", hospital, "--patients", str(patients), "--seed", "7"],
        ["ingest", "mimiciv", hospital, "--store", store],
        ["bench", "build", "agentehr", "--store", store, "--out", bench, "--per-task", "20"],
        ["run", "--benchmark", bench, "--store", store, "--out", run],
    ):
        command = [sys.executable, "-m", "wardround", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return dict(zip(names, (hospital, store, bench, run), strict=True))


def main() -> int:
    """Measure script by script; print a row for each figure as it comes. Exit status 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    scripts, beside = read_scripts()
    parser.add_argument("--only", nargs="+", metavar="AREA", choices=sorted({one.area for one in scripts}))
    parser.add_argument("--data", type=Path, help="folder of open data (../shared/data)")
    parser.add_argument("--full", action="store_const", const="full", default="words", help="the sizes of the page")
    given = parser.parse_args()
    page = read_page(PAGE.read_text(encoding="utf-8"))
    print("| " + " | ".join(_COLUMNS) + " |\n" + "|---" * len(_COLUMNS) + "|", flush=True)
    missed = False
    with tempfile.TemporaryDirectory(prefix="wardround-all-") as name:
        places = {"data": str(given.data), "scratch": name, **make_inputs(Path(name), 200)}
        for script in scripts:
            if given.only and script.area not in given.only:
                continue
            if "{data}" in getattr(script, given.full) and given.data is None:
                continue
            for row in rows_of(script, given.full, places, page):
                missed |= "**" in row[4]
                print("| " + " | ".join(row) + " |", flush=True)
    print("\nleft out:", *(f"{what} ...: {why}" for what, why in beside.items()), sep="\n  ")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
