"""A file of JSON lines as blocks of CSV records: one object a line, its names are the columns.

An object within an object becomes columns of its own (``zeiten.beginn``), a list stays JSON text, ``null`` is an empty
cell. The columns are the names of all lines, so a file is gone through twice.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wardround.core import RecordError
from wardround.records.reading.csv_blocks import BLOCK_BYTES, WIDEST_RECORD, RecordsBlock
from wardround.records.specs.file_format import FileFormat

JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_PLAIN = FileFormat()
_BOM = b"\xef\xbb\xbf"


class _Number(str):
    """A number as the file spells it."""


class JsonLinesFile:
    """One file of JSON lines, plain or gzip, with the face of :class:`CsvFile`: ``columns`` and ``blocks``.

    Opening goes through the whole file for its names. RecordError: it holds no object, or is damaged.
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
        """Yield the records in order, about 4 MB at a time. A line that is no object is a block with its problem."""
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
            if has_breaks or before > BLOCK_BYTES:  # the records of a block are counted by their line breaks
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
        """Yield the number and the bytes of every line; of one that is longer than a record may be, its beginning."""
        try:
            with gzip.open(self.path) if self.path.name.lower().endswith(".gz") else self.path.open("rb") as stream:
                number = 0
                while line := stream.readline(WIDEST_RECORD):
                    number += 1
                    yield number, line.removeprefix(_BOM) if number == 1 else line
                    while not line.endswith(b"\n") and (line := stream.readline(WIDEST_RECORD)):
                        pass
        except (OSError, EOFError) as error:
            raise RecordError(f"{self.path}: the file is truncated or damaged ({error})") from None


def read_object(line: bytes) -> dict[str, Any] | None:
    """Return the leaves of one line's object by dotted name; None where the line is no object.

    Numbers are texts as they are written.
    """
    try:
        body = json.loads(line, parse_int=_Number, parse_float=_Number, parse_constant=lambda name: None)
        leaves = dict(_leaves(body)) if isinstance(body, dict) else None
        "".join(leaves or ()).encode()  # half a character in a name is none
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
    """Yield what was written as one block, and empty it."""
    data = text.getvalue().encode(errors="surrogatepass")  # half a character costs its row, as in CSV
    text.seek(0)
    text.truncate()
    if data:
        yield RecordsBlock(buffer=data, size=len(data), first_line=first)
