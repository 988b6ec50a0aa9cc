"""Input of a stream: growing folders, pipes, its clock, quarantined lines."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec

from wardround.core import UserError, private_folder, to_microseconds
from wardround.core.time import format_time
from wardround.records.specs import WallClock
from wardround.stream.ledger import LedgerReading

# The lines of a stream, and a growing folder of them: whole lines are read in order of file name, from an offset.


class StreamLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One row of a table of the source, or the source's ``clock``: everything before that time is complete.

    With ``known`` the row holds from then on, with the columns that a chart returns; ``time``: when it happened;
    ``revision`` above 0: the row was known before; ``withdrawn``: the row does not exist from then on; ``pending``: an
    order of which nothing else is known. Without ``known`` the row is as in the source's files, and the clocks of the
    source decide when each cell is known.
    """

    table: str = ""
    row: dict[str, Any] = {}
    clock: str | None = None
    known: str | None = None
    time: str | None = None
    revision: int = 0
    withdrawn: bool = False
    pending: bool = False


DECODER = msgspec.json.Decoder(StreamLine)
ENCODER = msgspec.json.Encoder()


def written_cell(cell: Any) -> Any:
    """Return a cell as a line writes it: times as in the records."""
    if isinstance(cell, datetime):
        return format_time(cell)
    return cell.isoformat() if isinstance(cell, date) else cell


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLines:
    """Consecutive whole lines of one file. ``start``: the byte at which the first begins."""

    file: str
    start: int
    texts: Sequence[bytes]

    def end(self, count: int | None = None) -> int:
        """Return the byte after the first ``count`` lines (default: all)."""
        return self.start + sum(len(text) + 1 for text in self.texts[:count])


@dataclass(frozen=True, slots=True)
class LineFolder:
    """A folder of growing files ``*.jsonl``: a file is complete when a file of a later name exists."""

    path: Path
    block_bytes: int = 1 << 18

    def read(self, offsets: Mapping[str, int], limit: int) -> Iterator[SourceLines]:
        """Yield up to ``limit`` whole lines after the offsets, file by file. UserError: the folder does not exist."""
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no such folder to follow")
        left = limit
        for file in sorted(self.path.glob("*.jsonl")):
            start = offsets.get(file.name, 0)
            if left and file.stat().st_size > start:
                texts = self._whole_lines(file, start, left)
                left -= len(texts)
                if texts:
                    yield SourceLines(file=file.name, start=start, texts=texts)

    def _whole_lines(self, file: Path, start: int, limit: int) -> list[bytes]:
        found: list[bytes] = []
        with file.open("rb") as source:
            source.seek(start)
            rest = b""
            while len(found) < limit and (block := source.read(self.block_bytes)):
                *lines, rest = (rest + block).split(b"\n")
                found += lines
        return found[:limit]


# A pipe as a folder of lines: input is written to disk first, so that a killed stream finds it again.


_BLOCK = 1 << 16


@dataclass(slots=True)
class Spool:
    """Copies a file descriptor into ``folder`` until it ends; each start writes a new file."""

    descriptor: int
    folder: Path
    _ended: threading.Event = field(default_factory=threading.Event)
    _error: list[OSError] = field(default_factory=list)

    def start(self) -> None:
        """Begin to copy, in a thread."""
        private_folder(self.folder)
        path = self.folder / f"{len(list(self.folder.glob('*.jsonl'))):06d}.jsonl"
        threading.Thread(target=self._copy, args=(path,), daemon=True).start()

    def ended(self) -> bool:
        """Whether all input has been copied. OSError: it could not be read or written."""
        if self._error:
            raise self._error[0]
        return self._ended.is_set()

    def _copy(self, path: Path) -> None:
        try:
            self._copy_blocks(path)
        except OSError as error:
            self._error.append(error)
        finally:
            self._ended.set()

    def _copy_blocks(self, path: Path) -> None:
        """Copy all blocks; a last line without a newline gets one."""
        last = b"\n"
        with path.open("xb", buffering=0) as target:
            while block := os.read(self.descriptor, _BLOCK):
                last = block[-1:]
                while block:  # a disk that is nearly full takes a part
                    block = block[target.write(block) :]
            if last != b"\n":
                target.write(b"\n")


# The file of quarantined lines: file and byte, reason, and text of each. It is made from the ledger.


QUARANTINE = "quarantine.jsonl"
MOST_SHOWN = 4_000
"""Bytes of a quarantined line that are written; the rest is in the source."""


class QuarantineFile:
    """The quarantine file, made anew from the ledger when it is opened; it exists only if a line is quarantined."""

    def __init__(self, path: Path, ledger: LedgerReading) -> None:
        private_folder(path.parent)
        self._path, self._ledger, self._number = path, ledger, 0
        path.unlink(missing_ok=True)
        self.append()

    def append(self) -> None:
        """Write lines that were committed since the last call."""
        for lines, last in _lines(self._ledger, self._number):
            with self._path.open("ab") as target:
                target.write(lines)
            self._number = last


def is_as_set_aside(path: Path, ledger: LedgerReading) -> bool:
    """Whether the file equals what the ledger holds, or the beginning of it."""
    written = path.read_bytes() if path.is_file() else b""
    return b"".join(lines for lines, _ in _lines(ledger, 0)).startswith(written)


def _lines(ledger: LedgerReading, after: int) -> Iterator[tuple[bytes, int]]:
    """Yield lines of the file, and the number of the last line."""
    while rows := ledger.refused_after(after):
        after = rows[-1][0]
        yield b"".join(ENCODER.encode(_shown(*row)) + b"\n" for row in rows), after


def _shown(number: int, file: str, ends: int, reason: str, text: bytes) -> dict[str, Any]:
    return {
        "number": number,
        "file": file,
        "byte": ends - len(text) - 1,
        "reason": reason,
        "line": text[:MOST_SHOWN].decode("utf-8", "backslashreplace"),
    }


# The clock of a stream: the source's own lines ``clock``, or the wall clock.


ClockKind = Literal["event", "arrival"]
CLOCKS: tuple[ClockKind, ...] = ("event", "arrival")
LIVE_SKEW = timedelta(minutes=15)
"""How far ahead of the wall clock a line may be in live use (our choice: clocks of devices are minutes apart)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamClock:
    """The clock that ends hours.

    ``event``: hours end with each patient's own lines and the source's lines ``clock``; ``arrival``: also with the wall
    clock. ``skew``: how far ahead of the clock a line may be; None: no limit (the default of ``event``).
    """

    kind: ClockKind = "event"
    skew: timedelta | None = None
    wall: Callable[[], datetime] = datetime.now

    @classmethod
    def of(cls, kind: ClockKind, skew: timedelta | None, time_zone: str) -> StreamClock:
        """Return the clock of some settings. UserError: unknown kind, or a negative skew."""
        if kind not in CLOCKS:
            raise UserError(f"clock: must be one of {', '.join(CLOCKS)}, not {kind!r}")
        if skew is not None and skew < timedelta(0):
            raise UserError(f"skew: must be 0 minutes or more, not {skew}")
        zone = WallClock.named(time_zone).zone if kind == "arrival" and time_zone else None
        return cls(
            kind=kind,
            skew=LIVE_SKEW if skew is None and kind == "arrival" else skew,
            wall=lambda: datetime.now(zone).replace(tzinfo=None),
        )

    def now(self) -> int | None:
        """The wall clock's local time in microseconds; None unless the kind is ``arrival``."""
        return to_microseconds(self.wall()) if self.kind == "arrival" else None

    def limit(self, time: int) -> int | None:
        """The latest ``known`` that a line may have while the clock is at ``time`` (microseconds); None: no limit."""
        return None if self.skew is None else time + self.skew // timedelta(microseconds=1)
