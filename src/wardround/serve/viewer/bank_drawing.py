"""A bank's graph as places on a drawing: experiences on a ring, edges by kind between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from wardround.memory import Edge
from wardround.serve.viewer.viewed_bank import ViewedBank

MOST_NODES, MOST_EDGES, MOST_NEIGHBOURS = 60, 300, 24
SIZE, RING = 420, 180
"""Side of the drawing and radius of its ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """An experience: its place, the side of its number, whether it advises against, whether it still serves."""

    id: str
    number: int
    x: float
    y: float
    told: str
    is_contra: bool
    is_live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEdge:
    """An edge between two places."""

    x1: float
    y1: float
    x2: float
    y2: float
    relation: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnGraph:
    """Some experiences and the edges among them, of ``joined`` experiences that have any."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    joined: int

    @property
    def numbers(self) -> Mapping[str, int]:
        """The number that each experience has on the drawing."""
        return {node.id: node.number for node in self.nodes}


def draw_bank(bank: ViewedBank) -> DrawnGraph:
    """Draw the experiences with most edges."""
    joined = [name for name, edges in bank.edges_of.items() if edges and name in bank.experiences]
    ranked = sorted(joined, key=lambda name: (-len(bank.edges_of[name]), name))
    return _drawn(bank, ranked[:MOST_NODES], bank.edges, centre=None, joined=len(joined))


def draw_neighbours(bank: ViewedBank, name: str) -> DrawnGraph:
    """Draw an experience in the middle of those that its heaviest edges join it with."""
    edges = bank.edges_of[name]
    others = dict.fromkeys(edge.target if edge.source == name else edge.source for edge in edges)
    known = [one for one in others if one in bank.experiences]
    return _drawn(bank, known[:MOST_NEIGHBOURS], edges, centre=name, joined=len(known))


def _drawn(
    bank: ViewedBank, ring: Sequence[str], edges: Sequence[Edge], *, centre: str | None, joined: int
) -> DrawnGraph:
    middle = SIZE / 2
    places = {} if centre is None else {centre: (middle, middle)}
    for number, name in enumerate(ring):
        angle = 2 * pi * number / len(ring) - pi / 2
        places[name] = (round(middle + RING * cos(angle), 1), round(middle + RING * sin(angle), 1))
    inside = [edge for edge in edges if edge.source in places and edge.target in places]
    pairs: dict[tuple[str, ...], Edge] = {}
    for edge in sorted(inside, key=lambda edge: (-edge.weight, edge.source, edge.target)):
        pairs.setdefault((edge.relation, *sorted((edge.source, edge.target))), edge)  # there and back is one line
    return DrawnGraph(
        nodes=tuple(_node(bank, name, number, *place) for number, (name, place) in enumerate(places.items(), start=1)),
        edges=tuple(_edge(edge, places) for edge in [*pairs.values()][:MOST_EDGES]),
        joined=joined,
    )


def _node(bank: ViewedBank, name: str, number: int, x: float, y: float) -> DrawnNode:
    one, quality = bank.experiences[name], bank.qualities[name]
    worth = "not known" if quality is None else f"{quality:.2f}"
    return DrawnNode(
        id=name,
        number=number,
        x=x,
        y=y,
        told=f"{number}. {one.title} ({one.kind}, quality {worth})",
        is_contra=one.kind == "contraindication",
        is_live=name in bank.live,
    )


def _edge(edge: Edge, places: dict[str, tuple[float, float]]) -> DrawnEdge:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    told = f"{edge.relation}, weight {edge.weight:.2f}"
    return DrawnEdge(x1=x1, y1=y1, x2=x2, y2=y2, relation=edge.relation, told=told)
