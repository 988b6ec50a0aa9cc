"""Where work is done and by how many, as options that several commands share."""

from __future__ import annotations

import argparse

from wardround.executors import EXECUTORS

WHERE = "where the work is done: processes of this machine, or ray, a cluster (docs/clusters.md)"


def add_executor_options(parser: argparse.ArgumentParser) -> None:
    """Declare ``--workers`` and ``--executor``."""
    parser.add_argument("--workers", type=int, default=1, help="processes, of all machines")
    parser.add_argument("--executor", choices=EXECUTORS.names, default="processes", help=WHERE)
