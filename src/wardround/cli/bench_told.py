"""``wardround bench build medr-bench | medagentsbench | text-cases``: cases told in words, from a user's files."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.benchmarks import TOLD_FAMILIES, Benchmark, CaseFiles, build_told
from wardround.cli.progress import TerminalProgress
from wardround.core import UserError

TOLD_OPTIONS = dict.fromkeys(("cases", "test_cases", "drop_overlaps"), TOLD_FAMILIES)
"""Which kinds of benchmarks an option is for."""


def add_told_options(parser: argparse.ArgumentParser) -> None:
    """Declare what cases told in words take."""
    told = parser.add_argument_group(", ".join(TOLD_FAMILIES), "cases told in words: no store, no chart")
    told.add_argument(
        "--cases",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="cases, split by hash of report or question; a folder: its test_hard.jsonl files",
    )
    told.add_argument(
        "--test-cases",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="the test; --cases are then the rest",
    )
    told.add_argument(
        "--drop-overlaps",
        action="store_true",
        help="leave cases out of training that share a report or a question with the test, and count them",
    )


def build_from_cases(arguments: argparse.Namespace, progress: TerminalProgress) -> Benchmark:
    """Build a family from files of its cases."""
    if arguments.store is not None or arguments.policy != "known_at":
        raise UserError(f"{arguments.name} tells its cases in words: it takes no --store and has no clocks")
    return build_told(
        arguments.name,
        CaseFiles(cases=tuple(arguments.cases), test=tuple(arguments.test_cases)),
        arguments.out,
        seed=arguments.seed,
        fractions=tuple(arguments.fractions),
        drop_overlaps=arguments.drop_overlaps,
    )
