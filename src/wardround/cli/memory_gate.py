"""``wardround memory gate``: judge a bank by two runs on held-out samples."""

from __future__ import annotations

import argparse

from wardround.cli.table import print_rows
from wardround.memory import Bank
from wardround.runs import RunFolder, gate_bank
from wardround.scoring.gate import GATE_LEVEL


def gate_file(arguments: argparse.Namespace) -> int:
    """Judge, keep the verdict in the bank, print it; status 1 where no task is open."""
    without, with_it = RunFolder.open(arguments.without), RunFolder.open(arguments.with_it)
    with Bank.open(arguments.bank) as bank:
        record = gate_bank(bank, without, with_it, standard=arguments.standard)
    print_rows(
        ("task", "gate", "difference", "95 % interval", "p of harm", "p of benefit", "patients", "episodes"),
        [
            (
                *(task, one["state"], f"{one['difference']:+.3f}", _interval(one["low"], one["high"])),
                *(f"{one['p_harm']:.4f}", f"{one['p_benefit']:.4f}", str(one["subjects"]), str(one["episodes"])),
            )
            for task, one in record.verdicts.items()
        ],
    )
    (level,) = {one["level"] for one in record.verdicts.values()}
    print(
        f"look {record.look} at this bank, judged at level {level:.4f}, so that all looks together keep {GATE_LEVEL:g}"
    )
    print(
        f"kept for revision {record.revision} as it was played; a run that reads anything else is served nothing: "
        "--set memory.bank_revision=gated pins it"
    )
    return 0 if any(one["state"] == "open" for one in record.verdicts.values()) else 1


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
