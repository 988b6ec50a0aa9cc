"""``wardround images``: make tables of a release of images, to ingest with its records."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.tools.imaging.mimic_cxr import prepare_mimic_cxr

EXAMPLES = """
  wardround images prepare mimic-cxr-jpg-2.0.0 --notes mimic-iv-note/note/radiology.csv.gz --out prepared/cxr
  wardround ingest mimiciv mimic-iv-2.2 prepared --store store
  wardround run --benchmark bench --store store --set images.source=mimic-cxr-jpg-2.0.0 \\
      --set run.tools=image.image_visualizer --out run
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = actions.add_parser("prepare", help="read the tables and reports of MIMIC-CXR", examples=EXAMPLES)
    prepare.add_argument("release", type=Path, help="folder of MIMIC-CXR or MIMIC-CXR-JPG as downloaded")
    prepare.add_argument("--notes", type=Path, help="radiology.csv.gz of MIMIC-IV-Note: when reports were done")
    prepare.add_argument("--out", type=Path, required=True, help="folder of the three tables; call it .../cxr")


def run(arguments: argparse.Namespace) -> int:
    """Prepare the tables and print what was made."""
    found = prepare_mimic_cxr(arguments.release, arguments.out, notes=arguments.notes)
    for table, count in found.rows.items():
        print(f"{table}: {count:,} rows")
    for reason, count in found.left_out.items():
        print(f"{reason}: {count:,}")
    print(f"tables: {arguments.out}; ingest its parent folder beside MIMIC-IV's")
    return 0
