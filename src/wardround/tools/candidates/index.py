"""The indexes of a candidate space, as arrays: spellings, trigrams of spellings, words of code descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardround.codes import LabelSet, normalise_label
from wardround.tools.candidates.blocks import pack_texts, unpack_texts
from wardround.tools.candidates.phrases import PhraseIndex
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
    phrases: PhraseIndex
    _text: str = field(init=False, repr=False, compare=False)
    _lengths: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    _starts: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lengths = np.fromiter(map(len, self.names), dtype=np.int64, count=len(self.names))
        object.__setattr__(self, "_text", "\n".join(self.names))
        object.__setattr__(self, "_lengths", lengths)
        object.__setattr__(self, "_starts", np.cumsum(lengths + 1) - lengths - 1)

    @classmethod
    def shared(cls, labels: LabelSet, descriptions: Mapping[str, Iterable[str]]) -> SpaceIndex:
        """The same as ``build``, made once for the few spaces of a process that hold the same (all CCS categories)."""
        described = frozenset((label, text) for label, texts in descriptions.items() for text in texts)
        return _shared(labels.labels, frozenset(labels.aliases.items()), described)

    @classmethod
    def build(cls, labels: LabelSet, descriptions: Mapping[str, Iterable[str]]) -> SpaceIndex:
        """Index labels by their spellings, and by ``descriptions`` (label -> what its codes are called)."""
        numbers = {label: number for number, label in enumerate(labels.labels)}
        spelled = {(normalise_label(label), number) for label, number in numbers.items()}
        spelled |= {(normalise_label(alias), numbers[label]) for alias, label in labels.aliases.items()}
        rows = sorted(spelled)
        names = tuple(text for text, _ in rows)
        described = [(numbers[label], text) for label, texts in descriptions.items() for text in texts]
        own = [(number, text) for text, number in rows]
        return cls(
            names=names,
            owners=np.array([number for _, number in rows], dtype=np.int32),
            trigrams=TrigramIndex.build(names),
            meanings=WordIndex.build((*described, *own), len(labels)),
            phrases=PhraseIndex.build(described),
        )

    def containing(self, wanted: str) -> NDArray[np.int64]:
        """Rows of names that hold the normalised text, one per label: whole words first, then shortest names."""
        places: list[int] = []
        inside: list[bool] = []
        place = self._text.find(wanted) if wanted else -1
        while place >= 0:
            after = place + len(wanted)
            places.append(place)
            inside.append(self._text[place - 1 : place].isalnum() or self._text[after : after + 1].isalnum())
            place = self._text.find(wanted, after)
        rows = np.searchsorted(self._starts, np.array(places, dtype=np.int64), side="right") - 1
        rows = rows[np.lexsort((rows, self._lengths[rows], np.array(inside, dtype=bool)))]
        _, first = np.unique(self.owners[rows], return_index=True)
        return rows[np.sort(first)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, ready for a block file."""
        return {
            "names": pack_texts(self.names),
            "owners": self.owners,
            "vocabulary": pack_texts(self.meanings.vocabulary),
            "word_owners": self.meanings.owners,
            "phrase_keys": self.phrases.keys,
            "phrase_owners": self.phrases.owners,
            **_as_arrays("trigram", self.trigrams.postings),
            **_as_arrays("word", self.meanings.postings),
            **_as_arrays("spelling", self.meanings.spellings.postings),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], label_count: int) -> SpaceIndex:
        """The reverse of ``arrays``."""
        names, vocabulary = unpack_texts(arrays["names"]), unpack_texts(arrays["vocabulary"])
        return cls(
            names=names,
            owners=arrays["owners"],
            trigrams=TrigramIndex(postings=_postings("trigram", arrays, len(names))),
            meanings=WordIndex(
                vocabulary=vocabulary,
                postings=_postings("word", arrays, len(arrays["word_owners"])),
                owners=arrays["word_owners"],
                label_count=label_count,
                spellings=TrigramIndex(postings=_postings("spelling", arrays, len(vocabulary))),
            ),
            phrases=PhraseIndex(keys=arrays["phrase_keys"], owners=arrays["phrase_owners"]),
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


@lru_cache(maxsize=8)
def _shared(
    labels: tuple[str, ...], aliases: frozenset[tuple[str, str]], described: frozenset[tuple[str, str]]
) -> SpaceIndex:
    descriptions: dict[str, list[str]] = {}
    for label, text in described:
        descriptions.setdefault(label, []).append(text)
    return SpaceIndex.build(LabelSet(name="shared", labels=labels, aliases=dict(aliases)), descriptions)
