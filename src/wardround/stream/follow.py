"""Follow a folder of lines: read, commit, write; resume after a kill."""

from __future__ import annotations

import fcntl
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from wardround.clinical.bundles import PatientState
from wardround.clinical.bundles.events import HOUR
from wardround.core import Progress, Reporter, UserError, private_folder, silent
from wardround.core.garbage import no_cycle_collection
from wardround.records import SourceSpec
from wardround.records.shards import bucket_numbers
from wardround.stream.closing import Responder
from wardround.stream.engine import StreamEngine
from wardround.stream.input import (
    ENCODER,
    QUARANTINE,
    ClockKind,
    LineFolder,
    QuarantineFile,
    SourceLines,
    StreamClock,
    StreamLine,
)
from wardround.stream.ledger import LEDGER_FORMAT, Commit, RefusedLine, RowReading, StreamLedger
from wardround.stream.output import OutputFile, sealed_line
from wardround.stream.patients import LoggedEvents, Patients
from wardround.stream.reading import LineReader, ReadLines, line_microseconds, new_reading, row_id, row_key
from wardround.stream.row_lines import RowIssuing, RowLine, RowReader
from wardround.stream.source_rows import ResourceRows, SourceRows, is_resource
from wardround.stream.source_rules import SourceRules

# One process at a time follows into a folder: a second one would write everything twice.


@contextmanager
def only_follower(folder: Path) -> Iterator[None]:
    """Lock a folder. UserError: another process follows into it. The lock ends with the process."""
    with (folder / "follower.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{folder}: another process follows this stream; stop it, or choose another --out"
            ) from None
        yield


# How a stream is followed.


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    """How a stream is followed.

    ``lines_per_commit``: at most; ``partition`` of ``partitions``: the subjects whose hash falls on it.
    ``once``: end when all present lines are read; ``finish``: then also close open bundles. ``seconds_per_commit``:
    least time between commits, so that single lines share one. ``entries_in_memory``: limit of events of open bundles
    and entries of states (about half a kilobyte each); the rest is in the ledger. ``time_zone``: of the patients,
    for times with an offset from UTC (None: the store's zone) and for the wall clock. ``clock``: what ends hours beside
    each patient's own lines: the source's lines ``clock`` (``event``) or the wall clock (``arrival``); ``skew``: how
    far ahead of that clock a line may be (None: 15 minutes with ``arrival``).
    """

    lines_per_commit: int = 1_000
    partition: int = 0
    partitions: int = 1
    once: bool = False
    finish: bool = False
    clock: ClockKind = "event"
    skew: timedelta | None = None
    time_zone: str | None = None
    seconds_per_commit: float = 0.025
    entries_in_memory: int = 1_000_000


# One commit: lines are read together, added one by one, and stored with their output and the source's offsets.


CLOSED_AT_ONCE = 256
"""Bundles closed at most with one step of the clock, or with one look at a source without new lines."""
REPEATED, NO_ROLE, NO_EVENT = "repeated", "without a role", "without an event"


@dataclass(slots=True)
class _Item:
    """One item of a line: a row of ``subject`` with ``known``, a row of the source's files (``row``), or a time of the
    source's clock (subject None)."""

    lines: SourceLines
    place: int
    line: StreamLine = field(default_factory=StreamLine)
    subject: int | None = None
    row: RowLine | None = None


class LineFollower:
    """Adds lines to the engine and the ledger."""

    def __init__(
        self,
        rules: SourceRules,
        ledger: StreamLedger,
        settings: FollowSettings,
        clock: StreamClock,
        responder: Responder | None,
    ) -> None:
        self.ledger = ledger
        self.settings = settings
        self.lines = 0
        self.events = 0
        self.committed = Commit()
        self._clock = clock
        self._reader = LineReader(rules)
        self._rows = RowReader(rules=rules, rows=SourceRows(spec=rules.spec, ledger=ledger))
        self._logged = LoggedEvents(ledger=ledger)
        patients = Patients(ledger=ledger, logged=self._logged, responder=responder)
        self.engine = StreamEngine(patients=patients, logged=self._logged)
        self.engine.recover()
        self._issuing = RowIssuing(engine=self.engine, ledger=ledger)
        self._resources: ResourceRows | None = None
        if rules.spec.flatten == "fhir":
            self._resources = ResourceRows(rules.spec, ledger, self._is_ours)

    def commit(self, source: Sequence[SourceLines], since: float | None = None) -> bool:
        """Add lines in the order of the source and commit them with their output; return whether there was anything.

        ``since``: none of the lines could be read before this time (seconds since the epoch).
        """
        commit = self._logged.commit
        commit.since = since
        commit.offsets = {lines.file: lines.end() for lines in source}
        self._turn(self._clock.now())
        items = self._new_readings(self._decoded(source))
        known = {place: item.line for place, item in enumerate(items) if item.subject is not None and item.row is None}
        read = self._reader.read(known)
        self._read_rows([item.row for item in items if item.row is not None])
        self.engine.prepare(item.subject for item in items if item.subject is not None)
        for place, item in enumerate(items):
            self._take(item, place, read)
        if self._clock.kind == "arrival" and not source:
            self._write(self.engine.drain(CLOSED_AT_ONCE))
        if not source and not commit.output and commit.clock is None:
            return False
        self._keep(self.settings.entries_in_memory)
        return True

    def finish(self) -> None:
        """Close open bundles and mark the stream as finished."""
        self._write(self.engine.finish(ahead=self._clock.kind == "event"))
        self._logged.commit.finished = True
        self._keep(self.settings.entries_in_memory)

    def _turn(self, time: int | None) -> None:
        if time is not None:
            self._write(self.engine.turn(time, CLOSED_AT_ONCE))

    def _take(self, item: _Item, place: int, read: ReadLines) -> None:
        if item.subject is None:
            self._turn(line_microseconds(item.line.clock or "", "clock"))
            return
        if item.row is not None:
            self._take_row(item, item.row)
            return
        if place in read.refused:
            self._refuse(item.lines, item.place, read.refused[place])
            return
        events = read.events.get(place)
        if not events:
            self._logged.commit.counts[NO_EVENT if self._reader.has_events(item.line.table) else NO_ROLE] += 1
            return
        self.lines += 1
        self.events += len(events)
        known = line_microseconds(item.line.known or "", "known")
        limit = self._clock.limit(self.engine.time)
        parked = limit is not None and known > limit
        reach = None if parked else known // HOUR
        if not parked:
            self.engine.go_on(known)
        self._write(self.engine.take(item.subject, events, reach=reach, parked=parked))

    def _read_rows(self, rows: Sequence[RowLine]) -> None:
        """Read rows of the source's files with the rows on which their clocks depend."""
        self._rows.rows.forget(self._logged.commit)
        self._issuing.forget()
        self._rows.read(rows)
        self._issuing.prepare({key for row in rows for key in row.events})

    def _take_row(self, item: _Item, row: RowLine) -> None:
        if row.refused is not None:
            self._refuse(item.lines, item.place, row.refused)
            return
        if not row.is_new:
            self._logged.commit.counts[REPEATED] += 1
            return
        self.lines += 1
        self.events += sum(map(len, row.events.values()))
        self._write(self._issuing.take(row, self._clock.limit(self.engine.time)))

    def _write(self, output: Iterator[dict[str, Any]]) -> None:
        for line in output:
            self._logged.commit.output.append(sealed_line(ENCODER.encode(line)))

    def _keep(self, most_entries: int) -> None:
        """Commit, then free memory above the limit: states of idle patients first, then events."""
        commit = self._logged.commit
        commit.snapshots += self.engine.patients.snapshots(most_entries - self.engine.size)
        self.ledger.commit(commit)
        self.engine.forget_events(most_entries - self.engine.patients.size)
        self.committed, self._logged.commit = commit, Commit()

    def _decoded(self, source: Sequence[SourceLines]) -> list[_Item]:
        """Return the rows of our patients and the clock times of lines; quarantine lines that cannot be read."""
        found: list[_Item] = []
        for lines in source:
            for place, text in enumerate(lines.texts):
                try:
                    found += self._items(lines, place, text)
                except Exception as error:  # no line stops the others, whatever is in it
                    self._refuse(lines, place, f"{error or type(error).__name__}")
        return self._ours(found)

    def _items(self, lines: SourceLines, place: int, text: bytes) -> list[_Item]:
        if self._resources is not None and is_resource(text):
            rows = self._resources.read(text, self._logged.commit)
            needed = [self._rows.line(table, row) for table, row in rows if self._rows.needs(table)]
            first = min((row.earliest for row in needed if row.earliest is not None), default=None)
            for row in needed:
                row.earliest = first
            return [_Item(lines, place, subject=row.subject, row=row) for row in needed]
        line = self._reader.decode(text)
        if line.clock is not None:
            return [_Item(lines, place, line)]
        if line.known is not None or not self._rows.needs(line.table):
            return [_Item(lines, place, line, self._reader.subject_of(line))]
        row = self._rows.line(line.table, line.row)
        return [_Item(lines, place, line, row.subject, row)]

    def _new_readings(self, items: list[_Item]) -> list[_Item]:
        """Drop rows that come again unchanged; a row with other cells is a correction."""
        spec, keys, found = self._reader.spec, [], []
        for item in items:
            key = None
            if item.row is None and item.subject is not None and self._reader.has_events(item.line.table):
                try:
                    name = row_id(spec.tables[item.line.table], item.line.row)
                except ValueError as error:
                    self._refuse(item.lines, item.place, f"{item.line.table}: {error}")
                    continue
                key = row_key(item.subject, item.line.table, name)
            keys.append(key)
            found.append(item)
        commit = self._logged.commit
        last: dict[int, RowReading] = self.ledger.seen({key for key in keys if key is not None}) | commit.seen
        items = []
        for item, key in zip(found, keys, strict=True):
            if key is not None:
                line, last[key] = new_reading(item.line, last.get(key))
                commit.seen[key] = last[key]
                if line is None:
                    commit.counts[REPEATED] += 1
                    continue
                item.line = line
            items.append(item)
        return items

    def _ours(self, items: list[_Item]) -> list[_Item]:
        parts = self.settings.partitions
        if parts == 1 or not items:
            return items
        subjects = np.array([0 if item.subject is None else item.subject for item in items], np.int64)
        mine = (bucket_numbers(subjects, parts) == self.settings.partition).tolist()
        return [item for item, is_mine in zip(items, mine, strict=True) if is_mine or item.subject is None]

    def _is_ours(self, subject: int) -> bool:
        parts = self.settings.partitions
        return parts == 1 or int(bucket_numbers(np.array([subject]), parts)[0]) == self.settings.partition

    def _refuse(self, lines: SourceLines, place: int, reason: str) -> None:
        refused = RefusedLine(lines.file, lines.end(place + 1), reason[:500], lines.texts[place])
        self._logged.commit.refused.append(refused)


# Follow a folder: read lines, add them, commit, write the output; after a kill, from where the ledger ends.


_SYNC_COMMITS = 64
"""The output file is synced to the disk once in this many commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReport:
    """What one run of a stream did.

    ``recovered``: entries of earlier runs; ``parked``: lines that wait for their time; ``silent``: lines without effect
    on the output, by reason.
    """

    folder: Path
    recovered: int
    lines: int
    events: int
    bundles: int
    late: int
    refused: int
    parked: int
    silent: dict[str, int]
    commit_seconds: list[float]
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
    """Follow a folder of lines into ``folder`` (``ledger.sqlite`` and ``bundles.jsonl``); resumes where it ended.

    ``ended``: returns whether all lines have been written (default: the setting ``once``).
    UserError: the folder is of another stream, the stream was finished, another process follows it, or the ledger
    cannot grow. OSError: a file beside the ledger cannot be written.
    """
    settings = FollowSettings() if settings is None else settings
    rules = _rules_of(spec, settings)
    if not 0 <= settings.partition < settings.partitions:
        raise UserError(f"--partition must be below --partitions {settings.partitions}, not {settings.partition}")
    private_folder(folder)
    with only_follower(folder), no_cycle_collection(), LEDGER_FORMAT.errors(folder / "ledger.sqlite"):
        ledger = StreamLedger(folder / "ledger.sqlite", _about(rules, settings, responder))
        try:
            if ledger.finished:
                raise UserError(f"{folder}: this stream was finished; give another --out for a new one")
            ledger.note({"lines": str(source.resolve()), "rules": _rules(responder)})
            return _follow(_taking(rules, ledger, settings, responder), source, folder, ended, report)
        finally:
            ledger.close()


def _follow(
    stream: LineFollower, source: Path, folder: Path, ended: Callable[[], bool] | None, report: Reporter
) -> StreamReport:
    ledger, settings = stream.ledger, stream.settings
    output = OutputFile(folder / "bundles.jsonl", ledger)
    quarantine = QuarantineFile(folder / QUARANTINE, ledger)
    recovered, seconds = ledger.lines, list[float]()
    rounds = _rounds(stream, LineFolder(source), settings, ended or (lambda: settings.once))
    for commits, started in enumerate(rounds, 1):
        output.append(stream.committed.output)
        if stream.committed.refused:
            quarantine.append()
        seconds.append(time.perf_counter() - started)
        if commits % _SYNC_COMMITS == 0:
            output.sync()
            ledger.forget_output()
        # a little with every commit: garbage of many commits takes a tenth of a second to collect at once
        gc.collect(0)
        report(Progress(label="stream", done=ledger.lines, unit="lines"))
    output.close()
    return StreamReport(
        folder=folder,
        recovered=recovered,
        lines=stream.lines,
        events=stream.events,
        bundles=ledger.written,
        late=stream.engine.late,
        refused=ledger.refused,
        parked=ledger.parked(),
        silent=ledger.counts(),
        commit_seconds=seconds,
    )


def states_of(
    spec: SourceSpec | SourceRules,
    folder: Path,
    settings: FollowSettings | None = None,
    responder: Responder | None = None,
) -> dict[int, PatientState]:
    """Return the states of all patients of a ledger, open bundles included; writes nothing. Uses memory for all."""
    settings = FollowSettings() if settings is None else settings
    rules = _rules_of(spec, settings)
    ledger = StreamLedger(folder / "ledger.sqlite", _about(rules, settings, responder))
    stream = _taking(rules, ledger, settings, responder)
    for _output in stream.engine.finish(ahead=settings.clock == "event"):
        continue
    stream.engine.patients.load(ledger.subjects())
    ledger.close()
    return stream.engine.patients.states()


def _rules_of(spec: SourceSpec | SourceRules, settings: FollowSettings) -> SourceRules:
    rules = spec if isinstance(spec, SourceRules) else SourceRules.of_source(spec)
    return rules.in_zone(settings.time_zone)


def _taking(
    rules: SourceRules, ledger: StreamLedger, settings: FollowSettings, responder: Responder | None
) -> LineFollower:
    clock = StreamClock.of(settings.clock, settings.skew, rules.spec.time_zone)
    return LineFollower(rules, ledger, settings, clock, responder)


def _about(rules: SourceRules, settings: FollowSettings, responder: Responder | None) -> dict[str, str]:
    return {
        "source": rules.spec.name,
        "clocks": rules.digest,
        "partition": f"{settings.partition} of {settings.partitions}",
        "protocol": str(getattr(responder, "digest", "none")),
        "time zone": rules.spec.time_zone or "none",
    }


def _rules(responder: Responder | None) -> str:
    """Return a responder's rules as JSON, for people who read the output."""
    return ENCODER.encode(dict(getattr(responder, "rules", {}))).decode()


def _rounds(
    stream: LineFollower, source: LineFolder, settings: FollowSettings, ended: Callable[[], bool]
) -> Iterator[float]:
    """Commit lines in rounds; yield when each began (``time.perf_counter``).

    A line that is read now came after the last round that read everything, so it waited no longer than that.
    """
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
