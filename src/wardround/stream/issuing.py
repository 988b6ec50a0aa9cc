"""What is new of rows that are read again: it is taken, what is not so any more is taken back or amended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import structs

from wardround.bundles import BundleEvent, EventKind, ValueLevel
from wardround.bundles.events import HOUR
from wardround.bundles.kinds import ENDS
from wardround.core import from_microseconds, to_microseconds
from wardround.records.specs.arrow_types import DAY_MICROSECONDS, END_OF_DAY_MICROSECONDS
from wardround.stream.engine import StreamEngine
from wardround.stream.ledger_reading import LedgerReading
from wardround.stream.row_lines import RowLine
from wardround.stream.taken import TakenEvents, packed_events


class IssuedEvent(msgspec.Struct, array_like=True):
    """An event that was taken of a row: a digest of it, what it is, the hour of its bundle, the entry that holds it,
    the version as which it was said, and its concept."""

    digest: int
    kind: int
    hour: int
    number: int
    revision: int
    concept: str


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[IssuedEvent])


@dataclass(slots=True, kw_only=True)
class RowIssuing:
    """Takes rows as they read now, against what was taken of them."""

    engine: StreamEngine
    ledger: LedgerReading
    _held: dict[tuple[int, str], list[IssuedEvent]] = field(default_factory=dict)

    def forget(self) -> None:
        """Begin another commit."""
        self._held = {}

    def prepare(self, rows: set[tuple[int, str]]) -> None:
        """Read what was taken of some rows."""
        for row, body in self.ledger.issued(rows - self._held.keys()).items():
            self._held[row] = _DECODER.decode(body)

    def take(self, line: RowLine, limit: int | None) -> Iterator[dict[str, Any]]:
        """Take what is new of a line's row and of those that hang on it; yield what is told with it.

        ``limit``: the last time at which it may be.

        The patient's clock comes to the earliest time that the line has, not to when all of it is known: what is known
        later, as a result or a code is, waits for its hour.
        """
        subject, rows = line.subject, line.events
        moments = [moment for row, events in rows.items() for moment in self._moments(row, events)]
        times = [moment for moment in (*moments, line.earliest) if moment is not None]
        first = min(map(_since, times)) if moments else None
        parked = limit is not None and first is not None and first > limit
        if first is not None and not parked and first // HOUR > self.engine.now(subject):
            yield from self.engine.take(subject, [], reach=first // HOUR)
        for row, events in rows.items():
            yield from self._take_row(row, events, parked=parked)

    def _moments(self, row: tuple[int, str], events: TakenEvents) -> Iterator[int]:
        """Yield the times of what is new of a row."""
        held = {each.digest for each in self._held.get(row, ())}
        for event, _ in events:
            if _digest(event) not in held:
                yield to_microseconds(min(event.time, event.known))

    def _take_row(self, row: tuple[int, str], events: TakenEvents, *, parked: bool) -> Iterator[dict[str, Any]]:
        """Take one row as it reads now."""
        held = self._held.get(row, [])
        subject, now = row[0], self.engine.now(row[0])
        wanted = {_digest(event): (event, alone) for event, alone in events}
        kept = [each for each in held if each.digest in wanted]
        gone = [each for each in held if each.digest not in wanted]
        new = {digest: pair for digest, pair in wanted.items() if digest not in {each.digest for each in kept}}
        said = [each for each in gone if not self.engine.is_open(subject, each.hour)]
        for each in gone:
            if self.engine.is_open(subject, each.hour):
                self.engine.withdraw(subject, each.hour, each.number)
        if not new and not gone:
            return
        if any(each.kind not in ENDS for each in said):
            kept, new = self._amended(row, kept, wanted, new, said, now)
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
        said: list[IssuedEvent],
        now: int,
    ) -> tuple[list[IssuedEvent], dict[int, tuple[BundleEvent, bool]]]:
        """Return what stays of what was taken, and what is to be said now, of a row of which something that was said is
        not so: how it reads now, as a later version, or that there is no such row."""
        due = {
            digest: pair
            for digest, pair in wanted.items()
            if _is_plain(pair[0].kind) and to_microseconds(pair[0].known) // HOUR <= now
        }
        version = 1 + max(each.revision for each in (*kept, *said))
        if not due:
            plain = [each for each in said if _is_plain(each.kind)]
            gone = {-version: (_withdrawal(row[1], plain[0], version, now), False)} if plain else {}
            return kept if plain else [*kept, *said], {**new, **gone}
        latest = max(pair[0].revision for pair in due.values())
        again = {
            d: (structs.replace(e, revision=version), alone) for d, (e, alone) in due.items() if e.revision == latest
        }
        kept = [each for each in kept if each.digest not in again]
        ahead = {d: pair for d, pair in new.items() if d not in due}
        return kept, {**ahead, **again}


def _since(time: int) -> int:
    """A time, or where it stands for a day without a time the beginning of the day."""
    day = time // DAY_MICROSECONDS * DAY_MICROSECONDS
    return day if time - day == END_OF_DAY_MICROSECONDS else time


def _is_plain(kind: int) -> bool:
    return kind not in ENDS and kind != EventKind.RETRACTION


def _withdrawal(row: str, said: IssuedEvent, version: int, now: int) -> BundleEvent:
    time = from_microseconds(now * HOUR)
    return BundleEvent(
        kind=EventKind.RETRACTION,
        concept=said.concept,
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
