"""A query in the words of the dictionaries: abbreviations and lay phrases in it replaced by what they may stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein

from wardround.codes import load_abbreviations, normalise_label
from wardround.tools.candidates.trigrams import TrigramIndex

LONGEST_PHRASE = 6
MOST_READINGS = 4
SHORTEST_MISSPELT = 6
NEIGHBOURS = 15
_TOKEN = re.compile(r"[^\s,;:()]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseTable:
    """Phrases with their meanings, and an index of the longer ones by spelling."""

    meanings: Mapping[str, tuple[str, ...]]
    long_phrases: tuple[str, ...]
    spellings: TrigramIndex

    @classmethod
    def build(cls, meanings: Mapping[str, tuple[str, ...]]) -> PhraseTable:
        """From normalised phrases, likeliest meaning first."""
        long_phrases = tuple(sorted(phrase for phrase in meanings if len(phrase) >= SHORTEST_MISSPELT))
        return cls(meanings=meanings, long_phrases=long_phrases, spellings=TrigramIndex.build(long_phrases))

    def readings(self, text: str) -> list[str]:
        """The query with its known phrases replaced, likeliest first; empty if it has none.

        The longest phrase wins at each place. Where a phrase has several meanings, reading n takes the n-th. A query
        without a known phrase may be one of them misspelt.
        """
        plain = normalise_label(text)
        parts = self._segments(_TOKEN.findall(plain))
        known = [meanings for _, meanings in parts if meanings]
        if not known:
            return list(self.meanings.get(self._nearest(plain), ()))[:MOST_READINGS]
        count = min(MOST_READINGS, max(len(meanings) for meanings in known))
        readings = (
            " ".join(meanings[min(number, len(meanings) - 1)] if meanings else words for words, meanings in parts)
            for number in range(count)
        )
        plain_readings = (" ".join(reading.split()) for reading in readings)
        return [reading for reading in dict.fromkeys(plain_readings) if reading]

    def _segments(self, tokens: list[str]) -> list[tuple[str, tuple[str, ...]]]:
        """The query as (text, meanings) parts; meanings are empty where the table knows nothing."""
        parts: list[tuple[str, tuple[str, ...]]] = []
        start = 0
        while start < len(tokens):
            length, meanings = self._longest(tokens[start : start + LONGEST_PHRASE])
            parts.append((" ".join(tokens[start : start + length]), meanings))
            start += length
        return parts

    def _longest(self, tokens: list[str]) -> tuple[int, tuple[str, ...]]:
        for length in range(len(tokens), 0, -1):
            phrase = " ".join(tokens[:length])
            for spelling in (phrase, phrase.strip(".-"), phrase.replace(".", ""), phrase.replace("-", " ")):
                if spelling in self.meanings:
                    return length, self.meanings[spelling]
        return 1, ()

    def _nearest(self, text: str) -> str:
        """The phrase that differs from ``text`` by one slip, by two from 10 letters on; "" if there is none."""
        if len(text) < SHORTEST_MISSPELT:
            return ""
        near = [self.long_phrases[row] for row in self.spellings.nearest(text, NEIGHBOURS)]
        allowed = 1 if len(text) < 10 else 2
        found = process.extractOne(text, near, scorer=DamerauLevenshtein.distance, score_cutoff=allowed)
        return str(found[0]) if found else ""


@cache
def phrase_table() -> PhraseTable:
    """Our own table of abbreviations and lay words, indexed once."""
    return PhraseTable.build(load_abbreviations())
