"""``wardround memory validate``: how reliable new experiences are, and what finding out has cost."""

from __future__ import annotations

import argparse

from wardround.cli.progress import TerminalProgress
from wardround.core import UserError
from wardround.memory import Bank
from wardround.runs import RunFolder, stages
from wardround.runs.reliability import FOLDER, validate


def validate_file(arguments: argparse.Namespace) -> int:
    """Play, write qualities, print the budget that was spent; status 1 where an episode failed."""
    if arguments.rollouts < 1 or arguments.concurrency < 1:
        raise UserError("--rollouts and --concurrency must be at least 1")
    folder = RunFolder.open(arguments.run)
    progress = TerminalProgress()
    with Bank.open(arguments.bank) as bank:
        found = validate(folder, bank, rollouts=arguments.rollouts, concurrency=arguments.concurrency, report=progress)
        progress.close()
        print(f"{found.tried:,} experiences tried in {found.rollouts:,} pairs; {found.without:,} rollouts without any")
        if found.untried:
            print(f"{found.untried:,} apply to no other patient of the run, and keep their prior")
        if found.failed:
            print(f"{found.failed:,} were broken off by the endpoint; the same command tries them again")
        print(f"{len(bank):,} experiences in {bank.path} (revision {bank.revision:,})")
    for stage in stages(folder, FOLDER):
        tokens = f"{stage.usage.input_tokens:,} tokens in, {stage.usage.output_tokens:,} out"
        print(f"rollouts, {stage.purpose}: {stage.calls:,} calls, {tokens}")
    return 1 if found.failed else 0
