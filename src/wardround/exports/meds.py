"""MEDS out: any store as a MEDS 0.4 data set whose times are times of knowledge, some subjects at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wardround.audits import Compared
from wardround.core import Progress, Reporter, must_be_new, private_folder, silent
from wardround.exports.meds_events import CodeBook, EventCounts, EventRows, TimeMode, events_of
from wardround.records.ingest import PEOPLE_OF, SAME_PERSON
from wardround.records.pieces import ROWS_AT_ONCE, stored_pieces
from wardround.records.rules import Times
from wardround.records.specs import valid
from wardround.records.store import Store

# MEDS 0.4 on disk: the schemas, the shards of data, and the files of metadata and labels.


MEDS_VERSION = "0.4.1"
SUBJECTS_PER_FILE = 1_000
_TIME = pa.timestamp("us")
DATA_SCHEMA = pa.schema(
    [
        pa.field("subject_id", pa.int64(), nullable=False),
        pa.field("time", _TIME),
        pa.field("code", pa.string(), nullable=False),
        pa.field("numeric_value", pa.float32()),
        pa.field("text_value", pa.large_string()),
        pa.field("unit", pa.string()),
        pa.field("event_time", _TIME),
        pa.field("available_at", _TIME),
        pa.field("revision", pa.int16(), nullable=False),
        pa.field("row_id", pa.string()),
        pa.field("telling_of", pa.string()),
    ]
)
"""The standard's columns, then ours: the unit, both clocks, which telling of the row this is, the row, and the row
again where a later event of it takes this one's place: not of births, deaths and attributes."""
CODES_SCHEMA = pa.schema(
    [
        pa.field("code", pa.string(), nullable=False),
        pa.field("description", pa.string()),
        pa.field("parent_codes", pa.list_(pa.string())),
    ]
)
SPLITS_SCHEMA = pa.schema(
    [pa.field("subject_id", pa.int64(), nullable=False), pa.field("split", pa.string(), nullable=False)]
)
LabelColumn = Literal["boolean_value", "integer_value", "float_value", "categorical_value"]
LABEL_TYPES: Mapping[LabelColumn, Any] = {
    "boolean_value": pa.bool_(),
    "integer_value": pa.int64(),
    "float_value": pa.float32(),
    "categorical_value": pa.string(),
}


@dataclass(slots=True)
class _OpenFile:
    writer: Any
    subjects: int


@dataclass(slots=True, kw_only=True)
class DataFiles:
    """Writes subjects one after the other, a subject never in two files. Shards go to a folder per split."""

    folder: Path
    subjects_per_file: int = SUBJECTS_PER_FILE
    _open: dict[str, _OpenFile] = field(default_factory=dict)
    _next: dict[str, int] = field(default_factory=dict)

    def add(self, table: pa.Table, split: str) -> None:
        """Write rows that are in order of subject and time; ``split`` is empty where there are no splits."""
        subject: npt.NDArray[np.int64] = table.column("subject_id").to_numpy()
        starts = np.flatnonzero(np.r_[True, subject[1:] != subject[:-1]]) if len(subject) else np.empty(0, np.int64)
        place = 0
        while place < len(starts):
            file = self._file(split)
            count = min(self.subjects_per_file - file.subjects, len(starts) - place)
            end = int(starts[place + count]) if place + count < len(starts) else len(subject)
            start = int(starts[place])
            file.writer.write_table(table.slice(start, end - start).cast(DATA_SCHEMA))
            file.subjects += count
            place += count
            if file.subjects == self.subjects_per_file:
                self._open.pop(split).writer.close()

    def _file(self, split: str) -> _OpenFile:
        if split not in self._open:
            number = self._next.get(split, 0)
            self._next[split] = number + 1
            path = self.folder / "data" / split / f"{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open[split] = _OpenFile(pq.ParquetWriter(path, DATA_SCHEMA, compression="zstd"), 0)
        return self._open[split]

    @property
    def count(self) -> int:
        """How many files there are."""
        return sum(self._next.values())

    def close(self) -> None:
        """Finish the files that are still open."""
        for file in self._open.values():
            file.writer.close()
        self._open.clear()


def write_metadata(
    folder: Path,
    codes: Iterable[tuple[str, str | None, Sequence[str]]],
    splits: Mapping[int, str],
    about: Mapping[str, Any],
) -> None:
    """Write codes with their descriptions and parents, the splits if there are any, and the facts of the data set."""
    target = folder / "metadata"
    target.mkdir(parents=True, exist_ok=True)
    rows = sorted(codes)
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    pq.write_table(_table(columns, CODES_SCHEMA), target / "codes.parquet")
    if splits:
        pairs = sorted(splits.items())
        pq.write_table(_table(list(zip(*pairs, strict=True)), SPLITS_SCHEMA), target / "subject_splits.parquet")
    (target / "dataset.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def _table(columns: Sequence[Sequence[Any]], schema: Any) -> pa.Table:
    arrays = [pa.array(list(cells), kind) for cells, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def write_labels(
    path: Path,
    subjects: Sequence[int],
    times: Sequence[datetime],
    labels: Mapping[LabelColumn, Sequence[Any]],
    predicted: Mapping[str, tuple[Any, Sequence[Any]]] | None = None,
) -> None:
    """Write one file of labels by subject and time; ``predicted``: columns beside, name to Arrow type and cells."""
    fields = [
        pa.field("subject_id", pa.int64(), nullable=False),
        pa.field("prediction_time", _TIME, nullable=False),
        *(pa.field(name, LABEL_TYPES[name], nullable=False) for name in labels),
    ]
    cells: list[Sequence[Any]] = [subjects, times, *labels.values()]
    for name, (kind, values) in (predicted or {}).items():
        fields.append(pa.field(name, kind))
        cells.append(values)
    arrays = [pa.array(list(each), one.type) for each, one in zip(cells, fields, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.sort_by([("subject_id", "ascending"), ("prediction_time", "ascending")]), path)


# Writing a store as a MEDS 0.4 data set, some subjects at a time: memory is bounded by a shard of the store.


NO_SPLIT = "no_split"
"""Where subjects lie that the store's own splits do not name."""
_STANDARD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """``time``: what the standard's time column holds, the time at which a row became ``known`` or that of the
    ``event``. Whoever reads the latter must look at ``available_at`` too, or sees the future. ``splits``: subject to
    split, instead of the store's own. ``rows_at_once`` bounds the work, not the result."""

    time: TimeMode = "known"
    subjects_per_file: int = SUBJECTS_PER_FILE
    rows_at_once: int = ROWS_AT_ONCE
    splits: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What was written, and what was not."""

    folder: Path
    subjects: int
    files: int
    codes: int
    counts: EventCounts
    splits: Mapping[str, int] = field(default_factory=dict)
    without_split: int = 0


_DEFAULTS = ExportSettings()


def export_meds(
    store: Store, folder: Path, *, settings: ExportSettings = _DEFAULTS, report: Reporter = silent
) -> ExportReport:
    """Write a store as MEDS into a new folder. UserError: the folder holds something."""
    must_be_new(folder)
    splits = store.splits() if settings.splits is None else settings.splits
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    private_folder(unfinished)
    files = DataFiles(folder=unfinished, subjects_per_file=settings.subjects_per_file)
    book, counts = CodeBook(), EventCounts()
    subjects: list[npt.NDArray[np.int64]] = []
    for shard in range(store.shard_count):
        report(Progress(label="export", done=shard, total=store.shard_count, unit="shards"))
        for piece in stored_pieces(store, shard, settings.rows_at_once):
            parts = [part for part in events_of(piece, settings.time, book, counts) if len(part.subject)]
            if not parts:
                continue
            table = _in_order(parts)
            subjects.append(np.unique(table.column("subject_id").to_numpy()))
            for split, rows in _by_split(table, splits):
                files.add(rows, split)
    files.close()
    everyone = np.concatenate(subjects) if subjects else np.empty(0, np.int64)
    held = {subject: splits[subject] for subject in everyone.tolist() if subject in splits}
    write_metadata(unfinished, _codes(store, book), held, _about(store, settings))
    (unfinished / "data").mkdir(exist_ok=True)
    if folder.exists():
        folder.rmdir()
    unfinished.rename(folder)
    return ExportReport(
        folder=folder,
        subjects=len(everyone),
        files=files.count,
        codes=len(book.descriptions),
        counts=counts,
        splits={name: list(held.values()).count(name) for name in dict.fromkeys(held.values())},
        without_split=len(everyone) - len(held) if splits else 0,
    )


def _in_order(parts: Sequence[EventRows]) -> pa.Table:
    """Return events as one table, by subject and time, what has no time first; ties as the store has its tables."""

    def whole(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    subject, time = whole("subject"), whole("time")
    order = np.lexsort((time, subject))
    taken = pa.array(order)
    value = whole("value")[order]
    columns = {
        "subject_id": pa.array(subject[order]),
        "time": _times(time[order]),
        "code": _codes_of(parts).take(taken),
        "numeric_value": pa.array(value.astype(np.float32), mask=np.isnan(value)),
        "text_value": _joined(parts, "text").take(taken).cast(pa.large_string()),
        "unit": _joined(parts, "unit").take(taken),
        "event_time": _times(whole("event")[order]),
        "available_at": _times(whole("known")[order]),
        "revision": pa.array(whole("number")[order].astype(np.int16)),
        "row_id": _joined(parts, "row_id").take(taken),
        "telling_of": _joined(parts, "telling_of").take(taken),
    }
    return pa.table(columns)


def _joined(parts: Sequence[EventRows], name: str) -> Any:
    return pa.chunked_array([getattr(part, name) for part in parts]).combine_chunks()


def _codes_of(parts: Sequence[EventRows]) -> Any:
    """Return the code of every event, as a dictionary column: a shard's codes are few beside its events."""
    places: dict[str, int] = {}
    numbers = []
    for part in parts:
        own = np.array([places.setdefault(code, len(places)) for code in part.codes], dtype=np.int32)
        numbers.append(own[part.concept])
    return pa.DictionaryArray.from_arrays(pa.array(np.concatenate(numbers)), pa.array(list(places), pa.string()))


def _times(times: Times) -> Any:
    return pa.array(times.view("datetime64[us]"), pa.timestamp("us"))


def _by_split(table: pa.Table, splits: Mapping[int, str]) -> Iterator[tuple[str, pa.Table]]:
    if not splits:
        yield "", table
        return
    subject = table.column("subject_id").to_numpy()
    everyone, places = np.unique(subject, return_inverse=True)
    own = [splits.get(each, NO_SPLIT) for each in everyone.tolist()]
    for name in dict.fromkeys(own):
        mask = np.array([split == name for split in own])[places]
        yield name, table.filter(pa.array(mask))


def _codes(store: Store, book: CodeBook) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yield every code with its most frequent description, and its parents: the source's own, and its groups."""
    own = _own_parents(store)
    for code, descriptions in book.descriptions.items():
        ranked = sorted((-count, text) for text, count in descriptions.items() if text)
        parents = {*own.get(code, ()), *book.parents.get(code, ())}
        yield code, ranked[0][1] if ranked else None, sorted(parents)


def _own_parents(store: Store) -> dict[str, list[str]]:
    """Return the parents that a dictionary of codes itself has (MEDS has one)."""
    for name, dictionary in store.spec.dictionaries.items():
        if "parent_codes" in dictionary.columns and name in store.manifest["dictionaries"]:
            table = store.dictionary(name)
            if "parent_codes" in table.column_names:
                table = table.filter(pa.array(valid(table.column("parent_codes").combine_chunks())))
                texts = table.column("parent_codes").to_pylist()
                return dict(zip(table.column("code").to_pylist(), (text.split("\n") for text in texts), strict=True))
    return {}


def _about(store: Store, settings: ExportSettings) -> dict[str, Any]:
    what = "when the row became known" if settings.time == "known" else "when it happened (available_at: when known)"
    return {
        "dataset_name": f"{store.spec.title}, through wardround; time is {what}",
        "dataset_version": store.digest[:16],
        "etl_name": "wardround export meds",
        PEOPLE_OF: store.spec.people,
        SAME_PERSON: {str(s): person for s in store.subjects.tolist() if (person := store.person_of(s)) != s},
        "etl_version": "1",
        "meds_version": MEDS_VERSION,
        "raw_source_id_columns": ["row_id"],
        "code_modifier_columns": ["unit"],
        "other_extension_columns": [name for name in DATA_SCHEMA.names[_STANDARD:] if name not in ("row_id", "unit")],
    }


# The MEDS export in another future of the same past: up to each moment its events must be the same. For the audits.


Event = tuple[Any, ...]
_CODE = 2
"""Where an event has its code: after the subject and the time."""


def differing_exports(store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
    """Export two stores as MEDS and compare each subject's events up to its moment, every column and their order."""
    found = Compared()
    with TemporaryDirectory(prefix="wardround-futures-") as folder:
        here, there = (
            dict(_known_events(each, Path(folder) / name, moments))
            for each, name in ((store, "here"), (other, "there"))
        )
    for subject, as_of in moments.items():
        first, second = here.get(subject, []), there.get(subject, [])
        found.compared["exported events"] += len(first)
        if first == second:
            continue
        change = next(pair for pair in zip_longest(first, second) if pair[0] != pair[1])
        code = next(str(event[_CODE]) for event in change if event is not None)
        found.differences.append(f"{subject} by {as_of}, exported events: {change[0]} in the other future {change[1]}")
        found.places[f"exported events {code.partition('//')[0]}"] += 1
    return found


def _known_events(store: Store, folder: Path, moments: Mapping[int, datetime]) -> Iterator[tuple[int, list[Event]]]:
    """Yield each subject with a moment and its exported events without a time or up to the moment."""
    export_meds(store, folder)
    asked = pa.array(list(moments), pa.int64())
    for file in sorted((folder / "data").rglob("*.parquet")):
        table = pq.read_table(file)
        table = table.filter(pc.is_in(table.column("subject_id"), asked))
        for subject in table.column("subject_id").unique().to_pylist():
            mine = table.filter(pc.equal(table.column("subject_id"), subject))
            times = mine.column("time")
            known = pc.or_(pc.is_null(times), pc.less_equal(times, pa.scalar(moments[subject], times.type)))
            mine = mine.filter(pc.fill_null(known, True))
            yield subject, list(zip(*(column.to_pylist() for column in mine.columns), strict=True))
