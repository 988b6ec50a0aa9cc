"""Write the hospital's files in compressed batches."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from wardround.core import UserError
from wardround.synth.columns import COLUMNS, DICTIONARIES, MODULES

# A batch is one gzip member (time stamp 0), so files are the same bytes however many processes made them.


Packed = Mapping[str, tuple[bytes, int, int]]
"""Table -> (bytes, rows, uncompressed bytes)."""
_LEVEL = 4


def pack(lines: Mapping[str, list[str]], *, compress: bool) -> dict[str, tuple[bytes, int, int]]:
    """Encode, and compress, the lines of each table that has any."""
    packed = {}
    for table, rows in lines.items():
        if rows:
            plain = "".join(rows).encode()
            body = gzip.compress(plain, _LEVEL, mtime=0) if compress else plain
            packed[table] = (body, len(rows), len(plain))
    return packed


class Files:
    """Open files of all tables of the chosen modules; counts rows and bytes."""

    def __init__(self, folder: Path, modules: set[str], *, compress: bool) -> None:
        self.folder, self.compress = folder, compress
        self.rows: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self._checksums: dict[str, int] = {}
        self._files: dict[str, BinaryIO] = {}
        self._tables = [table for table in COLUMNS if MODULES[table] in modules]

    def __enter__(self) -> Files:
        for table in self._tables:
            path = self.folder / MODULES[table] / f"{table}.csv{'.gz' if self.compress else ''}"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._files[table] = path.open("wb")
            except OSError as error:
                raise UserError(f"cannot write {str(path)!r}: {error.strerror}; choose another folder") from error
            self.rows[table] = self.bytes[table] = self._checksums[table] = 0
            header = ",".join(COLUMNS[table]) + "\n"
            self._write(table, pack({table: [header]}, compress=self.compress)[table][0])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def append(self, packed: Packed) -> None:
        """Append a batch to the files of the chosen modules."""
        for table in self._files:
            if table in packed:
                body, rows, plain = packed[table]
                self._write(table, body)
                self.rows[table] += rows
                self.bytes[table] += plain

    def _write(self, table: str, body: bytes) -> None:
        try:
            self._files[table].write(body)
        except OSError as error:
            raise UserError(
                f"cannot write table {table!r}: {error.strerror}; free space or choose another folder"
            ) from error
        self._checksums[table] = zlib.crc32(body, self._checksums[table])

    def checksums(self) -> dict[str, str]:
        """Return table -> CRC-32 of the file as hex: the same for the same seed."""
        return {table: f"{value:08x}" for table, value in self._checksums.items()}


# Rows waiting to be written: one list of finished CSV lines per table.


class TableLines:
    """The rows of a batch of subjects. ``tables[name].append(line)``; a line ends in a newline."""

    __slots__ = ("tables",)

    def __init__(self) -> None:
        self.tables: dict[str, list[str]] = {name: [] for name in COLUMNS if name not in DICTIONARIES}


def quoted(text: str) -> str:
    """Return a CSV cell: quoted exactly when it must be."""
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


_WITH_DIGITS = tuple(f"%.{digits}f" for digits in range(5))


def number_text(value: float, digits: int) -> str:
    """Return a number as laboratories print it: that many decimals, trailing zeros dropped."""
    if digits == 0:
        return str(round(value))
    return (_WITH_DIGITS[digits] % value).rstrip("0").rstrip(".")
