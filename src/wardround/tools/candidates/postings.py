"""Inverted indexes of candidates: which names hold a word or a trigram, and how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# An inverted index as four arrays: which rows hold a term, with what weight. Terms are integers or hashes.


Terms = NDArray[np.uint64]
Weights = NDArray[np.float32]
Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """``terms`` is sorted; term i is in ``rows[starts[i]:starts[i + 1]]`` with ``weights`` beside."""

    terms: Terms
    starts: NDArray[np.int64]
    rows: Rows
    weights: Weights
    row_count: int

    @classmethod
    def build(cls, terms: Terms, rows: Rows, weights: Weights, row_count: int) -> Postings:
        """From parallel arrays of (term, row, weight), one entry per pair, in any order."""
        order = np.lexsort((rows, terms))
        terms, rows, weights = terms[order], rows[order], weights[order]
        distinct, first = np.unique(terms, return_index=True)
        starts = np.append(first, len(terms)).astype(np.int64)
        return cls(terms=distinct, starts=starts, rows=rows, weights=weights, row_count=row_count)

    def find(self, terms: Terms) -> NDArray[np.int64]:
        """Return the positions of the known terms, rarest first."""
        if not len(self.terms) or not len(terms):
            return np.empty(0, dtype=np.int64)
        places = np.minimum(np.searchsorted(self.terms, terms), len(self.terms) - 1)
        known: NDArray[np.int64] = places[self.terms[places] == terms].astype(np.int64)
        return known[np.argsort(self.lengths(known), kind="stable")]

    def lengths(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of rows with each term."""
        return self.starts[places + 1] - self.starts[places]

    def scores(self, places: NDArray[np.int64], factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of factor times weight per row, over the terms at ``places``."""
        if not len(places):
            return np.zeros(self.row_count)
        spans = [slice(self.starts[place], self.starts[place + 1]) for place in places]
        rows = np.concatenate([self.rows[span] for span in spans])
        weights = np.concatenate(
            [self.weights[span] * factor for span, factor in zip(spans, factors.astype(np.float32), strict=True)]
        )
        summed: NDArray[np.float64] = np.bincount(rows, weights=weights, minlength=self.row_count).astype(np.float64)
        return summed


def best_rows(scores: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return the rows with the highest positive scores, best first; equal scores in row order."""
    chosen = np.flatnonzero(scores > 0)
    if limit < len(chosen):
        found = scores[chosen]
        chosen = chosen[found >= np.partition(found, -limit)[-limit]]
    return chosen[np.argsort(-scores[chosen], kind="stable")][:limit]


# Names by shared letters: character-trigram TF-IDF finds the neighbours of a misspelt or shortened name.


POSTINGS_PER_QUERY = 60_000
LEAST_TERMS = 4
_END = 10  # a line feed ends each name; normalised names contain none


@dataclass(frozen=True, slots=True, kw_only=True)
class TrigramIndex:
    """Cosine similarity of TF-IDF vectors over the trigrams of each name, words padded by blanks."""

    postings: Postings

    @classmethod
    def build(cls, names: Sequence[str]) -> TrigramIndex:
        """Index normalised names by their position."""
        terms, rows = _pairs(names)
        distinct, holders = np.unique(terms, return_counts=True)
        inverse = np.log1p(len(names) / holders)
        weights = inverse[np.searchsorted(distinct, terms)]
        norms = np.sqrt(np.bincount(rows, weights=weights**2, minlength=len(names)))
        weights = (weights / norms[rows]).astype(np.float32)
        return cls(postings=Postings.build(terms, rows, weights, len(names)))

    def nearest(self, name: str, limit: int) -> list[int]:
        """Positions of the names that share most with ``name`` (normalised), best first.

        Very common trigrams are left out once 60,000 postings are read, so the cost is flat in the number of names.
        """
        terms, _ = _pairs([name])
        places = self.postings.find(terms)
        lengths = self.postings.lengths(places)
        affordable = max(LEAST_TERMS, int(np.searchsorted(np.cumsum(lengths), POSTINGS_PER_QUERY)))
        places, lengths = places[:affordable], lengths[:affordable]
        if not len(places):
            return []
        factors = np.log1p(self.postings.row_count / lengths)
        return [int(row) for row in best_rows(self.postings.scores(places, factors), limit)]


def _pairs(names: Sequence[str]) -> tuple[Terms, Rows]:
    """Return each distinct (trigram, name) pair once; a trigram is three code points of 21 bits in one integer."""
    text = "".join(f" {name} \n" for name in names)
    points: NDArray[np.uint64] = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    if len(points) < 3:
        return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int32)
    rows = np.cumsum(points == _END)[:-2]
    shift = np.uint64(21)
    terms = (points[:-2] << (shift + shift)) | (points[1:-1] << shift) | points[2:]
    inside = (points[:-2] != _END) & (points[1:-1] != _END) & (points[2:] != _END)
    order = np.lexsort((terms[inside], rows[inside]))
    terms, rows = terms[inside][order], rows[inside][order]
    fresh = np.ones(len(terms), dtype=bool)
    fresh[1:] = (terms[1:] != terms[:-1]) | (rows[1:] != rows[:-1])
    return terms[fresh], rows[fresh].astype(np.int32)
