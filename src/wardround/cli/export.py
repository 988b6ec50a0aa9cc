"""``wardround export``: write a store, a benchmark's labels or a run's predictions as MEDS."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.cli.progress import TerminalProgress
from wardround.records import Store
from wardround.records.meds import ExportReport, ExportSettings, export_meds

EXAMPLES = """
  wardround export meds --store store --out meds
  wardround export meds --store store --out meds-plain --time event
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    data = actions.add_parser("meds", help="write a store as a MEDS 0.4 data set", examples=EXAMPLES)
    data.add_argument("--store", type=Path, required=True, help="folder of the store")
    data.add_argument("--out", type=Path, required=True, help="folder of the data set to make")
    data.add_argument(
        "--time",
        choices=["known", "event"],
        default="known",
        help="what the column time holds: when a row was known (time <= prediction_time then never leaks), or when it "
        "happened (whoever reads that must look at available_at too)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export and print what was written and what was not."""
    progress = TerminalProgress()
    store = Store.open(arguments.store)
    report = export_meds(store, arguments.out, settings=ExportSettings(time=arguments.time), report=progress)
    progress.close()
    _print(report)
    for assumption in store.manifest.get("assumptions", ()):
        print(assumption)
    if arguments.time == "event":
        print("time is when things happened: a row is known only from available_at on")
    return 0


def _print(report: ExportReport) -> None:
    counts = report.counts
    print(f"{report.subjects:,} subjects, {counts.events:,} events, {report.codes:,} codes: {report.folder}")
    splits = ", ".join(f"{name} {count:,}" for name, count in report.splits.items())
    print(f"{report.files:,} data files" + (f"; subjects by split: {splits}" if splits else ""))
    if report.without_split:
        print(f"{report.without_split:,} subjects are in no split: they lie in data/no_split")
    if counts.later:
        print(f"{counts.later:,} events tell a row again, with cells that were filled in later (column revision)")
    if counts.masked_births:
        print(f"{counts.masked_births:,} dates of birth left out: the source sets them back to hide a great age")
    if counts.never_visible:
        print(f"{counts.never_visible:,} rows left out: no time is known at which they became known")
