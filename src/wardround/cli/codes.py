"""``wardround codes``: add code tables that wardround may not ship, and words for the codes of MEDS data sets."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.cli.output import print_rows
from wardround.clinical.codes import add_user_codes, how_to_add, user_codes
from wardround.clinical.codes.user_codes import KINDS
from wardround.core import user_codes_home
from wardround.records.sources.meds import describe_codes

EXAMPLES = """
  wardround codes show
  wardround codes add icd9-procedures prref_2015.csv
  wardround codes add drug-atc mimic_drug_to_atc.csv.gz
  wardround codes describe meds --from mimic/hosp/d_labitems.csv.gz mimic/icu/d_items.csv.gz --out words
  wardround ingest meds words meds --store store      the first folder that has codes wins
  wardround codes describe ehrshot_meds --from athena/CONCEPT.csv --out words
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="check a file and keep its table", examples=EXAMPLES)
    add.add_argument("kind", choices=sorted(KINDS), help="what the table maps")
    add.add_argument("file", type=Path, help="the file as its publisher gives it, gzipped or not")
    describe = actions.add_parser("describe", help="give a MEDS data set's codes words", examples=EXAMPLES)
    describe.add_argument("folder", type=Path, help="folder of the MEDS data set")
    describe.add_argument(
        "--from",
        dest="dictionaries",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="code,description; MIMIC's d_labitems, d_items, d_icd_*; Athena's CONCEPT.csv; the first that knows wins",
    )
    describe.add_argument("--out", type=Path, required=True, help="folder to write metadata/codes.parquet into")
    actions.add_parser("show", help="list present tables, and how to get the others", examples=EXAMPLES)


def run(arguments: argparse.Namespace) -> int:
    """Add code tables, or list them."""
    home = user_codes_home()
    if arguments.action == "add":
        added = add_user_codes(arguments.kind, arguments.file, home)
        print(f"{added.kind}: {added.rows:,} rows of {added.file} ({added.format}), sha256 {added.sha256[:16]}…")
        print("stores and benchmarks built from now on use it")
        return 0
    if arguments.action == "describe":
        found = describe_codes(arguments.folder, arguments.dictionaries, arguments.out)
        print(f"{found.after:,} of {found.codes:,} codes have words, {found.before:,} had: {found.path}")
        return 0
    rows = []
    for kind in sorted(KINDS):
        present = user_codes(home).get(kind)
        rows.append(
            (kind, KINDS[kind].title, f"{present.rows:,} rows, {present.file}" if present else how_to_add(kind))
        )
    print_rows(("kind", "what", "here"), rows)
    return 0
