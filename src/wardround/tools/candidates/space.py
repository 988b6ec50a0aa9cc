"""A candidate space: labels, the searches through them, and how rankings are fused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from wardround.clinical.codes import LabelSet, normalise_label, plain_words
from wardround.core import UserError
from wardround.tools.candidates.index import SpaceIndex, read_blocks, write_blocks
from wardround.tools.candidates.words import LABORATORY, lab_phrases, panel_members, phrase_table, tokens

# A candidate found, and how several rankings become one.


RANK_OFFSET = 3  # reciprocal rank fusion's k; the usual 60 suits lists of a thousand, these have a few dozen


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMatch:
    """A label with its similarity (0 to 1, comparable within one answer only) and the reason in words."""

    label: str
    similarity: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Label positions best first, how much the list counts, and what to say of its members."""

    labels: Sequence[int]
    weight: float
    why: str


def fuse(rankings: Iterable[Ranking], limit: int) -> list[tuple[int, float, str]]:
    """Weighted reciprocal rank fusion: (label, share of the best possible sum, reason of its best rank)."""
    sums: dict[int, float] = {}
    reasons: dict[int, tuple[float, str]] = {}
    ceiling = 0.0
    for ranking in rankings:
        ceiling += ranking.weight / (RANK_OFFSET + 1)
        for rank, label in enumerate(dict.fromkeys(ranking.labels), start=1):
            share = ranking.weight / (RANK_OFFSET + rank)
            sums[label] = sums.get(label, 0.0) + share
            if share > reasons.get(label, (0.0, ""))[0]:
                reasons[label] = (share, ranking.why)
    best = sorted(sums, key=lambda label: (-sums[label], label))[:limit]
    return [(label, sums[label] / ceiling, reasons[label][1]) for label in best]


# A candidate space: the labels an answer may take, one row each, and the ladder of searches that finds them.


SCHEMA = 1
RESCORED = 50
DEPTH = 30
EXACT_WEIGHT = 3.0
PHRASE_WEIGHT = 6.0
SPELLING_WEIGHT = 0.5
KNOWN_SPELLING_WEIGHT = 0.25  # of a text all of whose words some description has: likenesses mislead
VECTOR_WEIGHT = 2.0
EXPANSION_WEIGHT = 2.0
TRADE_WEIGHT = 4.0  # of a trade's own words in a space of that trade
LEAST_IN_USE = 0.9  # the factor of a label that one training subject has; the most used one has 1
NOT_IN_USE = 0.85
NOT_IN_USE_IN_A_DICTIONARY = 0.2  # dictionaries of laboratories keep the old name of a test beside the present one
ROOTS_WEIGHT = 0.5
Query = str | Sequence[str]


class LabelEncoder(Protocol):
    """An optional sentence encoder: texts to rows of unit length."""

    @property
    def name(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class CandidateSpace:
    """Labels with their indexes. Never changes after it is made; threads may share it.

    ``descriptions`` say what the codes of a label are called. ``index`` is for ``load``, ``encoder`` and ``vectors``
    (of the labels, in their order) are for ``with_encoder``. A query is a text or a list of texts; ``limit``
    holds for each of them, and a label comes once. ``uses``: how many training subjects have a label;
    ``vocabulary`` names the words of a trade that its queries are written in ("laboratory"). ``without``: the space as
    it is without a group of training subjects, by group.
    """

    def __init__(
        self,
        *,
        name: str,
        labels: LabelSet,
        descriptions: Mapping[str, Iterable[str]] = MappingProxyType({}),
        index: SpaceIndex | None = None,
        encoder: LabelEncoder | None = None,
        vectors: NDArray[np.float32] | None = None,
        uses: Mapping[str, int] | NDArray[np.int32] | None = None,
        vocabulary: str = "",
        without: Mapping[int, CandidateSpace] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.without = without
        self.labels = labels
        self.vocabulary = vocabulary
        if isinstance(uses, Mapping):
            uses = np.array([uses.get(label, 0) for label in labels.labels], dtype=np.int32)
        self.uses = uses
        self._use_factors = None if self.uses is None else _use_factors(self.uses, vocabulary)
        self.index = index or SpaceIndex.build(labels, descriptions)
        self.encoder = encoder
        self._vectors = vectors
        self._numbers = {label: number for number, label in enumerate(labels.labels)}

    def __repr__(self) -> str:
        return f"CandidateSpace({self.name!r}, {len(self.labels)} labels)"

    def with_encoder(self, encoder: LabelEncoder) -> CandidateSpace:
        """Return the same space with dense vectors of its labels fused into ``by_meaning``. Equal labels are encoded
        once."""
        known: dict[tuple[str, ...], NDArray[np.float32]] = {}
        return self._encoded(encoder, known)

    def _encoded(self, encoder: LabelEncoder, known: dict[tuple[str, ...], NDArray[np.float32]]) -> CandidateSpace:
        """``known``: the vectors made so far, by labels; they are added to."""
        labels = self.labels.labels
        if labels not in known:
            known[labels] = encoder.encode(labels)
        return CandidateSpace(
            name=self.name,
            labels=self.labels,
            index=self.index,
            encoder=encoder,
            vectors=known[labels],
            uses=self.uses,
            vocabulary=self.vocabulary,
            without={group: space._encoded(encoder, known) for group, space in self.without.items()},
        )

    def with_uses(self, uses: Mapping[str, int]) -> CandidateSpace:
        """Return the same labels with the uses of other subjects."""
        return CandidateSpace(
            name=self.name, labels=self.labels, index=self.index, uses=uses, vocabulary=self.vocabulary
        )

    def beside(self, without: Mapping[int, CandidateSpace]) -> CandidateSpace:
        """Return the same space, with its variant without each group of training subjects."""
        return CandidateSpace(
            name=self.name,
            labels=self.labels,
            index=self.index,
            uses=self.uses,
            vocabulary=self.vocabulary,
            without=dict(sorted(without.items())),
        )

    def most_used(self, limit: int) -> tuple[str, ...]:
        """Return the labels that most training subjects have, ties by name; fewer if fewer are in use."""
        if self.uses is None or limit < 1:
            return ()
        used = zip(self.labels.labels, self.uses.tolist(), strict=True)
        ranked = sorted((-count, label) for label, count in used if count)
        return tuple(label for _, label in ranked[:limit])

    def by_keyword(self, keyword: Query, limit: int | None = None) -> list[LabelMatch]:
        """Labels that contain the literal text (case, quotes and spacing aside) in their name or an alias."""
        return _joined([self._containing(text, limit) for text in _each(keyword)])

    def by_fuzzy(self, text: Query, limit: int = 5, *, in_use: bool = False) -> list[LabelMatch]:
        """Labels spelled most like the text: its trigram neighbours, re-scored by rapidfuzz."""
        return _joined([self._in_order(self._spelled_like(query), limit, in_use=in_use) for query in _each(text)])

    def by_meaning(self, text: Query, limit: int = 5, *, in_use: bool = False) -> list[LabelMatch]:
        """Labels that mean the text: spelling, code descriptions, abbreviations and, if any, vectors, fused by rank.

        ``in_use``: what training subjects have comes before what none has.
        """
        depth = DEPTH if in_use else limit
        return _joined([self._in_order(self._meaning(query, depth), limit, in_use=in_use) for query in _each(text)])

    def panel(self, text: str) -> list[LabelMatch]:
        """Return the labels of an order such as "CBC"; empty if the text is no order."""
        if self.vocabulary != LABORATORY:
            return []
        members = panel_members(text, self.labels, None if self.uses is None else self.uses.tolist())
        return [LabelMatch(label=label, similarity=1.0, why=f"part of {text.strip()!r}") for label in members]

    def _in_order(self, found: list[LabelMatch], limit: int, *, in_use: bool) -> list[LabelMatch]:
        """Return the best ``limit`` labels. With ``in_use``, the number of training subjects with a label is a
        weight."""
        factors = self._use_factors
        if not in_use or factors is None:
            return found[:limit]
        weighed = [
            replace(match, similarity=round(match.similarity * float(factors[self._numbers[match.label]]), 4))
            for match in found
        ]
        return sorted(weighed, key=lambda match: -match.similarity)[:limit]

    def _containing(self, keyword: str, limit: int | None) -> list[LabelMatch]:
        wanted = normalise_label(keyword)
        found = [(int(self.index.owners[row]), self.index.names[row]) for row in self.index.containing(wanted)[:limit]]
        return [self._match(label, len(wanted) / len(name), f"contains it: {name}") for label, name in found]

    def _spelled_like(self, text: str) -> list[LabelMatch]:
        return [self._match(label, score, f"spelled like: {name}") for label, score, name in self._near(text)]

    def _near(self, text: str) -> list[tuple[int, float, str]]:
        """(label, similarity, name) of the trigram neighbours, one per label, best first."""
        wanted = normalise_label(text)
        rows = self.index.trigrams.nearest(wanted, RESCORED)
        names = [self.index.names[row] for row in rows]
        best: dict[int, tuple[int, float, str]] = {}
        for name, score, place in process.extract(wanted, names, scorer=fuzz.WRatio, limit=None):
            label = int(self.index.owners[rows[place]])
            best.setdefault(label, (label, score / 100, name))
        return list(best.values())

    def _meaning(self, text: str, limit: int) -> list[LabelMatch]:
        fused = fuse(self._rankings(text), limit)
        return [self._match(label, similarity, why) for label, similarity, why in fused]

    def _rankings(self, text: str) -> Iterator[Ranking]:
        if self.labels.resolve(text) is None:
            for label in self.index.phrases.owners_of(text):  # all first: what else speaks for them decides
                yield Ranking(labels=[label], weight=PHRASE_WEIGHT, why=f"known as {normalise_label(text)!r}")
        yield from self._of_variant(text, 1.0, "")
        if self.vocabulary == LABORATORY:
            trade = [one for one in lab_phrases().readings(text) if self.index.meanings.coverage(one) > 0]
            for number, reading in enumerate(trade, start=1):
                yield from self._of_variant(reading, TRADE_WEIGHT / number, f" of {reading!r}")
        readings = [one for one in phrase_table().readings(text) if self.index.meanings.coverage(one) > 0]
        for number, reading in enumerate(readings, start=1):
            yield from self._of_variant(reading, EXPANSION_WEIGHT / number, f" of {reading!r}")
        rooted = self._rooted(text)
        if rooted:
            described = [label for label, _ in self.index.meanings.best_labels(rooted, DEPTH)]
            yield Ranking(labels=described, weight=ROOTS_WEIGHT, why=f"code descriptions of {rooted!r}")
        if self.encoder is not None and self._vectors is not None:
            similarity = self._vectors @ np.asarray(self.encoder.encode([text])[0], dtype=np.float32)
            nearest = np.argsort(-similarity, kind="stable")[:DEPTH].tolist()
            yield Ranking(labels=nearest, weight=VECTOR_WEIGHT, why=f"vectors of {self.encoder.name}")

    def _rooted(self, text: str) -> str:
        """Return the query with its words of roots and an ending taken apart; "" if it has no such word."""
        found = [(word, plain_words(word)) for word in tokens(text)]
        rooted = " ".join(plain or word for word, plain in found)
        return rooted if any(plain for _, plain in found) and self.index.meanings.coverage(rooted) > 0 else ""

    def _of_variant(self, text: str, weight: float, of: str) -> Iterator[Ranking]:
        exact = self.labels.resolve(text)
        if exact is not None:
            yield Ranking(labels=[self._numbers[exact]], weight=EXACT_WEIGHT * weight, why=f"the name{of}")
        near = [label for label, _, _ in self._near(text)[:DEPTH]]
        known = self.index.meanings.coverage(text) == 1
        spelling = KNOWN_SPELLING_WEIGHT if known else SPELLING_WEIGHT
        yield Ranking(labels=near, weight=spelling * weight, why=f"spelling{of}")
        described = [label for label, _ in self.index.meanings.best_labels(text, DEPTH)]
        yield Ranking(labels=described, weight=weight, why=f"code descriptions{of}")

    def _match(self, label: int, similarity: float, why: str) -> LabelMatch:
        return LabelMatch(label=self.labels.labels[label], similarity=round(min(similarity, 1.0), 4), why=why)

    def save(self, path: Path) -> None:
        """Write everything but the encoder to one file. A space without a group that has the same labels and index is
        kept as its uses alone."""
        parts = {f"{group}/": space for group, space in self.without.items()}
        own = {prefix: space for prefix, space in parts.items() if space.index is not self.index}
        head = {
            "schema": SCHEMA,
            "name": self.name,
            "labels": self.labels.to_json(),
            "vocabulary": self.vocabulary,
            "without": {prefix: own[prefix].labels.to_json() if prefix in own else None for prefix in parts},
        }
        arrays = {**self.index.arrays(), **self._use_arrays()}
        for prefix, space in parts.items():
            kept = {**(space.index.arrays() if prefix in own else {}), **space._use_arrays()}
            arrays |= {f"{prefix}{name}": array for name, array in kept.items()}
        write_blocks(path, head, arrays)

    def _use_arrays(self) -> dict[str, NDArray[np.int32]]:
        return {} if self.uses is None else {"uses": self.uses}

    @classmethod
    def load(cls, path: Path) -> CandidateSpace:
        """Read what ``save`` wrote; UserError if the file is another thing or another version."""
        head, arrays = read_blocks(path)
        if head.get("schema") != SCHEMA:
            raise UserError(f"{path} has schema {head.get('schema')!r}, not {SCHEMA}; build it again")
        labels = LabelSet.from_json(head["labels"])
        whole = cls(
            name=head["name"],
            labels=labels,
            index=SpaceIndex.from_arrays(arrays, len(labels)),
            uses=arrays.get("uses"),
            vocabulary=head["vocabulary"],
        )
        return whole.beside({int(part[:-1]): whole._part(arrays, part, own) for part, own in head["without"].items()})

    def _part(self, arrays: Mapping[str, NDArray[Any]], prefix: str, labels: Any) -> CandidateSpace:
        """Return what a file stores of this space without one group: its uses, or labels and an index of its own
        too."""
        kept = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        own = self.labels if labels is None else LabelSet.from_json(labels)
        index = self.index if labels is None else SpaceIndex.from_arrays(kept, len(own))
        return CandidateSpace(
            name=self.name, labels=own, index=index, uses=kept.get("uses"), vocabulary=self.vocabulary
        )


def _use_factors(uses: NDArray[np.int32], vocabulary: str) -> NDArray[np.float64]:
    """Return the factors of a similarity: nearly equal among labels in use, much lower for a label that nobody has."""
    most = max(int(uses.max(initial=0)), 1)
    in_use = LEAST_IN_USE + (1 - LEAST_IN_USE) * np.log1p(uses) / np.log1p(most)
    unused = NOT_IN_USE_IN_A_DICTIONARY if vocabulary == LABORATORY else NOT_IN_USE
    return np.where(uses > 0, in_use, unused if uses.any() else 1.0)


def _each(query: Query) -> Sequence[str]:
    return [query] if isinstance(query, str) else list(query)


def _joined(answers: Sequence[list[LabelMatch]]) -> list[LabelMatch]:
    """Return the answers to several queries as one list: best first, one row per label."""
    best: dict[str, LabelMatch] = {}
    for match in (match for answer in answers for match in answer):
        if match.label not in best or match.similarity > best[match.label].similarity:
            best[match.label] = match
    if len(answers) == 1:
        return list(best.values())
    return sorted(best.values(), key=lambda match: (-match.similarity, match.label))
