"""Communities of a weighted graph by modularity: the Louvain method (Blondel et al., 2008), in a fixed order of nodes,
so that the same graph has the same communities everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

Weights = Mapping[tuple[str, str], float]
_LEAST_GAIN = 1e-12


def communities_of(weights: Weights) -> list[frozenset[str]]:
    """Groups of the nodes of an undirected graph; ``weights`` has each edge once. Largest first, then by name."""
    members = {name: frozenset((name,)) for pair in weights for name in pair}
    graph = dict(weights)
    while True:
        placed = _moved(graph)
        if len(set(placed.values())) == len(placed):
            return sorted(members.values(), key=lambda group: (-len(group), min(group)))
        merged: dict[str, frozenset[str]] = {}
        for name, group in placed.items():
            merged[group] = merged.get(group, frozenset()) | members[name]
        members = merged
        graph = _folded(graph, placed)


def _moved(graph: Weights) -> dict[str, str]:
    """The community of each node after moving every node, in turn, to where modularity gains most, until none moves."""
    joined: dict[str, dict[str, float]] = {}
    for (first, second), weight in graph.items():
        joined.setdefault(first, {})[second] = joined.get(first, {}).get(second, 0.0) + weight
        joined.setdefault(second, {})[first] = joined.get(second, {}).get(first, 0.0) + weight
    degree = {name: sum(others.values()) for name, others in joined.items()}
    total = sum(degree.values()) or 1.0
    placed = {name: name for name in sorted(joined)}
    weight_of = dict(degree)
    moved = True
    while moved:
        moved = False
        for name in sorted(joined):
            home = placed[name]
            weight_of[home] -= degree[name]
            share, inside = degree[name] / total, _inside(name, placed, joined[name])
            target = _best(home, {group: weight - share * weight_of[group] for group, weight in inside.items()})
            weight_of[target] += degree[name]
            placed[name] = target
            moved = moved or target != home
    return placed


def _inside(name: str, placed: Mapping[str, str], others: Mapping[str, float]) -> dict[str, float]:
    """How strongly a node is joined to each community it touches, its own in any case."""
    inside = {placed[name]: 0.0}
    for other, weight in others.items():
        if other != name:
            inside[placed[other]] = inside.get(placed[other], 0.0) + weight
    return inside


def _best(home: str, gains: Mapping[str, float]) -> str:
    """The community that gains most by a node; it stays at home unless another gains more."""
    best = min(gains, key=lambda group: (-round(gains[group], 9), group))
    return best if gains[best] > gains[home] + _LEAST_GAIN else home


def _folded(graph: Weights, placed: Mapping[str, str]) -> dict[tuple[str, str], float]:
    """The graph between communities; what is inside one becomes an edge to itself."""
    folded: dict[tuple[str, str], float] = {}
    for (first, second), weight in graph.items():
        one, other = sorted((placed[first], placed[second]))
        folded[one, other] = folded.get((one, other), 0.0) + weight
    return folded
