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
from wardround.core import UserError, count_broken_seals, open_database_unchanged, register_seals, sealed_tables
from wardround.stream.input import QUARANTINE, is_as_set_aside
from wardround.stream.ledger import SCHEMA_VERSION, LedgerReading, make_tables
from wardround.stream.output import is_as_told
from wardround.stream.patients import LoggedEvents, Patients

# Looking at a stream that another process follows: its ledger as one commit left it, and what it has told.
#
# Nothing is locked or changed, and nothing is seen that is not committed.


LEDGER = "ledger.sqlite"
"""The file in a stream's folder that says what was taken and told."""
TOLD = "told.jsonl"
BLOCK_BYTES = 1 << 22


class OutputBundle(msgspec.Struct, frozen=True, kw_only=True):
    """One line of what a stream tells; what a responder adds beside TRACE's roles is left out."""

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
    """Whether a folder is that of a stream."""
    return (folder / LEDGER).is_file()


@contextmanager
def watched_ledger(folder: Path) -> Iterator[LedgerReading]:
    """Open a stream's ledger for as long as something is read of it: all of that is of one moment.

    UserError: it is no stream, one of another version, or it has not begun.
    """
    with closing(open_ledger(folder / LEDGER)) as connection:
        connection.execute("BEGIN")
        yield LedgerReading(connection)


def open_ledger(path: Path) -> sqlite3.Connection:
    """Open a ledger to look at it. UserError: there is none, or not one of the version that is read here."""
    if not path.is_file():
        raise UserError(f"no stream in {path.parent}; `wardround stream follow --out {path.parent}` makes one")
    return open_database_unchanged(path, partial(sqlite3.connect, uri=True, isolation_level=None), _check, _explained)


def _check(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("SELECT value FROM fact WHERE name = 'schema_version'").fetchone()
    if version != str(SCHEMA_VERSION):
        raise UserError(
            f"the stream is of version {version}, this wardround reads {SCHEMA_VERSION}: follow into a new folder"
        )


def _explained(error: sqlite3.Error, path: Path) -> UserError:
    return UserError(f"{path} cannot be read, it is no ledger or the stream has not begun: {error}")


@dataclass(slots=True)
class OutputReader:
    """Reads on in the file of what is told, whole lines and no further than the ledger says. ``place``: how far."""

    path: Path
    place: int = 0

    def next(self, committed: int) -> Iterator[tuple[int, OutputBundle]]:
        """Yield the bundles that were told since, each with where its line begins."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as source:
            while lines := self._block(source, committed):
                for line in lines:
                    yield self.place, read_told(line, self.path)
                    self.place += len(line) + 1

    def _block(self, source: Any, committed: int) -> list[bytes]:
        """The whole lines of the next block; what is not there to its end waits."""
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
        """Return the bundles whose lines begin at some places."""
        with self.path.open("rb") as source:
            found = []
            for place in places:
                source.seek(place)
                found.append(read_told(source.readline().rstrip(b"\n"), self.path))
        return found


def read_told(line: bytes, path: Path) -> OutputBundle:
    """Read one line. UserError: it is none of a stream's, or not as it was told."""
    if not is_as_told(line + b"\n"):
        raise UserError(f"{path} is damaged: a line of it is not as it was told")
    try:
        return _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} holds a line that no stream tells: {error}") from None


def patient_state(ledger: LedgerReading, subject: int) -> PatientState:
    """Return a patient after the last closed bundle, from the snapshot and the lines since."""
    patients = Patients(ledger=ledger, logged=LoggedEvents(ledger=ledger))
    patients.load([subject])
    return patients.states()[subject]


def patient_events(ledger: LedgerReading, subject: int, hours: Sequence[int]) -> dict[int, list[BundleEvent]]:
    """Return the events of some closed bundles by their hours, as they were told then."""
    bundles = LoggedEvents(ledger=ledger).bundles(list(ledger.bundles_at(subject, hours)))
    return {bundle.hour: [event for event, _ in bundle.events] for bundle in bundles}


# A stream read whole: rows of its ledger against their seals, lines that were told against their checksums.


def damage_of_stream(folder: Path) -> list[str]:
    """Return what is damaged in a stream's folder, a line each; nothing where all is as it was written."""
    path = folder / LEDGER
    try:
        with closing(open_ledger(path)) as connection:
            connection.execute("BEGIN")
            ledger = LedgerReading(connection)
            found = [*_of_ledger(path, connection), *_of_told(folder / TOLD, ledger.length)]
            if not is_as_set_aside(folder / QUARANTINE, ledger):
                found.append(f"{folder / QUARANTINE} is not what the ledger says")
            return found
    except (UserError, sqlite3.Error) as error:
        return [f"{path} cannot be read whole: {error}"]


def _of_ledger(path: Path, connection: sqlite3.Connection) -> Iterator[str]:
    for name, columns in sealed_tables(connection):
        broken = count_broken_seals(connection, name, columns)
        if broken:
            yield f"{path}: {broken:,} rows of {name} are not as they were written"
    if _form(connection) != _form_of_a_new_one():
        yield f"{path}: its tables are not those of a ledger"
    whole = [text for (text,) in connection.execute("PRAGMA integrity_check(5)")]
    if whole != ["ok"]:
        yield f"{path}: its pages are damaged: {'; '.join(whole)}"


def _form(connection: sqlite3.Connection) -> list[tuple[str, str | None]]:
    return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def _form_of_a_new_one() -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        register_seals(connection)
        make_tables(connection)
        return _form(connection)


def _of_told(path: Path, committed: int) -> Iterator[str]:
    """What was committed is looked at; of that a kill may have kept the end from being written, and no more."""
    ends = broken = 0
    with path.open("rb") as file:
        for line in file:
            ends += len(line)
            is_cut = not line.endswith(b"\n") and ends < committed
            broken += ends <= committed and not is_cut and not is_as_told(line)
    if broken:
        yield f"{path}: {broken:,} lines are not as they were told"
