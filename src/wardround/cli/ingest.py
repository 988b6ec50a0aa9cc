"""``wardround ingest``: read source files into a point-in-time store."""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path

from wardround.cli.paths import user_codes_home
from wardround.cli.progress import TerminalProgress, clock
from wardround.records import IngestSettings, ingest, list_sources

EXAMPLES = """
  wardround ingest mimiciv mimic-iv-2.2 --store store
  wardround ingest mimiciv mimic-iv-demo-2.2 mimic-iv-ed-demo-2.2 --store store
  wardround ingest mimiciv mimic-iv-3.1 --store store --coding-lag-days 14
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", help=f"what kind of records: {', '.join(list_sources())}, or a folder of spec files")
    parser.add_argument("folder", type=Path, nargs="+", help="one or more folders of .csv, .csv.gz or .parquet files")
    parser.add_argument("--store", type=Path, required=True, help="folder of the store to make")
    parser.add_argument(
        "--coding-lag-days", type=float, default=0.0, help="billing codes are known this long after discharge"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes")


def run(arguments: argparse.Namespace) -> int:
    """Ingest and print what was read, set aside and missing."""
    progress = TerminalProgress()
    settings = IngestSettings(
        coding_lag=timedelta(days=arguments.coding_lag_days),
        user_codes=user_codes_home(),
        workers=arguments.workers,
    )
    report = ingest(arguments.source, tuple(arguments.folder), arguments.store, settings=settings, report=progress)
    progress.close()
    print(report.as_text())
    print(f"store: {arguments.store}  ({clock(report.seconds)})")
    return 1 if report.quarantined_rows else 0
