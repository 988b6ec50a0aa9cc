"""Lines that are rows of source files, and the events that a new reading adds, withdraws or amends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import structs

from wardround.clinical.bundles import BundleEvent, EventKind, ValueLevel
from wardround.clinical.bundles.events import ENDS, HOUR
from wardround.core import from_microseconds, to_microseconds
from wardround.records import TableSpec
from wardround.records.specs import DAY_MICROSECONDS, END_OF_DAY_MICROSECONDS
from wardround.stream.engine import StreamEngine
from wardround.stream.ledger import LedgerReading
from wardround.stream.reading import TakenEvents, packed_events, subject_of
from wardround.stream.source_rows import Cells, RowClocks, RowEvents, SourceRows, StreamedRow, in_rounds, typed_cells
from wardround.stream.source_rules import SourceRules


@dataclass(slots=True, kw_only=True)
class RowLine:
    """A row of a table.

    ``given``: the row's own id, if the line has one; ``earliest``: the first time in the line, in microseconds. Filled
    in when it is read: ``events`` of it and of all rows that depend on it; ``refused``: why it cannot be read;
    ``is_new``: it differs from what is known.
    """

    subject: int
    table: TableSpec
    cells: Cells
    given: str | None
    events: RowEvents = field(default_factory=dict)
    refused: str | None = None
    earliest: int | None = None
    is_new: bool = True


@dataclass(slots=True, kw_only=True)
class RowReader:
    """Reads rows with the rules of the source."""

    rules: SourceRules
    rows: SourceRows

    def needs(self, table: str) -> bool:
        """Whether a table's rows have events, or clocks of other tables read them."""
        return table in self.rules.played or table in self.rules.needed_by

    def line(self, table: str, row: Mapping[str, Any]) -> RowLine:
        """Return a row as a line. ValueError: a cell is no value of its column, or the row has no subject."""
        spec = self.rules.spec.tables[table]
        given = None if "row_id" in spec.read_columns or "row_id" in self.rules.spec.ignored else row.get("row_id")
        subject = subject_of(self.rules.spec, spec, row)
        cells = typed_cells(spec, row)
        own = None if given is None else _own_id(table, given)
        return RowLine(subject=subject, table=spec, cells=cells, given=own, earliest=_earliest(spec, cells))

    def read(self, lines: Sequence[RowLine]) -> None:
        """Add rows in order, and fill in their events."""
        for places in in_rounds([self._step(place, line) for place, line in enumerate(lines)]):
            added: list[tuple[RowLine, StreamedRow]] = []
            for place in places:
                line = lines[place]
                try:
                    row = self.rows.put(line.subject, line.table, line.cells, line.given)
                except Exception as error:  # whatever a row holds, it stops nobody else's
                    line.refused = f"{line.table.name}: {error or type(error).__name__}"
                    continue
                line.is_new = row is not None
                if row is not None:
                    added.append((line, row))
            self._read(added)

    def _step(self, place: int, line: RowLine) -> tuple[int, str, bool]:
        name, key = line.table.name, [line.cells.get(each) for each in line.table.key]
        row = line.given or ("-".join(map(str, key)) if key else f" {place}")
        return line.subject, f"{name}:{row}", self.rules.concerns_others(name, line.cells)

    def _read(self, added: Sequence[tuple[RowLine, StreamedRow]]) -> None:
        try:
            self._events(added)
        except Exception as error:  # one at a time: which of them cannot be read
            if len(added) > 1:
                for pair in added:
                    self._read([pair])
                return
            for line, row in added:
                self.rows.take_back(line.subject, line.table.name, row)
                line.refused, line.events = f"{line.table.name}: {error or type(error).__name__}", {}

    def _events(self, added: Sequence[tuple[RowLine, StreamedRow]]) -> None:
        alone: dict[str, dict[tuple[int, str], StreamedRow]] = defaultdict(dict)
        whole: dict[str, dict[int, RowLine]] = defaultdict(dict)
        for line, row in added:
            name = line.table.name
            line.events = {}
            for table in (name, *self.rules.needed_by.get(name, ())):
                if table not in self.rules.played:
                    continue
                if table == name and table not in self.rules.together:
                    alone[table][row.subject, row.name] = row
                else:
                    whole[table][line.subject] = line
        for table in (*alone, *(each for each in whole if each not in alone)):
            rows = alone[table]
            rows |= {(each.subject, each.name): each for each in self.rows.of(whole[table], table)}
            if not rows:
                continue
            found = RowClocks(rules=self.rules, rows=self.rows).events(table, list(rows.values()))
            single = {(row.subject, row.name): line for line, row in added if line.table.name == table}
            for key, events in found.items():
                line = single.get(key) or whole[table][key[0]]
                line.events[key] = events


def _own_id(table: str, given: object) -> str:
    return str(given) if str(given).startswith(f"{table}:") else f"{table}:{given}"


def _earliest(table: TableSpec, cells: Cells) -> int | None:
    """Return the earliest time in a row, in microseconds."""
    times = (str(cell) for name, cell in cells.items() if table.columns.get(name) in ("time", "date"))
    first = min(times, default=None)
    return None if first is None else to_microseconds(datetime.fromisoformat(first))


# New readings of rows: new events are issued, events that no longer hold are withdrawn or amended.


class IssuedEvent(msgspec.Struct, array_like=True):
    """An event that was issued for a row: its digest, kind, the hour of its bundle, the number of its entry, the
    revision with which it was issued, and its concept."""

    digest: int
    kind: int
    hour: int
    number: int
    revision: int
    concept: str


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[IssuedEvent])


@dataclass(slots=True, kw_only=True)
class RowIssuing:
    """Issues the events of rows as they read now, compared with the events issued before."""

    engine: StreamEngine
    ledger: LedgerReading
    _held: dict[tuple[int, str], list[IssuedEvent]] = field(default_factory=dict)

    def forget(self) -> None:
        """Begin a new commit."""
        self._held = {}

    def prepare(self, rows: set[tuple[int, str]]) -> None:
        """Read the events that were issued for some rows."""
        for row, body in self.ledger.issued(rows - self._held.keys()).items():
            self._held[row] = _DECODER.decode(body)

    def take(self, line: RowLine, limit: int | None) -> Iterator[dict[str, Any]]:
        """Issue the new events of a line's row and of rows that depend on it; yield the output.

        ``limit``: the last time that the line may have, in microseconds.

        The patient's clock moves to the earliest time in the line, not to the time when all of it is known: events that
        become known later, such as a result or a code, wait for their hour.
        """
        subject, rows = line.subject, line.events
        moments = [moment for row, events in rows.items() for moment in self._moments(row, events)]
        times = [moment for moment in (*moments, line.earliest) if moment is not None]
        first = min(map(_since, times)) if moments else None
        parked = limit is not None and first is not None and first > limit
        if first is not None and not parked:
            self.engine.go_on(first)
        if first is not None and not parked and first // HOUR > self.engine.now(subject):
            yield from self.engine.take(subject, [], reach=first // HOUR)
        for row, events in rows.items():
            yield from self._take_row(row, events, parked=parked)

    def _moments(self, row: tuple[int, str], events: TakenEvents) -> Iterator[int]:
        """Yield the times of a row's new events, in microseconds."""
        issued = {each.digest for each in self._held.get(row, ())}
        for event, _ in events:
            if _digest(event) not in issued:
                yield to_microseconds(min(event.time, event.known))

    def _take_row(self, row: tuple[int, str], events: TakenEvents, *, parked: bool) -> Iterator[dict[str, Any]]:
        """Issue the events of one row as it reads now."""
        issued = self._held.get(row, [])
        subject, now = row[0], self.engine.now(row[0])
        wanted = {_digest(event): (event, alone) for event, alone in events}
        kept = [each for each in issued if each.digest in wanted]
        gone = [each for each in issued if each.digest not in wanted]
        new = {digest: pair for digest, pair in wanted.items() if digest not in {each.digest for each in kept}}
        closed = [each for each in gone if not self.engine.is_open(subject, each.hour)]
        for each in gone:
            if self.engine.is_open(subject, each.hour):
                self.engine.withdraw(subject, each.hour, each.number)
        if not new and not gone:
            return
        if any(each.kind not in ENDS for each in closed):
            kept, new = self._amended(row, kept, wanted, new, closed, now)
        self._held[row] = kept
        ordered = sorted(new.items(), key=lambda pair: to_microseconds(pair[1][0].known))
        for digest, (event, alone) in ordered:
            yield from self.engine.take(subject, [(event, alone)], reach=None, parked=parked)
            hour = max(to_microseconds(event.known) // HOUR, now)
            kept.append(IssuedEvent(digest, event.kind, hour, self.engine.lines, event.revision, event.concept))
        self.engine.commit.issued[row] = _ENCODER.encode(kept)

    def _amended(
        self,
        row: tuple[int, str],
        kept: list[IssuedEvent],
        wanted: Mapping[int, tuple[BundleEvent, bool]],
        new: dict[int, tuple[BundleEvent, bool]],
        closed: list[IssuedEvent],
        now: int,
    ) -> tuple[list[IssuedEvent], dict[int, tuple[BundleEvent, bool]]]:
        """Return the events that stay and those to issue, for a row with an issued event that no longer holds.

        The row is issued again as a later version, or withdrawn.
        """
        due = {
            digest: pair
            for digest, pair in wanted.items()
            if _is_plain(pair[0].kind) and to_microseconds(pair[0].known) // HOUR <= now
        }
        version = 1 + max(each.revision for each in (*kept, *closed))
        if not due:
            plain = [each for each in closed if _is_plain(each.kind)]
            gone = {-version: (_withdrawal(row[1], plain[0], version, now), False)} if plain else {}
            return kept if plain else [*kept, *closed], {**new, **gone}
        latest = max(pair[0].revision for pair in due.values())
        again = {
            d: (structs.replace(e, revision=version), alone) for d, (e, alone) in due.items() if e.revision == latest
        }
        kept = [each for each in kept if each.digest not in again]
        ahead = {d: pair for d, pair in new.items() if d not in due}
        return kept, {**ahead, **again}


def _since(time: int) -> int:
    """Return a time; for a date without a time (end of day) the beginning of the day."""
    day = time // DAY_MICROSECONDS * DAY_MICROSECONDS
    return day if time - day == END_OF_DAY_MICROSECONDS else time


def _is_plain(kind: int) -> bool:
    return kind not in ENDS and kind != EventKind.RETRACTION


def _withdrawal(row: str, issued: IssuedEvent, version: int, now: int) -> BundleEvent:
    time = from_microseconds(now * HOUR)
    return BundleEvent(
        kind=EventKind.RETRACTION,
        concept=issued.concept,
        value=None,
        text=None,
        unit=None,
        level=ValueLevel.UNKNOWN,
        time=time,
        known=time,
        row_id=row,
        revision=version,
    )


def _digest(event: BundleEvent) -> int:
    body = packed_events([(event, False)])
    return int.from_bytes(blake2b(body, digest_size=7).digest(), "little")
