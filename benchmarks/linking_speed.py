"""What linking new experiences costs without a model: processor time an item as a bank grows; calls are counted.

Run: python benchmarks/linking_speed.py [--sizes 1000 3000 10000]

A bank of that many linked experiences takes in 200 more: names first, then pairs. Linear means that an item costs the
same however many there are; the scan of vectors, which is exact, is told apart.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import numpy as np

from recall_speed import made, unit
from wardround.memory import Bank, Key
from wardround.memory.construction import AskingBudget, Comparing, LinkSettings, NameIndex, edges_of, normalise_names

NEW = 200


async def measure(size: int, dimensions: int) -> None:
    """Print the figures of one size."""
    random = np.random.default_rng(size)
    vectors = unit(random, size + NEW, dimensions)
    with tempfile.TemporaryDirectory() as folder, Bank.open(Path(folder) / "bank.sqlite") as bank:
        new = []
        with bank.batch():
            for number in range(size + NEW):
                one = made(bank, number, random)
                bank.add([one], key=Key(encoder="bench", vector=vectors[number]))
                new = [*new[-NEW + 1 :], one]
        len(bank)
        started = time.process_time()
        names = NameIndex(bank)
        indexed = time.process_time() - started
        started = time.process_time()
        with bank.batch():
            for one in new:
                await normalise_names(bank, names, one, asker=None, budget=AskingBudget())
        named = time.process_time() - started
        started = time.process_time()
        comparing, edges = Comparing(bank), 0
        for one in new:
            found = await edges_of(
                bank, one, comparing=comparing, asker=None, settings=LinkSettings(), budget=AskingBudget()
            )
            edges += len(found)
        linked = time.process_time() - started
        started = time.process_time()
        for one in new:
            bank.related(one, limit=8)
        related = time.process_time() - started
    print(
        f"{size:,}: index of names {1000 * indexed:.0f} ms once; an item: names {1000 * named / NEW:.2f} ms, "
        f"pairs {1000 * linked / NEW:.2f} ms CPU (candidates {1000 * related / NEW:.2f}); {edges:,} edges"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 3_000, 10_000])
    parser.add_argument("--dimensions", type=int, default=384)
    arguments = parser.parse_args()
    for size in arguments.sizes:
        asyncio.run(measure(size, arguments.dimensions))


if __name__ == "__main__":
    main()
