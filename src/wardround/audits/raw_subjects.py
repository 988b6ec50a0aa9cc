"""The raw files of a source, cut down to some subjects, as text: what the deletion audit starts from."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from wardround.records.reading.cell_texts import reader_of
from wardround.records.reading.csv_blocks import RecordsBlock as CsvBlock
from wardround.records.reading.parquet_cells import as_text, on_the_wall
from wardround.records.reading.table_reader import open_records
from wardround.records.sources.flatten import flattened
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.spec import ColumnType, DictionarySpec, SourceSpec, TableSpec
from wardround.records.store import Store

Folders = Path | Sequence[Path]
RecordsBlock = tuple[tuple[str, ...], pa.Table]


@dataclass(frozen=True, slots=True)
class RawTable:
    """The raw rows of some subjects: ``header`` in lower case as in the file, text cells."""

    header: tuple[str, ...]
    rows: Mapping[int, Sequence[tuple[str, ...]]]


@dataclass(slots=True, kw_only=True)
class RawSubjects:
    """The raw files of a source, cut down to some subjects and read once."""

    spec: SourceSpec
    tables: dict[str, RawTable] = field(default_factory=dict)
    dictionaries: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store, folder: Folders, subjects: Collection[int]) -> RawSubjects:
        """Read what concerns ``subjects``, and of the dictionaries what their rows may name."""
        spec = store.spec.in_zone(store.manifest["settings"].get("time_zone"))
        raw = cls(spec=spec)
        folders = folder if isinstance(folder, Path) else tuple(folder)
        with flattened(spec, folders) as files:
            for name, paths in files.tables.items():
                raw.tables[name] = _read_table(spec, spec.tables[name], paths, store, subjects)
            for name, paths in files.dictionaries.items():
                raw.dictionaries[name] = _read_dictionary(spec.dictionaries[name], paths, raw._codes(name))
        return raw

    def _codes(self, dictionary: str) -> set[str]:
        """Return every text by which a row of the subjects may name an entry of a dictionary."""
        codes: set[str] = set()
        for name, raw in self.tables.items():
            for join in self.spec.tables[name].dictionaries:
                if join.table == dictionary and join.on[0] in raw.header:
                    place = raw.header.index(join.on[0])
                    codes.update(row[place].strip() for rows in raw.rows.values() for row in rows)
        return codes


def _read_table(
    spec: SourceSpec, table: TableSpec, paths: Sequence[Path], store: Store, subjects: Collection[int]
) -> RawTable:
    column = table.subject or (table.subject_from or ("",))[0]
    owners = _owners(spec, table, store, subjects)
    wanted = pa.array(list(owners), pa.string())

    def blocks(path: Path) -> Iterator[RecordsBlock]:
        return _blocks(path, table.files, table.columns)

    header = tuple(dict.fromkeys(name for path in paths for name in next(blocks(path))[0]))
    rows: dict[int, list[tuple[str, ...]]] = defaultdict(list)
    for own, block in (part for path in paths for part in blocks(path)):
        kept = block.filter(pc.is_in(pc.utf8_trim_whitespace(block.column(own.index(column))), wanted))
        cells = {name: part.to_pylist() for name, part in zip(own, kept.columns, strict=True)}
        filled = [cells.get(name, [""] * kept.num_rows) for name in header]
        for row, key in zip(zip(*filled, strict=True), cells[column], strict=True):
            rows[owners[key.strip()]].append(row)
    return RawTable(header, rows)


def _owners(spec: SourceSpec, table: TableSpec, store: Store, subjects: Collection[int]) -> dict[str, int]:
    """Return the text in the table's subject (or parent key) column -> subject; whole numbers also as ``12.0``."""
    pairs: Iterable[tuple[object, int]] = ((store.subject_key(subject), subject) for subject in subjects)
    if table.subject is None and table.subject_from is not None:
        parent = spec.tables[table.subject_from[1]]
        pairs = ((key, s) for s in subjects for key in store.rows(s, parent.name).column(parent.key[0]).to_pylist())
    return {text: subject for key, subject in pairs for text in (str(key), f"{key}.0")}


def _read_dictionary(
    dictionary: DictionarySpec, paths: Sequence[Path], codes: set[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = []
    wanted = pa.array([*codes], pa.string())
    names = tuple(dictionary.columns)
    for own, block in (part for path in paths for part in _blocks(path, dictionary.files, dictionary.columns)):
        kept = block.filter(pc.is_in(pc.utf8_trim_whitespace(block.column(own.index(dictionary.key[0]))), wanted))
        cells = {name: part.to_pylist() for name, part in zip(own, kept.columns, strict=True)}
        rows += zip(*(cells.get(name, [""] * kept.num_rows) for name in names), strict=True)
    return names, rows


def _blocks(path: Path, files: FileFormat, types: Mapping[str, ColumnType]) -> Iterator[RecordsBlock]:
    """Yield (lower-case header, block of text cells); broken lines are left out, as ingest quarantines them."""
    if path.name.lower().endswith(".parquet"):
        yield from _parquet_blocks(path, files)
        return
    with contextlib.closing(open_records(path, files)) as file:
        yield file.columns, pa.table({name: pa.array([], pa.string()) for name in file.columns})
        for block in file.blocks():
            yield file.columns, _plain(_cells(block, file.columns), files, types)


def _parquet_blocks(path: Path, files: FileFormat) -> Iterator[RecordsBlock]:
    with pa_parquet.ParquetFile(path) as file:
        names = (name.lower() for name in file.schema_arrow.names)
        header = tuple(files.headers.get(name, name) for name in names)
        yield header, pa.table({name: pa.array([], pa.string()) for name in header})
        for batch in file.iter_batches():
            texts = [pc.fill_null(_spelt(on_the_wall(column, files)), "") for column in batch.columns]
            yield header, pa.table(dict(zip(header, texts, strict=True)))


def _cells(block: CsvBlock, header: Sequence[str]) -> pa.Table:
    """Return the records of a block as text; none where it is blank or the beginning of one that was not read whole."""
    if block.problem is not None or bytes(block.data).isspace():
        return pa.table({name: pa.array([], pa.string()) for name in header})
    return pa_csv.read_csv(
        pa.BufferReader(block.data),
        read_options=pa_csv.ReadOptions(block_size=block.size + 1, column_names=list(header), use_threads=False),
        parse_options=pa_csv.ParseOptions(
            delimiter=block.separator,
            quote_char='"' if block.is_quoted else False,
            newlines_in_values=block.is_quoted,
            invalid_row_handler=lambda row: "skip",
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False, check_utf8=False
        ),
    )


def _plain(block: pa.Table, files: FileFormat, types: Mapping[str, ColumnType]) -> pa.Table:
    """Return cells of a format of its own as a plain file would hold them; those that cannot be read stay as they are.

    The copies that an audit writes are plain, whatever the source is like (:func:`plainly_written`).
    """
    if not (files.times or files.empty or files.decimal != "." or files.time_zone):
        return block
    for place, name in enumerate(block.column_names):
        kind = types.get(name)
        if kind is not None:
            encoded = block.column(name).combine_chunks().dictionary_encode()
            texts = [_plain_cell(text, reader_of(kind, files)) for text in encoded.dictionary.to_pylist()]
            block = block.set_column(place, name, pa.array(texts, pa.string()).take(encoded.indices))
    return block


def _plain_cell(text: str, read: Callable[[str | None], Any]) -> str:
    try:
        value = read(text)
    except (ValueError, OverflowError):
        return text
    return "" if value is None else str(value)


def plainly_written(store: Store) -> SourceSpec:
    """Return a store's spec whose files are as an audit writes them: UTF-8, commas, decimal points, and ISO times that
    are on the hospital's clock already."""
    spec = store.spec

    def plain(files: FileFormat) -> FileFormat:
        return FileFormat(bare_dates=files.bare_dates)

    return replace(
        spec,
        time_zone=store.manifest["settings"].get("time_zone") or "",
        tables={name: replace(table, files=plain(table.files)) for name, table in spec.tables.items()},
        dictionaries={name: replace(each, files=plain(each.files)) for name, each in spec.dictionaries.items()},
    )


def one_file(table: TableSpec) -> str:
    """Return a path that the table's own path finds again: a pattern's files become one."""
    return table.path.replace("**/", "").replace("[0-9]*", "0").replace("*", "0")


def _spelt(column: Any) -> Any:
    """Spell a Parquet column as a CSV file would hold it: numbers and times as the store reads them."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"), safe=False)
    return as_text(column)
