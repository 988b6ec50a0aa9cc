"""``wardround synth``: make a synthetic hospital."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from wardround.cli.parser import Command
from wardround.clinical.protocols import Planting, read_planting, read_protocol
from wardround.core import TerminalProgress, UserError
from wardround.synth import DIALECTS, planted_rules, synthesize, synthesize_as, time_zone_of
from wardround.synth.radiographs import write_films

EXAMPLES = """
  wardround synth hospital --patients 200
  wardround synth big --patients 100000 --workers 2 --no-notes
  wardround synth hospital --patients 20 --films
  wardround synth hospital --patients 300 --rarer-courses
  wardround synth planted --patients 400 --plant rules.toml
      rules such as: lactate > 2 -> start Vancomycin; planted.json says where they were obeyed
  wardround synth omop-hospital --patients 50 --dialect omop --traps
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
    parser.add_argument("--films", action="store_true", help="draw the chest radiographs too, as DICOM files in cxr/")
    parser.add_argument(
        "--rarer-courses",
        action="store_true",
        help="some stay in intensive care for weeks, come back to it, or come back to the emergency department in days",
    )
    parser.add_argument(
        "--no-decoys",
        action="store_true",
        help="leave out what only looks like an answer: results after a stay or reported again, drips by the minute, "
        "orders of people whom the emergency department sends home",
    )
    parser.add_argument(
        "--dialect",
        choices=list(DIALECTS),
        default="mimiciv",
        help="write the same people as another source has them",
    )
    parser.add_argument("--traps", action="store_true", help="plant records that reveal the future to careless readers")
    parser.add_argument(
        "--plant",
        type=Path,
        metavar="FILE",
        help="plant the rules of a protocol, each as often as its precision says",
    )
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")


def run(arguments: argparse.Namespace) -> int:
    """Write the hospital and print what was made."""
    folder: Path = arguments.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not arguments.force:
        raise UserError(f"{str(folder)!r} is not an empty folder; name another one or give --force")
    if arguments.patients < 1 or arguments.workers < 1:
        raise UserError("--patients and --workers must be at least 1")
    as_it_is = arguments.dialect == "mimiciv" and not arguments.traps and arguments.plant is None
    rules = () if arguments.plant is None else planted_rules(read_protocol(arguments.plant))
    planting = Planting() if arguments.plant is None else read_planting(arguments.plant)
    progress = TerminalProgress()
    asked: dict[str, Any] = {
        "patients": arguments.patients,
        "seed": arguments.seed,
        "workers": arguments.workers,
        "compress": not arguments.plain,
        "icu": not arguments.no_icu,
        "ed": not arguments.no_ed,
        "notes": not arguments.no_notes,
        "films": arguments.films,
        "rarer": arguments.rarer_courses,
        "decoys": not arguments.no_decoys,
        "report": progress,
    }
    if as_it_is:
        manifest, obeyed = synthesize(folder, **asked), 0
    else:
        manifest, obeyed = synthesize_as(
            arguments.dialect,
            folder,
            traps=arguments.traps,
            rules=rules,
            flips=planting.flips,
            corrections=planting.corrections,
            **asked,
        )
    progress.close()
    if rules:
        print(f"{len(rules)} rules planted, obeyed {obeyed:,} times")
    if arguments.films:
        _draw(folder)
    rows = sum(manifest.rows.values())
    what = "" if arguments.dialect == "mimiciv" else f", written as {arguments.dialect}"
    print(f"{arguments.patients:,} invented subjects, {rows:,} rows in {len(manifest.rows)} tables{what}: {folder}")
    if (zone := time_zone_of(arguments.dialect)) is not None:
        print(f"its times have an offset from UTC: ingest it with --time-zone={zone}")
    return 0


def _draw(folder: Path) -> None:
    progress = TerminalProgress()
    count = write_films(folder, report=progress)
    progress.close()
    print(f"{count:,} chest radiographs drawn: {folder / 'cxr' / 'files'}")


SYNTH = Command(EXAMPLES, configure, run)
