"""Candidates by meaning: BM25 over code descriptions, expanded by abbreviations and lay words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein

from wardround.clinical.codes import LabelSet, load_abbreviations, load_lab_words, load_panels, normalise_label
from wardround.tools.candidates.postings import Postings, TrigramIndex, best_rows

# Labels by what dictionaries say of their codes: BM25 over descriptions, the best one speaking for its label.


SATURATION = 1.2  # BM25's k1
LENGTH_SHARE = 0.6  # BM25's b
SHORTEST_MISSPELT = 5
PREFIX_LENGTH = 6  # "endometrial" and "endometrium" meet in "endome~"
PREFIX_WEIGHT = 0.3
VOTE_SHARE = 1.0
VOTERS = 200
_WORD = re.compile(r"[a-z0-9]+(?:'s)?")
_STOP = frozenset(
    (
        "a",
        "an",
        "and",
        "as",
        "at",
        "by",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "i",
        "in",
        "into",
        "is",
        "it",
        "last",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "other",
        "over",
        "s",
        "she",
        "some",
        "than",
        "that",
        "the",
        "their",
        "them",
        "this",
        "to",
        "unspecified",
        "was",
        "were",
        "which",
        "with",
    )
)


def words(text: str) -> list[str]:
    """Return the stemmed content words of a text.

    >>> words("Fractures of the left hip")
    ['fracture', 'left', 'hip']
    """
    found = tokens(text)
    return [stem(word) for word in found if word not in _STOP] or [stem(word) for word in found]


def tokens(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, without accents and possessives.

    >>> tokens("Ménière's disease (left)")
    ['meniere', 'disease', 'left']
    """
    plain = normalise_label(text)
    if not plain.isascii():
        plain = "".join(
            character for character in unicodedata.normalize("NFD", plain) if not unicodedata.combining(character)
        )
    return [word.removesuffix("'s") for word in _WORD.findall(plain)]


def phrase_keys(text: str) -> list[int]:
    """Return two hashes of a phrase: of its words in any order, and of its letters without spaces and dashes."""
    found = tokens(text)
    kept = [stem(word) for word in found if len(word) == 1 or word not in _STOP] or [stem(word) for word in found]
    forms = (" ".join(sorted(kept)), "".join(found)) if found else ()
    return [int.from_bytes(blake2b(form.encode(), digest_size=8).digest()) for form in dict.fromkeys(forms)]


def terms(text: str) -> list[str]:
    """Return the words of a text and, marked by "~", the beginnings of the long ones."""
    found = words(text)
    return found + [beginning for word in found if (beginning := _beginning(word))]


@lru_cache(maxsize=65_536)
def _beginning(word: str) -> str:
    return f"{word[:PREFIX_LENGTH]}~" if len(word) > PREFIX_LENGTH and word.isalpha() else ""


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """British spelling made American, plural endings off; anything cleverer confuses drugs and organisms.

    >>> stem("haemorrhoids"), stem("tumour"), stem("catheterisation")
    ('hemorrhoid', 'tumor', 'catheterization')
    """
    if len(word) > 4:
        word = _american(word)
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _american(word: str) -> str:
    """Return the American spelling of a British word. Both sides of a search are converted, so a false change does no
    harm."""
    word = word.replace("ae", "e").replace("oe", "e").replace("isation", "ization").replace("dilatation", "dilation")
    word = word.replace("leuc", "leuk").replace("sulph", "sulf")
    return f"{word[:-3]}or" if len(word) > 5 and word.endswith("our") else word


@dataclass(frozen=True, slots=True, kw_only=True)
class WordIndex:
    """BM25 over description rows. ``owners[row]`` is the label (by position) that a description belongs to.

    ``spellings`` finds the nearest words of the vocabulary for an unknown word.
    """

    vocabulary: tuple[str, ...]
    postings: Postings
    owners: NDArray[np.int32]
    label_count: int
    spellings: TrigramIndex
    _numbers: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_numbers", {word: number for number, word in enumerate(self.vocabulary)})

    @classmethod
    def build(cls, descriptions: Iterable[tuple[int, str]], label_count: int) -> WordIndex:
        """From (label position, description) rows; rows of a label with the same words count once."""
        bags = sorted({(owner, tuple(sorted(terms(text)))) for owner, text in descriptions})
        bags = [(owner, bag) for owner, bag in bags if bag]
        vocabulary = tuple(sorted({word for _, bag in bags for word in bag}))
        numbers = {word: number for number, word in enumerate(vocabulary)}
        flat = np.array([numbers[word] for _, bag in bags for word in bag], dtype=np.uint64)
        lengths = np.array([len(bag) for _, bag in bags], dtype=np.int64)
        postings = _weighted(flat, np.repeat(np.arange(len(bags), dtype=np.int32), lengths), lengths)
        owners = np.array([owner for owner, _ in bags], dtype=np.int32)
        return cls(
            vocabulary=vocabulary,
            postings=postings,
            owners=owners,
            label_count=label_count,
            spellings=TrigramIndex.build(vocabulary),
        )

    def best_labels(self, text: str, limit: int) -> list[tuple[int, float]]:
        """Label positions with scores, best first: the best description, plus the label's share of the best 200."""
        factors = {
            number: PREFIX_WEIGHT if term.endswith("~") else 1.0 for term in terms(text) for number in self._known(term)
        }
        places = self.postings.find(np.array(sorted(factors), dtype=np.uint64))
        if not len(places):
            return []
        weights = np.array([factors[int(number)] for number in self.postings.terms[places]])
        scores = self.postings.scores(places, weights)
        top = best_rows(scores, VOTERS)
        best = np.zeros(self.label_count)
        np.maximum.at(best, self.owners[top], scores[top])
        votes = np.bincount(self.owners[top], weights=scores[top], minlength=self.label_count)
        best += VOTE_SHARE * best.max() * votes / votes.sum()
        return [(int(label), float(best[label])) for label in best_rows(best, limit)]

    def coverage(self, text: str) -> float:
        """Return the share of the text's words that occur in any description."""
        found = words(text)
        return sum(word in self._numbers for word in found) / len(found) if found else 0.0

    def _known(self, word: str) -> Sequence[int]:
        """Return the number of a word, or the numbers of the nearest spellings of an unknown word."""
        if word in self._numbers:
            return [self._numbers[word]]
        if len(word) < SHORTEST_MISSPELT or not word.isalpha():
            return []
        near = [self.vocabulary[row] for row in self.spellings.nearest(word, 30) if self.vocabulary[row].isalpha()]
        allowed = 1 if len(word) < 8 else 2
        found = process.extract(word, near, scorer=DamerauLevenshtein.distance, score_cutoff=allowed, limit=2)
        return [self._numbers[spelling] for spelling, _, _ in found]


def _weighted(terms: NDArray[np.uint64], rows: NDArray[np.int32], lengths: NDArray[np.int64]) -> Postings:
    """BM25 weights of (term, row) pairs, repeats within a row counted."""
    row_count = len(lengths)
    keys = terms * np.uint64(max(row_count, 1)) + rows.astype(np.uint64)
    distinct, counts = np.unique(keys, return_counts=True)
    terms, rows = distinct // np.uint64(max(row_count, 1)), (distinct % np.uint64(max(row_count, 1))).astype(np.int32)
    numbers, holders = np.unique(terms, return_counts=True)
    inverse = np.log1p((row_count - holders + 0.5) / (holders + 0.5))[np.searchsorted(numbers, terms)]
    average = lengths.mean() if row_count else 1.0
    damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths[rows] / average)
    weights = inverse * counts * (SATURATION + 1) / (counts + damping)
    return Postings.build(terms, rows, weights.astype(np.float32), row_count)


# A query in the words of the dictionaries: abbreviations and lay phrases in it are replaced by their meanings.


LONGEST_PHRASE = 6
MOST_READINGS = 4
SHORTEST_EXPANDED = 6
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
        long_phrases = tuple(sorted(phrase for phrase in meanings if len(phrase) >= SHORTEST_EXPANDED))
        return cls(meanings=meanings, long_phrases=long_phrases, spellings=TrigramIndex.build(long_phrases))

    def readings(self, text: str) -> list[str]:
        """Return the query with its known phrases replaced, likeliest first; empty if it has none.

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
        """Return the query as (text, meanings) parts; a part that the table does not know has no meanings."""
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
        """Return the phrase that differs from ``text`` by one slip, by two from 10 letters on; "" if there is none."""
        if len(text) < SHORTEST_EXPANDED:
            return ""
        near = [self.long_phrases[row] for row in self.spellings.nearest(text, NEIGHBOURS)]
        allowed = 1 if len(text) < 10 else 2
        found = process.extractOne(text, near, scorer=DamerauLevenshtein.distance, score_cutoff=allowed)
        return str(found[0]) if found else ""


@cache
def phrase_table() -> PhraseTable:
    """Our own table of abbreviations and lay words, indexed once."""
    return PhraseTable.build(load_abbreviations())


# The vocabulary of laboratory spaces: trade and lay words, words that say nothing, orders of several tests.


LABORATORY = "laboratory"
FEWEST_MEMBERS = 2


@cache
def lab_phrases() -> PhraseTable:
    """Return the index of the words, built once."""
    return PhraseTable.build(load_lab_words())


def panel_members(text: str, labels: LabelSet, uses: Sequence[int] | None) -> list[str]:
    """Return the labels of an order, in the panel's order; empty if the text names no order.

    If several spellings of a member are labels, the one most in use represents it.
    """
    wanted = normalise_label(text)
    words = load_lab_words()
    bare = " ".join(token for token in wanted.split() if words.get(token) != ("",))
    panel = load_panels().get(wanted) or load_panels().get(bare) or ()
    number = {label: place for place, label in enumerate(labels.labels)}
    found: list[str] = []
    for spellings in panel:
        known = [label for spelling in spellings if (label := labels.resolve(spelling)) is not None]
        if known:
            found.append(max(known, key=lambda label: 0 if uses is None else int(uses[number[label]])))
    found = list(dict.fromkeys(found))
    return found if len(found) >= FEWEST_MEMBERS else []


# Short descriptions by the whole of what they say: a query that is one of them needs no ranking.


LONGEST = 40  # characters; no query is as long as a longer description


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseIndex:
    """``keys`` (see ``phrase_keys``) in order, with the label position that each belongs to beside."""

    keys: NDArray[np.uint64]
    owners: NDArray[np.int32]

    @classmethod
    def build(cls, descriptions: Iterable[tuple[int, str]]) -> PhraseIndex:
        """From (label position, description) rows."""
        pairs = sorted(
            {(key, owner) for owner, text in descriptions if len(text) <= LONGEST for key in phrase_keys(text)}
        )
        return cls(
            keys=np.array([key for key, _ in pairs], dtype=np.uint64),
            owners=np.array([owner for _, owner in pairs], dtype=np.int32),
        )

    def owners_of(self, text: str) -> list[int]:
        """Return the labels that have ``text`` as a description, words in any order."""
        found: dict[int, None] = {}
        for key in phrase_keys(text):
            wanted = np.uint64(key)
            start, end = (int(np.searchsorted(self.keys, wanted, side=side)) for side in ("left", "right"))
            found |= dict.fromkeys(self.owners[start:end].tolist())
        return list(found)
