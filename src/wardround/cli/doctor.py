"""``wardround doctor``: what is installed, what is missing, how to get it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from wardround.audits import check_installation
from wardround.cli.output import print_rows

EXAMPLES = """
  wardround doctor
  wardround doctor --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Check and print; status 1 if a needed part is broken."""
    findings = check_installation()
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        sizes = [("" if f.megabytes is None else f"{f.megabytes:,}") for f in findings]
        rows = [(f.what, f.state, size, f.detail) for f, size in zip(findings, sizes, strict=True)]
        print_rows(("what", "state", "MB", "detail"), rows)
    return 1 if any(finding.state == "broken" for finding in findings) else 0
