"""``wardround bench``: build or show a benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.benchmarks import STRATA, Benchmark
from wardround.benchmarks.agentehr import build_agentehr
from wardround.cli.paths import user_codes_home
from wardround.cli.progress import TerminalProgress
from wardround.cli.table import print_rows
from wardround.records import Store

EXAMPLES = """
  wardround bench build agentehr --store store --out bench
  wardround bench build agentehr --store store --out bench-published --policy published --per-task 600
  wardround bench show bench
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="build a benchmark from a store", examples=EXAMPLES)
    build.add_argument("name", choices=["agentehr"], help="which benchmark")
    build.add_argument("--store", type=Path, required=True, help="folder of the store")
    build.add_argument("--out", type=Path, required=True, help="folder of the benchmark to make")
    build.add_argument("--seed", type=int, default=0, help="seed of splits and sampling")
    build.add_argument("--per-task", type=int, default=600, help="most samples of a task in each stratum of each split")
    build.add_argument(
        "--policy", choices=["known_at", "published"], default="known_at", help="clocks; published are the papers' own"
    )
    show = actions.add_parser("show", help="say what a benchmark holds", examples=EXAMPLES)
    show.add_argument("folder", type=Path, help="folder of a built benchmark")


def run(arguments: argparse.Namespace) -> int:
    """Build or show."""
    if arguments.action == "show":
        _show(Benchmark.open(arguments.folder))
        return 0
    progress = TerminalProgress()
    benchmark = build_agentehr(
        Store.open(arguments.store),
        arguments.out,
        seed=arguments.seed,
        policy=arguments.policy,
        per_task=arguments.per_task,
        user_codes=user_codes_home(),
        report=progress,
    )
    progress.close()
    _show(benchmark)
    print(f"\nbenchmark: {arguments.out}")
    return 0


def _show(benchmark: Benchmark) -> None:
    print(f"{benchmark.name}, clock policy {benchmark.policy}, {len(benchmark.all_samples):,} samples")
    assumptions = benchmark.manifest["source"].get("assumptions", ()) if benchmark.policy == "known_at" else ()
    for assumption in assumptions:
        print(assumption)
    rows = []
    for task in benchmark.tasks:
        samples = benchmark.samples(task.name)
        wanted = sum(len(sample.target) for sample in samples)
        rows.append(
            (
                task.name,
                str(len(samples)),
                *(str(len(benchmark.samples(task.name, split))) for split in ("train", "dev", "test")),
                *(str(len(benchmark.samples(task.name, None, stratum))) for stratum in STRATA),
                str(len(benchmark.space(task).labels.labels)),
                f"{wanted / len(samples):.2f}",
                f"{sum(len(sample.unwinnable) for sample in samples) / wanted:.1%}",
            )
        )
    header = ("task", "samples", "train", "dev", "test", *STRATA, "candidates", "labels/sample", "unwinnable")
    print_rows(header, rows)
    drops = benchmark.manifest.get("drops") or {}
    for task, reasons in drops.items():
        text = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        if text:
            print(f"left out of {task}: {text}")
