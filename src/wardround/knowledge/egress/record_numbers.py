"""The identifiers of a record, and whether a text holds one of them however its digits are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from wardround.knowledge.egress.searched import Searched, close_digits, digit_rows, joined, letters_and_digits

_SHORTEST = 4
"""Digits of an identifier that is looked for as it stands; shorter ones (an item, a sequence) name nobody."""
_CLOSE = 5
"""Digits from which little may stand between them."""
_ANYWHERE = 7
"""Characters from which anything may stand between them: a shorter row is in ordinary questions by chance."""
_SHORTEST_HEXADECIMAL = 6
_DIGITS = re.compile(r"[0-9]+")
_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNumbers:
    """``numbers`` are looked for as they stand, ``tokens`` as words that may be split, ``close`` where little stands
    between the digits, ``digits`` in the row of all digits, ``rows`` in the row of all letters and digits."""

    numbers: frozenset[str]
    tokens: frozenset[str]
    close: frozenset[str]
    digits: Searched
    rows: Searched

    @classmethod
    def of(cls, numbers: Iterable[str], codes: Iterable[str]) -> Self:
        """Prepare numbers and other identifiers, without those that are too short to name anybody."""
        bare = {letters_and_digits(code) for code in codes}
        every = {one for one in {*numbers, *bare} if one.isdigit() and len(one) >= _SHORTEST}
        long = {one for one in every if len(one) >= _CLOSE}
        lettered = {form for one in long for form in lettered_forms(one)}
        return cls(
            numbers=frozenset(every),
            tokens=frozenset({one for one in lettered if _is_mixed(one)} | {one for one in bare if len(one) >= _CLOSE}),
            close=frozenset(long),
            digits=Searched.of(form for one in long for form in digit_forms(one) if len(form) >= _ANYWHERE),
            rows=Searched.of({hexadecimal(one) for one in long} | bare, shortest=_SHORTEST_HEXADECIMAL),
        )

    def are_in(self, text: str, words: list[str]) -> bool:
        """Whether one of them is in a text, which has these words."""
        return (
            not self.numbers.isdisjoint(_DIGITS.findall(text))
            or not self.tokens.isdisjoint(joined(words))
            or not all(self.close.isdisjoint(joined(numbers)) for numbers in close_digits(text))
            or self.are_in_rows(text)
        )

    def are_in_rows(self, text: str) -> bool:
        """Whether one that is long enough is in a row of a text's characters."""
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
    """Whether there are letters and digits: a form of letters alone may be a word."""
    return not form.isdigit() and not form.isalpha()
