"""``wardround codes``: add code tables that wardround may not ship."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.cli.paths import user_codes_home
from wardround.cli.table import print_rows
from wardround.codes import add_user_codes, how_to_add, user_codes
from wardround.codes.user_codes import KINDS

EXAMPLES = """
  wardround codes show
  wardround codes add icd9-procedures prref_2015.csv
  wardround codes add drug-atc mimic_drug_to_atc.csv.gz
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="check a file and keep its table", examples=EXAMPLES)
    add.add_argument("kind", choices=sorted(KINDS), help="what the table maps")
    add.add_argument("file", type=Path, help="the file as its publisher gives it, gzipped or not")
    actions.add_parser("show", help="say which tables are there and how to get the others", examples=EXAMPLES)


def run(arguments: argparse.Namespace) -> int:
    """Add or show."""
    home = user_codes_home()
    if arguments.action == "add":
        added = add_user_codes(arguments.kind, arguments.file, home)
        print(f"{added.kind}: {added.rows:,} rows of {added.file} ({added.format}), sha256 {added.sha256[:16]}…")
        print("stores and benchmarks built from now on use it")
        return 0
    rows = []
    for kind in sorted(KINDS):
        there = user_codes(home).get(kind)
        rows.append((kind, KINDS[kind].title, f"{there.rows:,} rows, {there.file}" if there else how_to_add(kind)))
    print_rows(("kind", "what", "here"), rows)
    return 0
