"""``wardround bench share`` and ``rebuild``: a benchmark for another licensed site, without answers or record text."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.core import TerminalProgress, user_codes_home
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.benchmarks.sharing import read_share, rebuild, share, write_share

SHARE_EXAMPLES = """
  wardround bench share bench --store store --out bench.json
      ids, moments, splits, definitions and hashes; ids and moments are still under the data use agreement
  wardround bench rebuild bench.json --store store --out bench-again
      builds it here and prints a line on what differs, if anything
  wardround bench rebuild sepsis.json --store store --given sepsis.csv --out bench-sepsis
      with the files of one's own that it was built with, known by their hashes
  wardround bench share bench-medr --out medr.json
  wardround bench rebuild medr.json --given train.json test.json --out bench-medr
      cases described in words: from their files, without a store
"""


def configure_share(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``share``."""
    parser.add_argument("folder", type=Path, help="folder of a built benchmark")
    parser.add_argument("--store", type=Path, help="folder of its store, whose records are hashed (not for text cases)")
    parser.add_argument("--out", type=Path, required=True, help="file to write")


def configure_rebuild(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``rebuild``."""
    parser.add_argument("file", type=Path, help="what bench share wrote")
    parser.add_argument("--store", type=Path, help="folder of the store of the same records (not for text cases)")
    parser.add_argument(
        "--given", nargs="+", type=Path, default=[], metavar="FILE", help="files of your own it was built with"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the benchmark to make")


def share_benchmark(arguments: argparse.Namespace) -> int:
    """Write the benchmark without record text."""
    benchmark, progress = Benchmark.open(arguments.folder), TerminalProgress()
    try:
        write_share(share(benchmark, _store(arguments), report=progress), arguments.out)
    finally:
        progress.close()
    print(f"{len(benchmark.all_samples):,} samples without answers or record text: {arguments.out}")
    return 0


def rebuild_benchmark(arguments: argparse.Namespace) -> int:
    """Rebuild the benchmark and compare."""
    shared, progress = read_share(arguments.file), TerminalProgress()
    try:
        built = rebuild(
            shared,
            _store(arguments),
            arguments.out,
            given=arguments.given,
            user_codes=user_codes_home(),
            report=progress,
        )
    finally:
        progress.close()
    print(f"{len(built.all_samples):,} samples, the same byte for byte: {arguments.out}")
    return 0


def _store(arguments: argparse.Namespace) -> Store | None:
    return None if arguments.store is None else Store.open(arguments.store)
