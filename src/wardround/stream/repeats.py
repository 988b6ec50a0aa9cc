"""Rows that come again: what says nothing new is one reading, what reads differently is a correction."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from wardround.stream.ledger_reading import RowReading
from wardround.stream.lines import ENCODER, StreamLine


def row_key(subject: int, table: str, row_id: str) -> int:
    """Return the number under which the ledger keeps how a row read last."""
    return _number(f"{subject}\n{table}\n{row_id}".encode())


def new_reading(line: StreamLine, last: RowReading | None) -> tuple[StreamLine | None, RowReading]:
    """Return a line as it is to be taken, and how its row reads now; None where it says what was said before.

    A row that comes again without a later revision and reads differently is its next revision.
    """
    cells = _number(ENCODER.encode([sorted(line.row.items()), line.withdrawn, line.pending]))
    if last is None or line.revision > last.revision:
        return line, RowReading(line.revision, cells)
    if cells == last.cells:
        return None, last
    revision = last.revision + 1
    return msgspec.structs.replace(line, revision=revision), RowReading(revision, cells)


def _number(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)
