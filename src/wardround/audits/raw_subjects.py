"""The raw files of a source, cut down to some subjects, as text: what the deletion audit starts from."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from wardround.records.reading.csv_blocks import split_header
from wardround.records.reading.table_reader import as_text
from wardround.records.sources.flatten import flattened
from wardround.records.specs.spec import DictionarySpec, SourceSpec, TableSpec
from wardround.records.store import Store

Folders = Path | Sequence[Path]
_BLOCK_BYTES = 16 << 20


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
        spec = store.spec
        raw = cls(spec=spec)
        with flattened(spec, folder if isinstance(folder, Path) else tuple(folder)) as files:
            for name, paths in files.tables.items():
                raw.tables[name] = _read_table(spec, spec.tables[name], paths, store, subjects)
            for name, paths in files.dictionaries.items():
                used = raw._codes(name)
                if used:
                    raw.dictionaries[name] = _read_dictionary(spec.dictionaries[name], paths, used)
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
    header = tuple(dict.fromkeys(name for path in paths for name in next(_blocks(path))[0]))
    rows: dict[int, list[tuple[str, ...]]] = defaultdict(list)
    for own, block in (part for path in paths for part in _blocks(path)):
        kept = block.filter(pc.is_in(pc.utf8_trim_whitespace(block.column(own.index(column))), wanted))
        cells = {name: part.to_pylist() for name, part in zip(own, kept.columns, strict=True)}
        filled = [cells.get(name, [""] * kept.num_rows) for name in header]
        for row, key in zip(zip(*filled, strict=True), cells[column], strict=True):
            rows[owners[key.strip()]].append(row)
    return RawTable(header, rows)


def _owners(spec: SourceSpec, table: TableSpec, store: Store, subjects: Collection[int]) -> dict[str, int]:
    """Return the text in the table's subject (or parent key) column -> subject; whole numbers also as ``12.0``."""
    pairs: Iterable[tuple[object, int]] = ((subject, subject) for subject in subjects)
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
    for own, block in (part for path in paths for part in _blocks(path)):
        kept = block.filter(pc.is_in(pc.utf8_trim_whitespace(block.column(own.index(dictionary.key[0]))), wanted))
        cells = {name: part.to_pylist() for name, part in zip(own, kept.columns, strict=True)}
        rows += zip(*(cells.get(name, [""] * kept.num_rows) for name in names), strict=True)
    return names, rows


def _blocks(path: Path) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """Yield (lower-case header, block of text cells); broken lines are left out, as ingest quarantines them."""
    if path.name.endswith(".parquet"):
        with pa_parquet.ParquetFile(path) as file:
            header = tuple(name.lower() for name in file.schema_arrow.names)
            yield header, pa.table({name: pa.array([], pa.string()) for name in header})
            for batch in file.iter_batches():
                texts = [pc.fill_null(_spelt(column), "") for column in batch.columns]
                yield header, pa.table(dict(zip(header, texts, strict=True)))
        return
    with (gzip.open if path.name.endswith(".gz") else open)(path, "rt", encoding="utf-8-sig", newline="") as lines:
        separator, names = split_header(next(lines, "").rstrip("\r\n"))
    header = tuple(name.strip().lower() for name in names)
    yield header, pa.table({name: pa.array([], pa.string()) for name in header})
    options = {
        "read_options": pa_csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=list(header), skip_rows=1),
        "parse_options": pa_csv.ParseOptions(
            delimiter=separator,
            quote_char='"' if separator == "," else False,
            newlines_in_values=separator == ",",
            invalid_row_handler=lambda row: "skip",
        ),
        "convert_options": pa_csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False, check_utf8=False
        ),
    }
    with pa.input_stream(str(path), compression="gzip" if path.name.endswith(".gz") else None) as stream:
        try:
            reader = pa_csv.open_csv(stream, **options)
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return
            raise
        for batch in reader:
            yield header, pa.Table.from_batches([batch])


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
