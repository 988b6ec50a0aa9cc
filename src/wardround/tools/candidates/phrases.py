"""Short descriptions by the whole of what they say: a query that is one of them needs no ranking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardround.tools.candidates.words import phrase_keys

LONGEST = 40  # characters; longer descriptions are nobody's query


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
        """The labels that have ``text`` as a description, words in any order."""
        found: dict[int, None] = {}
        for key in phrase_keys(text):
            wanted = np.uint64(key)
            start, end = (int(np.searchsorted(self.keys, wanted, side=side)) for side in ("left", "right"))
            found |= dict.fromkeys(self.owners[start:end].tolist())
        return list(found)
