"""What wardround costs as size grows tenfold twice: a row, a chart, an event, a turn, an episode; and on paper what all
of MIMIC-IV and ten million subjects would take.

python benchmarks/scale.py subjects 1000 10000 100000 --scratch FOLDER  # the last: 20 GB, half an hour of CPU time
python benchmarks/scale.py subjects 100000 --keep FOLDER                # goes on where it was interrupted
python benchmarks/scale.py episodes 100 1000 10000 --scratch FOLDER     # 256 at once, scripted model, one process
python benchmarks/scale.py paper

Every part of every size runs in a process of its own, so that its peak memory is its own; files are removed when a size
is measured. Figures are CPU time and go to FIGURES too (``--figures``), from where ``paper`` takes the largest size of
each. With ``--keep`` hospitals and stores stay in FOLDER, with the figures: what is among those is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scale_episodes import episodes, ground, print_episodes
from scale_paper import paper
from scale_records import OF_SUBJECTS, Figures, line

FIGURES = Path("scale-figures.json")


def _apart(*words: str) -> Figures:
    """Measure in a process of its own."""
    answer = subprocess.run([sys.executable, __file__, "--part", *words], check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def measure_part(name: str, scratch: Path, size: int) -> Figures:
    """Measure one part in this process."""
    if name == "episodes":
        return episodes(scratch, size)
    return OF_SUBJECTS[name](scratch / f"raw-{size}", scratch / f"store-{size}", size)


def measure_subjects(size: int, scratch: Path, figures: Path, *, again: bool) -> None:
    """Measure and print every part of a size, those that the figures have only if ``again``."""
    print(f"{size:,} subjects", flush=True)
    for name in OF_SUBJECTS:
        known = _known(figures)
        found = known["subjects"].setdefault(str(size), {})
        if again or name not in found:
            found[name] = {**_apart(name, str(scratch), str(size)), "load": os.getloadavg()[0]}
            _keep(figures, known)
        print(f"  {line(name, found[name])}; load {found[name]['load']:.1f}", flush=True)


def measure_episodes(size: int, scratch: Path, figures: Path) -> None:
    """Measure and print a run of so many episodes."""
    found = _apart("episodes", str(scratch), str(size))
    print_episodes(found)
    print(f"  load {os.getloadavg()[0]:.1f}", flush=True)
    known = _known(figures)
    known["episodes"][str(size)] = found
    _keep(figures, known)
    shutil.rmtree(scratch / f"run-{size}")


def _known(figures: Path) -> dict[str, Any]:
    return dict(json.loads(figures.read_text())) if figures.is_file() else {"subjects": {}, "episodes": {}}


def _keep(figures: Path, known: Figures) -> None:
    figures.write_text(json.dumps(known, indent=1) + "\n")


def run(given: argparse.Namespace, scratch: Path) -> None:
    """Measure every size that was asked for, the smallest first."""
    if given.what == "episodes":
        ground(scratch)
    for size in sorted(given.sizes):
        if given.what == "episodes":
            measure_episodes(size, scratch, given.figures)
            continue
        measure_subjects(size, scratch, given.figures, again=given.keep is None)
        if given.keep is None:
            shutil.rmtree(scratch / f"raw-{size}")
            shutil.rmtree(scratch / f"store-{size}")


@contextmanager
def _folder(given: argparse.Namespace) -> Iterator[Path]:
    """Where files are made: a folder that stays, or one that goes."""
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        yield given.keep
        return
    with tempfile.TemporaryDirectory(dir=given.scratch) as name:
        yield Path(name)


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["subjects", "episodes", "paper"])
    parser.add_argument("sizes", type=int, nargs="*")
    parser.add_argument("--scratch", type=Path, help="where hospitals, stores and runs are made, and removed again")
    parser.add_argument("--keep", type=Path, help="subjects: where they are made and stay, so that a run can go on")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="where the figures are kept")
    parser.add_argument("--part", nargs=3, metavar=("PART", "FOLDER", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        name, scratch, size = given.part
        print(json.dumps(measure_part(name, Path(scratch), int(size))))
        return
    if given.what == "paper":
        paper(given.figures)
        return
    with _folder(given) as scratch:
        run(given, scratch)


if __name__ == "__main__":
    main()
