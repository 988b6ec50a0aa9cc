"""Delete the future from raw files and compare: what a chart must equal."""

from __future__ import annotations

import contextlib
import csv
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from wardround.core import end_of_day, parse_time
from wardround.records import SourceSpec, TableSpec
from wardround.records.ingest import rule_columns
from wardround.records.reading import RecordsBlock as CsvBlock
from wardround.records.reading import as_text, on_the_wall, open_records, reader_of
from wardround.records.rules import Column
from wardround.records.shards import AVAILABLE, EVENT, LATE, PENDING
from wardround.records.sources import flattened
from wardround.records.specs import ColumnType, DictionarySpec, FileFormat, late_rules
from wardround.records.store import Store

# The raw files of a source, cut down to some subjects, as text: what the deletion audit starts from.


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
    column = next(iter(table.owner_columns), "")
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
        parent = spec.tables[table.subject_from.table]
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


# Deleting the future from raw files: what a chart must equal.
#
# Works from the raw rows and the clock columns of the store, not from the chart's own masking, so that a fault in one
# shows against the other. Raw rows and stored rows are matched by the columns that make their ids and clocks.


_EMPTY_WORDS = frozenset({"", "NULL", "null", "NaN", "nan", "NA", "None", "\\N", "___"})


@dataclass(slots=True)
class DeletionCounts:
    """What one deletion did. ``unmatched`` raw rows are in no store: they were quarantined."""

    kept: int = 0
    deleted: int = 0
    collapsed: int = 0
    blanked_cells: int = 0
    unmatched: int = 0


def delete_future(raw_folder: Folders, target_folder: Path, store: Store, subject_id: int, as_of: datetime) -> None:
    """Write raw files of one subject that hold only what was available at ``as_of``: flat ones where the source is made
    flat (to be read with ``replace(spec, flatten=None)``)."""
    raw = RawSubjects.read(store, raw_folder, {subject_id})
    write_deleted(raw, target_folder, store, {subject_id: as_of})


def write_deleted(
    raw: RawSubjects, target_folder: Path, store: Store, moments: Mapping[int, datetime]
) -> DeletionCounts:
    """Write raw files of several subjects, each as of its own moment."""
    counts = DeletionCounts()
    for name, table in store.spec.tables.items():
        if name in raw.tables:
            header = raw.tables[name].header
            rows = (
                row for subject, as_of in moments.items() for row in _left(raw, store, table, subject, as_of, counts)
            )
            _write(target_folder / f"{one_file(table)}.csv", header, rows)
        elif table.derive is not None and table.derive.source in raw.tables:
            _write(target_folder / f"{one_file(table)}.csv", tuple(table.columns), _derived(store, table, moments))
    for name, (header, entries) in raw.dictionaries.items():
        _write(target_folder / f"{store.spec.dictionaries[name].path}.csv", header, entries)
    return counts


def _left(
    raw: RawSubjects, store: Store, table: TableSpec, subject: int, as_of: datetime, counts: DeletionCounts
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one subject that are left, late cells blanked, unknown groups collapsed."""
    source = raw.tables[table.name]
    stored = _StoredRows(table, source.header, store.rows(subject, table.name, versions=True))
    matched = []
    for row in source.rows.get(subject, ()):
        clocks = stored.take(row)
        counts.unmatched += clocks is None
        if clocks is not None:
            matched.append((row, clocks))
    known_groups = {stored.group(row) for row, clocks in matched if _visible(clocks, as_of)}
    collapsed: set[tuple[str, ...]] = set()
    for row, clocks in matched:
        if _visible(clocks, as_of):
            counts.kept += 1
            yield stored.blank(row, clocks, as_of, counts)
        elif table.pending is not None and _is_ordered(stored, row, clocks, as_of, known_groups | collapsed):
            collapsed.add(stored.group(row))
            counts.collapsed += 1
            yield stored.blank(row, clocks, as_of, counts, only=(*table.pending.columns, *table.pending.group))
        else:
            counts.deleted += 1


def _visible(clocks: Mapping[str, Any], as_of: datetime) -> bool:
    return bool(clocks[AVAILABLE] <= as_of and clocks[EVENT] <= as_of)


def _is_ordered(
    stored: _StoredRows, row: tuple[str, ...], clocks: Mapping[str, Any], as_of: datetime, shown: set[tuple[str, ...]]
) -> bool:
    """Say whether a row stands for its group: ordered by now, nothing of the group shown yet, and no reflex test."""
    pending = stored.table.pending
    assert pending is not None
    if clocks[PENDING] > as_of or stored.group(row) in shown:
        return False
    text = stored.cell(row, pending.reflex.column) if pending.reflex.column else ""
    return not any(pattern.casefold() in text.casefold() for pattern in pending.reflex.patterns)


def _derived(store: Store, table: TableSpec, moments: Mapping[int, datetime]) -> Iterator[tuple[str, ...]]:
    for subject, as_of in moments.items():
        for row in store.rows(subject, table.name).to_pylist():
            if _visible(row, as_of):
                yield tuple("" if row[name] is None else str(row[name]) for name in table.columns)


class _StoredRows:
    """The clocks of one subject's stored rows, found by what makes the raw row's id and clocks."""

    def __init__(self, table: TableSpec, header: tuple[str, ...], batch: pa.RecordBatch) -> None:
        self.table = table
        self.header = header
        self._places = {name: place for place, name in enumerate(header)}
        self._columns = [name for name in table.columns if name in self._places]
        self._late = {
            column: rule.name if isinstance(rule, Column) else f"{LATE}{columns[0]}"
            for rule, columns in late_rules(table, batch.schema.names).items()
            for column in columns
            if column in self._places
        }
        rules = {name for _, rule in table.rules() for name in rule_columns(rule)}
        identity = {*table.key, *table.id_columns, *(table.pending.group if table.pending else ())}
        identity |= {table.version, *table.amended.columns} if table.amended and table.version else set()
        shown = {part for parts in table.first.values() for part in parts}
        used = rules | identity | shown
        self._unused = [name for name in table.withhold if name in self._places and name not in used]
        self._read = {name: table.columns[name] for name in self._columns if name in rules | identity}
        self._clocks: dict[tuple[object, ...], list[dict[str, Any]]] = defaultdict(list)
        wanted = [name for name in batch.schema.names if name.startswith("_") or name in self._read]
        for row in batch.select(wanted).to_pylist():
            self._clocks[tuple(_same(row.get(name)) for name in self._read)].append(row)

    def take(self, row: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the stored row of a raw one, each stored row once; None if there is none."""
        content = tuple(_value(kind, row[self._places[name]]) for name, kind in self._read.items())
        rows = self._clocks.get(content)
        return rows.pop(0) if rows else None

    def cell(self, row: tuple[str, ...], column: str) -> str:
        """Return a raw cell, empty when the file lacks the column."""
        return row[self._places[column]] if column in self._places else ""

    def group(self, row: tuple[str, ...]) -> tuple[str, ...]:
        """Return the group that collapses with the row."""
        return tuple(self.cell(row, name) for name in self.table.pending.group) if self.table.pending else row

    def blank(
        self,
        row: tuple[str, ...],
        clocks: Mapping[str, Any],
        as_of: datetime,
        counts: DeletionCounts,
        only: Collection[str] | None = None,
    ) -> tuple[str, ...]:
        """Return the raw row without its late cells; with ``only``, without every other column too."""
        cells = list(row)
        out = set(self._unused) if only is None else {name for name in self._columns if name not in only}
        out |= {name for name, clock in self._late.items() if not _passed(clocks.get(clock), as_of)}
        for name in out:
            counts.blanked_cells += cells[self._places[name]] != ""
            cells[self._places[name]] = ""
        return tuple(cells)


def _passed(moment: datetime | date | None, as_of: datetime) -> bool:
    if moment is None:
        return False
    return (moment if isinstance(moment, datetime) else end_of_day(moment)) <= as_of


def _same(value: object) -> object:
    return None if isinstance(value, float) and value != value else value


def _value(kind: ColumnType, text: str) -> object:
    """Return a raw cell as the store holds it; the text itself where it cannot be read."""
    if kind == "text":
        return text or None
    text = text.strip()
    if text in _EMPTY_WORDS:
        return None
    try:
        if kind == "int":
            return int(text.partition(".")[0])
        if kind == "float":
            return _same(float(text))
        moment = parse_time(text)
    except ValueError:
        return text
    return moment.date() if kind == "date" else moment


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
