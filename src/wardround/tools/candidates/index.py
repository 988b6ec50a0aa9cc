"""The indexes of a candidate space as named arrays in one file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardround.clinical.codes import LabelSet, normalise_label
from wardround.core import UserError
from wardround.tools.candidates.postings import Postings, TrigramIndex
from wardround.tools.candidates.words import PhraseIndex, WordIndex

# One file of named arrays and a JSON head: the same bytes for the same content, read without a copy.


MAGIC = b"wardround-blocks-1\n"
ALIGNMENT = 64
_DTYPES = frozenset({"uint8", "int32", "int64", "uint64", "float32"})


def write_blocks(path: Path, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write ``head`` and one-dimensional ``arrays`` to ``path`` in one rename."""
    places: dict[str, tuple[str, int, int]] = {}
    offset = 0
    for name, array in arrays.items():
        places[name] = (str(array.dtype), len(array), offset)
        offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    encoded = json.dumps({"head": dict(head), "arrays": places}, ensure_ascii=False).encode()
    prefix = MAGIC + len(encoded).to_bytes(8, "little") + encoded
    draft = path.with_name(f".{path.name}.part")
    with draft.open("wb") as file:
        file.write(prefix + b"\0" * (-len(prefix) % ALIGNMENT))
        for array in arrays.values():
            raw = np.ascontiguousarray(array).tobytes()
            file.write(raw + b"\0" * (-len(raw) % ALIGNMENT))
    draft.replace(path)


def read_blocks(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what ``write_blocks`` wrote. Raises UserError if the bytes are something else or cut short."""
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}") from problem
    if not raw.startswith(MAGIC):
        raise UserError(f"{path} is not a candidate space file of this version; build it again")
    start = len(MAGIC) + 8
    length = int.from_bytes(raw[len(MAGIC) : start], "little")
    try:
        content = json.loads(raw[start : start + length])
        base = -(-(start + length) // ALIGNMENT) * ALIGNMENT
        arrays = {name: _array(raw, base, *place) for name, place in content["arrays"].items()}
    except (ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{path} is damaged ({problem}); build it again") from problem
    return content["head"], arrays


def _array(raw: bytes, base: int, dtype: str, length: int, offset: int) -> NDArray[Any]:
    if dtype not in _DTYPES:
        raise ValueError(f"array type {dtype!r}")
    return np.frombuffer(raw, dtype=dtype, count=length, offset=base + offset)


def pack_texts(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Texts without line feeds as one array of UTF-8 bytes."""
    return np.frombuffer("".join(f"{text}\n" for text in texts).encode(), dtype=np.uint8)


def unpack_texts(array: NDArray[Any]) -> tuple[str, ...]:
    """Return the texts that ``pack_texts`` packed."""
    return tuple(array.tobytes().decode().split("\n")[:-1])


# The indexes of a candidate space, as arrays: spellings, trigrams of spellings, words of code descriptions.


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
        """Return the index as ``build`` does, built once for the spaces of a process with equal content (all CCS
        categories)."""
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
        """Return the index of some ``arrays``."""
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
