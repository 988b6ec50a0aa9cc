"""``wardround grid``: every method on every task under every seed as one run, its tables, paired tests and report.

For tasks with classes the classical predictors are fitted too.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from wardround.cli.report import pages_of_few, print_place, print_summary
from wardround.cli.run_options import add_run_options, asked_settings, open_run, play
from wardround.core import TerminalProgress, strict
from wardround.core.settings import merged
from wardround.predictors import PredictorSettings
from wardround.reports.grid import fit_beside, grid_baseline, grid_settings
from wardround.reports.report import no_pages, report_run

EXAMPLES = """
  wardround grid --benchmark bench --store store --out grid
      all methods that need no bank, all tasks, the offline model
  wardround grid --benchmark bench --store store --bank bank.sqlite --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --epochs 3 --out grid
  wardround grid --benchmark bench --store store --bank bank.sqlite --ablations --task diagnoses --out grid
  wardround grid --benchmark bench-ehrshot --store store --ablations too --out grid-ehrshot
      EHR-RAG's six methods, its ablations and both count baselines, with the few-shot figure in the report;
      --set predictors.shots=8,all and the like say how those are fitted
  wardround grid --resume grid
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser)
    parser.add_argument("--paper", choices=["retrosum", "ehr-rag"], help="whose tables; by default the benchmark's")
    parser.add_argument(
        "--ablations",
        nargs="?",
        const="only",
        default="none",
        choices=["none", "only", "too"],
        help="the rows of table 4 instead of the methods of table 2 (only, where just --ablations is given), or too",
    )
    parser.add_argument("--no-episodes", action="store_true", help="leave the pages with every turn out of the report")
    parser.add_argument("--no-predictors", action="store_true", help="fit none, where the tasks have classes")


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, run to the end, fit the predictors, score, print, write the report."""
    asked = asked_settings(arguments)
    baseline_asked = asked.pop("scoring", {}).get("baseline")  # a resumed run may have another one
    changed = asked.pop("predictors", {})  # fits have a manifest of their own
    if not arguments.resume and "agents" not in asked.get("run", {}):  # a resumed run keeps its own
        asked, left_out = grid_settings(asked, paper=arguments.paper, ablations=arguments.ablations)
        if left_out:
            names = ", ".join(left_out)
            print(f"left out, because they need --bank or memory.banks (wardround memory evolve makes one): {names}")
    folder = open_run(arguments, asked, scoring={"baseline": baseline_asked}, predictors=changed)
    predictors = strict(PredictorSettings, merged(folder.settings.to_json()["predictors"], changed), "[predictors]")
    baseline = grid_baseline(baseline_asked, arguments.ablations, folder)
    counts = play(folder, arguments)
    if not arguments.no_predictors:
        progress = TerminalProgress()
        why_not = fit_beside(folder, predictors, processes=arguments.workers, report=progress)
        progress.close()
        if why_not is not None:
            print(f"predictors left out: {why_not}")
    summary, page = report_run(folder, baseline=baseline, pages=no_pages if arguments.no_episodes else pages_of_few)
    if arguments.json:
        print(json.dumps(asdict(summary), indent=2, ensure_ascii=False))
    else:
        print_summary(folder, summary)
        print_place(page)
    return 0 if counts.done == counts.total else 1
