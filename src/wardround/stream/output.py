"""The file of what is told. It is cut to the length that was committed, and what a kill kept from being written is
written again: it is the same, byte for byte, as if nothing had happened. Every line ends with a checksum of itself."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

from wardround.stream.ledger import StreamLedger

_SEAL = b',"crc32":"'


def sealed_line(told: bytes) -> bytes:
    """Return a line of the file: an object in JSON that something stands in, and the CRC-32 of it."""
    return b'%b%b%08x"}\n' % (told[:-1], _SEAL, crc32(told))


def is_as_told(line: bytes) -> bool:
    """Say whether a line of the file is as it was told."""
    return line == sealed_line(line.rpartition(_SEAL)[0] + b"}")


class OutputFile:
    """Opened, it is what the ledger says, whatever a kill or a loss of power left of what was not seen onto the disk:
    all of that the ledger still holds."""

    def __init__(self, path: Path, ledger: StreamLedger) -> None:
        self._file = path.open("r+b" if path.exists() else "w+b")
        for ends, text in ledger.told_after(0):
            self._file.seek(ends - len(text))
            self._file.write(text)
        self._file.truncate(ledger.length)
        self._file.seek(ledger.length)
        self._file.flush()

    def append(self, told: Iterable[bytes]) -> None:
        """Write what was committed."""
        self._file.write(b"".join(told))
        self._file.flush()

    def sync(self) -> None:
        """See it onto the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, seen onto the disk."""
        self.sync()
        self._file.close()
