"""Names by shared letters: character-trigram TF-IDF finds the neighbours of a misspelt or shortened name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardround.tools.candidates.postings import Postings, Rows, Terms, best_rows

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
