"""The tables of a synthetic hospital as a dialect's writer reads them, and small tools for times."""

from __future__ import annotations

import csv
import gzip
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TypeVar

Row = dict[str, str]
_Entry = TypeVar("_Entry")
_AGAIN = 17


class HospitalTables:
    """The tables of one hospital, each read once."""

    def __init__(self, hospital: Path) -> None:
        self._hospital = hospital
        self._tables: dict[str, list[Row]] = {}

    def rows(self, table: str) -> list[Row]:
        """Return a table; one of a module that was left out is empty."""
        if table not in self._tables:
            self._tables[table] = [row for path in self._hospital.glob(f"*/{table}.csv*") for row in _read(path)]
        return self._tables[table]

    @cached_property
    def admissions(self) -> Mapping[str, Row]:
        """Hospital stays by number."""
        return {row["hadm_id"]: row for row in self.rows("admissions")}

    @cached_property
    def patients(self) -> Mapping[str, Row]:
        """People by number."""
        return {row["subject_id"]: row for row in self.rows("patients")}

    def titles(self, table: str, key: str, title: str) -> Mapping[str, str]:
        """Return what a dictionary calls its codes."""
        return {row[key]: row[title] for row in self.rows(table)}

    def born(self, person: Row) -> int:
        """Return a person's year of birth."""
        return int(person["anchor_year"]) - int(person["anchor_age"])


def _read(path: Path) -> Iterable[Row]:
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as lines:
        rows = csv.reader(lines)
        header = next(rows, [])
        yield from (dict(zip(header, row, strict=True)) for row in rows if row)


def write_csv(path: Path, rows: Sequence[Mapping[str, object]], header: Sequence[str] = ()) -> None:
    """Write rows as CSV with the columns that they have."""
    shapes = dict.fromkeys(map(tuple, rows))
    columns = list(dict.fromkeys([*header, *(column for shape in shapes for column in shape)]))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([row.get(column, "") for column in columns] for row in rows)


def copy_csv(path: Path, copy: Path) -> None:
    """Copy a table unchanged, without compression."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target)


def some_twice(rows: Iterable[_Entry]) -> Iterator[_Entry]:
    """Yield rows, some of them again at once, as exports that were put together from parts hold them."""
    for place, row in enumerate(rows):
        yield row
        if place % _AGAIN == 3:
            yield row


def moment(text: str) -> datetime:
    """Read a time of the synthetic hospital."""
    return datetime.fromisoformat(text)


def later(text: str, **by: float) -> str:
    """Return a time so much later."""
    return str(moment(text) + timedelta(**by))


def midnight(text: str) -> str:
    """Return the first moment of a time's day; empty for none."""
    return f"{text[:10]} 00:00:00" if text else ""


def minutes_between(start: str, end: str) -> int:
    """Return whole minutes from one time to another."""
    return int((moment(end) - moment(start)).total_seconds() // 60)
