"""The indexes of a candidate space, as arrays: spellings, trigrams of spellings, words of code descriptions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardround.codes import LabelSet, normalise_label
from wardround.tools.candidates.blocks import pack_texts, unpack_texts
from wardround.tools.candidates.postings import Postings
from wardround.tools.candidates.trigrams import TrigramIndex
from wardround.tools.candidates.words import WordIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceIndex:
    """``names`` are all normalised spellings, sorted; ``owners[i]`` is the position of the label of ``names[i]``."""

    names: tuple[str, ...]
    owners: NDArray[np.int32]
    trigrams: TrigramIndex
    meanings: WordIndex
    _text: str = field(init=False, repr=False, compare=False)
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_text", "\n".join(("", *self.names, "")))
        lengths = np.fromiter((len(name) + 1 for name in self.names), dtype=np.int64, count=len(self.names))
        object.__setattr__(self, "_starts", (np.cumsum(lengths) - lengths + 1).tolist())

    @classmethod
    def build(cls, labels: LabelSet, descriptions: Mapping[str, Iterable[str]]) -> SpaceIndex:
        """Index labels by their spellings, and by ``descriptions`` (label -> what its codes are called)."""
        numbers = {label: number for number, label in enumerate(labels.labels)}
        spelled = {(normalise_label(label), number) for label, number in numbers.items()}
        spelled |= {(normalise_label(alias), numbers[label]) for alias, label in labels.aliases.items()}
        rows = sorted(spelled)
        names = tuple(text for text, _ in rows)
        described = ((numbers[label], text) for label, texts in descriptions.items() for text in texts)
        own = ((number, text) for text, number in rows)
        return cls(
            names=names,
            owners=np.array([number for _, number in rows], dtype=np.int32),
            trigrams=TrigramIndex.build(names),
            meanings=WordIndex.build((*described, *own), len(labels)),
        )

    def containing(self, wanted: str) -> Iterator[int]:
        """Rows of names that hold the normalised text, by one scan of all names in one string."""
        place = self._text.find(wanted, 1) if wanted else -1
        while 0 <= place < len(self._text) - 1:
            row = bisect_right(self._starts, place) - 1
            yield row
            after = self._starts[row + 1] if row + 1 < len(self._starts) else len(self._text)
            place = self._text.find(wanted, after)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, ready for a block file."""
        return {
            "names": pack_texts(self.names),
            "owners": self.owners,
            "vocabulary": pack_texts(self.meanings.vocabulary),
            "word_owners": self.meanings.owners,
            **_as_arrays("trigram", self.trigrams.postings),
            **_as_arrays("word", self.meanings.postings),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], label_count: int) -> SpaceIndex:
        """The reverse of ``arrays``."""
        names = unpack_texts(arrays["names"])
        return cls(
            names=names,
            owners=arrays["owners"],
            trigrams=TrigramIndex(postings=_postings("trigram", arrays, len(names))),
            meanings=WordIndex(
                vocabulary=unpack_texts(arrays["vocabulary"]),
                postings=_postings("word", arrays, len(arrays["word_owners"])),
                owners=arrays["word_owners"],
                label_count=label_count,
            ),
        )


def _as_arrays(prefix: str, postings: Postings) -> dict[str, NDArray[Any]]:
    return {
        f"{prefix}_terms": postings.terms,
        f"{prefix}_starts": postings.starts,
        f"{prefix}_rows": postings.rows,
        f"{prefix}_weights": postings.weights,
    }


def _postings(prefix: str, arrays: Mapping[str, NDArray[Any]], row_count: int) -> Postings:
    return Postings(
        terms=arrays[f"{prefix}_terms"],
        starts=arrays[f"{prefix}_starts"],
        rows=arrays[f"{prefix}_rows"],
        weights=arrays[f"{prefix}_weights"],
        row_count=row_count,
    )
