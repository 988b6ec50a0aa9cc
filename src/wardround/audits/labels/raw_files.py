"""MIMIC-IV's CSV files read row by row, and its clocks in plain words."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import TextIO

from wardround.core import UserError

Row = dict[str, str]
Named = tuple[datetime, str]
"""When something happened, and its name."""


MINUTE = timedelta(minutes=1)
ADDED_LATER = (
    "bottle gram stain",
    "virus identification",
    "confirmation",
    "confirmatory",
    "susceptibility",
    "sensitivities",
    "serotyping",
    "serogrouping",
    "genotyping",
    "typing,",
    "identification of",
    "quantitative rpr",
    "treponemal antibody",
)
"""Tests that the laboratory adds because of a result: nobody ordered them at the draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawStay:
    """One admission: ``discharged`` is what the record says, ``over`` the later of that and a death in it."""

    hadm_id: str
    start: datetime
    discharged: datetime
    over: datetime


class RawFiles:
    """The folders of a release, whose modules may lie apart. Files are read when first asked for."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        if self._path("hosp/admissions") is None:
            raise UserError(f"{self._named} has no hosp/admissions.csv(.gz); give a folder in MIMIC-IV's form")

    def rows_of(self, name: str) -> Iterator[Row]:
        """Yield the rows of a file that must be there; UserError where it is not."""
        path = self._path(name)
        if path is None:
            raise UserError(f"{self._named} has no {name}.csv or {name}.csv.gz; give a folder in MIMIC-IV's form")
        return _rows(path)

    def rows_if_there(self, name: str) -> Iterator[Row]:
        """Yield the rows of a file, none where there is no such file."""
        path = self._path(name)
        return iter(()) if path is None else _rows(path)

    def _path(self, name: str) -> Path | None:
        paths = (folder / f"{name}{end}" for folder in self._folders for end in (".csv.gz", ".csv"))
        return next((path for path in paths if path.is_file()), None)

    @property
    def _named(self) -> str:
        return ", ".join(repr(str(folder)) for folder in self._folders)

    @cached_property
    def stays(self) -> dict[int, list[RawStay]]:
        """Every admission, by subject."""
        found: dict[int, list[RawStay]] = defaultdict(list)
        for row in self.rows_of("hosp/admissions"):
            if row["admittime"] and row["dischtime"]:
                left = when(row["dischtime"])
                over = max(left, when(row["deathtime"])) if row["deathtime"] else left
                stay = RawStay(hadm_id=row["hadm_id"], start=when(row["admittime"]), discharged=left, over=over)
                found[int(row["subject_id"])].append(stay)
        return found

    @cached_property
    def deaths(self) -> dict[int, datetime]:
        """The first time at which anything says that a subject is dead; a date is the end of its day."""
        found: dict[int, datetime] = {}
        for row in self.rows_of("hosp/admissions"):
            _note(found, row, "deathtime")
        for row in self.rows_of("hosp/patients"):
            _note(found, row, "dod")
        return found

    @cached_property
    def begins(self) -> dict[int, datetime]:
        """The first time in any file of a subject's record that may come before a laboratory result."""
        found: dict[int, datetime] = {}
        for name, column in _FIRST.items():
            for row in self.rows_if_there(name):
                _note(found, row, column)
        for row in self.rows_if_there("hosp/microbiologyevents"):
            _note(found, row, "charttime" if row["charttime"] else "chartdate")
        return found

    def is_dead(self, subject: int, moment: datetime) -> bool:
        """Whether a subject is known to be dead at a moment."""
        return self.deaths.get(subject, datetime.max) <= moment


_FIRST = {
    "hosp/admissions": "admittime",
    "hosp/transfers": "intime",
    "hosp/services": "transfertime",
    "hosp/labevents": "charttime",
    "hosp/omr": "chartdate",
    "hosp/hcpcsevents": "chartdate",
    "hosp/procedures_icd": "chartdate",
    "hosp/poe": "ordertime",
    "hosp/emar": "charttime",
    "icu/icustays": "intime",
    "ed/edstays": "intime",
    "ed/vitalsign": "charttime",
    "ed/medrecon": "charttime",
    "ed/pyxis": "charttime",
}


def _rows(path: Path) -> Iterator[Row]:
    with _opened(path) as source:
        yield from csv.DictReader(source)


def _opened(path: Path) -> TextIO:
    return gzip.open(path, "rt", encoding="utf-8", newline="") if path.suffix == ".gz" else path.open(newline="")


def _note(found: dict[int, datetime], row: Row, column: str) -> None:
    """Keep a row's time if it is the subject's first so far."""
    if row[column]:
        subject, moment = int(row["subject_id"]), when(row[column])
        found[subject] = min(found.get(subject, moment), moment)


def when(text: str) -> datetime:
    """Read a time; one without a time of day is the end of its day."""
    return last_second(date.fromisoformat(text)) if len(text) == 10 else datetime.fromisoformat(text)


def last_second(day: date) -> datetime:
    """23:59:59 of a day."""
    return datetime.combine(day, time(23, 59, 59))
