"""What an open record is known by: its numbers, days, names, and the words of its texts six by six."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime

import numpy as np
import pyarrow as pa

from wardround.knowledge.egress.characters import plain
from wardround.knowledge.egress.record_days import RecordDays
from wardround.knowledge.egress.record_numbers import RecordNumbers
from wardround.knowledge.egress.record_words import WORDS_IN_A_ROW, RecordNames, shingles_of, words_of
from wardround.knowledge.egress.written_days import days_in, months_as_numbers
from wardround.records import Chart
from wardround.records.specs.spec import TableSpec

_LONG_NUMBER = 6
"""Digits from which a number in a text is taken for one that names somebody or something."""
_SHORTEST_TEXT = 120
"""Characters from which a cell is a text in words of its own; shorter ones are mostly labels of codes and drugs."""
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
                self.days.update(days_in(months_as_numbers(plain(one))))
                self.numbers |= {run for run in _DIGITS.findall(one) if len(run) >= _LONG_NUMBER}

    def fingerprint(self) -> Fingerprint:
        """Return it, ready to be looked for."""
        return Fingerprint(
            numbers=RecordNumbers.of(self.numbers, self.codes),
            days=RecordDays.of(self.days),
            names=RecordNames.of(self.names),
            shingles=frozenset(self.shingles),
        )


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
