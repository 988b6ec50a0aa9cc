"""What a foreign pipeline made of raw files, read as features of samples: MEDS, event tables, rows by key, arrays."""

from __future__ import annotations

import csv
import gzip
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from wardround.audits.pipeline.samples import PipelineSample
from wardround.core import UserError, import_extra, parse_time

Value = tuple[Any, ...]
"""What a feature holds for a sample: its entries in the order in which they stand in the output."""
_KINDS = ("meds", "events", "rows")


@dataclass(slots=True)
class Output:
    """What a run made. ``features``: by sample, by feature; a sample that is not there has no entry. ``columns``: all
    that the output has a column or code for, whosever it is. ``labels`` are expected to differ."""

    features: dict[PipelineSample, dict[str, Value]] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    labels: dict[PipelineSample, dict[str, Value]] = field(default_factory=dict)
    places: dict[PipelineSample, int] = field(default_factory=dict)
    """Where a sample stands among all of them."""

    def add(self, other: Output, prefix: str = "") -> None:
        """Take over what another reading of the same run found."""
        for mine, its in ((self.features, other.features), (self.labels, other.labels)):
            for sample, features in its.items():
                mine.setdefault(sample, {}).update({prefix + name: value for name, value in features.items()})
        self.columns |= {prefix + name for name in other.columns}
        self.places |= other.places


ReadOutput = Callable[[Path, Sequence[PipelineSample]], "Output | Mapping[PipelineSample, Mapping[str, Any]]"]
"""Reads a run's folder of results; a mapping by sample and feature is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputReading:
    """Where results lie and how they are keyed, as written after ``--read``: ``KIND:{out}/FILE[,NAME=VALUE ...]``.

    ``meds``: a folder of a MEDS data set; a sample has the events up to its time. ``events``: a table with a ``time``
    column; likewise. ``rows``: one row a sample. Options: ``key`` the column that names the sample (``subject_id``),
    ``time`` that of the time, ``code`` that of the feature's name, ``label`` columns to foretell (split by +), ``skip``
    columns to leave out (split by +), ``table`` in a database, ``index`` the array of keys in an npz file.
    """

    kind: str
    path: str
    options: Mapping[str, str]

    def __call__(self, out: Path, samples: Sequence[PipelineSample]) -> Output:
        """Read what a run wrote below a folder. UserError: it is not there, or has no such column."""
        path = Path(self.path.replace("{out}", str(out)))
        if not path.exists():
            raise UserError(f"{path} was not written by the pipeline")
        if self.kind == "meds":
            return _meds(path, samples)
        rows = list(_rows(path, self.options))
        return _events(rows, samples, self) if self.kind == "events" else _keyed(rows, samples, self)

    def names(self, option: str) -> tuple[str, ...]:
        """Return the columns that an option names."""
        return tuple(name for name in self.options.get(option, "").split("+") if name)


def parse_reading(text: str) -> OutputReading:
    """Read ``KIND:{out}/FILE[,NAME=VALUE ...]``. UserError: it is not of that form."""
    kind, colon, rest = text.partition(":")
    path, *parts = rest.split(",")
    options = dict(part.partition("=")[::2] for part in parts)
    strange = options.keys() - {"key", "time", "code", "label", "skip", "table", "index"}
    if kind not in _KINDS or not colon or not path or strange:
        raise UserError(
            f"--read {text}: write KIND:{{out}}/FILE[,NAME=VALUE ...]; KIND is {', '.join(_KINDS)}; NAME is key, time, "
            "code, label, skip, table or index"
        )
    return OutputReading(kind=kind, path=path, options=options)


def _meds(folder: Path, samples: Sequence[PipelineSample]) -> Output:
    """Events of a MEDS data set up to each sample's time; a feature is a code. Who has none is not there."""
    by_subject: dict[str, list[PipelineSample]] = {}
    for sample in samples:
        by_subject.setdefault(sample.subject, []).append(sample)
    files = sorted((folder / "data").rglob("*.parquet")) or sorted(folder.rglob("*.parquet"))
    if not files:
        raise UserError(f"{folder}: no MEDS data set (data/**/*.parquet)")
    entries: dict[PipelineSample, dict[str, list[Any]]] = {}
    for file in files:
        table = pq.read_table(file)
        if not {"subject_id", "time", "code"} <= set(table.column_names):
            continue
        for row in table.to_pylist():
            subject = str(row.pop("subject_id"))
            if subject not in by_subject:
                continue
            code, time = str(row.pop("code")), _time(row.pop("time"))
            entry = (time, *((name, plain(value)) for name, value in sorted(row.items()) if value is not None))
            for sample in by_subject[subject]:
                if time is None or time <= sample.time:
                    entries.setdefault(sample, {}).setdefault(code, []).append(entry)
    return Output(
        features={sample: {code: tuple(all_of) for code, all_of in each.items()} for sample, each in entries.items()}
    )


def _events(rows: Sequence[Mapping[str, Any]], samples: Sequence[PipelineSample], reading: OutputReading) -> Output:
    key, time, code = (reading.options.get(name, default) for name, default in _DEFAULTS)
    left_out = {key, time, code, *reading.names("skip"), *reading.names("label")}
    by_key = _by_key(samples, key)
    made = Output()
    for row in rows:
        _must_have(row, (key, time), reading)
        at = _time(row[time])
        for sample in by_key.get(_key(row[key]), ()):
            if at is not None and at > sample.time:
                continue
            held = made.features.setdefault(sample, {})
            values = {name: plain(value) for name, value in row.items() if name not in left_out}
            if code:
                held[str(row[code])] = (*held.get(str(row[code]), ()), (at, *sorted(values.items())))
            else:
                for name, value in {**values, time: at}.items():
                    held[name] = (*held.get(name, ()), value)
    return made


_DEFAULTS = (("key", "subject_id"), ("time", "time"), ("code", ""))


def _keyed(rows: Sequence[Mapping[str, Any]], samples: Sequence[PipelineSample], reading: OutputReading) -> Output:
    key = reading.options.get("key", "subject_id")
    labels, skipped = reading.names("label"), {key, *reading.names("skip")}
    by_key = _by_key(samples, key)
    made = Output()
    for place, row in enumerate(rows):
        _must_have(row, (key, *labels), reading)
        made.columns.update(set(row) - skipped - set(labels))
        for sample in by_key.get(_key(row[key]), ()):
            made.places.setdefault(sample, place)
            held, label = made.features.setdefault(sample, {}), made.labels.setdefault(sample, {})
            for name, value in row.items():
                if name not in skipped:
                    into = label if name in labels else held
                    into[name] = (*into.get(name, ()), plain(value))
    return made


def _by_key(samples: Iterable[PipelineSample], key: str) -> dict[str, list[PipelineSample]]:
    found: dict[str, list[PipelineSample]] = {}
    for sample in samples:
        text = sample.subject if key == "subject_id" else sample.keys.get(key)
        if text is None:
            text = sample.subject
        found.setdefault(_key(text), []).append(sample)
    return found


def _key(value: Any) -> str:
    """A key as text: 12, "12" and 12.0 are one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    return text[:-2] if text.endswith(".0") and text[:-2].isdigit() else text


def _must_have(row: Mapping[str, Any], names: Sequence[str], reading: OutputReading) -> None:
    missing = [name for name in names if name not in row]
    if missing:
        raise UserError(f"{reading.path}: no column {', '.join(missing)}; it has {', '.join(list(row)[:12])}")


def _time(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if value is None or value == "":
        return None
    try:
        return parse_time(str(value).replace(" ", "T", 1)[:26])
    except ValueError as error:
        raise UserError(f"{value!r} is no time") from error


def plain(value: Any) -> Any:
    """A cell as a value that can be compared: text that is a number is one, NaN is nothing."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return None if isinstance(value, float) and math.isnan(value) else value
    if isinstance(value, str):
        text = value.strip()
        if text == "" or text.casefold() == "nan":
            return None
        try:
            return float(text)
        except ValueError:
            return text
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple(sorted((str(name), plain(part)) for name, part in value.items()))
    return value if isinstance(value, datetime) else str(value)


def _rows(path: Path, options: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """The rows of a table in a file, or of every file of a folder."""
    if path.is_dir():
        for file in sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith(".")):
            yield from _rows(file, options)
        return
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        yield from pq.read_table(path).to_pylist()
    elif name.endswith((".csv", ".tsv")):
        with gzip.open(path, "rt", encoding="utf-8") if path.name.endswith(".gz") else path.open() as lines:
            yield from csv.DictReader(lines, delimiter="\t" if name.endswith(".tsv") else ",")
    elif name.endswith((".jsonl", ".ndjson")):
        with gzip.open(path, "rt", encoding="utf-8") if path.name.endswith(".gz") else path.open() as lines:
            yield from (json.loads(line) for line in lines if line.strip())
    elif name.endswith(".npz"):
        yield from _array_rows(path, options)
    elif name.endswith((".sqlite", ".sqlite3", ".db")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(f'SELECT * FROM "{_table_name(path, options)}"')
            names = [column[0] for column in cursor.description]
            yield from (dict(zip(names, row, strict=True)) for row in cursor)
    elif name.endswith(".duckdb"):
        duckdb = import_extra("duckdb", "dev", what="reading a DuckDB file")
        with closing(duckdb.connect(str(path), read_only=True)) as connection:
            yield from connection.execute(f'SELECT * FROM "{_table_name(path, options)}"').to_arrow_table().to_pylist()
    else:
        raise UserError(f"{path}: CSV, TSV, JSON lines, Parquet, npz, SQLite and DuckDB files are read")


def _table_name(path: Path, options: Mapping[str, str]) -> str:
    name = options.get("table", "")
    if not name or '"' in name:
        raise UserError(f"{path}: say which table: table=NAME")
    return name


def _array_rows(path: Path, options: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Arrays with a row a sample, and the array that holds the samples' keys. No pickles are read."""
    index, key = options.get("index", "ids"), options.get("key", "subject_id")
    with np.load(path, allow_pickle=False) as arrays:
        if index not in arrays:
            raise UserError(f"{path}: no array {index}; it has {', '.join(arrays)}: say index=NAME")
        keys = arrays[index]
        flat = {
            name: arrays[name].reshape(len(keys), -1)
            for name in arrays
            if name != index and len(arrays[name]) == len(keys)
        }
    for place, sample in enumerate(keys):
        row: dict[str, Any] = {key: sample}
        for name, values in flat.items():
            width = values.shape[1]
            row |= {name if width == 1 else f"{name}[{at}]": values[place, at] for at in range(width)}
        yield row
