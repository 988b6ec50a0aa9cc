"""Following a folder: read lines, take them, commit, write what is told; after a kill, from where the ledger ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from wardround.bundles import BundleEvent, PatientState
from wardround.bundles.amendments import as_if_always_so
from wardround.bundles.events import HOUR, BundleEvents, cut, in_order
from wardround.bundles.fold import fold_events
from wardround.bundles.levels import levels_by_limits, with_levels
from wardround.core import Progress, Reporter, UserError, from_microseconds, private_folder, silent, to_microseconds
from wardround.records import SourceSpec
from wardround.records.shards.layout import bucket_numbers
from wardround.stream.engine import Responder, StreamEngine
from wardround.stream.ledger import LoggedLine, StreamLedger, ToldFile
from wardround.stream.lines import ENCODER, LineFolder, SourceLine, StreamLine
from wardround.stream.reading import DecodeError, LineReader

_SYNC_COMMITS = 64
"""The file of what is told is seen onto the disk once in so many commits."""
TakenEvents = list[tuple[BundleEvent, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    """``lines_per_commit``: at most; ``partition`` of ``partitions``: the subjects whose number's hash falls on it.
    ``once``: end when all that is there is read; ``finish``: then close what is open, too."""

    lines_per_commit: int = 1_000
    partition: int = 0
    partitions: int = 1
    once: bool = False
    finish: bool = False
    idle_seconds: float = 0.02


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
    report: Reporter = silent,
) -> StreamReport:
    """Follow a folder of lines into ``folder`` (``ledger.sqlite`` and ``told.jsonl``); resumes where it was ended.

    UserError: the folder is of another stream, or it was finished.
    """
    settings = FollowSettings() if settings is None else settings
    if not 0 <= settings.partition < settings.partitions:
        raise UserError(f"--partition must be below --partitions {settings.partitions}, not {settings.partition}")
    private_folder(folder)
    ledger = StreamLedger(folder / "ledger.sqlite", _about(spec, settings))
    if ledger.finished:
        ledger.close()
        raise UserError(f"{folder}: this stream was finished; give another --out for a new one")
    told = ToldFile(folder / "told.jsonl", ledger)
    stream = _Stream(LineReader(spec), ledger, settings, responder)
    made = StreamReport(folder=folder, recovered=stream.recover())
    for commits, started in enumerate(_rounds(stream, LineFolder(source), settings), 1):
        told.append(stream.written)
        made.commit_seconds.append(time.perf_counter() - started)
        if commits % _SYNC_COMMITS == 0:
            told.sync()
            ledger.forget_told()
        report(Progress(label="stream", done=ledger.lines, unit="lines"))
    made.lines, made.events = ledger.lines - made.recovered, stream.events
    made.told, made.late, made.refused = ledger.told, stream.engine.late, ledger.refused
    told.close()
    ledger.close()
    return made


def states_of(spec: SourceSpec, folder: Path, settings: FollowSettings | None = None) -> dict[int, PatientState]:
    """Return the states that a stream's ledger comes to, open bundles included; nothing is told."""
    settings = FollowSettings() if settings is None else settings
    ledger = StreamLedger(folder / "ledger.sqlite", _about(spec, settings))
    stream = _Stream(LineReader(spec), ledger, settings, None)
    stream.recover()
    for _told in stream.engine.finish():
        continue
    ledger.close()
    return {subject: patient.state for subject, patient in stream.engine.patients.items()}


def _about(spec: SourceSpec, settings: FollowSettings) -> dict[str, str]:
    return {"source": spec.name, "partition": f"{settings.partition} of {settings.partitions}"}


def _rounds(stream: _Stream, source: LineFolder, settings: FollowSettings) -> Iterator[float]:
    """Commit some lines again and again; yield when each round began. Ends by itself only with ``once``."""
    while True:
        started = time.perf_counter()
        lines = list(source.read(stream.ledger.offsets, settings.lines_per_commit))
        if lines:
            stream.commit(lines)
            yield started
        elif not settings.once:
            time.sleep(settings.idle_seconds)
        else:
            break
    if settings.finish:
        stream.finish()
        yield started


class _Stream:
    """The engine with its ledger."""

    def __init__(
        self, reader: LineReader, ledger: StreamLedger, settings: FollowSettings, responder: Responder | None
    ) -> None:
        self.ledger = ledger
        self.engine = StreamEngine(refold=self._refold, responder=responder)
        self.events = 0
        self.written: list[bytes] = []
        self._reader = reader
        self._settings = settings
        self._taken: list[LoggedLine] = []
        """Lines of the commit that is being made, which are not in the ledger yet."""
        self._limit: int | None = None
        """While recovering: how many lines of the ledger had been taken then."""

    def recover(self) -> int:
        """Take again what the ledger holds; nothing of it is told again. Return how many lines."""
        lines = self.ledger.every_line()
        done = 0
        while some := list(islice(lines, 10_000)):
            decoded = [self._reader.decode(text) for _, _, text in some]
            for place, events in enumerate(self._events(decoded, {})):
                subject, hour, _ = some[place]
                self._limit = done + place + 1
                for _told in self.engine.take(subject, hour, events):
                    continue
            done += len(some)
        self._limit = None
        return done

    def commit(self, source: Sequence[SourceLine]) -> None:
        """Take lines as they stand in the source, and commit them with what is told."""
        refused: list[tuple[str, int, str]] = []
        kept = list(self._decoded(source, refused))
        unread: dict[int, str] = {}
        all_events = self._events([decoded for _, decoded, _ in kept], unread)
        told: list[bytes] = []
        self._taken = []
        for place, (line, _, subject) in enumerate(kept):
            if place in unread:
                refused.append((line.file, line.end, unread[place]))
            elif all_events[place]:
                told += self._take(subject, line.text, all_events[place])
        offsets = {line.file: line.end for line in source}
        self.ledger.commit(self._taken, told, offsets, refused)
        self.written, self._taken = told, []

    def _decoded(
        self, source: Sequence[SourceLine], refused: list[tuple[str, int, str]]
    ) -> Iterator[tuple[SourceLine, StreamLine, int]]:
        """Yield the lines of our subjects that can be read; note the others."""
        for line in source:
            try:
                decoded = self._reader.decode(line.text)
                subject = self._reader.subject_of(decoded)
            except DecodeError as error:
                refused.append((line.file, line.end, str(error)))
                continue
            if self._is_ours(subject):
                yield line, decoded, subject

    def finish(self) -> None:
        """Close what is open and say that the stream is over."""
        told = [_line(each) for each in self.engine.finish()]
        self.ledger.commit([], told, {}, [], finished=True)
        self.written = told

    def _is_ours(self, subject: int) -> bool:
        parts = self._settings.partitions
        return parts == 1 or int(bucket_numbers(np.array([subject]), parts)[0]) == self._settings.partition

    def _take(self, subject: int, text: bytes, events: TakenEvents) -> list[bytes]:
        hour = _hour(events[0][0].known)
        self._taken.append((subject, max(hour, self.engine.hour), text))
        self.events += len(events)
        return [_line(each) for each in self.engine.take(subject, hour, events)]

    def _events(self, lines: Sequence[StreamLine], unread: dict[int, str]) -> list[TakenEvents]:
        """Return the events of every line, each with whether only the person's own values can tell its level."""
        read = self._reader.read(lines)
        unread.update(read.refused)
        levels, alone = levels_by_limits(read.events)
        events = zip(replace(read.events, level=levels), alone.tolist(), strict=True)
        found: list[TakenEvents] = [[] for _ in lines]
        for place, event in zip(read.line.tolist(), events, strict=True):
            found[place].append(event)
        return found

    def _refold(self, subject: int, hour: int) -> tuple[PatientState, dict[str, float]]:
        logged = self.ledger.lines_of(subject, self._limit)
        logged += [(their_hour, text) for whose, their_hour, text in self._taken if whose == subject]
        logged = [each for each in logged if each[0] <= hour]
        read = self._reader.read([self._reader.decode(text) for _, text in logged])
        hours = np.array([their_hour for their_hour, _ in logged], np.int64)[read.line]
        known = np.maximum(read.events.known, hours * HOUR)
        events = with_levels(as_if_always_so(in_order(replace(read.events, known=known))))
        state = PatientState(subject_id=subject)
        for bundle in cut(events):
            state = fold_events(state, bundle.hour, bundle.events)
        return replace(state, hour=from_microseconds(hour * HOUR)), _first_values(events)


def _first_values(events: BundleEvents) -> dict[str, float]:
    """Return a subject's first value of every measurement that has no limits."""
    _, alone = levels_by_limits(events)
    first: dict[str, float] = {}
    for place in np.flatnonzero(alone).tolist():
        first.setdefault(events.names[int(events.concept[place])], float(events.value[place]))
    return first


def _hour(known: datetime) -> int:
    return to_microseconds(known) // HOUR


def _line(told: dict[str, Any]) -> bytes:
    return ENCODER.encode(told) + b"\n"
