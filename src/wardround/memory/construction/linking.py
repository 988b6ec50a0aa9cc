"""Link experiences: which pairs are compared, edge weights (GSEM, eq. 5 and 12 to 15), duplicates, synergy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from wardround.core import FormatError, load_prompt
from wardround.memory.bank import Bank
from wardround.memory.construction.drafts import MOST_CALLS, AskingBudget, ask_value
from wardround.memory.experience import Experience, Role, RoleEdge, normal_name
from wardround.memory.extract import Asker
from wardround.memory.graph import GraphReader
from wardround.memory.recall import inverse_document_frequency
from wardround.memory.rows import RELATIONS, Edge, Relation
from wardround.memory.words import plain_words

# What an edge weighs when it is made: pure functions.


LONGEST_PATH = 4
EDGE_THRESHOLD = 0.35
RolePath = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeWeights:
    """What each component counts (alpha, beta, gamma, delta of equation 5)."""

    entity: float = 0.25
    structure: float = 0.25
    synergy: float = 0.25
    task: float = 0.25


def entity_similarity(first: Sequence[str], second: Sequence[str], idf: Mapping[str, float]) -> float:
    """Equation 12: cosine of the TF-IDF vectors of two lists of entities (of one name each); 0 where one is empty."""
    one, other = _weighted(first, idf), _weighted(second, idf)
    lengths = math.sqrt(sum(value**2 for value in one.values()) * sum(value**2 for value in other.values()))
    if not lengths:
        return 0.0
    return min(1.0, sum(value * other.get(name, 0.0) for name, value in one.items()) / lengths)


def role_paths(edges: Iterable[RoleEdge], roles: Mapping[str, Role], length: int) -> frozenset[RolePath]:
    """Return the paths with a number of edges through an experience, as the roles they join. A path uses no edge
    twice."""
    steps = [(normal_name(edge.source), normal_name(edge.target)) for edge in edges]
    paths: list[tuple[tuple[str, str], ...]] = [(step,) for step in dict.fromkeys(steps)]
    for _ in range(length - 1):
        paths = [(*path, step) for path in paths for step in steps if step[0] == path[-1][1] and step not in path]
    return frozenset(tuple((roles[source], roles[target]) for source, target in path) for path in paths)


def structure_similarity(
    first: Mapping[int, Collection[RolePath]], second: Mapping[int, Collection[RolePath]]
) -> float:
    """Equations 13 and 14: Jaccard of the role paths of each length, a length counting as much as it is long.

    Where neither has a path of a length, that length's share is 0, as in the paper's sum over all four.
    """
    total = sum(range(1, LONGEST_PATH + 1))
    return sum(
        length / total * _jaccard(first.get(length, ()), second.get(length, ()))
        for length in range(1, LONGEST_PATH + 1)
    )


def edge_weight(
    *,
    entity: float | None,
    structure: float | None,
    synergy: float | None,
    task: float | None,
    weights: EdgeWeights | None = None,
) -> float:
    """Compute equation 5. A component that was not judged (None) is left out and the others' shares grow."""
    shares = EdgeWeights() if weights is None else weights
    parts = (
        (shares.entity, entity),
        (shares.structure, structure),
        (shares.synergy, synergy),
        (shares.task, task),
    )
    judged = [(share, value) for share, value in parts if value is not None]
    whole = sum(share for share, _ in judged)
    return sum(share * value for share, value in judged) / whole if whole > 0 else 0.0


def task_similarity(first: str, second: str) -> float:
    """Equation 15: whether two experiences are of one task type."""
    return float(first == second)


def _weighted(names: Sequence[str], idf: Mapping[str, float]) -> dict[str, float]:
    return {name: count * idf[name] for name, count in Counter(names).items()}


def _jaccard(first: Collection[RolePath], second: Collection[RolePath]) -> float:
    union = set(first) | set(second)
    return len(set(first) & set(second)) / len(union) if union else 0.0


# S_synergy: how much two experiences are worth together. The default asks for joint use, which is what the paper
# defines; its released prompt asks for likeness, and is the published option. A component that was not judged is None,
# never 0.


Synergy = Literal["joint_use", "similarity", "unjudged"]
SYNERGIES: tuple[Synergy, ...] = get_args(Synergy)
SYNERGY_PROMPTS = ("joint_use", "similarity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of a pair; ``relation`` is set only if joint use was judged."""

    value: float | None
    relation: Relation | None = None


async def judge_pair(
    asker: Asker, first: Experience, second: Experience, *, synergy: Synergy, budget: AskingBudget
) -> Judgement:
    """Ask about a pair; unjudged where the budget is spent or the reply cannot be read."""
    if synergy == "unjudged":
        return Judgement(value=None)
    prompt = load_prompt("wardround.memory", synergy).render(first=first, second=second)
    try:
        properties: dict[str, Any] = {
            synergy: {"type": "number", "minimum": 0, "maximum": 1},
            "reason": {"type": "string"},
        }
        if synergy == "joint_use":
            properties["relation"] = {"type": "string", "enum": list(RELATIONS)}
        value = await ask_value(
            asker,
            prompt,
            {"type": "object", "properties": properties, "required": [synergy]},
            purpose=f"judge_{synergy}",
            budget=budget,
        )
    except FormatError as error:
        asker.note("synergy_unjudged", {"pair": [first.id, second.id], "problem": str(error)})
        return Judgement(value=None)
    return Judgement(value=float(value[synergy]), relation=value.get("relation"))


# Global de-duplication: an experience that says what another of the bank says already is not added.
#
# Compared are the few that share its rarest words, of the same polarity and task type; never all with all.


SAME = 0.8
"""Two experiences say the same where their condition and their content each share so much of their words."""


def words_in_common(first: str, second: str) -> float:
    """Jaccard of the words of two texts."""
    one, other = set(plain_words(first).split()), set(plain_words(second).split())
    return len(one & other) / len(one | other) if one | other else 0.0


def says_the_same(first: Experience, second: Experience) -> bool:
    """Return whether two experiences differ in a few words only."""
    if (first.kind, first.task_type) != (second.kind, second.task_type):
        return False
    if {plain_words(exclusion) for exclusion in first.exclusions} != {
        plain_words(exclusion) for exclusion in second.exclusions
    }:
        return False
    return (
        words_in_common(first.condition, second.condition) >= SAME
        and words_in_common(first.content, second.content) >= SAME
    )


# The experience layer: which pairs are compared, what their edges weigh (equation 5), and which edges are made.
#
# Pairs come from shared entities, rare words and near vectors, a few per new experience, so that their number grows
# linearly. Document frequencies are those of one revision for all pairs of an experience. A conflict (one condition,
# opposite polarity) and a boundary (alike, under other conditions) are edges of their own, whatever they weigh.


_SAME_CONDITION = 0.6
_OTHER_CONDITION = 0.4
_LIKE_CONTENT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """``weights`` are alpha to delta of equation 5, ``threshold`` theta_edge. ``most_pairs`` of an experience are
    compared, and at most ``most_calls`` model calls are made for it."""

    weights: EdgeWeights = field(default_factory=EdgeWeights)
    threshold: float = EDGE_THRESHOLD
    synergy: Synergy = "joint_use"
    most_pairs: int = 8
    most_calls: int = MOST_CALLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """What of a pair can be computed."""

    entity: float
    structure: float
    task: float


class Comparing:
    """Comparisons of experiences as of one revision of a bank."""

    def __init__(self, bank: Bank) -> None:
        self.revision = bank.revision
        self._is_live = bank.liveness()
        self._experiences = len(bank)
        self._graph: GraphReader = bank.graph(revision=self.revision)
        self._frequencies: dict[str, float] = {}

    def components(self, first: Experience, second: Experience) -> Components:
        """Equations 12, 14 and 15."""
        one, other = self._names(first), self._names(second)
        frequencies = {name: self._frequency(name) for name in (*one, *other)}
        return Components(
            entity=entity_similarity(one, other, frequencies),
            structure=structure_similarity(_paths(first), _paths(second)),
            task=task_similarity(first.task_type, second.task_type),
        )

    def _names(self, experience: Experience) -> list[str]:
        return [self._graph.entity(entity.name) for entity in experience.entities]

    def _frequency(self, name: str) -> float:
        if name not in self._frequencies:
            known = self._graph.mentions(name, known=self._is_live) or ()
            self._frequencies[name] = inverse_document_frequency(self._experiences, len(known))
        return self._frequencies[name]


def relation_by_rule(first: Experience, second: Experience) -> Relation:
    """Return how two experiences relate by their words alone."""
    condition = words_in_common(first.condition, second.condition)
    if first.kind != second.kind and condition >= _SAME_CONDITION:
        return "conflict"
    if condition <= _OTHER_CONDITION and words_in_common(first.content, second.content) >= _LIKE_CONTENT:
        return "boundary"
    return "related"


async def edges_of(
    bank: Bank,
    experience: Experience,
    *,
    comparing: Comparing,
    asker: Asker | None,
    settings: LinkSettings,
    budget: AskingBudget,
) -> list[Edge]:
    """Return the edges of a new experience, in both directions. Without a model to ask, no relation is judged.

    ``comparing`` is one for all that are linked together, after all of their names are normalised: how rare a name is
    is then counted once.
    """
    made: list[Edge] = []
    for other in bank.related(experience, limit=settings.most_pairs):
        parts = comparing.components(experience, other)
        ruled = relation_by_rule(experience, other)
        judged = Judgement(value=None)
        if asker is not None and (ruled != "related" or _can_reach(parts, settings)):
            judged = await judge_pair(asker, experience, other, synergy=settings.synergy, budget=budget)
        made += _both_ways(experience, other, parts, judged, ruled, settings)
    return made


def _can_reach(parts: Components, settings: LinkSettings) -> bool:
    """Return whether the best possible judgement would make an edge; the model is asked only if it would."""
    return _weight(parts, 1.0, settings) > settings.threshold


def _both_ways(
    first: Experience,
    second: Experience,
    parts: Components,
    judged: Judgement,
    ruled: Relation,
    settings: LinkSettings,
) -> list[Edge]:
    relation = _relation(first, second, judged.relation, ruled)
    weight = _weight(parts, judged.value, settings)
    if relation == "related" and weight <= settings.threshold:
        return []
    return [
        Edge(
            source=source,
            target=target,
            weight=weight,
            relation=relation,
            entity=parts.entity,
            structure=parts.structure,
            synergy=judged.value,
            task=parts.task,
        )
        for source, target in ((first.id, second.id), (second.id, first.id))
    ]


def _relation(first: Experience, second: Experience, judged: Relation | None, ruled: Relation) -> Relation:
    """Return the judged relation. Words that show a conflict override it, and so does equal polarity where a conflict
    was judged."""
    if ruled == "conflict":
        return ruled
    if judged == "conflict" and first.kind == second.kind:
        return ruled
    return judged or ruled


def _weight(parts: Components, synergy: float | None, settings: LinkSettings) -> float:
    return edge_weight(
        entity=parts.entity, structure=parts.structure, synergy=synergy, task=parts.task, weights=settings.weights
    )


def _paths(experience: Experience) -> dict[int, frozenset[tuple[tuple[str, str], ...]]]:
    roles = {normal_name(entity.name): entity.role for entity in experience.entities}
    return {length: role_paths(experience.role_edges, roles, length) for length in range(1, LONGEST_PATH + 1)}
