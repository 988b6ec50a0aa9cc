"""Kills inductions of one folder with SIGKILL, each after so many stays: STORE BENCHMARK FOLDER LIMIT STAYS..."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from wardround.core import Progress
from wardround.learning.induction import InductionSettings, induce_protocol
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark


def begin(store: Path, benchmark: Path, folder: Path, limit: int, stays: int) -> None:
    """Induce, and be killed when so many stays were told to be finished."""
    told: list[Progress] = []

    def die(progress: Progress) -> None:
        told.append(progress)
        if len(told) == stays:
            os.kill(os.getpid(), signal.SIGKILL)

    opened = Benchmark.open(benchmark), Store.open(store)
    induce_protocol(*opened, InductionSettings(), limit=limit, folder=folder, report=die)


def main() -> None:
    store, benchmark, folder = map(Path, sys.argv[1:4])
    for stays in map(int, sys.argv[5:]):
        child = os.fork()
        if not child:
            begin(store, benchmark, folder, int(sys.argv[4]), stays)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    main()
