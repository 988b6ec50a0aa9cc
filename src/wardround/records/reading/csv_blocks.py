"""CSV and JSON lines as blocks of whole records with exact line numbers."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.core import RecordError, UserError
from wardround.records.specs.file_format import FileFormat

# A file whose header has tabs and no comma is tab-separated, as vocabularies are: quotes have no meaning in it.
# Blocks are UTF-8 for every encoding of the file.


BLOCK_BYTES = 4 << 20
WIDEST_RECORD = 4 * BLOCK_BYTES
"""The limit of a record in bytes; longer ones are quarantined unread."""
_WIDEST_HEADER = 1 << 20
_STEP = 1 << 16
_CACHED = 1 << 18
_LINE_BREAK, _QUOTE = b"\n", b'"'
_TAB = "\t"
_PLAIN = FileFormat()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsBlock:
    """Whole records without header: the first ``size`` bytes of ``buffer``. ``first_line``: line number of the first.

    ``problem``: why the block is only the beginning of one record. ``place``: where the records begin in a file whose
    own bytes they are.
    """

    buffer: bytes
    size: int
    first_line: int
    separator: str = ","
    problem: str | None = None
    place: int | None = None

    def handed_on(self) -> RecordsBlock:
        """Return the block for another process, without the bytes that it can read itself."""
        return self if self.place is None else replace(self, buffer=b"")

    def filled(self, path: Path) -> RecordsBlock:
        """Return a block of this file, which another process may have handed on, with its bytes."""
        if self.buffer or self.place is None:
            return self
        with path.open("rb") as file:
            file.seek(self.place)
            return replace(self, buffer=file.read(self.size))

    @property
    def is_quoted(self) -> bool:
        """Whether quotes have a meaning."""
        return self.separator != _TAB

    @property
    def data(self) -> memoryview:
        """The records' bytes, not copied."""
        return memoryview(self.buffer)[: self.size]

    @property
    def quotes(self) -> int:
        """The number of quotes in the records."""
        return _count(self.buffer, _QUOTE, self.size)


class CsvFile:
    """One CSV file, plain or gzip. Opening reads the header.

    ``columns``: its names in lower case, or the format's names for its headers."""

    def __init__(self, path: Path, files: FileFormat = _PLAIN) -> None:
        self.path = path
        self.files = files
        self._decode = None if files.is_utf8 else codecs.getincrementaldecoder(files.encoding)("surrogateescape")
        self._rest = b""
        self._bytes_read = 0
        self._is_plain = files.is_utf8 and not _is_gzip(path)
        self._stream = _open(path)
        head = self._header()
        names = (name.strip().lower() for name in head)
        self.columns = tuple(files.headers.get(name, name) for name in names)

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
        self.separator, names = split_header(text, self.files.delimiter)
        return names

    def blocks(self) -> Iterator[RecordsBlock]:
        """Yield the records in order, about ``BLOCK_BYTES`` at a time; once only."""
        line = 2
        pending = self._rest
        while True:
            more = self._read(BLOCK_BYTES)
            data = pending + more if pending else more
            if not more:
                if data:
                    yield self._block(data, len(data), line)
                return
            cut = _record_end(data) if self.separator != _TAB else data.rfind(b"\n") + 1
            if cut == 0 and len(data) > WIDEST_RECORD:
                cut = data.rfind(b"\n") + 1
                if cut == 0:
                    pending = yield from self._too_wide(data, line)
                    line += 1
                    continue
            if cut:
                yield self._block(data, cut, line)
                line += _count(data, _LINE_BREAK, cut)
            pending = data[cut:]

    def _too_wide(self, data: bytes, line: int) -> Generator[RecordsBlock, None, bytes]:
        """Yield the beginning of a line that is longer than a record may be; skip to its end and return the rest."""
        head = self._block(data, min(_STEP, len(data)), line)
        rest = b""
        while more := self._read(BLOCK_BYTES):
            found = more.find(b"\n")
            if found >= 0:
                rest = more[found + 1 :]
                break
        yield replace(head, buffer=data[:_STEP], problem=f"longer than {WIDEST_RECORD >> 20} MB")
        return rest

    def _block(self, data: bytes, size: int, line: int) -> RecordsBlock:
        """Return the first ``size`` of the bytes that were read last."""
        place = self._bytes_read - len(data) if self._is_plain else None
        return RecordsBlock(buffer=data, size=size, first_line=line, separator=self.separator, place=place)

    def _read(self, size: int) -> bytes:
        try:
            data = bytes(self._stream.read(size))
        except OSError as error:
            where = f"after {self._bytes_read:,} bytes of content"
            raise RecordError(f"{self.path}: the file is truncated or damaged {where} ({error})") from None
        self._bytes_read += len(data)
        return data if self._decode is None else self._as_utf8(data)

    def _as_utf8(self, data: bytes) -> bytes:
        """Return bytes of the file's encoding as UTF-8. Invalid bytes are kept, and only their row is lost."""
        assert self._decode is not None
        while True:
            try:
                text = self._decode.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise RecordError(f"{self.path}: is not text in {self.files.encoding} ({error})") from None
            if text or not data:  # a part of a character at the end of a block
                return text.encode("utf-8", "surrogateescape")
            data = bytes(self._stream.read(_STEP))

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def split_header(line: str, delimiter: str = "") -> tuple[str, list[str]]:
    """Return a file's delimiter and its column names."""
    if delimiter == _TAB or (not delimiter and _TAB in line and "," not in line):
        return _TAB, [name.strip().strip('"') for name in line.split(_TAB)]
    return delimiter or ",", next(csv.reader([line], delimiter=delimiter or ","), [])


def _open(path: Path) -> Any:
    try:
        return pa.input_stream(str(path), compression="gzip" if _is_gzip(path) else None)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{path}: cannot be opened ({error})") from None


def _is_gzip(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _count(data: bytes, mark: bytes, end: int) -> int:
    """Count a byte before ``end``; most blocks have no quote at all, and NumPy counts faster than ``bytes.count``, a
    piece that fits the processor's cache at a time."""
    start = data.find(mark, 0, end)
    if start < 0:
        return 0
    found = np.frombuffer(data, np.uint8, end - start, start)
    return sum(int(np.count_nonzero(found[at : at + _CACHED] == mark[0])) for at in range(0, len(found), _CACHED))


def _record_end(data: bytes) -> int:
    """Return the end of the last whole record: after the last line break outside quotes; 0 if there is none."""
    cut = data.rfind(b"\n") + 1
    quotes = _count(data, _QUOTE, cut)
    while cut and quotes % 2:
        earlier = data.rfind(b"\n", 0, cut - 1) + 1
        quotes -= data.count(b'"', earlier, cut)
        cut = earlier
    return cut


# A file of JSON lines as blocks of CSV records: one object per line, its names are the columns.
#
# An object within an object becomes columns of its own (``zeiten.beginn``), a list stays JSON text, ``null`` is an
# empty cell. The columns are the names in all lines, so a file is read twice.


JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_BOM = b"\xef\xbb\xbf"


class _Number(str):
    """A number as written in the file."""


class JsonLinesFile:
    """One file of JSON lines, plain or gzip, with ``columns`` and ``blocks`` as :class:`CsvFile` has them.

    Opening reads the whole file for its names. RecordError: it has no object, or is damaged.
    """

    separator = ","

    def __init__(self, path: Path, files: FileFormat = _PLAIN) -> None:
        self.path = path
        self.files = files
        names: dict[str, None] = {}
        for _, line in self._lines():
            found = read_object(line)
            names.update(dict.fromkeys(self._named(name) for name in found or ()))
        if not names:
            raise RecordError(f"{path}: no line is a JSON object, expected one a line")
        self.columns = tuple(names)

    def blocks(self) -> Iterator[RecordsBlock]:
        """Yield the records in order, about 4 MB at a time. A line without an object is a block with a problem."""
        text, first, place = io.StringIO(newline=""), 1, 0
        writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for place, line in self._lines():
            found = read_object(line)
            if found is None:
                yield from _taken(text, first)
                first = place + 1
                if line.strip():
                    why = "longer than a record may be" if len(line) >= WIDEST_RECORD else "no JSON object"
                    yield RecordsBlock(buffer=line, size=len(line), first_line=place, problem=why)
                continue
            cells = {self._named(name): self._cell(value) for name, value in found.items()}
            before = text.tell()
            writer.writerow([cells.get(name, "") for name in self.columns])
            has_breaks = any("\n" in cell or "\r" in cell for cell in cells.values())
            if has_breaks or before > BLOCK_BYTES:  # records of a block are counted by line breaks
                yield from _taken(text, first)
                first = place + 1
        yield from _taken(text, first)

    def close(self) -> None:
        """Do nothing: the file is open only while its lines are read."""

    def _named(self, name: str) -> str:
        own = name.strip().lower()
        return self.files.headers.get(own, own)

    def _cell(self, value: Any) -> str:
        if isinstance(value, _Number):
            return value.replace(".", self.files.decimal)
        if value is None or isinstance(value, str):
            return value or ""
        return str(value).lower() if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and bytes of every line; of a line longer than a record may be, its beginning."""
        try:
            with gzip.open(self.path) if _is_gzip(self.path) else self.path.open("rb") as stream:
                number = 0
                while line := stream.readline(WIDEST_RECORD):
                    number += 1
                    yield number, line.removeprefix(_BOM) if number == 1 else line
                    while not line.endswith(b"\n") and (line := stream.readline(WIDEST_RECORD)):
                        pass
        except (OSError, EOFError) as error:
            raise RecordError(f"{self.path}: the file is truncated or damaged ({error})") from None


def read_object(line: bytes) -> dict[str, Any] | None:
    """Return the leaves of one line's object by dotted name; None if the line is no object.

    Numbers are texts as written.
    """
    try:
        body = json.loads(line, parse_int=_Number, parse_float=_Number, parse_constant=lambda name: None)
        leaves = dict(_leaves(body)) if isinstance(body, dict) else None
        "".join(leaves or ()).encode()  # a name with half a character is invalid
    except (ValueError, RecursionError):
        return None
    return leaves


def _leaves(body: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _taken(text: io.StringIO, first: int) -> Iterator[RecordsBlock]:
    """Yield the written rows as one block, and empty the buffer."""
    data = text.getvalue().encode(errors="surrogatepass")  # half a character loses its row, as in CSV
    text.seek(0)
    text.truncate()
    if data:
        yield RecordsBlock(buffer=data, size=len(data), first_line=first)
