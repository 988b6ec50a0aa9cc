"""``wardround memory evolve``: run training samples and write what was learned into a bank."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.cli.parser import Command
from wardround.cli.run import add_run_options, asked_settings, open_run, play
from wardround.cli.terminal import print_json
from wardround.core import TerminalProgress, UserError
from wardround.core.settings import merged
from wardround.learning import (
    ConstructionSettings,
    Evolution,
    StreamEvolution,
    evolve,
    evolve_stream,
    training_changes,
    walks_a_graph,
)
from wardround.memory import REFLECTED_KINDS, Bank, ContaminationReport, contamination_check
from wardround.runs import RunFolder, open_benchmark

# The contamination check after a command that wrote into a bank, and its one line.


def checked(folder: RunFolder, bank: Bank) -> ContaminationReport:
    """Check the bank against the benchmark it was drawn from."""
    return contamination_check(bank, open_benchmark(folder).all_samples, source=str(folder.manifest["people"]))


def print_contamination(report: ContaminationReport) -> None:
    """Print the result."""
    if report.clean:
        print(f"contamination check: clean ({report.evaluation_samples:,} evaluation samples)")
        return
    found = ", ".join(f"{number:,} {kind}" for kind, number in report.counts().items() if number)
    print(f"contamination check: {found}")


# ``wardround memory evolve`` with an agent that reads a graph: it learns from training samples in a fixed order.


def stream(folder: RunFolder, path: Path, arguments: argparse.Namespace) -> int:
    """Run and learn, check the bank, print the results; status 1 if an episode failed."""
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
            _print_stream(found, bank)
            print_contamination(contamination)
    return 0 if contamination.clean and not found.failed else 1


def _print_stream(found: StreamEvolution, bank: Bank) -> None:
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


# ``wardround memory evolve``: run training samples, reflect on them, and write lessons into a bank.


EXAMPLES = """
  wardround memory evolve --benchmark bench --store store --out training --bank bank.sqlite --limit 100
  wardround memory evolve --benchmark bench --store store --agent retrosum --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --out training --bank bank.sqlite --limit 100
      on training samples of the common stratum, as in the paper; --set run.strata=common,rare takes both
  wardround memory evolve --resume training --bank bank.sqlite
      goes on where it was: neither an episode nor a reflection is made twice
  wardround run --benchmark bench --store store --agent retrosum-evolved --bank bank.sqlite --out run

  wardround memory evolve --benchmark bench --store store --agent gsem --bank graph.sqlite --out stream --limit 100
      an agent that reads a graph runs training samples in one order, and the graph learns from each
  wardround memory evolve --resume stream --bank graph.sqlite
  wardround run --benchmark bench --store store --agent gsem --bank graph.sqlite --out run \\
      --set memory.bank_revision=stream-50
      the graph as it was after 50 updates
"""


DEFAULTS = {"run": {"agents": ["retrosum"]}}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser, without=("run.split", "run.max_cost", "scoring.baseline"))
    parser.add_argument(
        "--kinds", nargs="+", choices=REFLECTED_KINDS, default=list(REFLECTED_KINDS), help="what to learn"
    )
    parser.add_argument("--rules", action="store_true", help="reflect by rules, not by asking the model")


def run(arguments: argparse.Namespace) -> int:
    """Run, reflect, check the bank, print its contents."""
    asked = asked_settings(arguments)
    bank_asked = asked.get("memory", {}).pop("bank", None)
    if bank_asked is None:
        raise UserError("evolve writes into a bank: name one with --bank bank.sqlite (it is made if it does not exist)")
    path = Path(bank_asked)
    changes = {}
    if not arguments.resume:
        asked = merged(DEFAULTS, asked)
        changes = training_changes(asked, path)
    folder = open_run(arguments, asked, **changes)
    if walks_a_graph(folder):
        return stream(folder, path, arguments)
    with Bank.open(path) as bank:
        counts = play(folder, arguments)
        progress = TerminalProgress()
        found = evolve(
            folder,
            bank,
            kinds=arguments.kinds,
            rules=arguments.rules,
            concurrency=arguments.concurrency,
            report=progress,
        )
        progress.close()
        contamination = checked(folder, bank)
        if arguments.json:
            print_json({"run": folder.path, "bank": path, "evolution": found, "contamination": contamination.counts()})
        else:
            _print(found, bank, path)
            print_contamination(contamination)
    return 0 if contamination.clean and not found.failed and counts.done == counts.total else 1


def _print(found: Evolution, bank: Bank, path: Path) -> None:
    added = ", ".join(f"{number:,} {kind}" for kind, number in sorted(found.added.items()) if number) or "nothing new"
    print(f"reflected on {found.episodes:,} episodes: {added}; {found.skipped:,} reflections were there already")
    if found.unfinished:
        print(f"{found.unfinished:,} episodes were left out: not finished, or broken off by an endpoint")
    for problem, number in found.problems.most_common():
        print(f"{number:,} reflections gave nothing: {problem}")
    if found.failed:
        print(f"{found.failed:,} of these failed (at the endpoint, or for want of room); --resume tries them again")
    print(f"{len(bank):,} experiences in {path} (revision {bank.revision:,})")
    distinct = len({experience.duplicate_key for experience in bank.experiences()})
    if distinct < len(bank):
        print(
            f"{distinct:,} of them say something different: what says the same is served once, with its number of cases"
        )


EVOLVE = Command(EXAMPLES, configure, run)
