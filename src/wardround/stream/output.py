"""The output file of a stream.

When it is opened, it is cut to the committed length and lines lost to a kill are written again, so it is the same byte
for byte as without the kill. Every line ends with a checksum of itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

from wardround.stream.ledger import StreamLedger

_SEAL = b',"crc32":"'


def sealed_line(line: bytes) -> bytes:
    """Return a line of the file: a JSON object that is not empty, with its CRC-32 as last field."""
    return b'%b%b%08x"}\n' % (line[:-1], _SEAL, crc32(line))


def is_intact(line: bytes) -> bool:
    """Whether a line of the file matches its checksum."""
    return line == sealed_line(line.rpartition(_SEAL)[0] + b"}")


class OutputFile:
    """The output file, restored from the ledger when it is opened.

    After a kill or a loss of power the ledger still has every line that was not synced to the disk.
    """

    def __init__(self, path: Path, ledger: StreamLedger) -> None:
        self._file = path.open("r+b" if path.exists() else "w+b")
        for ends, text in ledger.output_after(0):
            self._file.seek(ends - len(text))
            self._file.write(text)
        self._file.truncate(ledger.length)
        self._file.seek(ledger.length)
        self._file.flush()

    def append(self, lines: Iterable[bytes]) -> None:
        """Write committed lines."""
        self._file.write(b"".join(lines))
        self._file.flush()

    def sync(self) -> None:
        """Sync the file to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync the file to the disk and close it."""
        self.sync()
        self._file.close()
