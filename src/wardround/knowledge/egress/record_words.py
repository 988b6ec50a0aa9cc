"""The names of a record and the words of its texts six by six, and whether a text holds them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from wardround.knowledge.egress.searched import Searched, joined, letters_and_digits

WORDS_IN_A_ROW = 6
_SHORTEST_SPLIT = 4
_SHORTEST_WITHIN = 7
"""Letters of a name that is found within other words, and of one that is found where it is split into words."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNames:
    """``names`` are words in small letters; ``long`` are those that are looked for within other words too."""

    names: frozenset[str]
    long: Searched

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """Prepare names to be looked for."""
        names = frozenset(names)
        return cls(names=names, long=Searched.of(names, shortest=_SHORTEST_WITHIN))

    def are_in(self, text: str, words: list[str]) -> bool:
        """Whether one of them is in a text, which has these words."""
        return (
            not self.names.isdisjoint(words)
            or self.long.has_one_in(letters_and_digits(text))
            or not self.names.isdisjoint(one for one in joined(words) if len(one) >= _SHORTEST_SPLIT)
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
