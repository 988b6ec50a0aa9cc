"""One subject's rows of a table, with their code columns read once however many rules look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.specs.roles import Conditions

Codes = tuple[str, ...]
Encoded = tuple[npt.NDArray[np.int64], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedRows:
    """Rows, and for each code column its distinct texts and which of them every row has."""

    batch: pa.RecordBatch
    _columns: dict[str, Encoded] = field(default_factory=dict, init=False, repr=False)

    def has(self, names: Sequence[str]) -> bool:
        """Whether all these columns are there."""
        return set(names) <= set(self.batch.schema.names)

    def encoded(self, name: str) -> Encoded:
        """Return which text each row has and the texts; an empty cell is an empty text."""
        if name not in self._columns:
            encoded = self.batch.column(name).dictionary_encode()
            cells = ("" if cell is None else str(cell) for cell in encoded.dictionary.to_pylist())
            texts = (*cells, "")
            index = encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
            self._columns[name] = np.asarray(index, np.int64), texts
        return self._columns[name]

    def combined(self, names: Sequence[str]) -> tuple[npt.NDArray[np.int64], list[Codes]]:
        """Return the combinations of texts there may be, and which of them each row has."""
        if len(names) == 1:
            index, texts = self.encoded(names[0])
            return index, [(text,) for text in texts]
        places = np.zeros(self.batch.num_rows, np.int64)
        keys: list[Codes] = [()]
        for name in names:
            index, texts = self.encoded(name)
            places = places * len(texts) + index
            keys = [(*key, text) for key in keys for text in texts]
        return places, keys

    def fits(self, name: str, patterns: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Say which rows have a text that fits one of the patterns and none of those after ``!``, whatever its case."""
        index, texts = self.encoded(name)
        return np.fromiter((_fits(text, patterns) for text in texts), bool, len(texts))[index]

    def meet(self, conditions: Conditions) -> npt.NDArray[np.bool_]:
        """Say which rows meet one of some conditions; without conditions all do. A missing column fits no pattern."""
        if not conditions:
            return np.ones(self.batch.num_rows, bool)
        met = np.zeros(self.batch.num_rows, bool)
        for condition in conditions:
            if self.has(list(condition)):
                met |= np.logical_and.reduce([self.fits(name, patterns) for name, patterns in condition.items()])
        return met


@cache
def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    folded = text.casefold()
    wanted = [pattern.casefold() for pattern in patterns if not pattern.startswith("!")]
    refused = [pattern[1:].casefold() for pattern in patterns if pattern.startswith("!")]
    fits = not wanted or any(fnmatchcase(folded, pattern) for pattern in wanted)
    return fits and not any(fnmatchcase(folded, pattern) for pattern in refused)
