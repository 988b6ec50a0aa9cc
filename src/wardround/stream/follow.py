"""Following a folder: read lines, take them, commit, write what is told; after a kill, from where the ledger ends."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from wardround.bundles import PatientState
from wardround.core import Progress, Reporter, UserError, private_folder, silent
from wardround.records import SourceSpec
from wardround.records.shards.layout import bucket_numbers
from wardround.stream.closing import Closing, Responder
from wardround.stream.engine import StreamEngine
from wardround.stream.ledger import Commit, StreamLedger
from wardround.stream.ledger_reading import LoggedLine
from wardround.stream.lines import ENCODER, LineFolder, SourceLines, StreamLine
from wardround.stream.logged import LoggedEvents
from wardround.stream.patients import Patients
from wardround.stream.reading import DecodeError, LineReader
from wardround.stream.resources import ResourceLines, is_resource
from wardround.stream.told import ToldFile

_SYNC_COMMITS = 64
"""The file of what is told is seen onto the disk once in so many commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    """``lines_per_commit``: at most; ``partition`` of ``partitions``: the subjects whose number's hash falls on it.
    ``once``: end when all that is there is read; ``finish``: then close what is open, too. ``seconds_per_commit``: at
    least so long from one commit to the next, so that lines that come singly share one. ``entries_in_memory``: events
    of open bundles, and entries of states (about half a kilobyte each); what is more lies in the ledger. ``time_zone``:
    where the patients are, for FHIR resources whose times say how far they are from UTC."""

    lines_per_commit: int = 1_000
    partition: int = 0
    partitions: int = 1
    once: bool = False
    finish: bool = False
    time_zone: str | None = None
    seconds_per_commit: float = 0.025
    entries_in_memory: int = 1_000_000


@dataclass(slots=True, kw_only=True)
class StreamReport:
    """What one run of a stream did: ``recovered`` lines were taken before it."""

    folder: Path
    recovered: int = 0
    lines: int = 0
    events: int = 0
    told: int = 0
    late: int = 0
    refused: int = 0
    commit_seconds: list[float] = field(default_factory=list)
    """How long each commit took, from the first line read to the end of the transaction."""


def follow(
    spec: SourceSpec,
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
    UserError: the folder is of another stream, or it was finished.
    """
    settings = FollowSettings() if settings is None else settings
    if not 0 <= settings.partition < settings.partitions:
        raise UserError(f"--partition must be below --partitions {settings.partitions}, not {settings.partition}")
    private_folder(folder)
    ledger = StreamLedger(folder / "ledger.sqlite", _about(spec, settings, responder))
    if ledger.finished:
        ledger.close()
        raise UserError(f"{folder}: this stream was finished; give another --out for a new one")
    ledger.note({"lines": str(source.resolve()), "rules": _rules(responder)})
    told = ToldFile(folder / "told.jsonl", ledger)
    stream = _Stream(LineReader(spec), ledger, settings, responder)
    made = StreamReport(folder=folder, recovered=ledger.lines)
    with _young_garbage_only():
        for commits, started in enumerate(
            _rounds(stream, LineFolder(source), settings, ended or (lambda: settings.once)), 1
        ):
            told.append(stream.committed.told)
            made.commit_seconds.append(time.perf_counter() - started)
            if commits % _SYNC_COMMITS == 0:
                told.sync()
                ledger.forget_told()
            # a little with every commit: what many commits leave takes a tenth of a second to look through at once
            gc.collect(0)
            report(Progress(label="stream", done=ledger.lines, unit="lines"))
    made.lines, made.events = ledger.lines - made.recovered, stream.events
    made.told, made.late, made.refused = ledger.told, stream.late, ledger.refused
    told.close()
    ledger.close()
    return made


def states_of(
    spec: SourceSpec, folder: Path, settings: FollowSettings | None = None, responder: Responder | None = None
) -> dict[int, PatientState]:
    """Return the states that a stream's ledger comes to, open bundles included; nothing is told. All in memory."""
    settings = FollowSettings() if settings is None else settings
    ledger = StreamLedger(folder / "ledger.sqlite", _about(spec, settings, responder))
    stream = _Stream(LineReader(spec), ledger, settings, responder)
    for _told in stream.engine.finish():
        continue
    stream.engine.patients.load(ledger.subjects())
    ledger.close()
    return stream.engine.patients.states()


def _about(spec: SourceSpec, settings: FollowSettings, responder: Responder | None) -> dict[str, str]:
    return {
        "source": spec.name,
        "partition": f"{settings.partition} of {settings.partitions}",
        "protocol": str(getattr(responder, "digest", "none")),
        "time zone": settings.time_zone or "none",
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


def _rounds(
    stream: _Stream, source: LineFolder, settings: FollowSettings, ended: Callable[[], bool]
) -> Iterator[float]:
    """Commit some lines again and again; yield when each round began. What is read now was not there when the last
    round looked that left nothing: no line waited longer."""
    since = time.time()
    while True:
        started, looked = time.perf_counter(), time.time()
        is_last = ended()
        lines = list(source.read(stream.ledger.offsets, settings.lines_per_commit))
        if lines:
            stream.commit(lines, since)
            yield started
        elif is_last:
            break
        if sum(len(part.texts) for part in lines) < settings.lines_per_commit:
            since = looked
        if not is_last:
            time.sleep(max(0.0, started + settings.seconds_per_commit - time.perf_counter()))
    if settings.finish:
        stream.finish()
        yield started


@dataclass(frozen=True, slots=True)
class _OurLines:
    """The lines of a commit that are ours and can be read, n of each. ``places``: where each stands in the source."""

    texts: list[bytes] = field(default_factory=list)
    decoded: list[StreamLine] = field(default_factory=list)
    subjects: list[int] = field(default_factory=list)
    places: list[tuple[SourceLines, int]] = field(default_factory=list)


class _Stream:
    """The engine with its ledger."""

    def __init__(
        self, reader: LineReader, ledger: StreamLedger, settings: FollowSettings, responder: Responder | None
    ) -> None:
        self.ledger = ledger
        self.events = 0
        self.late = 0
        self.committed = Commit()
        self._reader = reader
        self._settings = settings
        self._logged = LoggedEvents(reader=reader, ledger=ledger)
        closing = Closing(refold=self._logged.refold, responder=responder)
        patients = Patients(ledger=ledger, logged=self._logged, closing=closing)
        self.engine = StreamEngine(patients=patients, logged=self._logged)
        self.engine.recover()
        self._resources: ResourceLines | None = None
        if reader.spec.flatten == "fhir":
            self._resources = ResourceLines(reader, ledger, self._is_ours, settings.time_zone)

    def commit(self, source: Sequence[SourceLines], since: float | None = None) -> None:
        """Take lines as they stand in the source, none there before ``since``; commit them with what is told."""
        commit = self._logged.commit
        commit.since = since
        commit.offsets = {lines.file: lines.end() for lines in source}
        ours = self._ours(self._decoded(source))
        read = self._reader.read(ours.decoded)
        for place, reason in read.refused.items():
            self._refuse(*ours.places[place], reason)
        hours = read.hours(len(ours.decoded), self.engine.hour)
        self.late += len(np.unique(read.line[read.events.hour < hours[read.line]]))
        self.events += len(read.events)
        number = self.ledger.lines
        rows = zip(ours.subjects, hours.tolist(), ours.texts, read.by_line(hours), strict=True)
        for subject, hour, text, events in rows:
            if events:
                number += 1
                commit.lines.append(LoggedLine(number, subject, hour, text))
                commit.told += map(_line, self.engine.take(subject, number, hour, events))
        self._keep(self._settings.entries_in_memory)

    def finish(self) -> None:
        """Close what is open and say that the stream is over."""
        commit = self._logged.commit
        commit.told += map(_line, self.engine.finish())
        commit.finished = True
        self._keep(self._settings.entries_in_memory)

    def _keep(self, most_entries: int) -> None:
        """Commit, and forget what is more than there is room for: states of the idle first, then events."""
        commit = self._logged.commit
        commit.snapshots += self.engine.patients.snapshots(max(0, most_entries - self.engine.size))
        self.ledger.commit(commit)
        self.engine.forget_events(max(0, most_entries - self.engine.patients.size))
        self.committed, self._logged.commit = commit, Commit()

    def _decoded(self, source: Sequence[SourceLines]) -> _OurLines:
        """Return the lines that can be read; note the others."""
        found = _OurLines()
        for lines in source:
            resources = self._of_resources(lines)
            for place, text in enumerate(lines.texts):
                try:
                    for decoded in resources[place] if place in resources else (self._reader.decode(text),):
                        found.subjects.append(self._reader.subject_of(decoded))
                        found.decoded.append(decoded)
                        found.texts.append(ENCODER.encode(decoded) if place in resources else text)
                        found.places.append((lines, place))
                except DecodeError as error:
                    self._refuse(lines, place, str(error))
        return found

    def _of_resources(self, lines: SourceLines) -> dict[int, list[StreamLine]]:
        """Return the rows that the resources among some lines come to, by the places of these."""
        if self._resources is None:
            return {}
        texts = {place: text for place, text in enumerate(lines.texts) if is_resource(text)}
        refused: dict[int, str] = {}
        found = self._resources.read(texts, self._logged.commit, refused)
        for place, reason in refused.items():
            self._refuse(lines, place, reason)
        return found

    def _ours(self, lines: _OurLines) -> _OurLines:
        parts = self._settings.partitions
        if parts == 1:
            return lines
        mine = (bucket_numbers(np.array(lines.subjects, np.int64), parts) == self._settings.partition).tolist()
        return _OurLines(*(list(compress(getattr(lines, each.name), mine)) for each in fields(lines)))

    def _is_ours(self, subject: int) -> bool:
        parts = self._settings.partitions
        return parts == 1 or int(bucket_numbers(np.array([subject]), parts)[0]) == self._settings.partition

    def _refuse(self, lines: SourceLines, place: int, reason: str) -> None:
        self._logged.commit.refused.append((lines.file, lines.end(place + 1), reason))


def _line(told: dict[str, Any]) -> bytes:
    return ENCODER.encode(told) + b"\n"
