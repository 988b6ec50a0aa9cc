"""Many strings looked for in one text at once, and the rows of characters of a text in which they are looked for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

_DIGITS = re.compile(r"[0-9]+")
_CLOSE = re.compile(r"[0-9](?:(?:[^0-9\s]{0,3}|[\W_]{1,3})[0-9])*")
_NO_LETTER_OR_DIGIT = re.compile(r"[^a-z0-9\n]+")
_HEXADECIMAL = re.compile(r"\b0x|\\x")
_MOST_JOINED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Strings that may stand anywhere within a row of characters, by their lengths: how many they are costs nothing."""

    by_length: Mapping[int, frozenset[str]]

    @classmethod
    def of(cls, strings: Iterable[str], *, shortest: int = 1) -> Self:
        """Prepare strings to be looked for, without those that are too short."""
        by_length: defaultdict[int, set[str]] = defaultdict(set)
        for one in strings:
            by_length[len(one)].add(one)
        return cls(by_length={length: frozenset(these) for length, these in by_length.items() if length >= shortest})

    def has_one_in(self, row: str) -> bool:
        """Whether one of the strings is within a row of characters."""
        return any(
            row[start : start + length] in these
            for length, these in self.by_length.items()
            for start in range(len(row) - length + 1)
        )


def digit_rows(text: str) -> Iterator[str]:
    """Yield the digits of each line in a row, whatever stands between them: with its numbers in their order and in the
    other, and each backwards; and every other digit, where the others only count or fill."""
    for line in text.split("\n"):
        groups = _DIGITS.findall(line)
        forwards, others = "".join(groups), "".join(reversed(groups))
        yield from {forwards, others, forwards[::-1], others[::-1], forwards[::2], forwards[1::2]}


def close_digits(text: str) -> Iterator[list[str]]:
    """Yield the numbers of each stretch in which little stands between digits: three marks, or letters and no space."""
    yield from (_DIGITS.findall(stretch) for stretch in _CLOSE.findall(text))


def letters_and_digits(text: str) -> str:
    """Return the letters and digits of each line in a row, in small letters.

    >>> letters_and_digits("0x9F-3e, A")
    '9f3ea'
    """
    return _NO_LETTER_OR_DIGIT.sub("", _HEXADECIMAL.sub("", text.lower()))


def joined(words: Sequence[str]) -> Iterator[str]:
    """Yield each word, and words that stand side by side as one.

    >>> sorted(joined(["a", "b", "c"]))
    ['a', 'ab', 'abc', 'b', 'bc', 'c']
    """
    for start in range(len(words)):
        for end in range(start + 1, min(start + _MOST_JOINED, len(words)) + 1):
            yield "".join(words[start:end])
