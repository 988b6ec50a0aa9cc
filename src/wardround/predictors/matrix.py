"""From counts to a design matrix: which codes are columns, and how the age is put. Both are learnt in training only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.predictors.extras import optional
from wardround.predictors.features import CountTable

Integers = npt.NDArray[np.int64]
AGE = "age"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Columns of a matrix: the age, then ``codes``. Made of training rows; held-out rows are put into it as they are.

    The age is in standard deviations from the mean of the training rows; an unknown one is the mean. A code that no
    training row has is no column, in whoever's chart it stands.
    """

    codes: tuple[str, ...]
    age_mean: float
    age_spread: float

    @classmethod
    def of(cls, counts: Any, table: CountTable, codes: Sequence[str], training: Integers) -> Design:
        """Learn the columns. ``counts`` is the sparse matrix of all rows, whose columns are ``codes``."""
        present = np.flatnonzero(counts[training].getnnz(axis=0))
        ages = table.ages[training]
        known = ages[~np.isnan(ages)]
        return cls(
            codes=tuple(codes[place] for place in present.tolist()),
            age_mean=float(known.mean()) if len(known) else 0.0,
            age_spread=float(known.std()) or 1.0 if len(known) else 1.0,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """What each column is."""
        return (AGE, *self.codes)

    def matrix(self, counts: Any, table: CountTable, codes: Sequence[str], rows: Integers) -> Any:
        """Return these rows in this design: sparse, one row per row asked for."""
        sparse = optional("scipy.sparse")
        place = {code: n for n, code in enumerate(codes)}
        kept = counts[rows][:, np.array([place[code] for code in self.codes], np.int64)]
        ages = (table.ages[rows] - self.age_mean) / self.age_spread
        age = sparse.csr_matrix(np.nan_to_num(ages, nan=0.0)[:, None])
        return sparse.hstack([age, kept], format="csr").astype(float)


def count_matrix(table: CountTable, ancestors: Mapping[str, Sequence[str]]) -> tuple[Any, tuple[str, ...]]:
    """Return the counts as a sparse matrix and the code of every column; ancestors are columns as well."""
    sparse = optional("scipy.sparse")
    shape = (len(table.subjects), len(table.codes))
    counts = sparse.csr_matrix((table.counts.astype(float), table.places, table.starts), shape=shape)
    if not ancestors:
        return counts, table.codes
    columns = tuple(sorted({*table.codes, *(above for code in table.codes for above in ancestors.get(code, ()))}))
    place = {code: n for n, code in enumerate(columns)}
    pairs = [(n, place[to]) for n, code in enumerate(table.codes) for to in (code, *ancestors.get(code, ()))]
    rows, cols = np.array(pairs, np.int64).reshape(-1, 2).T
    spread = sparse.csr_matrix((np.ones(len(pairs)), (rows, cols)), shape=(len(table.codes), len(columns)))
    return (counts @ spread).tocsr(), columns
