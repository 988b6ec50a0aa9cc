"""``wardround stream``: live patients from a growing folder of JSON lines."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from wardround.cli.parser import Command
from wardround.cli.terminal import add_json_option, print_json
from wardround.clinical.bundles import carried_by
from wardround.clinical.protocols import read_protocol, unknown_in_streams
from wardround.core import TerminalProgress, private_folder
from wardround.records import Store, load_source_spec
from wardround.stream import (
    CARRIES,
    CLOCKS,
    QUARANTINE,
    FollowSettings,
    SourceRules,
    Spool,
    StreamReport,
    coded_responder,
    follow,
    write_replay,
)

PIPE = Path("-")
EXAMPLES = """
  wardround stream replay --store store --out lines
      a store's rows as JSON lines, in the order in which they became known: something to try a stream with
  wardround stream follow --source mimiciv --lines lines --out live
      follow the folder until interrupted; live/bundles.jsonl has a line per bundle: what is abnormal, what changed
  wardround stream follow --source mimiciv --lines lines --out live --once --finish
      read all lines, close open bundles, and end
  wardround stream follow --source mimiciv --lines lines --out live --protocol sepsis.toml
      with every bundle predictions of the rules and findings of the audit, as from the agent trace in code
  wardround stream follow --source mimiciv --lines lines --out live --clock arrival
      live use: the wall clock ends hours, and what is dated more than 15 minutes ahead waits for its time
  feed | wardround stream follow --source fhir --lines - --out live --time-zone Europe/Berlin
      FHIR resources, one a line, from a pipe: written to live/spool first
  wardround stream follow --source mimiciv --lines lines --out live-0 --partition 0 --partitions 2
      half of the patients; a second process takes --partition 1 into a folder of its own
"""
LINES = """
A line is {"table": "labevents", "row": {...}, "known": "2150-01-31 08:00:00"}: a row with the columns that a chart has
(row_id or the key among them). "revision": 1 says that the row was known before and reads so from now on,
"withdrawn": true that there is no such row any more. {"clock": "2150-01-31 09:00:00"} says that what was before is
complete. With --source fhir a line may be a resource, or a bundle of them. A patient's hours end with the patient's own
lines and with the clock. A line that cannot be read goes to quarantine.jsonl with its place and the reason. Killed and
started again, the command continues where it ended: bundles.jsonl is the same byte for byte."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    live = actions.add_parser("follow", help="follow a growing folder of lines", description=LINES, examples=EXAMPLES)
    what = live.add_mutually_exclusive_group(required=True)
    what.add_argument("--source", help="what the rows are: a source by name, or the file of a spec")
    what.add_argument(
        "--store", type=Path, help="a store of the same source: its spec, lags, medians, labels and units"
    )
    live.add_argument(
        "--lines", type=Path, required=True, help="folder of *.jsonl, read in order of name; - for a pipe"
    )
    live.add_argument("--out", type=Path, required=True, help="folder of the ledger and the output")
    defaults = FollowSettings()
    live.add_argument("--partition", type=int, default=defaults.partition, help="which part of the patients, from 0")
    live.add_argument("--partitions", type=int, default=defaults.partitions, help="into how many parts they are dealt")
    live.add_argument("--lines-per-commit", type=int, default=defaults.lines_per_commit, help="at most so many")
    live.add_argument(
        "--time-zone",
        metavar="NAME",
        help="where the patients are, as America/New_York: for times with an offset",
    )
    live.add_argument(
        "--clock",
        choices=CLOCKS,
        default=defaults.clock,
        help='what ends hours beside a patient\'s own lines: the lines {"clock": ...} of the source, or the wall clock',
    )
    live.add_argument(
        "--skew",
        type=float,
        metavar="MINUTES",
        help="a line further ahead of the clock is parked until its time comes (default: 15 with --clock arrival)",
    )
    live.add_argument("--protocol", type=Path, help="rules (wardround protocol): adds predictions and audits")
    carries = "what the feed has: what is not told of it was not done; of the rest nothing is known before the first"
    live.add_argument("--carries", nargs="+", choices=sorted(CARRIES), default=(), help=carries)
    live.add_argument(
        "--entries-in-memory",
        type=int,
        default=defaults.entries_in_memory,
        help="events and state entries, half a kilobyte each; idle patients beyond them lie in the ledger",
    )
    live.add_argument("--once", action="store_true", help="end when all present lines are read")
    live.add_argument("--finish", action="store_true", help="with --once: close what is open, too; the stream is over")
    replay = actions.add_parser("replay", help="write a store's rows as lines", examples=EXAMPLES)
    replay.add_argument("--store", type=Path, required=True, help="folder of the store")
    replay.add_argument("--out", type=Path, required=True, help="folder of the lines to make")
    for action in (live, replay):
        add_json_option(action)


def run(arguments: argparse.Namespace) -> int:
    """Run the action: follow or replay."""
    if arguments.action == "replay":
        return _replay(arguments)
    progress = TerminalProgress()
    settings = FollowSettings(
        lines_per_commit=arguments.lines_per_commit,
        partition=arguments.partition,
        partitions=arguments.partitions,
        entries_in_memory=arguments.entries_in_memory,
        time_zone=arguments.time_zone,
        clock=arguments.clock,
        skew=None if arguments.skew is None else timedelta(minutes=arguments.skew),
        once=arguments.once,
        finish=arguments.finish,
    )
    if arguments.store is None:
        rules = SourceRules.of_source(load_source_spec(arguments.source))
    else:
        rules = SourceRules.of_store(Store.open(arguments.store))
    units = {} if arguments.store is None or not arguments.protocol else carried_by(Store.open(arguments.store)).units
    responder = coded_responder(arguments.protocol, arguments.carries, units) if arguments.protocol else None
    for rule, text in unknown_in_streams(read_protocol(arguments.protocol)) if arguments.protocol else ():
        print(f"note: {rule}: {text}", file=sys.stderr)
    lines, ended = arguments.lines, None
    if lines == PIPE:
        private_folder(arguments.out)
        lines = arguments.out / "spool"
        spool = Spool(sys.stdin.fileno(), lines)
        spool.start()
        ended = spool.ended
    report = follow(rules, lines, arguments.out, settings=settings, responder=responder, ended=ended, report=progress)
    progress.close()
    if arguments.json:
        print_json(replace(report, commit_seconds=[]))
    else:
        _print(report)
    return 0


def _print(report: StreamReport) -> None:
    again = f", after {report.recovered:,} taken before" if report.recovered else ""
    print(
        f"{report.lines:,} lines{again}, {report.events:,} events, {report.bundles:,} bundles written: {report.folder}"
    )
    if report.late:
        print(f"{report.late:,} lines came after their hour was over: they are in the hour open then")
    if report.parked:
        print(f"{report.parked:,} lines lie further ahead than --skew allows: they wait for their time")
    for why, count in report.silent.items():
        print(f"{count:,} lines {why}")
    if report.refused:
        print(f"{report.refused:,} lines could not be read: {report.folder / QUARANTINE}")


def _replay(arguments: argparse.Namespace) -> int:
    progress = TerminalProgress()
    count = write_replay(Store.open(arguments.store), arguments.out, report=progress)
    progress.close()
    if arguments.json:
        print_json({"lines": count, "folder": arguments.out})
    else:
        print(f"{count:,} lines: {arguments.out}")
    return 0


STREAM = Command(EXAMPLES, configure, run)
