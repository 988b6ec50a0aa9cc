"""Raw files as the swap reads and writes them: CSV, Parquet, NDJSON and bundles, row by row, in their own form."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wardround.audits.swap.raw_records import RawRecord, Resource, TableRow, put
from wardround.records.specs import WallClock

TABLES = (".csv", ".csv.gz", ".parquet")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
RESOURCES = (".ndjson", ".ndjson.gz", ".json", ".json.gz")
Change = Callable[[list[RawRecord]], Iterable[RawRecord]]
"""From a file's records to those that are written in their place."""


@lru_cache(maxsize=1024)
def stem(path: Path) -> str:
    """Return a file's name without its endings."""
    return next(
        (path.name.removesuffix(ending) for ending in (*TABLES[::-1], *RESOURCES[::-1]) if path.name.endswith(ending)),
        path.name,
    )


def read_records(path: Path) -> Iterator[RawRecord]:
    """Yield the rows or resources of a file; column names in lower case."""
    yield from (record for record in read_lines(path) if not record.is_blank)


def read_lines(path: Path) -> Iterator[RawRecord]:
    """Yield them with every line that is no row, as a row without cells: blank ones, and such of another length."""
    if path.name.endswith(".parquet"):
        yield from map(TableRow, _texts(pq.read_table(path)).to_pylist())
    elif path.name.endswith(TABLES):
        with _lines(path, "utf-8") as stream:
            delimiter = _delimiter(path)
            lines = _rows_of(stream, delimiter)
            header = _names(next(lines, ""), delimiter)
            places, width = {name: place for place, name in enumerate(header)}, len(header)
            for line in lines:
                body = line.rstrip("\r\n")
                cells = _cells(line, delimiter) if '"' in body else body.split(delimiter)
                fits = len(cells) == width and body
                yield TableRow.read(places, cells, line) if fits else TableRow({}, line)
    else:
        yield from _resources(path)


def write_records(path: Path, target: Path, records: Iterable[RawRecord]) -> None:
    """Write records in the form of the file that they come from: its header, order of columns, quotes, ends of lines
    and compression. A row that was not changed is the same text."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".parquet"):
        schema = pa.schema(map(_without_zone, pq.read_schema(path)))
        rows = [record.cells for record in records if isinstance(record, TableRow)]
        pq.write_table(pa.table([_typed(rows, field) for field in schema], schema=schema), target)
    elif path.name.endswith(TABLES):
        delimiter = _delimiter(path)
        with _lines(path, "utf-8") as lines:
            header = next(_rows_of(lines, delimiter), "")
        names, end = _names(header, delimiter), _end(header) or "\n"
        with _written(target) as stream:
            before = header
            stream.write(header)
            for record in records:
                if isinstance(record, TableRow):
                    if not before.endswith(("\n", "\r")):
                        stream.write(end)
                    before = _line(record, names, delimiter, end)
                    stream.write(before)
    else:
        with _written(target) as stream:
            if "ndjson" in path.name:
                found = (record for record in records if isinstance(record, Resource))
                stream.writelines(record.line or json.dumps(record.body) + "\n" for record in found)
            else:
                bodies = [record.body for record in records if isinstance(record, Resource)]
                json.dump(
                    {
                        "resourceType": "Bundle",
                        "type": "collection",
                        "entry": [{"fullUrl": f"urn:uuid:{body.get('id')}", "resource": body} for body in bodies],
                    },
                    stream,
                )


def write_columns(path: Path, changed: Path, target: Path, columns: Collection[str], lines: bytearray) -> None:
    """Write a file as it is but for some columns, which are as in a changed copy of it. ``lines``: how many rows of the
    copy stand in the place of each of its lines; of several the first counts, where there is none the line stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not path.name.endswith(TABLES) or path.name.endswith(".parquet"):
        after = read_lines(changed)
        pairs = ((record, list(islice(after, count))) for record, count in zip(read_lines(path), lines, strict=True))
        write_records(path, target, (_in_columns(record, rows, columns) for record, rows in pairs))
        return
    delimiter = _delimiter(path)
    with _lines(path, "utf-8") as ours, _lines(changed, "utf-8") as theirs, _written(target) as stream:
        before, made = _rows_of(ours, delimiter), _rows_of(theirs, delimiter)
        header = next(before, "")
        next(made, "")
        places = [place for place, name in enumerate(_names(header, delimiter)) if name in columns]
        stream.write(header)
        for line, count in zip(before, lines, strict=True):
            rows = list(islice(made, count))
            stream.write(line if not rows or rows[0] == line else _exchanged(line, rows[0], places, delimiter))


def _exchanged(line: str, other: str, places: Sequence[int], delimiter: str) -> str:
    """Return a line with the cells of another one in some places."""
    tokens, others = _tokens(line, delimiter), _tokens(other, delimiter)
    for place in places:
        tokens[place] = others[place]
    return delimiter.join(tokens) + _end(line)


def _in_columns(record: RawRecord, rows: Sequence[RawRecord], columns: Collection[str]) -> RawRecord:
    """Return a record with what has changed in some columns of it."""
    changed = record.copy()
    for path in columns if rows else ():
        texts = rows[0].texts(path)
        if list(texts) != list(record.texts(path)):
            put(changed, path, "".join(texts[:1]))
    return changed


def link(path: Path, into: Path) -> None:
    """Let a file stand in another place too; where that cannot be, copy it."""
    into.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path.resolve(), into)
    except OSError:
        shutil.copyfile(path, into)


def files_below(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder in order; folders that are links are entered, as ingest does, each once."""
    entered: set[Path] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        folders[:] = [name for name in folders if (Path(place) / name).resolve() not in entered]
        entered.update((Path(place) / name).resolve() for name in folders)
        yield from (path for name in sorted(names) if (path := Path(place) / name).is_file())


def copy_on_clock(folders: Sequence[Path], clock: WallClock, times: Collection[str], target: Path) -> tuple[Path, ...]:
    """Write the files of some folders with times on a clock, of tables those in ``times``, as ingest reads them; return
    the copies' folders."""

    def on_clock(record: RawRecord) -> RawRecord:
        if not isinstance(record, TableRow):
            return Resource(clock.read(record.content))
        return TableRow({name: clock.cell(text) if name in times else text for name, text in record.cells.items()})

    copies = [target / str(place) for place in range(len(folders))]
    for folder, copy in zip(folders, copies, strict=True):
        for path in files_below(folder):
            if path.name.endswith((*TABLES, *RESOURCES)):
                write_records(path, copy / path.relative_to(folder), map(on_clock, read_records(path)))
    return tuple(copies)


def _without_zone(field: pa.Field) -> pa.Field:
    has_zone = pa.types.is_timestamp(field.type) and field.type.tz is not None
    return field.with_type(pa.timestamp(field.type.unit)) if has_zone else field


def _lines(path: Path, encoding: str = "utf-8-sig") -> io.TextIOBase:
    opened: Any = gzip.open if path.name.endswith(".gz") else open
    stream: io.TextIOBase = opened(path, "rt", encoding=encoding, errors="surrogateescape", newline="")
    return stream


@contextmanager
def _written(path: Path) -> Iterator[TextIO]:
    """A file to write text to, compressed as its name says, always into the same bytes."""
    with path.open("wb") as file:
        if not path.name.endswith(".gz"):
            with io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="") as stream:
                yield stream
            return
        with (
            gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=1, mtime=0) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", errors="surrogateescape", newline="") as stream,
        ):
            yield stream


def _delimiter(path: Path) -> str:
    with _lines(path) as lines:
        first = lines.readline()
    return "\t" if "\t" in first and "," not in first else ","


def _rows_of(stream: Iterable[str], delimiter: str) -> Iterator[str]:
    """Yield the rows of a CSV file as they stand there, their ends of lines included; a quoted cell may hold some."""
    begun: list[str] = []
    for line in stream:
        if not begun and '"' not in line:
            yield line
            continue
        begun.append(line)
        if len(begun) > 1 and '"' not in line:
            continue  # a note of many lines is not looked through again at each
        row = "".join(begun)
        if '"' not in row or not _is_open(row, delimiter):
            yield row
            begun = []
    if begun:
        yield "".join(begun)


def _is_open(text: str, delimiter: str) -> bool:
    """Say whether a quoted cell goes on in the next line. A quote inside a cell without quotes is a letter."""
    at = 0
    while at < len(text):
        if text[at] == '"':
            closed = _QUOTED.match(text, at)
            if closed is None:
                return True
            at = closed.end()
        at = text.find(delimiter, at) + 1
        if not at:
            return False
    return False


def _tokens(line: str, delimiter: str) -> list[str]:
    """Cut a row into its cells as they are written."""
    body = line.rstrip("\r\n")
    if '"' not in body:
        return body.split(delimiter)
    tokens: list[str] = []
    at = 0
    while True:
        quoted = _QUOTED.match(body, at)
        end = body.find(delimiter, quoted.end() if quoted else at)
        if end < 0:
            return [*tokens, body[at:]]
        tokens.append(body[at:end])
        at = end + 1


def _cells(line: str, delimiter: str) -> list[str]:
    """Return what the cells of a row say."""
    if '"' not in line:
        return _tokens(line, delimiter)
    try:
        return next(csv.reader((line.rstrip("\r\n"),), delimiter=delimiter, strict=True))
    except csv.Error:  # not as the standard says, or longer than that reader takes
        return [_value(token) for token in _tokens(line, delimiter)]


def _value(token: str) -> str:
    if not token.startswith('"'):
        return token
    quoted = _QUOTED.match(token)
    return token if quoted is None else quoted[0][1:-1].replace('""', '"') + token[quoted.end() :]


def _names(header: str, delimiter: str) -> list[str]:
    return [cell.strip().lower() for cell in _cells(header.removeprefix("\ufeff"), delimiter)]


def _end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _line(row: TableRow, names: Sequence[str], delimiter: str, end: str) -> str:
    """Return a row as text: where it has a line, that line with the changed cells exchanged."""
    if row.line is None:
        return delimiter.join(_token(row.cells[name], delimiter) for name in names) + end
    if row.is_read or row.is_blank:
        return row.line
    cells, was = [row.cells[name] for name in names], _cells(row.line, delimiter)
    if cells == was:
        return row.line
    tokens = _tokens(row.line, delimiter)
    for place, (cell, before) in enumerate(zip(cells, was, strict=True)):
        if cell != before:
            tokens[place] = _token(cell, delimiter, quoted=tokens[place].startswith('"'))
    return delimiter.join(tokens) + _end(row.line)


def _token(text: str, delimiter: str, *, quoted: bool = False) -> str:
    if quoted or any(mark in text for mark in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


def _resources(path: Path) -> Iterator[Resource]:
    with _lines(path) as lines:
        if "ndjson" in path.name:
            for line in lines:
                if line.strip():
                    body = json.loads(line)
                    whole = line if "resourceType" in body and body["resourceType"] != "Bundle" else None
                    yield from (Resource(each, whole) for each in _inside(body))
        else:
            yield from map(Resource, _inside(json.load(lines)))


def _inside(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if body.get("resourceType") == "Bundle":
        yield from (entry["resource"] for entry in body.get("entry", ()) if "resource" in entry)
    elif "resourceType" in body:
        yield body


def _texts(table: pa.Table) -> pa.Table:
    """Spell every column as text, empty where there is nothing."""
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_list(column.type):
            column = pa.chunked_array([pa.array([json.dumps(each) for each in column.to_pylist()], pa.string())])
        columns[name.lower()] = pc.fill_null(column.cast(pa.string()), "")
    return pa.table(columns)


def _typed(rows: list[dict[str, str]], field: pa.Field) -> Any:
    texts = [row[field.name.lower()] or None for row in rows]
    if pa.types.is_list(field.type):
        return pa.array([None if text is None else json.loads(text) for text in texts], field.type)
    if pa.types.is_dictionary(field.type):
        return pa.array(texts, pa.string()).cast(field.type.value_type).dictionary_encode().cast(field.type)
    return pa.array(texts, pa.string()).cast(field.type)
