"""The words of a clinical sentence, and the cues among them: words that say how others stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from wardround.vocabulary.tables import cell_parts, table_rows

_TOKEN = re.compile(
    r"\(\+\)|\([-\u2212\u2013]\)|[rR]/[oO]\b|[sShH]/[pPoO]\b|[wW]/(?=\s|o?\b)|\b[pP]\.[rR]\.[nN]\.|\bvs\.|\d+(?:,\d{3})+(?!\d)(?:\.\d+)?"
    r"|\d+\.\d+|[^\W_]+(?:['\u2019][a-z]{1,2}\b)?|[^\w\s]"
)


@dataclass(frozen=True, slots=True)
class WordToken:
    """A word or mark in lower case, and its place in the text."""

    text: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        """Whether it is a word or a number."""
        return self.text[0].isalnum()


@dataclass(frozen=True, slots=True)
class Cue:
    """A cue among the tokens of a sentence: what it says, in which direction it acts, its first token and the one
    after its last."""

    standing: str
    direction: str
    start: int
    end: int


def tokens_of(text: str, start: int = 0, end: int | None = None) -> list[WordToken]:
    """The words and marks of a text."""
    found = _TOKEN.finditer(text, start, len(text) if end is None else end)
    return [WordToken(_plain(one[0]), one.start(), one.end()) for one in found]


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    return text.casefold().replace("\u2019", "'").replace("\u2212", "-").replace("(\u2013)", "(-)")


def cues_in(tokens: Sequence[WordToken]) -> Iterator[Cue]:
    """The cues of a sentence from left to right, the longest first where several begin."""
    table, longest = _table()
    place = 0
    words = [token.text for token in tokens]
    while place < len(words):
        for length in range(min(longest.get(words[place], 0), len(words) - place), 0, -1):
            meanings = table.get(tuple(words[place : place + length]))
            if meanings is None:
                continue
            if _is_cue(words, place, length):
                for standing, direction in _chosen(meanings, words, place, length):
                    yield Cue(standing, direction, place, place + length)
                place += length - 1
                break
        place += 1


def _is_cue(words: Sequence[str], place: int, length: int) -> bool:
    """Whether words that may be a cue are one here."""
    word = words[place]
    previous = words[place - 1] if place else ""
    if word in ("old", "now", "active") and previous in ("-", "year", "years", "month", "months", "week", "day", "yo"):
        return False
    if word == "?" and place == len(words) - 1:
        return False
    return not (length == 1 and word == "known" and previous == "no")


def _chosen(
    meanings: Sequence[tuple[str, str]], words: Sequence[str], place: int, length: int
) -> list[tuple[str, str]]:
    """Which of a cue's meanings holds: one that acts on what precedes needs something there."""
    phrase = " ".join(words[place : place + length])
    if phrase == "do not" and place == 0:
        return [("other", "after")]
    directions = {direction for _, direction in meanings}
    if directions == {"after", "before"} and len({standing for standing, _ in meanings}) <= 2:
        if phrase in ("versus", "vs", "vs."):
            return list(meanings)
        at_start = place == 0 or words[place - 1] in (
            ",",
            ";",
            "and",
            "or",
            "-",
            "(",
            ":",
            "a",
            "an",
            "the",
            "with",
            "of",
        )
        at_end = place + length == len(words) or words[place + length] in (
            ",",
            ".",
            ";",
            "and",
            "on",
            "by",
            "in",
            ")",
            "after",
            "because",
            "but",
            "at",
            "since",
            "during",
        )
        wanted = "after" if at_start or not at_end else "before"
        return [one for one in meanings if one[1] == wanted]
    return list(dict.fromkeys(meanings))


@cache
def _table() -> tuple[Mapping[tuple[str, ...], tuple[tuple[str, str], ...]], Mapping[str, int]]:
    """Cue -> its meanings, and first word -> the length of its longest cue."""
    table: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {}
    longest: dict[str, int] = {}
    for standing, direction, phrases in table_rows("assertion_cues", 3):
        for phrase in cell_parts(phrases):
            key = tuple(token.text for token in tokens_of(phrase))
            table[key] = (*table.get(key, ()), (standing, direction))
            longest[key[0]] = max(longest.get(key[0], 0), len(key))
    return table, longest
