"""What every command that plays episodes shares: its options, opening the run, playing it."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from wardround.agents import AgentName, get_method, kinds_read
from wardround.benchmarks import Benchmark
from wardround.cli.executors import WHERE
from wardround.cli.paths import library_of
from wardround.cli.progress import TerminalProgress
from wardround.cli.settings_options import add_settings_options, asked_settings
from wardround.core import UserError, estimate_tokens
from wardround.executors import EXECUTORS
from wardround.runs import Counts, RunFolder, RunSettings, Spending, codes_with_words, evidence_cuts, execute, start
from wardround.runs.experiment import refuse_other_settings
from wardround.runs.names import merged
from wardround.runs.results import finished_entries
from wardround.tools import open_toolset

_REASON_CHARACTERS = 120


def add_run_options(parser: argparse.ArgumentParser, *, without: Sequence[str] = ()) -> None:
    """Declare the settings (but those ``without``), where the run goes, and how it is worked off."""
    add_settings_options(parser, without=without)
    work = parser.add_argument_group("the run")
    work.add_argument("--out", type=Path, help="folder of the new run")
    work.add_argument("--resume", type=Path, metavar="RUN", help="go on with this run; its own settings hold")
    work.add_argument("--retry-errors", action="store_true", help="with --resume: play episodes again that failed")
    work.add_argument(
        "--executor",
        dest="run.executor",
        default=argparse.SUPPRESS,
        choices=EXECUTORS.names,
        help=f"{WHERE} (default: processes)",
    )
    work.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1), help="processes, of all machines")
    work.add_argument("--concurrency", type=int, default=16, help="episodes at once in each process")
    work.add_argument("--json", action="store_true", help="print the figures as JSON")


def open_run(arguments: argparse.Namespace, asked: Mapping[str, Any], **changes: Any) -> RunFolder:
    """Open the run to resume, or make a new one of the settings ``asked`` for; ``changes`` are those of the command
    itself, by section, which a run that is resumed has already."""
    if arguments.workers < 1 or arguments.concurrency < 1:
        raise UserError("--workers and --concurrency must be at least 1")
    if arguments.resume:
        folder = RunFolder.open(arguments.resume)
        refuse_other_settings(asked, folder.settings)
        return folder
    settings = RunSettings.read(merged(_own_corpora(), merged(asked, changes)))
    given = {"benchmark": settings.run.benchmark, "out": arguments.out}
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise UserError(f"a new run needs {', '.join('--' + name for name in missing)} (or --resume RUN)")
    folder = start(arguments.out, settings)
    for line in notes_on(folder):
        print(f"wardround: note: {line}", file=sys.stderr)
    return folder


def _own_corpora() -> dict[str, Any]:
    """The setting that names the user's own folder of corpora, where there is one."""
    library = library_of(None)
    return {} if library is None else {"knowledge": {"library": library}}


def notes_on(folder: RunFolder) -> list[str]:
    """What these settings allow and nobody is likely to want."""
    settings = folder.settings
    lines: list[str] = []
    if settings.told:
        return lines
    from_evidence = [name for name in settings.run.agents if get_method(settings.spelling(name)).evidence]
    with_tools = any(agent["tools"] == "all" for agent in folder.manifest["agents"])
    offered = open_toolset(settings.run.toolset).schemas if with_tools else ()
    tools = sum(estimate_tokens(schema.wire.decode()) for schema in offered)
    room = settings.budget_tokens - settings.budget.reply_tokens - tools
    if room < settings.budget_tokens // 4:
        lines.append(
            f"of {settings.budget_tokens:,} context tokens the reply ({settings.budget.reply_tokens:,}) and the tools "
            f"({tools:,}) leave {max(room, 0):,} for what was read; a smaller budget.reply_tokens leaves more"
        )
    papers = Benchmark.open(Path(settings.run.benchmark)).context_tokens
    if settings.budget_tokens < papers and from_evidence:
        lines.append(
            f"the paper of these tasks gives every method {papers:,} context tokens; with {settings.budget_tokens:,} "
            "evidence may be cut that would have fitted (the report says where)"
        )
    lines += _wordless(folder)
    for name in settings.run.agents:
        facts = folder.manifest.get("banks", {}).get(name, folder.manifest.get("bank"))
        kinds = None if facts is None else facts.get("kinds", {})
        missing = [kind for kind in kinds_read(settings.spelling(name)) if kinds is not None and not kinds.get(kind)]
        if missing:
            lines.append(f"the bank holds no {' and no '.join(missing)} experiences, so {name} is served none of these")
    withheld = (folder.manifest.get("bank") or {}).get("withheld_evaluated", 0)
    if withheld:
        lines.append(f"{withheld:,} experiences are kept back: this benchmark evaluates on patients who taught them")
    return lines


def _wordless(folder: RunFolder) -> list[str]:
    """Say that most codes have no words, where somebody searches by words."""
    spelt = {name: folder.settings.spelling(name) for name in folder.settings.run.agents}
    searching = [name for name, own in spelt.items() if get_method(own).evidence or AgentName.parse(own).additions]
    if not searching:
        return []
    words, codes = codes_with_words(folder)
    if 2 * words >= codes:
        return []
    line = (
        f"only {words:,} of {codes:,} codes of the first charts have words; {', '.join(searching)} searches by words, "
        "and finds nothing in the others: give them words with `wardround codes describe`, then ingest again"
    )
    return [line]


def play(folder: RunFolder, arguments: argparse.Namespace) -> Counts:
    """Play everything that is not finished, showing how far it is."""
    progress = TerminalProgress()
    counts = execute(
        folder,
        workers=arguments.workers,
        concurrency=arguments.concurrency,
        report=progress,
        retry_errors=arguments.retry_errors,
        max_cost=cost_limit(folder, arguments),
        executor=asked_settings(arguments).get("run", {}).get("executor"),
    )
    progress.close()
    for line in _cut_evidence(folder):
        print(f"wardround: note: {line}", file=sys.stderr)
    for line in _stopped_at_cost(folder, arguments, counts):
        print(f"wardround: note: {line}", file=sys.stderr)
    if not arguments.json:
        failed = _failures(folder)
        print(f"{counts.done:,} of {counts.total:,} episodes done{failed}: {folder.path}")
    return counts


def cost_limit(folder: RunFolder, arguments: argparse.Namespace) -> float | None:
    """Return the most that a run may cost: as asked for now, else as it began."""
    limit: float | None = asked_settings(arguments).get("run", {}).get("max_cost", folder.settings.run.max_cost)
    return limit


def _stopped_at_cost(folder: RunFolder, arguments: argparse.Namespace, counts: Counts) -> list[str]:
    """Say that the cost ended the run before its last episode, and what of the cost is not known."""
    limit = cost_limit(folder, arguments)
    if limit is None:
        return []
    spending, lines = Spending.of(folder), []
    if counts.open and spending.reaches(limit):
        lines.append(
            f"stopped at the most it may cost: {spending.cost:.4f} US dollars of --max-cost {limit:g} are spent and "
            f"{counts.open:,} episodes wait; go on with --resume {folder.path} and a higher --max-cost"
        )
    if spending.unpriced:
        lines.append(f"{spending.unpriced:,} calls came back without counted tokens, so their cost is not in the sum")
    return lines


def _failures(folder: RunFolder) -> str:
    """Say how many of the finished episodes failed, and the commonest reason; empty where none did."""
    outcomes = [entry.outcome or {} for entry in finished_entries(folder).values()]
    reasons = Counter(str(one.get("error") or "no reason") for one in outcomes if one.get("finish") == "error")
    if not reasons:
        return ""
    [(reason, count)] = reasons.most_common(1)
    return f", {reasons.total():,} of them failed (most often, {count:,}: {shorten(reason, _REASON_CHARACTERS)})"


def _cut_evidence(folder: RunFolder) -> list[str]:
    """Say of whom evidence was cut: its figures are not those of the method but of the method in this budget."""
    lines = []
    for name, cut in evidence_cuts(folder).items():
        if cut.episodes:
            budget = folder.settings.budget_tokens
            lines.append(f"{name}: evidence was cut in {cut}; --context-tokens above {budget:,} holds more")
    return lines
