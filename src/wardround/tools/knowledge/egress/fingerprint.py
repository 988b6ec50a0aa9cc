"""What identifies an open record: its numbers, days, names and word sequences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Self

import numpy as np

from wardround.records import Chart, TableSpec
from wardround.tools.knowledge.egress.readings import (
    StringSearch,
    close_digits,
    digit_rows,
    joined,
    letters_and_digits,
    plain,
)
from wardround.tools.knowledge.egress.written_days import days_in, days_of_months_in, digits_of, months_as_numbers

# The days of a record, and whether a text holds one of them however it is written.


_DAY_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDays:
    """``days`` have a year, ``of_months`` are (month, day) without one, ``digits`` are the digits of adjacent numbers,
    with any text between them."""

    days: frozenset[date]
    of_months: frozenset[tuple[int, int]]
    digits: frozenset[str]

    @classmethod
    def of(cls, days: Iterable[date]) -> Self:
        """Prepare days to be looked for."""
        days = frozenset(days)
        return cls(
            days=days,
            of_months=frozenset((day.month, day.day) for day in days),
            digits=frozenset(row for day in days for row in digits_of(day)),
        )

    def are_in(self, text: str) -> bool:
        """Return whether a text can mean one of them."""
        return (
            not self.days.isdisjoint(days_in(text))
            or not self.of_months.isdisjoint(days_of_months_in(text))
            or self.are_in_rows(text)
        )

    def are_in_rows(self, text: str) -> bool:
        """Return whether numbers side by side on a line are one of them."""
        return not all(self.digits.isdisjoint(joined(_DAY_DIGITS.findall(line))) for line in text.split("\n"))


# The identifiers of a record, and whether a text holds one of them however its digits are written.


_SHORTEST = 4
"""The minimum digits of an identifier that is searched as it is; shorter ones (an item, a sequence) identify no one."""
_CLOSE = 5
"""The minimum digits of an identifier that is searched with short gaps between digits."""
_ANYWHERE = 7
"""The minimum characters of an identifier that is searched with any gaps: shorter ones occur by chance."""
_SHORTEST_HEXADECIMAL = 6
_NUMBER_DIGITS = re.compile(r"[0-9]+")
_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNumbers:
    """The identifiers to search, by method.

    ``numbers`` are searched as they are, ``tokens`` as words that may be split, ``close`` with short gaps between the
    digits, ``digits`` in the sequence of all digits, ``rows`` in the sequence of all letters and digits.
    """

    numbers: frozenset[str]
    tokens: frozenset[str]
    close: frozenset[str]
    digits: StringSearch
    rows: StringSearch

    @classmethod
    def of(cls, numbers: Iterable[str], codes: Iterable[str]) -> Self:
        """Prepare numbers and other identifiers, without those that are too short to name anybody."""
        bare = {letters_and_digits(code) for code in codes}
        every = {number for number in {*numbers, *bare} if number.isdigit() and len(number) >= _SHORTEST}
        long = {number for number in every if len(number) >= _CLOSE}
        lettered = {form for number in long for form in lettered_forms(number)}
        return cls(
            numbers=frozenset(every),
            tokens=frozenset(
                {number for number in lettered if _is_mixed(number)}
                | {number for number in bare if len(number) >= _CLOSE}
            ),
            close=frozenset(long),
            digits=StringSearch.of(form for number in long for form in digit_forms(number) if len(form) >= _ANYWHERE),
            rows=StringSearch.of({hexadecimal(number) for number in long} | bare, shortest=_SHORTEST_HEXADECIMAL),
        )

    def are_in(self, text: str, words: list[str]) -> bool:
        """Return whether one of them is in a text, which has these words."""
        return (
            not self.numbers.isdisjoint(_NUMBER_DIGITS.findall(text))
            or not self.tokens.isdisjoint(joined(words))
            or not all(self.close.isdisjoint(joined(numbers)) for numbers in close_digits(text))
            or self.are_in_rows(text)
        )

    def are_in_rows(self, text: str) -> bool:
        """Return whether one that is long enough is in a row of a text's characters."""
        return any(map(self.digits.has_one_in, digit_rows(text))) or self.rows.has_one_in(letters_and_digits(text))


def digit_forms(number: str) -> Iterator[str]:
    """Yield a number as digits: decimal, octal, binary, and each decimal digit in binary."""
    yield from (number, f"{int(number):o}", f"{int(number):b}", "".join(f"{int(digit):04b}" for digit in number))


def hexadecimal(number: str) -> str:
    """Return a number to the base 16, in small letters."""
    return f"{int(number):x}"


def lettered_forms(number: str) -> Iterator[str]:
    """Yield a number to the bases whose digits are letters too."""
    yield from (_to_base(int(number), base) for base in (16, 32, 36))


def _to_base(value: int, base: int) -> str:
    digits = ""
    while value:
        value, rest = divmod(value, base)
        digits = _BASE_36[rest] + digits
    return digits


def _is_mixed(form: str) -> bool:
    """Return whether a text has letters and digits: letters alone may be a word."""
    return not form.isdigit() and not form.isalpha()


# The names of a record and the words of its texts six by six, and whether a text holds them.


WORDS_IN_A_ROW = 6
_SHORTEST_SPLIT = 4
_SHORTEST_WITHIN = 7
"""Letters of a name that is found within other words, and of one that is found where it is split into words."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNames:
    """``names`` are words in small letters; ``long`` are those that are looked for within other words too."""

    names: frozenset[str]
    long: StringSearch

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """Prepare names to be looked for."""
        names = frozenset(names)
        return cls(names=names, long=StringSearch.of(names, shortest=_SHORTEST_WITHIN))

    def are_in(self, text: str, words: list[str]) -> bool:
        """Return whether one of them is in a text, which has these words."""
        return (
            not self.names.isdisjoint(words)
            or self.long.has_one_in(letters_and_digits(text))
            or not self.names.isdisjoint(word for word in joined(words) if len(word) >= _SHORTEST_SPLIT)
        )


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents and marks.

    >>> words_of("Naïve T-cells, 5mg")
    ['naive', 't', 'cells', '5mg']
    """
    plain = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(character for character in plain if not unicodedata.combining(character)))


def shingles_of(words: list[str]) -> Iterator[int]:
    """Yield a hash of every six words in a row."""
    for start in range(len(words) - WORDS_IN_A_ROW + 1):
        yield hash(tuple(words[start : start + WORDS_IN_A_ROW]))


# What an open record is known by: its numbers, days, names, and the words of its texts six by six.


_LONG_NUMBER = 6
"""The minimum digits of a number in a text that counts as an identifier."""
_SHORTEST_TEXT = 120
"""Characters from which a cell is a text in words of its own; shorter ones are mostly labels of codes and drugs."""
_DIGITS = re.compile(r"\d+")
_NAMED = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Miss|Dr|Prof)\b\.? +|\b[Nn]ame *: *)((?:[A-Z][\w'’-]+)(?:[, ]+[A-Z][\w'’-]*){0,3})"
)
"""The words after a title or after "Name:" that are written like a name."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What a record is known by, each part ready to be looked for in a text."""

    numbers: RecordNumbers
    days: RecordDays
    names: RecordNames
    shingles: frozenset[int]

    def found_in(self, text: str) -> Iterator[str]:
        """Yield the classes of what of the record is in a text, the gravest first."""
        words = words_of(text)
        if self.numbers.are_in(text, words):
            yield "an identifier of the record"
        if self.names.are_in(text, words):
            yield "a name from the record"
        if self.days.are_in(text):
            yield "a date of the record"
        if not self.shingles.isdisjoint(shingles_of(words)):
            yield f"{WORDS_IN_A_ROW} words in a row from the record"

    def found_in_rows(self, text: str) -> Iterator[str]:
        """Yield the same of a text that was only guessed: no short number, no words in a row."""
        if self.numbers.are_in_rows(text):
            yield "an identifier of the record"
        if self.names.are_in(text, words_of(text)):
            yield "a name from the record"
        if self.days.are_in_rows(text):
            yield "a date of the record"


def fingerprint_of(chart: Chart) -> Fingerprint:
    """Read every visible table of a chart for what identifies it."""
    traits = _Traits(numbers={str(chart.subject_id), str(chart.person)}, days={chart.as_of.date()})
    for name in chart.table_names:
        table = chart.table(name)
        identifying = _identifying(table.spec)
        dated = table.event_time[~np.isnat(table.event_time)]
        traits.days.update(np.unique(dated.astype("datetime64[D]")).tolist())
        for column in table.batch.schema.names:
            values = [value for value in table.batch.column(column).unique().to_pylist() if value is not None]
            if column in identifying:
                traits.identified_by(values)
            if _NAME_COLUMNS.search(column):
                traits.names |= _name_words(value for value in values if isinstance(value, str))
            traits.add_cells(values)
    return traits.fingerprint()


@dataclass(slots=True, kw_only=True)
class _Traits:
    """The traits that were read so far."""

    numbers: set[str]
    days: set[date]
    codes: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    shingles: set[int] = field(default_factory=set)

    def identified_by(self, values: Iterable[object]) -> None:
        """Add the values of an identifying column."""
        for value in values:
            if isinstance(value, str):
                self.codes |= {value.lower()} if any(map(str.isdigit, value)) else set()
            elif isinstance(value, int):
                self.numbers.add(str(value))

    def add_cells(self, values: Iterable[object]) -> None:
        """Add the content of cells of any column: days, and the words, names, days and long numbers of texts."""
        for value in values:
            if isinstance(value, datetime):
                self.days.add(value.date())
            elif isinstance(value, str) and len(value) >= _SHORTEST_TEXT:
                self.shingles.update(shingles_of(words_of(value)))
                self.names |= _name_words(found[1] for found in _NAMED.finditer(value))
                self.days.update(days_in(months_as_numbers(plain(value))))
                self.numbers |= {run for run in _DIGITS.findall(value) if len(run) >= _LONG_NUMBER}

    def fingerprint(self) -> Fingerprint:
        """Return it, ready to be looked for."""
        return Fingerprint(
            numbers=RecordNumbers.of(self.numbers, self.codes),
            days=RecordDays.of(self.days),
            names=RecordNames.of(self.names),
            shingles=frozenset(self.shingles),
        )


def _identifying(spec: TableSpec) -> set[str]:
    """Return the columns of a table that identify a subject, an encounter, a row or another person."""
    named = {spec.subject, spec.encounter, *spec.key, *spec.unique}
    ids = {column for column in spec.columns if column.endswith("_id") and not column.endswith("itemid")}
    return {column for column in named | ids if column is not None} - {"itemid", "icd_code", "seq_num", "drg_code"}


def _name_words(found: Iterable[str]) -> set[str]:
    words = {word for one in found for word in words_of(one)}
    return {word for word in words if len(word) > 2 and not word.isdigit() and word not in _NO_NAMES}
