"""``wardround evolve`` with an agent that reads a graph: it learns from an ordered stream of training samples."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.cli.checked_bank import checked, print_contamination
from wardround.cli.json_output import print_json
from wardround.cli.progress import TerminalProgress
from wardround.core import UserError
from wardround.memory import Bank
from wardround.runs import ConstructionSettings, RunFolder, StreamEvolution, evolve_stream


def stream(folder: RunFolder, path: Path, arguments: argparse.Namespace) -> int:
    """Play and learn, check the bank, say what came of it; status 1 where an episode failed."""
    own = folder.settings.memory.bank
    if own is None or path.resolve() != Path(own):
        raise UserError(f"the stream {str(folder.path)!r} learns into {own}: go on with --bank {own}")
    construction = ConstructionSettings(rules=arguments.rules)
    progress = TerminalProgress()
    with Bank.open(path) as bank:
        found = evolve_stream(folder, bank, construction, retry_errors=arguments.retry_errors, report=progress)
        progress.close()
        contamination = checked(folder, bank)
        if arguments.json:
            print_json({"run": folder.path, "bank": path, "stream": found, "contamination": contamination.counts()})
        else:
            _print(found, bank)
            print_contamination(contamination)
    return 0 if contamination.clean and not found.failed else 1


def _print(found: StreamEvolution, bank: Bank) -> None:
    print(f"{found.updates:,} updates by {found.episodes:,} episodes, {found.learnt:,} of them now")
    print(f"experiences were shown {found.shown:,} times and masked {found.masked:,} times")
    print(f"{found.inserted:,} drawn from the stream, {found.barred:,} barred from tasks they probably harm")
    for name, revision in found.snapshots.items():
        print(f"revision {revision:,} is called {name} (--set memory.bank_revision={name})")
    for problem, number in found.problems.most_common():
        print(f"{number:,} taught nothing: {problem}")
    if found.failed:
        print(f"{found.failed:,} episodes failed; --resume with --retry-errors plays them again")
    print(f"{len(bank):,} experiences in {bank.path} (revision {bank.revision:,})")
