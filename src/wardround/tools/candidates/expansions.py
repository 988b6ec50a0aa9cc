"""A query in the words of the dictionaries: abbreviations and lay phrases in it replaced by what they may stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wardround.codes import normalise_label

LONGEST_PHRASE = 6
MOST_VARIANTS = 4
_TOKEN = re.compile(r"[^\s,;:()]+")


def expansions(text: str, table: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The query with the phrases that ``table`` knows replaced, likeliest reading first; empty if it knows none.

    The longest phrase wins at each place. Where a phrase has several readings, variant n takes the n-th.
    """
    parts = _segments(_TOKEN.findall(normalise_label(text)), table)
    readings = [meanings for _, meanings in parts if meanings]
    count = min(MOST_VARIANTS, max((len(meanings) for meanings in readings), default=0))
    variants = (
        " ".join(meanings[min(number, len(meanings) - 1)] if meanings else plain for plain, meanings in parts)
        for number in range(count)
    )
    return list(dict.fromkeys(variants))


def _segments(tokens: list[str], table: Mapping[str, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """The query as (text, meanings) parts; meanings are empty where the table knows nothing."""
    parts: list[tuple[str, tuple[str, ...]]] = []
    start = 0
    while start < len(tokens):
        length, meanings = _longest(tokens[start : start + LONGEST_PHRASE], table)
        parts.append((" ".join(tokens[start : start + length]), meanings))
        start += length
    return parts


def _longest(tokens: list[str], table: Mapping[str, tuple[str, ...]]) -> tuple[int, tuple[str, ...]]:
    for length in range(len(tokens), 0, -1):
        phrase = " ".join(tokens[:length])
        for spelling in (phrase, phrase.strip(".-"), phrase.replace(".", ""), phrase.replace("-", " ")):
            if spelling in table:
                return length, table[spelling]
    return 1, ()
