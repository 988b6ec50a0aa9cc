"""Following a folder: read lines, take them, commit, write what is told; after a kill, from where the ledger ends."""

from __future__ import annotations

import gc
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from wardround.bundles import PatientState
from wardround.core import Progress, Reporter, UserError, private_folder, silent
from wardround.records import SourceSpec
from wardround.stream.clock import StreamClock
from wardround.stream.closing import Responder
from wardround.stream.committing import LineTaking
from wardround.stream.ledger import StreamLedger
from wardround.stream.lines import ENCODER, LineFolder
from wardround.stream.one_follower import only_follower
from wardround.stream.quarantine import QUARANTINE, QuarantineFile
from wardround.stream.settings import FollowSettings
from wardround.stream.source_rules import SourceRules
from wardround.stream.told import ToldFile

_SYNC_COMMITS = 64
"""The file of what is told is seen onto the disk once in so many commits."""


@dataclass(slots=True, kw_only=True)
class StreamReport:
    """What one run of a stream did: ``recovered`` entries were taken before it. ``parked``: lines that wait for their
    time; ``silent``: lines that say nothing that is told, by why."""

    folder: Path
    recovered: int = 0
    lines: int = 0
    events: int = 0
    told: int = 0
    late: int = 0
    refused: int = 0
    parked: int = 0
    silent: dict[str, int] = field(default_factory=dict)
    commit_seconds: list[float] = field(default_factory=list)
    """How long each commit took, from the first line read to the end of the transaction."""


def follow(
    spec: SourceSpec | SourceRules,
    source: Path,
    folder: Path,
    *,
    settings: FollowSettings | None = None,
    responder: Responder | None = None,
    ended: Callable[[], bool] | None = None,
    report: Reporter = silent,
) -> StreamReport:
    """Follow a folder of lines into ``folder`` (``ledger.sqlite`` and ``told.jsonl``); resumes where it was ended.

    ``ended`` says, where it is not the setting ``once``, whether all lines that will come are there.
    UserError: the folder is of another stream, it was finished, another process follows it, or the ledger cannot grow.
    OSError: the files beside it cannot.
    """
    settings = FollowSettings() if settings is None else settings
    rules = _rules_of(spec, settings)
    if not 0 <= settings.partition < settings.partitions:
        raise UserError(f"--partition must be below --partitions {settings.partitions}, not {settings.partition}")
    private_folder(folder)
    with only_follower(folder), _young_garbage_only(), _ledger_errors(folder / "ledger.sqlite"):
        ledger = StreamLedger(folder / "ledger.sqlite", _about(rules, settings, responder))
        try:
            if ledger.finished:
                raise UserError(f"{folder}: this stream was finished; give another --out for a new one")
            ledger.note({"lines": str(source.resolve()), "rules": _rules(responder)})
            return _follow(_taking(rules, ledger, settings, responder), source, folder, ended, report)
        finally:
            ledger.close()


def _follow(
    stream: LineTaking, source: Path, folder: Path, ended: Callable[[], bool] | None, report: Reporter
) -> StreamReport:
    ledger, settings = stream.ledger, stream.settings
    told = ToldFile(folder / "told.jsonl", ledger)
    quarantine = QuarantineFile(folder / QUARANTINE, ledger)
    made = StreamReport(folder=folder, recovered=ledger.lines)
    rounds = _rounds(stream, LineFolder(source), settings, ended or (lambda: settings.once))
    for commits, started in enumerate(rounds, 1):
        told.append(stream.committed.told)
        if stream.committed.refused:
            quarantine.append()
        made.commit_seconds.append(time.perf_counter() - started)
        if commits % _SYNC_COMMITS == 0:
            told.sync()
            ledger.forget_told()
        # a little with every commit: what many commits leave takes a tenth of a second to look through at once
        gc.collect(0)
        report(Progress(label="stream", done=ledger.lines, unit="lines"))
    made.lines, made.events = stream.lines, stream.events
    made.told, made.late, made.refused = ledger.told, stream.engine.late, ledger.refused
    made.parked, made.silent = ledger.parked(), ledger.counts()
    told.close()
    return made


def states_of(
    spec: SourceSpec | SourceRules,
    folder: Path,
    settings: FollowSettings | None = None,
    responder: Responder | None = None,
) -> dict[int, PatientState]:
    """Return the states that a stream's ledger comes to, open bundles included; nothing is told. All in memory."""
    settings = FollowSettings() if settings is None else settings
    rules = _rules_of(spec, settings)
    ledger = StreamLedger(folder / "ledger.sqlite", _about(rules, settings, responder))
    stream = _taking(rules, ledger, settings, responder)
    for _told in stream.engine.finish(ahead=settings.clock == "event"):
        continue
    stream.engine.patients.load(ledger.subjects())
    ledger.close()
    return stream.engine.patients.states()


def _rules_of(spec: SourceSpec | SourceRules, settings: FollowSettings) -> SourceRules:
    rules = spec if isinstance(spec, SourceRules) else SourceRules.of_source(spec)
    return rules.in_zone(settings.time_zone)


def _taking(
    rules: SourceRules, ledger: StreamLedger, settings: FollowSettings, responder: Responder | None
) -> LineTaking:
    clock = StreamClock.of(settings.clock, settings.skew, rules.spec.time_zone)
    return LineTaking(rules, ledger, settings, clock, responder)


def _about(rules: SourceRules, settings: FollowSettings, responder: Responder | None) -> dict[str, str]:
    return {
        "source": rules.spec.name,
        "clocks": rules.digest,
        "partition": f"{settings.partition} of {settings.partitions}",
        "protocol": str(getattr(responder, "digest", "none")),
        "time zone": rules.spec.time_zone or "none",
    }


def _rules(responder: Responder | None) -> str:
    """The rules that a responder goes by, where it has any: people read them beside what is told."""
    return ENCODER.encode(dict(getattr(responder, "rules", {}))).decode()


@contextmanager
def _young_garbage_only() -> Iterator[None]:
    """Have Python look through no old objects: there are millions, none in a cycle, and a look takes a third of all."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _ledger_errors(path: Path) -> Iterator[None]:
    """Say SQLite's errors in one line: what was committed before is kept, and the next start goes on from there."""
    try:
        yield
    except sqlite3.Error as error:
        why = "the disk is full" if "full" in str(error) else str(error)
        then = "free some space and run the same command again, it continues where it was"
        raise UserError(f"{path} cannot be written ({why}); {then}") from error


def _rounds(
    stream: LineTaking, source: LineFolder, settings: FollowSettings, ended: Callable[[], bool]
) -> Iterator[float]:
    """Commit some lines again and again; yield when each round began. What is read now was not there when the last
    round looked that left nothing: no line waited longer."""
    since = time.time()
    while True:
        started, looked = time.perf_counter(), time.time()
        is_last = ended()
        lines = list(source.read(stream.ledger.offsets, settings.lines_per_commit))
        if stream.commit(lines, since):
            yield started
        if not lines and is_last:
            break
        if sum(len(part.texts) for part in lines) < settings.lines_per_commit:
            since = looked
        if not is_last:
            time.sleep(max(0.0, started + settings.seconds_per_commit - time.perf_counter()))
    if settings.finish:
        stream.finish()
        yield started
