"""``wardround evolve``: play training samples, reflect on them, and write what was learnt into a bank."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.agents import kinds_read
from wardround.benchmarks import Benchmark
from wardround.cli.progress import TerminalProgress
from wardround.cli.run_options import add_run_options, open_run, play
from wardround.core import UserError
from wardround.memory import REFLECTED_KINDS, Bank, contamination_check
from wardround.runs import Evolution, RunFolder, evolve, open_benchmark, training_strata

EXAMPLES = """
  wardround evolve --benchmark bench --store store --out training --bank bank.sqlite --limit 100
  wardround evolve --benchmark bench --store store --agent retrosum --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --out training --bank bank.sqlite --limit 100
      on training samples of the common stratum, as in the paper; --stratum common rare takes both
  wardround evolve --resume training --bank bank.sqlite
      goes on where it was: neither an episode nor a reflection is made twice
  wardround run --benchmark bench --store store --agent retrosum-evolved --bank bank.sqlite --out run
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser, agents=("retrosum",), split="train")
    parser.add_argument(
        "--kinds", nargs="+", choices=REFLECTED_KINDS, default=list(REFLECTED_KINDS), help="what to learn"
    )
    parser.add_argument("--rules", action="store_true", help="reflect by rules, not by asking the model")


def run(arguments: argparse.Namespace) -> int:
    """Play, reflect, check the bank, say what is in it."""
    if arguments.bank is None:
        raise UserError("evolve writes into a bank: name one with --bank bank.sqlite (it is made if it is not there)")
    path, arguments.bank = arguments.bank, None
    reads = any(kinds_read(name) for name in arguments.agent)
    if reads:  # from the very bank it fills, which may be a new one
        Bank.open(path).close()
    if arguments.benchmark is not None and not arguments.resume and not arguments.stratum:
        arguments.stratum = list(training_strata(Benchmark.open(arguments.benchmark)))
    folder = open_run(arguments, bank=str(path) if reads else None, final_summary=True)
    with Bank.open(path) as bank:
        counts = play(folder, arguments)
        progress = TerminalProgress()
        found = evolve(
            folder,
            bank,
            kinds=arguments.kinds,
            rules=arguments.rules,
            concurrency=arguments.concurrency,
            report=progress,
        )
        progress.close()
        _print(found, bank, path)
        clean = _checked(folder, bank)
    return 0 if clean and not found.failed and counts.done == counts.total else 1


def _print(found: Evolution, bank: Bank, path: Path) -> None:
    added = ", ".join(f"{number:,} {kind}" for kind, number in sorted(found.added.items()) if number) or "nothing new"
    print(f"reflected on {found.episodes:,} episodes: {added}; {found.skipped:,} reflections were there already")
    if found.unfinished:
        print(f"{found.unfinished:,} episodes were left out: not finished, or broken off by an endpoint")
    for problem, number in found.problems.most_common():
        print(f"{number:,} reflections gave nothing: {problem}")
    if found.failed:
        print(f"{found.failed:,} of these failed (at the endpoint, or for want of room); --resume tries them again")
    print(f"{len(bank):,} experiences in {path} (revision {bank.revision:,})")


def _checked(folder: RunFolder, bank: Bank) -> bool:
    """Check the bank against the benchmark it was drawn from and print what was found."""
    benchmark = open_benchmark(folder)
    report = contamination_check(bank, benchmark.all_samples, source=str(folder.manifest["source"]))
    if report.clean:
        print(f"contamination check: clean ({report.evaluation_samples:,} evaluation samples)")
        return True
    found = ", ".join(f"{number:,} {kind}" for kind, number in report.counts().items() if number)
    print(f"contamination check: {found}")
    return False
