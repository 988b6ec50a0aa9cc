"""An inverted index as four arrays: which rows hold a term, with what weight. Terms are integers or hashes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
