"""Run a command with endless loops beside it; its status is ours: it may not hang on how fast the machine is.

    python scripts/beside_busy_loops.py --loops 4 -- python -m pytest -n auto --dist loadfile

The loops end with the command, and with this process whatever ends it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def _spin(parent: int) -> None:
    """Use a core until the parent is gone."""
    while os.getppid() == parent:
        sum(range(100_000))


@contextmanager
def busy(loops: int) -> Iterator[list[int]]:
    """Keep so many processes busy; gives their ids."""
    context = multiprocessing.get_context("spawn")
    spinning = [context.Process(target=_spin, args=(os.getpid(),), daemon=True) for _ in range(loops)]
    for one in spinning:
        one.start()
    try:
        yield [one.pid or 0 for one in spinning]
    finally:
        for one in spinning:
            one.kill()
            one.join()


def main() -> None:
    """Run the command beside the loops."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=4, help="endless loops")
    parser.add_argument("command", nargs="+", help="what to run, after --")
    given = parser.parse_args()
    with busy(given.loops):
        sys.exit(subprocess.run(given.command, check=False).returncode)


if __name__ == "__main__":
    main()
