"""``wardround grid``: every method on every task under every seed as one run, and its table with paired tests."""

from __future__ import annotations

import argparse

from wardround.agents import Paper, list_agents
from wardround.benchmarks import Benchmark
from wardround.cli.report import print_summary
from wardround.cli.run_options import add_run_options, open_run, play
from wardround.runs import score_run, summarise_run

EXAMPLES = """
  wardround grid --benchmark bench --store store --out grid
      all methods that need no bank, all tasks, the offline model
  wardround grid --benchmark bench --store store --bank bank.sqlite --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --epochs 3 --out grid
  wardround grid --benchmark bench --store store --bank bank.sqlite --ablations --task diagnoses --out grid
  wardround grid --resume grid
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser, agents=())
    parser.set_defaults(agent=None)
    parser.add_argument(
        "--ablations", action="store_true", help="the rows of table 4 instead of the methods of table 2"
    )
    parser.add_argument("--paper", choices=["retrosum", "ehr-rag"], help="whose tables; by default the benchmark's")
    parser.add_argument("--baseline", help="contender the others are compared with, e.g. 'resum · offline'")


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, play to the end, score, print."""
    if arguments.agent is None:
        arguments.agent = _methods(_paper(arguments), ablations=arguments.ablations, bank=arguments.bank is not None)
    folder = open_run(arguments)
    counts = play(folder, arguments)
    against = "resum" if "resum" in folder.settings.agents else "ehr-rag"
    baseline = arguments.baseline or (f"{against} · {folder.settings.models[0]}" if arguments.ablations else None)
    summary = summarise_run(score_run(folder), seed=folder.settings.seed, baseline=baseline)
    print_summary(folder, summary)
    print(f"\nsee them with: wardround report {folder.path}")
    return 0 if counts.done == counts.total else 1


def _methods(paper: Paper, *, ablations: bool, bank: bool) -> list[str]:
    """Return the methods of a table; without a bank those that need none, and say which are left out."""
    rows = [method for method in list_agents(paper) if (4 if ablations else 2) in method.tables]
    left_out = [method.name for method in rows if method.memory and not bank]
    if left_out:
        print(f"left out for want of --bank (wardround evolve makes one): {', '.join(left_out)}")
    return [method.name for method in rows if method.name not in left_out]


def _paper(arguments: argparse.Namespace) -> Paper:
    """Return whose methods play: those that were made for the benchmark's tasks, unless a paper is named."""
    if arguments.paper is None and arguments.benchmark is not None:
        return "ehr-rag" if Benchmark.open(arguments.benchmark).name.startswith("ehrshot") else "retrosum"
    return arguments.paper or "retrosum"
