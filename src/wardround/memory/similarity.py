"""What an edge between two experiences weighs when it is made: equations 5 and 11 to 15 of the GSEM paper.

Pure functions; who is compared with whom, and who judges joint use, is decided elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from wardround.memory.experience import Role, RoleEdge, normal_name

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


def inverse_document_frequency(experiences: int, containing: int) -> float:
    """Equation 11: how much an entity tells that so many of so many experiences speak of."""
    return math.log((experiences + 1) / (containing + 1)) + 1.0


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
