"""MEDS 0.4 on disk: the schemas, the shards of data, and the files of metadata and labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

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
