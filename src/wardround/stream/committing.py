"""One commit: lines are read together, taken one after another, and kept with what is told and the source's offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wardround.bundles.events import HOUR
from wardround.core import to_microseconds
from wardround.records.shards.layout import bucket_numbers
from wardround.stream.cells import line_time
from wardround.stream.clock import StreamClock
from wardround.stream.closing import Responder
from wardround.stream.engine import StreamEngine
from wardround.stream.issuing import RowIssuing
from wardround.stream.ledger import Commit, RefusedLine, StreamLedger
from wardround.stream.ledger_reading import RowReading
from wardround.stream.lines import ENCODER, SourceLines, StreamLine
from wardround.stream.logged import LoggedEvents
from wardround.stream.patients import Patients
from wardround.stream.reading import LineReader, ReadLines, row_id
from wardround.stream.repeats import new_reading, row_key
from wardround.stream.resources import ResourceRows, is_resource
from wardround.stream.row_lines import RowLine, RowReader
from wardround.stream.settings import FollowSettings
from wardround.stream.source_rows import SourceRows
from wardround.stream.source_rules import SourceRules
from wardround.stream.told import sealed_line

CLOSED_AT_ONCE = 256
"""So many bundles that a turn of the clock ends are closed with it, the others with the lines that follow."""
REPEATED, NO_ROLE, NO_EVENT = "repeated", "without a role", "without an event"


@dataclass(slots=True)
class _Item:
    """One thing to take: a row of ``subject`` that says when it became known, or one of the source's files (``row``),
    or a time of the source's clock (subject None)."""

    lines: SourceLines
    place: int
    line: StreamLine = field(default_factory=StreamLine)
    subject: int | None = None
    row: RowLine | None = None


class LineTaking:
    """Takes lines into the engine and the ledger."""

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
        """Take lines as they stand in the source, none there before ``since``; commit them with what is told. Say
        whether there was anything to commit."""
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
            self._tell(self.engine.drain(CLOSED_AT_ONCE))
        if not source and not commit.told and commit.clock is None:
            return False
        self._keep(self.settings.entries_in_memory)
        return True

    def finish(self) -> None:
        """Close what is open and say that the stream is over."""
        self._tell(self.engine.finish(ahead=self._clock.kind == "event"))
        self._logged.commit.finished = True
        self._keep(self.settings.entries_in_memory)

    def _turn(self, time: int | None) -> None:
        if time is not None:
            hour = self.engine.clock
            self.engine.turn(time)
            if self.engine.clock > hour:
                self._tell(self.engine.drain(CLOSED_AT_ONCE))

    def _take(self, item: _Item, place: int, read: ReadLines) -> None:
        if item.subject is None:
            self._turn(to_microseconds(line_time(item.line.clock or "", "clock")))
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
        known = to_microseconds(line_time(item.line.known or "", "known"))
        limit = self._clock.limit(self.engine.time)
        parked = limit is not None and known > limit
        reach = None if parked else known // HOUR
        self._tell(self.engine.take(item.subject, events, reach=reach, parked=parked))

    def _read_rows(self, rows: Sequence[RowLine]) -> None:
        """Read rows of the source's files with the rows on which their clocks hang."""
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
        self._tell(self._issuing.take(row, self._clock.limit(self.engine.time)))

    def _tell(self, told: Iterator[dict[str, Any]]) -> None:
        self._logged.commit.told += (sealed_line(ENCODER.encode(one)) for one in told)

    def _keep(self, most_entries: int) -> None:
        """Commit, and forget what is more than there is room for: states of the idle first, then events."""
        commit = self._logged.commit
        commit.snapshots += self.engine.patients.snapshots(max(0, most_entries - self.engine.size))
        self.ledger.commit(commit)
        self.engine.forget_events(max(0, most_entries - self.engine.patients.size))
        self.committed, self._logged.commit = commit, Commit()

    def _decoded(self, source: Sequence[SourceLines]) -> list[_Item]:
        """Return the rows of our patients and the times that lines say; set aside what cannot be read."""
        found: list[_Item] = []
        for lines in source:
            for place, text in enumerate(lines.texts):
                try:
                    found += self._items(lines, place, text)
                except Exception as error:  # whatever a line holds, it stops nobody else's
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
        """Leave out rows that come again and say nothing new; what reads differently is a correction."""
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
