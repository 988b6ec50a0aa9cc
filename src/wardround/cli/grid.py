"""``wardround grid``: every method on every task under every seed as one run, and its table with paired tests."""

from __future__ import annotations

import argparse

from wardround.agents import list_agents
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
    parser.add_argument("--baseline", help="contender the others are compared with, e.g. 'resum · offline'")


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, play to the end, score, print."""
    if arguments.agent is None:
        arguments.agent = _methods(ablations=arguments.ablations, bank=arguments.bank is not None)
    folder = open_run(arguments)
    counts = play(folder, arguments)
    baseline = arguments.baseline or (f"resum · {folder.settings.models[0]}" if arguments.ablations else None)
    summary = summarise_run(score_run(folder), seed=folder.settings.seed, baseline=baseline)
    print_summary(folder, summary)
    print(f"\nsee them with: wardround report {folder.path}")
    return 0 if counts.done == counts.total else 1


def _methods(*, ablations: bool, bank: bool) -> list[str]:
    """Return the methods of a table; without a bank those that need none, and say which are left out."""
    rows = [method for method in list_agents() if (4 if ablations else 2) in method.tables]
    left_out = [method.name for method in rows if method.memory and not bank]
    if left_out:
        print(f"left out for want of --bank (wardround evolve makes one): {', '.join(left_out)}")
    return [method.name for method in rows if method.name not in left_out]
