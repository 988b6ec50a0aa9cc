"""Watch a stream that another process follows, and check its files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from wardround.clinical.bundles import BundleEvent, PatientState
from wardround.core import UserError
from wardround.stream.input import QUARANTINE, is_as_set_aside
from wardround.stream.ledger import LEDGER_FORMAT, LedgerReading
from wardround.stream.output import is_intact
from wardround.stream.patients import LoggedEvents, Patients

# Read a stream that another process follows: its ledger and its output, as of one commit.
#
# Nothing is locked or changed, and only committed data is read.


LEDGER = "ledger.sqlite"
"""The file of a stream's ledger, in its folder."""
BUNDLES_FILE = "bundles.jsonl"
BLOCK_BYTES = 1 << 22


class OutputBundle(msgspec.Struct, frozen=True, kw_only=True):
    """One output line of a stream; fields that a responder adds beside those of TRACE's roles are left out."""

    subject: int
    hour: str
    events: int
    amended: bool = False
    abnormal: list[str] = []
    changes: list[str] = []
    running: int = 0
    predicted: list[dict[str, Any]] = []
    read: list[str] = []
    held: list[str] = []
    rows: dict[str, list[str]] = {}
    audit: dict[str, Any] = {}


_DECODER = msgspec.json.Decoder(OutputBundle)


def is_stream(folder: Path) -> bool:
    """Whether a folder is a stream's."""
    return (folder / LEDGER).is_file()


@contextmanager
def watched_ledger(folder: Path) -> Iterator[LedgerReading]:
    """Open a stream's ledger for reading; everything read within the context is of one moment.

    UserError: the folder is no stream's, of another version, or the stream has not begun.
    """
    with closing(LEDGER_FORMAT.open_unchanged(folder / LEDGER)) as connection:
        connection.execute("BEGIN")
        yield LedgerReading(connection)


@dataclass(slots=True)
class OutputReader:
    """Reads new whole lines of the output file, up to the committed length. ``place``: the next byte."""

    path: Path
    place: int = 0

    def next(self, committed: int) -> Iterator[tuple[int, OutputBundle]]:
        """Yield the bundles written since the last call, each with the byte at which its line begins."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as source:
            while lines := self._block(source, committed):
                for line in lines:
                    yield self.place, read_bundle(line, self.path)
                    self.place += len(line) + 1

    def _block(self, source: Any, committed: int) -> list[bytes]:
        """Return the whole lines of the next block; an unfinished line is left for later."""
        source.seek(self.place)
        size = BLOCK_BYTES
        while True:
            block = source.read(max(0, min(size, committed - self.place)))
            *lines, _rest = block.split(b"\n")
            if lines or len(block) < size:
                return list(lines)
            source.seek(self.place)
            size *= 2

    def at(self, places: Sequence[int]) -> list[OutputBundle]:
        """Return the bundles whose lines begin at some bytes."""
        with self.path.open("rb") as source:
            found = []
            for place in places:
                source.seek(place)
                found.append(read_bundle(source.readline().rstrip(b"\n"), self.path))
        return found


def read_bundle(line: bytes, path: Path) -> OutputBundle:
    """Parse one output line. UserError: it is not a stream's, or it was changed after it was written."""
    if not is_intact(line + b"\n"):
        raise UserError(f"{path} is damaged: a line does not match its checksum")
    try:
        return _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} has a line that no stream writes: {error}") from None


def patient_state(ledger: LedgerReading, subject: int) -> PatientState:
    """Return a patient after the last closed bundle, from the snapshot and the lines since."""
    patients = Patients(ledger=ledger, logged=LoggedEvents(ledger=ledger))
    patients.load([subject])
    return patients.states()[subject]


def patient_events(ledger: LedgerReading, subject: int, hours: Sequence[int]) -> dict[int, list[BundleEvent]]:
    """Return the events of some closed bundles by hour, as they were when the bundle was closed."""
    bundles = LoggedEvents(ledger=ledger).bundles(list(ledger.bundles_at(subject, hours)))
    return {bundle.hour: [event for event, _ in bundle.events] for bundle in bundles}


# Check a whole stream: rows of the ledger against their seals, output lines against their checksums.


def damage_of_stream(folder: Path) -> list[str]:
    """Return the damage in a stream's folder, a line each; empty if everything is as it was written."""
    return LEDGER_FORMAT.damage(folder / LEDGER, partial(_of_stream, folder))


def _of_stream(folder: Path, connection: sqlite3.Connection) -> Iterator[str]:
    connection.execute("BEGIN")
    ledger = LedgerReading(connection)
    with closing(LEDGER_FORMAT.in_memory()) as new:
        if _form(connection) != _form(new):
            yield "its tables are not those of a ledger"
    broken = _count_changed_lines(folder / BUNDLES_FILE, ledger.length)
    if broken:
        yield f"{broken:,} lines of {BUNDLES_FILE} do not match their checksums"
    if not is_as_set_aside(folder / QUARANTINE, ledger):
        yield f"{QUARANTINE} differs from the ledger"


def _form(connection: sqlite3.Connection) -> list[tuple[str, str | None]]:
    return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def _count_changed_lines(path: Path, committed: int) -> int:
    """Count committed lines that were changed; an end that a kill cut off is not counted."""
    ends = broken = 0
    with path.open("rb") as file:
        for line in file:
            ends += len(line)
            is_cut = not line.endswith(b"\n") and ends < committed
            broken += ends <= committed and not is_cut and not is_intact(line)
    return broken
