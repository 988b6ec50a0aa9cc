"""What predictors read of a chart: counts of events with ancestors of codes as a design matrix, or supplied vectors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wardround.clinical.codes import CodeGrouper, load_ccs, plain_code
from wardround.core import Progress, RecordError, Reporter, UserError, format_time, silent, to_microseconds
from wardround.core.executors import starting
from wardround.predictors.heads import optional
from wardround.records import Chart, EventColumns, Policy, Store, Withheld

# Counts of every event code of a chart as of a prediction time, and the subject's age: EHRSHOT's features.
#
# A row is made from :meth:`wardround.records.Chart.event_columns` and from nothing else, so that it holds what was
# known at its time and no more. Rows are shared by every task that asks about the same subject and time.


Key = tuple[int, datetime]
"""A subject and a prediction time."""
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_BIRTH = "MEDS_BIRTH"
_YEAR_MICROSECONDS = 365.25 * 86_400e6
_KEYS_PER_JOB = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTable:
    """Counts as a sparse matrix in rows: those of row r are ``counts[starts[r]:starts[r + 1]]`` of the codes
    ``codes[place]``. ``ages`` in years, NaN where the record does not say."""

    subjects: Integers
    times: Integers
    ages: Floats
    codes: tuple[str, ...]
    starts: Integers
    places: Integers
    counts: Integers
    _rows: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)

    def row(self, key: Key) -> int:
        """Return the row of a subject and time."""
        if not self._rows:
            pairs = zip(self.subjects.tolist(), self.times.tolist(), strict=True)
            self._rows.update({pair: row for row, pair in enumerate(pairs)})
        return self._rows[key[0], to_microseconds(key[1])]

    def rows(self, keys: Iterable[Key]) -> Integers:
        """Return the rows of many."""
        return np.array([self.row(key) for key in keys], np.int64)


def count_table(
    store: Store,
    keys: Iterable[Key],
    *,
    policy: Policy,
    valued_events: bool = True,
    withheld: Mapping[Key, Withheld] = MappingProxyType({}),
    processes: int = 1,
    report: Reporter = silent,
) -> CountTable:
    """Count the visible events of every key; the result does not depend on the number of processes.

    ``withheld`` says of some keys which tables their questions do not show.
    """
    wanted = sorted(set(keys))
    jobs = [
        (str(store.path), policy, valued_events, part, {key: withheld[key] for key in part if key in withheld})
        for part in _parts_by_subject(wanted, _KEYS_PER_JOB)
    ]
    done = 0
    parts: list[_Part] = []
    report(Progress(label="counting events", done=0, total=len(wanted), unit="charts"))
    for part in _results(jobs, processes, store):
        parts.append(part)
        done += len(part.ages)
        report(Progress(label="counting events", done=done, total=len(wanted), unit="charts"))
    return _joined(wanted, parts)


def chart_counts(columns: EventColumns, *, valued_events: bool = True) -> dict[str, int]:
    """Count the visible events by code."""
    concept = columns.concept
    if not valued_events:
        concept = concept[~columns.is_numeric & (~np.asarray(columns.text_array.is_valid()))]
    counts: dict[str, int] = {}
    for code, count in zip(columns.codes, np.bincount(concept, minlength=len(columns.codes)).tolist(), strict=True):
        if count:
            counts[code] = counts.get(code, 0) + count
    return counts


def age_at(chart: Chart, columns: EventColumns) -> float:
    """Years of age: from the birth event where the record has one, else as the chart says it; NaN where neither."""
    births = [place for place, code in enumerate(columns.codes) if code.split("//")[0] == _BIRTH]
    if births:
        times = columns.time[np.isin(columns.concept, births) & ~columns.is_static]
        if len(times):
            return (to_microseconds(chart.as_of) - int(times.min())) / _YEAR_MICROSECONDS
    age = chart.age
    return float("nan") if age is None else float(age)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some rows with codes of their own numbering."""

    ages: Floats
    codes: tuple[str, ...]
    lengths: Integers
    places: Integers
    counts: Integers


_Job = tuple[str, Policy, bool, Sequence[Key], Mapping[Key, Withheld]]


def _results(jobs: Sequence[_Job], processes: int, store: Store) -> Iterable[_Part]:
    if processes < 2 or len(jobs) < 2:
        for _, policy, valued_events, keys, withheld in jobs:
            yield _count(store, policy, valued_events, keys, withheld)
        return
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=starting(_count_job)) as pool:
        yield from pool.map(_count_job, jobs)


def _count_job(job: _Job) -> _Part:
    path, policy, valued_events, keys, withheld = job
    return _count(Store.open(Path(path)), policy, valued_events, keys, withheld)


def _count(
    store: Store, policy: Policy, valued_events: bool, keys: Sequence[Key], withheld: Mapping[Key, Withheld]
) -> _Part:
    numbering: dict[str, int] = {}
    ages: list[float] = []
    lengths: list[int] = []
    places: list[int] = []
    counts: list[int] = []
    for subject_id, time in keys:
        chart = store.chart(subject_id, time, policy=policy, withheld=withheld.get((subject_id, time)))
        columns = chart.event_columns()
        found = chart_counts(columns, valued_events=valued_events)
        ages.append(age_at(chart, columns))
        lengths.append(len(found))
        places.extend(numbering.setdefault(code, len(numbering)) for code in found)
        counts.extend(found.values())
    return _Part(
        ages=np.array(ages, float),
        codes=tuple(numbering),
        lengths=np.array(lengths, np.int64),
        places=np.array(places, np.int64),
        counts=np.array(counts, np.int64),
    )


def _joined(keys: Sequence[Key], parts: Sequence[_Part]) -> CountTable:
    """Give every part one numbering: codes in order."""
    codes = sorted({code for part in parts for code in part.codes})
    number = {code: place for place, code in enumerate(codes)}
    nothing = np.empty(0, np.int64)
    places = [np.array([number[code] for code in part.codes], np.int64)[part.places] for part in parts]
    lengths = np.concatenate([nothing, *(part.lengths for part in parts)])
    return CountTable(
        subjects=np.array([subject_id for subject_id, _ in keys], np.int64),
        times=np.array([to_microseconds(time) for _, time in keys], np.int64),
        ages=np.concatenate([np.empty(0), *(part.ages for part in parts)]),
        codes=tuple(codes),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        places=np.concatenate([nothing, *places]),
        counts=np.concatenate([nothing, *(part.counts for part in parts)]),
    )


def _parts_by_subject(keys: Sequence[Key], size: int) -> Iterable[list[Key]]:
    """Cut sorted keys into parts of about ``size`` that never divide a subject."""
    part: list[Key] = []
    for _, group in groupby(keys, key=lambda key: key[0]):
        part.extend(group)
        if len(part) >= size:
            yield part
            part = []
    if part:
        yield part


def read_counts(path: Path) -> CountTable:
    """Read what :func:`write_counts` wrote."""
    with np.load(path) as archive:
        codes = tuple(json.loads(bytes(archive["codes"])))
        arrays = {name: archive[name] for name in ("subjects", "times", "ages", "starts", "places", "counts")}
    return CountTable(codes=codes, **arrays)


def write_counts(path: Path, table: CountTable) -> None:
    """Write a table so that a reader sees all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.tmp.npz")
    np.savez_compressed(
        scratch,
        codes=np.frombuffer(json.dumps(table.codes).encode(), np.uint8),
        subjects=table.subjects,
        times=table.times,
        ages=table.ages,
        starts=table.starts,
        places=table.places,
        counts=table.counts,
    )
    scratch.replace(path)


# The ancestors of event codes: an event of a code counts for all its ancestors (EHRSHOT's ontology expansion).
#
# There are two sources: the store's own dictionary of codes with ``parent_codes`` (MEDS), followed upwards,
# and CCS categories of ICD codes. A code of unknown ICD version that both versions have gets no category.


_ICD_SYSTEMS: Mapping[str, Literal["diagnoses", "procedures"]] = {
    "icd-diagnosis": "diagnoses",
    "icd-procedure": "procedures",
    "DIAGNOSIS//ICD": "diagnoses",
    "PROCEDURE//ICD": "procedures",
}
_SEPARATOR = "//"
_DEEPEST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """Ancestors by code, never the code itself; codes without any are left out. ``sources``: where from."""

    ancestors: Mapping[str, tuple[str, ...]]
    sources: tuple[str, ...] = ()


def ancestry(codes: Iterable[str], store: Store) -> Ancestry:
    """Return the ancestors of these codes that the store and the packaged groupers know."""
    parents = stored_parents(store)
    groupers = {kind: load_ccs(kind) for kind in set(_ICD_SYSTEMS.values())}
    found: dict[str, tuple[str, ...]] = {}
    used: set[str] = set()
    for code in codes:
        above = climb(code, parents)
        category = ccs_category(code, groupers)
        used |= {"parent codes of the store"} if above else set()
        used |= {"CCS categories"} if category else set()
        if above or category:
            found[code] = tuple(dict.fromkeys((*above, *((category,) if category else ()))))
    return Ancestry(ancestors=found, sources=tuple(sorted(used)))


def stored_parents(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the parents of each code in the store's dictionaries; empty where there are none."""
    parents: dict[str, tuple[str, ...]] = {}
    for name in store.manifest["dictionaries"]:
        try:
            table = store.dictionary(name)
        except RecordError:
            continue
        if {"code", "parent_codes"} <= set(table.column_names):
            rows = zip(table.column("code").to_pylist(), table.column("parent_codes").to_pylist(), strict=True)
            parents.update({str(code): _names(above) for code, above in rows if above})
    return parents


def climb(code: str, parents: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return everything above a code, each once, nearest first. A circle in the hierarchy ends where it closes."""
    seen: dict[str, None] = {}
    level = [code]
    for _ in range(_DEEPEST):
        level = [one for below in level for one in parents.get(below, ()) if one != code and one not in seen]
        if not level:
            break
        seen.update(dict.fromkeys(level))
    return tuple(seen)


def ccs_category(code: str, groupers: Mapping[Literal["diagnoses", "procedures"], CodeGrouper]) -> str | None:
    """Return the CCS category of an ICD code, as a code of its own; None where it is not known or not certain."""
    for system, kind in _ICD_SYSTEMS.items():
        if not code.startswith(system + _SEPARATOR):
            continue
        parts = code.removeprefix(system + _SEPARATOR).split(_SEPARATOR)
        versions = [int(parts[0])] if len(parts) == 2 and parts[0].isdigit() else [9, 10]
        plain = plain_code(parts[-1])
        tables = groupers[kind].codes
        numbers = {tables[version][plain] for version in versions if plain in tables.get(version, {})}
        return f"ccs-{kind}{_SEPARATOR}{numbers.pop()}" if len(numbers) == 1 else None
    return None


def _names(above: object) -> tuple[str, ...]:
    """Read a list of codes; a store keeps it as text, a code a line."""
    names = above.split("\n") if isinstance(above, str) else above if isinstance(above, list) else []
    return tuple(str(name) for name in names if name)


# From counts to a design matrix: which codes are columns, and how the age is put. Both are learnt in training only.


AGE = "age"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Columns of a matrix: the age, then ``codes``. Made of training rows; held-out rows are put into it as they are.

    The age is in standard deviations from the mean of the training rows; an unknown one is the mean. A code that no
    training row has is no column, in whoever's chart it stands.
    """

    codes: tuple[str, ...]
    age_mean: float
    age_spread: float

    @classmethod
    def of(cls, counts: Any, table: CountTable, codes: Sequence[str], training: Integers) -> Design:
        """Learn the columns. ``counts`` is the sparse matrix of all rows, whose columns are ``codes``."""
        present = np.flatnonzero(counts[training].getnnz(axis=0))
        ages = table.ages[training]
        known = ages[~np.isnan(ages)]
        return cls(
            codes=tuple(codes[place] for place in present.tolist()),
            age_mean=float(known.mean()) if len(known) else 0.0,
            age_spread=float(known.std()) or 1.0 if len(known) else 1.0,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name of each column."""
        return (AGE, *self.codes)

    def matrix(self, counts: Any, table: CountTable, codes: Sequence[str], rows: Integers) -> Any:
        """Return these rows in this design: sparse, one row per row asked for."""
        sparse = optional("scipy.sparse")
        place = {code: n for n, code in enumerate(codes)}
        kept = counts[rows][:, np.array([place[code] for code in self.codes], np.int64)]
        ages = (table.ages[rows] - self.age_mean) / self.age_spread
        age = sparse.csr_matrix(np.nan_to_num(ages, nan=0.0)[:, None])
        return sparse.hstack([age, kept], format="csr").astype(float)


def count_matrix(table: CountTable, ancestors: Mapping[str, Sequence[str]]) -> tuple[Any, tuple[str, ...]]:
    """Return the counts as a sparse matrix and the code of every column; ancestors are columns as well."""
    sparse = optional("scipy.sparse")
    shape = (len(table.subjects), len(table.codes))
    counts = sparse.csr_matrix((table.counts.astype(float), table.places, table.starts), shape=shape)
    if not ancestors:
        return counts, table.codes
    columns = tuple(sorted({*table.codes, *(above for code in table.codes for above in ancestors.get(code, ()))}))
    place = {code: n for n, code in enumerate(columns)}
    pairs = [(n, place[to]) for n, code in enumerate(table.codes) for to in (code, *ancestors.get(code, ()))]
    rows, cols = np.array(pairs, np.int64).reshape(-1, 2).T
    spread = sparse.csr_matrix((np.ones(len(pairs)), (rows, cols)), shape=(len(table.codes), len(columns)))
    return (counts @ spread).tocsr(), columns


# Vectors of a foundation model (CLMBR, say) supplied as a file: one per subject and prediction time.
#
# Parquet: columns ``subject_id``, ``prediction_time`` and ``vector`` (a list of numbers). npz: arrays of the same
# names, ``vector`` with two dimensions, times as datetime64 or microseconds since 1970. Nothing is pickled.


Array = npt.NDArray[Any]
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
