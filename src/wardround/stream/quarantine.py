"""The file of lines that were set aside: where each stands, why, and what it says. Written again from the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wardround.core import private_folder
from wardround.stream.ledger_reading import LedgerReading
from wardround.stream.lines import ENCODER

QUARANTINE = "quarantine.jsonl"
MOST_SHOWN = 4_000
"""Bytes of a line that are written down; the rest is where the line stands."""


class QuarantineFile:
    """Opened, it is what the ledger says, whatever a kill left of it. There is none before a line is set aside."""

    def __init__(self, path: Path, ledger: LedgerReading) -> None:
        private_folder(path.parent)
        self._path, self._ledger, self._number = path, ledger, 0
        path.unlink(missing_ok=True)
        self.append()

    def append(self) -> None:
        """Write what was committed since."""
        for lines, last in _lines(self._ledger, self._number):
            with self._path.open("ab") as target:
                target.write(lines)
            self._number = last


def is_as_set_aside(path: Path, ledger: LedgerReading) -> bool:
    """Say whether the file is what the ledger says, or the beginning of it."""
    there = path.read_bytes() if path.is_file() else b""
    return b"".join(lines for lines, _ in _lines(ledger, 0)).startswith(there)


def _lines(ledger: LedgerReading, after: int) -> Iterator[tuple[bytes, int]]:
    """Yield lines of the file, and the number of the last of them."""
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
