"""Vectors of a foundation model (CLMBR, say) supplied as a file: one per subject and prediction time.

Parquet: columns ``subject_id``, ``prediction_time`` and ``vector`` (a list of numbers). npz: arrays of the same names,
``vector`` with two dimensions, times as datetime64 or microseconds since 1970. Nothing is pickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wardround.core import UserError, format_time, to_microseconds
from wardround.predictors.features import Key

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_COLUMNS = ("subject_id", "prediction_time", "vector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Representations:
    """Vectors by subject and time (microseconds)."""

    path: Path
    vectors: Floats
    rows: dict[tuple[int, int], int]

    def of(self, keys: Iterable[Key]) -> Floats:
        """Return the vectors of these keys. UserError: the file lacks some."""
        wanted = [(subject_id, to_microseconds(time)) for subject_id, time in keys]
        return self.vectors[[self.rows[key] for key in wanted]]

    def must_cover(self, keys: Iterable[Key]) -> None:
        """Raise UserError unless there is a vector for every key."""
        wanted = sorted(set(keys))
        missing = [key for key in wanted if (key[0], to_microseconds(key[1])) not in self.rows]
        if missing:
            subject_id, time = missing[0]
            raise UserError(
                f"{self.path} has no vector for {len(missing):,} of {len(wanted):,} samples, the first of them subject "
                f"{subject_id} at {format_time(time)}"
            )


def read_representations(path: Path) -> Representations:
    """Read a file of vectors; UserError says what is wrong with it."""
    if not path.is_file():
        raise UserError(f"no file of representations at {path}")
    subjects, times, vectors = _read_npz(path) if path.suffix == ".npz" else _read_parquet(path)
    if subjects.ndim != 1 or vectors.ndim != 2 or not vectors.size or not len(vectors) == len(subjects) == times.size:
        raise UserError(f"{path}: vectors of shape {vectors.shape}, {subjects.size} subjects and {times.size} times")
    if subjects.dtype.kind not in "iu" or times.dtype.kind not in "Miu" or vectors.dtype.kind not in "fiu":
        raise UserError(
            f"{path}: subject_id must be whole numbers, prediction_time times (or microseconds as whole numbers), "
            f"vector numbers; they are {subjects.dtype}, {times.dtype} and {vectors.dtype}"
        )
    if times.dtype.kind == "M" and np.isnat(times).any():
        raise UserError(f"{path}: {int(np.isnat(times).sum()):,} rows have no prediction_time")
    vectors = np.asarray(vectors, float)
    if not np.isfinite(vectors).all():
        raise UserError(
            f"{path}: {int((~np.isfinite(vectors)).any(axis=1).sum()):,} vectors have a value that is no number"
        )
    rows = {pair: row for row, pair in enumerate(zip(subjects.tolist(), _microseconds(times).tolist(), strict=True))}
    if len(rows) < len(vectors):
        raise UserError(f"{path}: {len(vectors) - len(rows):,} vectors repeat a subject and time")
    return Representations(path=path, vectors=vectors, rows=rows)


def _read_npz(path: Path) -> tuple[Array, Array, Array]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            _must_have(path, archive.files)
            subjects, times, vectors = (archive[name] for name in _COLUMNS)
            return subjects, times, vectors
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise UserError(f"{path} cannot be read as npz: {error}") from error


def _read_parquet(path: Path) -> tuple[Array, Array, Array]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}") from error
    _must_have(path, table.column_names)
    for name in _COLUMNS:
        if lacking := table.column(name).null_count:
            raise UserError(f"{path}: {lacking:,} rows have no {name}")
    at = table.schema.field("prediction_time").type
    if pa.types.is_timestamp(at) and at.tz is not None:
        raise UserError(f"{path}: prediction_time is of the type {at}; write it as the samples have it, without a zone")
    kind = table.schema.field("vector").type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise UserError(f"{path}: vector must be a list of numbers, not {kind}")
    vectors = table.column("vector").to_pylist()
    if len({len(vector) for vector in vectors}) != 1:
        raise UserError(f"{path}: the vectors are not all of one length")
    if not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise UserError(f"{path}: vector must be a list of numbers, not {kind}")
    subjects, times = (table.column(name).to_numpy() for name in _COLUMNS[:2])
    return subjects, times, np.array(vectors, float)


def _microseconds(times: Any) -> npt.NDArray[np.int64]:
    return np.asarray(times.astype("datetime64[us]").astype(np.int64) if times.dtype.kind == "M" else times, np.int64)


def _must_have(path: Path, names: Iterable[str]) -> None:
    missing = [name for name in _COLUMNS if name not in set(names)]
    if missing:
        raise UserError(f"{path} has no {', '.join(missing)}; it needs {', '.join(_COLUMNS)}")
