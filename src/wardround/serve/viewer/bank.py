"""The viewer's pages of a bank: its experiences and its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import Any

from wardround.memory import Edge
from wardround.memory.rows import RELATIONS
from wardround.reports.report import episode_page
from wardround.reports.summary import contender
from wardround.serve.viewer.episode import bank_or_reason
from wardround.serve.viewer.run import NotFound, ViewedBank, ViewedRun

MOST_NODES, MOST_EDGES, MOST_NEIGHBOURS = 60, 300, 24
SIZE, RING = 420, 180
"""Side of the drawing and radius of its ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """An experience: its place, on which side its number is, whether it advises against something, whether it is still
    active."""

    id: str
    number: int
    x: float
    y: float
    tooltip: str
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
    tooltip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnGraph:
    """Some experiences and the edges among them; ``joined``: how many experiences have any edge."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    joined: int

    @property
    def numbers(self) -> Mapping[str, int]:
        """The number of each experience on the drawing."""
        return {node.id: node.number for node in self.nodes}


def draw_bank(bank: ViewedBank) -> DrawnGraph:
    """Draw the experiences with most edges."""
    joined = [name for name, edges in bank.edges_of.items() if edges and name in bank.experiences]
    ranked = sorted(joined, key=lambda name: (-len(bank.edges_of[name]), name))
    return _drawn(bank, ranked[:MOST_NODES], bank.edges, centre=None, joined=len(joined))


def draw_neighbours(bank: ViewedBank, name: str) -> DrawnGraph:
    """Draw an experience in the middle of its neighbours with the heaviest edges."""
    edges = bank.edges_of[name]
    others = dict.fromkeys(edge.target if edge.source == name else edge.source for edge in edges)
    known = [other for other in others if other in bank.experiences]
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
        pairs.setdefault((edge.relation, *sorted((edge.source, edge.target))), edge)  # both directions are one line
    nodes = []
    for number, (name, (x, y)) in enumerate(places.items(), start=1):
        one, quality = bank.experiences[name], bank.qualities[name]
        worth = "not known" if quality is None else f"{quality:.2f}"
        nodes.append(
            DrawnNode(
                id=name,
                number=number,
                x=x,
                y=y,
                tooltip=f"{number}. {one.title} ({one.kind}, quality {worth})",
                is_contra=one.kind == "contraindication",
                is_live=name in bank.live,
            )
        )
    drawn = []
    for edge in [*pairs.values()][:MOST_EDGES]:
        (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
        tooltip = f"{edge.relation}, weight {edge.weight:.2f}"
        drawn.append(DrawnEdge(x1=x1, y1=y1, x2=x2, y2=y2, relation=edge.relation, tooltip=tooltip))
    return DrawnGraph(nodes=tuple(nodes), edges=tuple(drawn), joined=joined)


# The content of a bank's pages: its graph, its experiences page by page, and one experience with its history.


ROWS = 100
"""Experiences of one page, and the most feedback, neighbours and episodes that the page of one lists."""


def bank_of(run: ViewedRun) -> ViewedBank:
    """Return the bank of a run. NotFound: it had none, or its file is missing."""
    bank = bank_or_reason(run)
    if not isinstance(bank, ViewedBank):
        raise NotFound(bank or f"the run {run.name!r} read no bank")
    return bank


def bank_pages(bank: ViewedBank) -> int:
    """Return the number of pages of a bank's experiences, at least one."""
    return max(1, -(-len(bank.experiences) // ROWS))


def bank_view(run: ViewedRun, number: int) -> dict[str, Any]:
    """Return the content of a page of the bank, from 1; the graph is on the first. NotFound: no such page."""
    bank = bank_of(run)
    pages = bank_pages(bank)
    if not 1 <= number <= pages:
        raise NotFound(f"the bank has {pages} pages, not {number}")
    ranked = sorted(bank.experiences, key=lambda name: (name not in bank.live, -(bank.qualities[name] or 0.0), name))
    relations = Counter(edge.relation for edge in bank.edges)
    return {
        "run": run,
        "bank": bank,
        "graph": draw_bank(bank) if number == 1 and bank.edges else None,
        "side": SIZE,
        "relations": {name: relations[name] for name in RELATIONS},
        "kinds": Counter(experience.kind for experience in bank.experiences.values()),
        "rows": [bank.experiences[name] for name in ranked[(number - 1) * ROWS : number * ROWS]],
        "number": number,
        "pager": [(str(n), "index.html" if n == 1 else f"index-{n}.html") for n in range(1, pages + 1)],
    }


def experience_view(run: ViewedRun, name: str) -> dict[str, Any]:
    """Return the content of an experience's page. NotFound: the bank has none with that id."""
    bank = bank_of(run)
    if name not in bank.experiences:
        raise NotFound(f"the bank has no experience {name!r}")
    served = run.served_in.get(name, ())
    edges = bank.edges_of[name]
    return {
        "run": run,
        "bank": bank,
        "one": bank.experiences[name],
        "past": bank.past(name),
        "graph": draw_neighbours(bank, name) if edges else None,
        "side": SIZE,
        "edges": edges[:ROWS],
        "served": [(run.by_episode[key], one) for key, one in served[:ROWS] if key in run.by_episode],
        "served_in_all": len(served),
        "page": episode_page,
        "contender": contender,
        "rows": ROWS,
    }
