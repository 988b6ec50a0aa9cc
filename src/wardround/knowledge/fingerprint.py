"""What an open record is known by: its numbers, days, names, and the words of its texts six by six."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime

import numpy as np
import pyarrow as pa

from wardround.records import Chart
from wardround.records.specs.spec import TableSpec

WORDS_IN_A_ROW = 6
_SHORTEST_NUMBER = 4
"""Digits of an identifier that is looked for; shorter ones (an item, a sequence) name nobody."""
_LONG_NUMBER = 6
"""Digits from which a number in a text is taken for one that names somebody or something."""
_SHORTEST_TEXT = 120
"""Characters from which a cell is a text in words of its own; shorter ones are mostly labels of codes and drugs."""
_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")
_NAMED = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Miss|Dr|Prof)\b\.? +|\b[Nn]ame *: *)((?:[A-Z][\w'’-]+)(?:[, ]+[A-Z][\w'’-]*){0,3})"
)
"""What stands behind a title or behind "Name:", as far as it is written like a name."""
_NAME_COLUMNS = re.compile(
    r"(?:^|_)(?:given|family|first|last|sur|middle|patient|full|maiden)_?name|^(?:name_given|name_family)$"
)
_NO_NAMES = frozenset(
    (
        *(
            "the",
            "a",
            "an",
            "of",
            "and",
            "or",
            "is",
            "was",
            "has",
            "had",
            "with",
            "who",
            "this",
            "that",
            "patient",
            "name",
        ),
        *(
            "his",
            "her",
            "male",
            "female",
            "admitted",
            "presented",
            "denies",
            "unit",
            "no",
            "date",
            "service",
            "allergies",
        ),
        *("attending", "sex", "birth", "discharge", "admission", "history", "physical", "medicine", "surgery"),
    )
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """``numbers`` are digits without what stands between them, ``codes`` other identifiers in small letters, ``days``
    those on which something happened, ``names`` words in small letters, ``shingles`` six words in a row each."""

    numbers: frozenset[str]
    codes: frozenset[str]
    days: frozenset[date]
    names: frozenset[str]
    shingles: frozenset[int]

    def found_in(self, text: str) -> Iterator[str]:
        """Yield the classes of what of the record is in a text, the gravest first."""
        words = words_of(text)
        if self._has_number(text) or any(code in text.lower() for code in self.codes):
            yield "an identifier of the record"
        if any(word in self.names for word in words):
            yield "a name from the record"
        if self._has_day(text):
            yield "a date of the record"
        if not self.shingles.isdisjoint(shingles_of(words)):
            yield f"{WORDS_IN_A_ROW} words in a row from the record"

    def _has_number(self, text: str) -> bool:
        if not set(_DIGITS.findall(text)).isdisjoint(self.numbers):
            return True
        joined = [re.sub(r"\D", "", run) for run in re.findall(r"\d(?:[\W_]{0,3}\d)+", text)]
        return any(number in run for run in joined for number in self.numbers if len(number) >= _SHORTEST_NUMBER + 1)

    def _has_day(self, text: str) -> bool:
        return any(day in self.days for day in days_in(text))


def fingerprint_of(chart: Chart) -> Fingerprint:
    """Read every visible table of a chart for what identifies it."""
    traits = _Traits(numbers={str(chart.subject_id), str(chart.person)}, days={chart.as_of.date()})
    for name in chart.table_names:
        table = chart.table(name)
        identifying = _identifying(table.spec)
        traits.days |= _days_of(table.event_time)
        for column in table.batch.schema.names:
            values = _distinct(table.batch.column(column))
            if column in identifying:
                traits.identified_by(values)
            if _NAME_COLUMNS.search(column):
                traits.names |= _name_words(one for one in values if isinstance(one, str))
            traits.told_in(values)
    return traits.fingerprint()


@dataclass(slots=True, kw_only=True)
class _Traits:
    """What was read so far."""

    numbers: set[str]
    days: set[date]
    codes: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    shingles: set[int] = field(default_factory=set)

    def identified_by(self, values: Iterable[object]) -> None:
        """Take in the values of a column that identifies."""
        for one in values:
            if isinstance(one, str):
                self.codes |= {one.lower()} if any(map(str.isdigit, one)) else set()
            elif isinstance(one, int):
                self.numbers.add(str(one))

    def told_in(self, values: Iterable[object]) -> None:
        """Take in what cells of any column tell: days, and of texts their words, names, days and long numbers."""
        for one in values:
            if isinstance(one, datetime):
                self.days.add(one.date())
            elif isinstance(one, str) and len(one) >= _SHORTEST_TEXT:
                self.shingles.update(shingles_of(words_of(one)))
                self.names |= _name_words(found[1] for found in _NAMED.finditer(one))
                self.days.update(days_in(one))
                self.numbers |= {run for run in _DIGITS.findall(one) if len(run) >= _LONG_NUMBER}

    def fingerprint(self) -> Fingerprint:
        """Return it, without what is too short to name anybody."""
        return Fingerprint(
            numbers=frozenset(number for number in self.numbers if len(number) >= _SHORTEST_NUMBER),
            codes=frozenset(code for code in self.codes if len(code) > _SHORTEST_NUMBER),
            days=frozenset(self.days),
            names=frozenset(self.names),
            shingles=frozenset(self.shingles),
        )


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters, without accents and marks.

    >>> words_of("Naïve T-cells, 5mg")
    ['naive', 't', 'cells', '5mg']
    """
    plain = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(one for one in plain if not unicodedata.combining(one)))


def shingles_of(words: list[str]) -> Iterator[int]:
    """Yield a hash of every six words in a row."""
    for start in range(len(words) - WORDS_IN_A_ROW + 1):
        yield hash(tuple(words[start : start + WORDS_IN_A_ROW]))


def days_in(text: str) -> Iterator[date]:
    """Yield every day that a text can mean, in each order of its parts."""
    for found in re.finditer(r"(\d{1,4})\D{1,3}(\d{1,2})\D{1,3}(\d{1,4})|(?<!\d)(\d{4})(\d{2})(\d{2})(?!\d)", text):
        a, b, c = (int(part) for part in found.groups() if part is not None)
        yield from _possible((a, b, c), (c, a, b), (c, b, a))
    for found in re.finditer(
        r"(\d{1,4})?\W{0,3}([A-Za-z]{3})[a-z]*\W{0,3}(\d{1,2})?(?:st|nd|rd|th)?\W{1,3}(\d{4})?", text
    ):
        if found[2].lower() in _MONTHS:
            month, parts = _MONTHS.index(found[2].lower()) + 1, [int(one) for one in found.group(1, 3, 4) if one]
            yield from _possible(*((year, month, day) for year in parts for day in parts))


def _possible(*parts: tuple[int, int, int]) -> Iterator[date]:
    """Yield the days of some parts (year, month, day); a year of two digits may be of any century."""
    for year, month, day in parts:
        for full in (year,) if year >= 1000 else (1900 + year, 2000 + year, 2100 + year) if year < 100 else ():
            try:
                yield date(full, month, day)
            except ValueError:
                continue


def _identifying(spec: TableSpec) -> set[str]:
    """The columns of a table that name a subject, an encounter, a row or whom it concerns."""
    named = {spec.subject, spec.encounter, *spec.key, *spec.unique}
    ids = {column for column in spec.columns if column.endswith("_id") and not column.endswith("itemid")}
    return {column for column in named | ids if column is not None} - {"itemid", "icd_code", "seq_num", "drg_code"}


def _distinct(column: pa.Array) -> list[object]:
    return [one for one in column.unique().to_pylist() if one is not None]


def _days_of(times: np.ndarray) -> set[date]:
    days = np.unique(times[~np.isnat(times)].astype("datetime64[D]"))
    return set(days.tolist())


def _name_words(found: Iterable[str]) -> set[str]:
    words = {word for one in found for word in words_of(one)}
    return {word for word in words if len(word) > 2 and not word.isdigit() and word not in _NO_NAMES}
