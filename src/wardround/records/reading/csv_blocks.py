"""A CSV file as blocks of whole records: bounded memory, exact line numbers, quoted line breaks kept together.

A file whose header has tabs and no comma is tab-separated, as vocabularies are shipped: quotes mean nothing in it.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.core import RecordError, UserError

BLOCK_BYTES = 4 << 20
WIDEST_RECORD = 4 * BLOCK_BYTES
"""The most bytes of one record; what is longer is set aside unread."""
_WIDEST_HEADER = 1 << 20
_STEP = 1 << 16
_LINE_BREAK = ord("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Whole records, headerless: the first ``size`` bytes of ``buffer``. ``first_line`` is that of the first.

    ``problem``: the block is the beginning of one record that was not read whole, and why.
    """

    buffer: bytes
    size: int
    first_line: int
    separator: str = ","
    problem: str | None = None

    @property
    def data(self) -> memoryview:
        """The records' bytes, not copied."""
        return memoryview(self.buffer)[: self.size]


class CsvFile:
    """One CSV file, plain or gzip. Opening reads the header; ``columns`` are its names in lower case."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rest = b""
        self._bytes_read = 0
        self._stream = _open(path)
        head = self._header()
        self.columns = tuple(name.strip().lower() for name in head)

    def _header(self) -> Sequence[str]:
        parts: list[bytes] = []
        while not parts or b"\n" not in parts[-1]:
            more = self._read(_STEP)
            if not more:
                break
            parts.append(more)
            if len(parts) * _STEP > _WIDEST_HEADER and b"\n" not in more:
                widest = f"{_WIDEST_HEADER >> 20} MB"
                raise RecordError(f"{self.path}: the header line has no end within {widest}; is it a CSV file?")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        text = line.decode("utf-8-sig", "replace").strip()
        if not text:
            raise RecordError(f"{self.path}: the file is empty, expected a header line")
        self.separator, names = split_header(text)
        return names

    def blocks(self) -> Iterator[Block]:
        """Yield the records in order, about ``BLOCK_BYTES`` at a time; once only."""
        line = 2
        pending = self._rest
        while True:
            more = self._read(BLOCK_BYTES)
            data = pending + more if pending else more
            if not more:
                if data:
                    yield Block(buffer=data, size=len(data), first_line=line, separator=self.separator)
                return
            cut = _record_end(data) if self.separator == "," else data.rfind(b"\n") + 1
            if cut == 0 and len(data) > WIDEST_RECORD:
                cut = data.rfind(b"\n") + 1
                if cut == 0:
                    pending = yield from self._too_wide(data, line)
                    line += 1
                    continue
            if cut:
                yield Block(buffer=data, size=cut, first_line=line, separator=self.separator)
                line += int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8, count=cut) == _LINE_BREAK))
            pending = data[cut:]

    def _too_wide(self, data: bytes, line: int) -> Generator[Block, None, bytes]:
        """Yield the beginning of a line that is longer than a record may be; skip to its end, return what follows."""
        rest = b""
        while more := self._read(BLOCK_BYTES):
            found = more.find(b"\n")
            if found >= 0:
                rest = more[found + 1 :]
                break
        problem = f"longer than {WIDEST_RECORD >> 20} MB"
        head = data[:_STEP]
        yield Block(buffer=head, size=len(head), first_line=line, separator=self.separator, problem=problem)
        return rest

    def _read(self, size: int) -> bytes:
        try:
            data = bytes(self._stream.read(size))
        except OSError as error:
            where = f"after {self._bytes_read:,} bytes of content"
            raise RecordError(f"{self.path}: the file is truncated or damaged {where} ({error})") from None
        self._bytes_read += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def split_header(line: str) -> tuple[str, list[str]]:
    """Return what separates the cells of a file, and its column names."""
    if "\t" in line and "," not in line:
        return "\t", [name.strip().strip('"') for name in line.split("\t")]
    return ",", next(csv.reader([line]), [])


def _open(path: Path) -> Any:
    try:
        return pa.input_stream(str(path), compression="gzip" if path.name.endswith(".gz") else None)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{path}: cannot be opened ({error})") from None


def _record_end(data: bytes) -> int:
    """Return the end of the last whole record: after the last line break outside quotes; 0 if there is none."""
    cut = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, cut)
    while cut and quotes % 2:
        earlier = data.rfind(b"\n", 0, cut - 1) + 1
        quotes -= data.count(b'"', earlier, cut)
        cut = earlier
    return cut
