"""``wardround report``: score a run, print its table, write its HTML report."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from wardround.cli.progress import TerminalProgress
from wardround.cli.table import print_rows
from wardround.runs import RunFolder, RunSummary, score_run, summarise, write_report

EXAMPLES = """
  wardround report run
  wardround report run --json > figures.json
  wardround report run --no-episodes
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run", type=Path, help="folder of a run, finished or not")
    parser.add_argument("--baseline", help="contender the others are compared with, e.g. 'react · offline'")
    parser.add_argument("--no-episodes", action="store_true", help="leave out the pages with every turn")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Score, print, write."""
    folder = RunFolder.open(arguments.run)
    progress = TerminalProgress()
    results = score_run(folder, report=progress)
    summary = summarise(results, seed=folder.settings.seed, baseline=arguments.baseline)
    page = write_report(folder, results, summary, episodes=not arguments.no_episodes, report=progress)
    progress.close()
    if arguments.json:
        print(json.dumps(asdict(summary), indent=2, ensure_ascii=False))
        return 0
    _print(folder, summary)
    print(f"\nreport: {page.resolve()}")
    return 0


def _print(folder: RunFolder, summary: RunSummary) -> None:
    label = "" if folder.manifest["policy"] == "known_at" else f"   clock policy: {folder.manifest['policy']}"
    print(f"{folder.manifest['benchmark']} · {folder.settings.split} split{label}\n")
    header = ("agent · model", "task", "stratum", "n", "F1", "95 % interval", "precision", "recall", "turns", "failed")
    rows = [
        (
            row.contender,
            row.task,
            row.stratum,
            str(row.f1.n),
            f"{row.f1.estimate:.3f}",
            "one patient" if row.f1.low is None else f"{row.f1.low:.3f} - {row.f1.high:.3f}",
            f"{row.precision:.3f}",
            f"{row.recall:.3f}",
            f"{row.turns:.0f}",
            str(row.failed),
        )
        for row in summary.rows
    ]
    print_rows(header, rows)
