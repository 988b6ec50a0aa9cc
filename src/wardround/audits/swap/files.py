"""Raw files as the swap reads and writes them: CSV, Parquet, NDJSON and bundles, row by row, in their own form."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wardround.audits.swap.change import RawRecord, Resource, TableRow
from wardround.records.specs.wall_clock import WallClock

TABLES = (".csv", ".csv.gz", ".parquet")
RESOURCES = (".ndjson", ".ndjson.gz", ".json", ".json.gz")
Change = Callable[[list[RawRecord]], Iterable[RawRecord]]
"""From a file's records to those that are written in their place."""


def stem(path: Path) -> str:
    """Return a file's name without its endings."""
    return next(
        (path.name.removesuffix(ending) for ending in (*TABLES[::-1], *RESOURCES[::-1]) if path.name.endswith(ending)),
        path.name,
    )


def read_records(path: Path) -> Iterator[RawRecord]:
    """Yield the rows or resources of a file; column names in lower case."""
    if path.name.endswith(".parquet"):
        yield from map(TableRow, _texts(pq.read_table(path)).to_pylist())
    elif path.name.endswith(TABLES):
        with _lines(path) as lines:
            reader = csv.reader(lines, delimiter=_delimiter(path))
            header = [name.strip().lower() for name in next(reader, [])]
            for row in reader:
                if len(row) == len(header):
                    yield TableRow(dict(zip(header, row, strict=True)))
    else:
        yield from map(Resource, _resources(path))


def write_records(path: Path, target: Path, records: Iterable[RawRecord]) -> None:
    """Write records in the form of the file that they come from, under its name without ``.gz``."""
    target = target.with_name(target.name.removesuffix(".gz"))
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".parquet"):
        schema = pa.schema(map(_without_zone, pq.read_schema(path)))
        rows = [record.cells for record in records if isinstance(record, TableRow)]
        pq.write_table(pa.table([_typed(rows, field) for field in schema], schema=schema), target)
    elif path.name.endswith(TABLES):
        with _lines(path) as lines:
            names = next(csv.reader(lines, delimiter=_delimiter(path)), [])
        keys = [name.strip().lower() for name in names]
        with target.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            writer = csv.writer(stream, delimiter=_delimiter(path), lineterminator="\n")
            writer.writerow(names)
            writer.writerows([record.cells[key] for key in keys] for record in records if isinstance(record, TableRow))
    else:
        bodies = [record.body for record in records if isinstance(record, Resource)]
        with target.open("w", encoding="utf-8") as stream:
            if "ndjson" in path.name:
                stream.writelines(json.dumps(body) + "\n" for body in bodies)
            else:
                json.dump(
                    {
                        "resourceType": "Bundle",
                        "type": "collection",
                        "entry": [{"fullUrl": f"urn:uuid:{body.get('id')}", "resource": body} for body in bodies],
                    },
                    stream,
                )


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


def _lines(path: Path) -> io.TextIOBase:
    opened: Any = gzip.open if path.name.endswith(".gz") else open
    stream: io.TextIOBase = opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return stream


def _delimiter(path: Path) -> str:
    with _lines(path) as lines:
        first = lines.readline()
    return "\t" if "\t" in first and "," not in first else ","


def _resources(path: Path) -> Iterator[dict[str, Any]]:
    with _lines(path) as lines:
        if "ndjson" in path.name:
            for line in lines:
                if line.strip():
                    yield from _inside(json.loads(line))
        else:
            yield from _inside(json.load(lines))


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
