"""Days as they are written: numbers in any order, month names of six languages, ordinals, weeks, days of the year."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

_ENGLISH = "january february march april may june july august september october november december"
_OTHERS = (
    "januar februar marz april mai juni juli august september oktober november dezember",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "januari februari maart april mei juni juli augustus september oktober november december",
    "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",
)


def _beginnings(names: str, shortest: int) -> dict[str, int]:
    """Return the months by the beginnings of their names."""
    months = enumerate(names.split(), start=1)
    return {name[:end]: month for month, name in months for end in range(min(shortest, len(name)), len(name) + 1)}


_MONTHS = {key: month for names in _OTHERS for key, month in _beginnings(names, 4).items()} | _beginnings(_ENGLISH, 3)
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_NAMED = re.compile(rf"(?<![A-Za-z])({_MONTH})(?![A-Za-z])", re.IGNORECASE)
_ORDINAL = r"(?:st|nd|rd|th|er|º|\.)?"
_FILLER = r"(?:of|the|in|de|del|di|day|month|year)"
_GAP = rf"(?:[\W_]{{0,3}}{_FILLER}(?![A-Za-z])){{0,2}}[\W_]{{0,3}}"
_YEAR = r"'?(?:\d{4}|\d{2})(?!\d)"
_FULL_DAY = re.compile(
    r"\b(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{4}-?W\d{2}-?[1-7])\b"
    rf"|\b\d{{1,2}}{_ORDINAL}{_GAP}(?:{_MONTH}){_GAP}{_YEAR}"
    rf"|(?<![A-Za-z])(?:{_MONTH}){_GAP}\d{{1,2}}(?!\d){_ORDINAL}{_GAP}{_YEAR}"
    rf"|(?<!\d)\d{{4}}{_GAP}(?:{_MONTH}){_GAP}\d{{1,2}}(?!\d)",
    re.IGNORECASE,
)
_DAY_OF_MONTH = re.compile(
    rf"(?<!\d)(\d{{1,2}}){_ORDINAL}{_GAP}({_MONTH})(?![A-Za-z])|(?<![A-Za-z])({_MONTH}){_GAP}(\d{{1,2}})(?!\d)",
    re.IGNORECASE,
)
_AROUND = re.compile(rf"(?<=\d)(?:st|nd|rd|th)(?![A-Za-z])|(?<![A-Za-z]){_FILLER}(?![A-Za-z])", re.IGNORECASE)
_THREE = re.compile(r"(?=(?<!\d)(\d{1,4})([\W_]{1,3})(\d{1,2})([\W_]{1,3})(\d{1,4})(?!\d))")
_EIGHT = re.compile(r"(?<!\d)(\d{4})(\d{2})(\d{2})(?!\d)")


def holds_full_day(text: str) -> bool:
    """Return whether a text contains a day with its month and year."""
    return _FULL_DAY.search(text) is not None


def without_full_days(text: str) -> str:
    """Return a text without its full days, which would look like long numbers."""
    return _FULL_DAY.sub(" ", text)


def months_as_numbers(text: str) -> str:
    """Return a text with the names of months as two digits, without ordinals and other words around dates.

    >>> months_as_numbers("18th of February, the year 2197").split()
    ['18', '02', ',', '2197']
    """
    if _NAMED.search(text) is None and _AROUND.search(text) is None:
        return text
    return _NAMED.sub(lambda found: f" {_MONTHS[found[1].lower()]:02} ", _AROUND.sub(" ", text))


def days_in(text: str) -> Iterator[date]:
    """Yield every day that three adjacent numbers can mean, in each order of them. If the year has two digits, the
    separators must be equal: otherwise any adjacent numbers would be a day."""
    for found in _THREE.finditer(text):
        a, b, c = int(found[1]), int(found[3]), int(found[5])
        if max(a, c) >= 1000 or found[2].strip() == found[4].strip():
            yield from _possible((a, b, c), (c, a, b), (c, b, a))
    for found in _EIGHT.finditer(text):
        yield from _possible((int(found[1]), int(found[2]), int(found[3])))


def days_of_months_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield month and day wherever a month is named beside a day, with a year or without."""
    for found in _DAY_OF_MONTH.finditer(text):
        yield _MONTHS[(found[2] or found[3]).lower()], int(found[1] or found[4])


def digits_of(day: date) -> Iterator[str]:
    """Yield a day as rows of digits: its parts in every order with zeros and without, its week, its day of the year."""
    year, week, weekday = day.isocalendar()
    of_year = f"{day:%j}"
    rows = [f"{year:04}{week:02}{weekday}", f"{day.year:04}{of_year}", f"{of_year}{day.year:04}"]
    for month in {f"{day.month:02}", str(day.month)}:
        for number in {f"{day.day:02}", str(day.day)}:
            rows += [f"{day.year}{month}{number}", f"{number}{month}{day.year}", f"{month}{number}{day.year}"]
    yield from rows


def _possible(*parts: tuple[int, int, int]) -> Iterator[date]:
    """Yield the days of some parts (year, month, day); a year of two digits may be of any century."""
    for year, month, day in parts:
        for full in (year,) if year >= 1000 else (1900 + year, 2000 + year, 2100 + year) if year < 100 else ():
            try:
                yield date(full, month, day)
            except ValueError:
                continue
