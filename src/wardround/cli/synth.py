"""``wardround synth``: make a synthetic hospital."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.cli.progress import TerminalProgress
from wardround.core import UserError
from wardround.synth import synthesize

EXAMPLES = """
  wardround synth hospital --patients 200
  wardround synth big --patients 100000 --workers 2 --no-notes
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=Path, help="where the CSV files go (hosp/, icu/, ed/, note/)")
    parser.add_argument("--patients", type=int, default=200, help="how many subjects")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same bytes")
    parser.add_argument("--workers", type=int, default=1, help="processes; the output does not depend on it")
    parser.add_argument("--plain", action="store_true", help="write .csv instead of .csv.gz")
    for part in ("icu", "ed", "notes"):
        parser.add_argument(f"--no-{part}", action="store_true", help=f"leave out the {part} tables")
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")


def run(arguments: argparse.Namespace) -> int:
    """Make it and say what was made."""
    folder: Path = arguments.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not arguments.force:
        raise UserError(f"{str(folder)!r} is not an empty folder; name another one or say --force")
    if arguments.patients < 1 or arguments.workers < 1:
        raise UserError("--patients and --workers must be at least 1")
    progress = TerminalProgress()
    manifest = synthesize(
        folder,
        patients=arguments.patients,
        seed=arguments.seed,
        workers=arguments.workers,
        compress=not arguments.plain,
        icu=not arguments.no_icu,
        ed=not arguments.no_ed,
        notes=not arguments.no_notes,
        report=progress,
    )
    progress.close()
    rows = sum(manifest.rows.values())
    print(f"{arguments.patients:,} invented subjects, {rows:,} rows in {len(manifest.rows)} tables: {folder}")
    return 0
