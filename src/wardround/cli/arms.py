"""Curated input against evidence seeking, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.cli.table import print_rows
from wardround.runs import ARM_HEADINGS, arm_texts
from wardround.scoring import ArmRow


def print_arms(rows: Sequence[ArmRow]) -> None:
    """Print both arms of every model and group; nothing where only one was played."""
    if rows:
        print(
            "\ncurated input against evidence seeking (F1 in per cent; tokens in + out, a mean per episode; "
            "how many packages left events out, and the hours shown; ceilings: per cent of targets within reach)"
        )
        print_rows(ARM_HEADINGS, [arm_texts(row) for row in rows])
