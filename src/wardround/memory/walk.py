"""Walk over a bank's graph (section 4.2): a best-first walk, and the rules of a walk by a model."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from wardround.core import check_settings, setting
from wardround.memory.rows import Edge

# A walk over a bank's graph without a model: a best-first beam from several seeds at once, the same every time.
#
# Each accepted and each skipped experience has a reason that a person can read. The walk never accepts an excluded
# experience, and never both sides of a conflict.


DEFAULT_QUALITY = 0.5
"""The quality of an experience without evidence: neither good nor bad."""
StopEnds = Literal["path", "retrieval"]
SkipReason = Literal["not_served", "excluded", "conflict", "below", "room", "steps"]


class Graph(Protocol):
    """What the walk reads; ``GraphReader`` is one."""

    def quality(self, experience: str) -> float | None:
        """Return the quality of an experience."""
        ...

    def edges(self, experience: str) -> tuple[Edge, ...]:
        """Return the edges from an experience."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkSettings:
    """The limits of a walk, over all seeds together."""

    neighbours: int = setting(5, "neighbours looked at from each experience", source="GSEM, K_n", least=1)
    most_steps: int = setting(60, "most steps of a walk", source="GSEM, T_max", least=1)
    most_taken: int = setting(10, "most experiences that are served", least=1)
    stop: StopEnds = setting(
        "path", "what a model's STOP ends: its path, or the whole retrieval, as published", source="ours"
    )
    least: float = setting(0.1, "an experience with a lower path score is skipped", least=0, most=1)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedExperience:
    """One accepted experience, with the reason.

    ``path`` leads from its seed to it, ``score`` is the score of the path, ``steps`` are the scores (W + Q) / 2 along
    it. ``boundaries`` are neighbours that differ in their condition.
    """

    experience: str
    path: tuple[str, ...]
    score: float
    steps: tuple[float, ...]
    quality: float
    boundaries: tuple[str, ...] = ()

    def why(self) -> str:
        """Return the reason in one line."""
        if len(self.path) == 1:
            return f"recalled for the question (score {self.score:.3f}, quality {self.quality:.2f})"
        hops = " > ".join(f"{name} ({step:.2f})" for name, step in zip(self.path[1:], self.steps, strict=True))
        return f"from {self.path[0]} > {hops}; path {self.score:.3f}, quality {self.quality:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """One experience that was skipped, and why; ``because`` is the experience it conflicts with."""

    experience: str
    reason: SkipReason
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The result of a walk: accepted experiences, best first, and skipped ones. ``steps``: experiences visited."""

    accepted: tuple[CollectedExperience, ...]
    skipped: tuple[Skipped, ...]
    steps: int

    def facts(self) -> dict[str, Any]:
        """Return what the log of an episode notes about this walk."""
        return {
            "taken": [
                {"id": entry.experience, "path": list(entry.path), "score": entry.score} for entry in self.accepted
            ],
            "passed": [
                {"id": entry.experience, "reason": entry.reason, "because": entry.because} for entry in self.skipped
            ],
            "steps": self.steps,
        }


def may_be_served(names: frozenset[str]) -> Callable[[str], SkipReason | None]:
    """Return a judge of experiences that checks only whether they may be served."""
    return lambda name: None if name in names else "not_served"


def walk(
    graph: Graph,
    seeds: Mapping[str, float],
    *,
    judge: Callable[[str], SkipReason | None],
    opposed: Callable[[str, str], bool] = lambda one, other: False,
    settings: WalkSettings | None = None,
) -> Walk:
    """Walk from all seeds at once; always extend the best path.

    ``seeds`` maps experiences to their recall scores (greater than 0). The score of a path is its seed's score times
    the step scores (equation 6) along it. It never grows with a step, so the first path to an experience is its best.
    Ties go by id. ``judge`` returns why an experience may not be accepted; the walk does not pass through it either.
    ``opposed`` finds conflicts without an edge.
    """
    return _Walking(graph, judge, opposed, WalkSettings() if settings is None else settings).run(seeds)


@dataclass(slots=True)
class _Walking:
    """The state of one walk."""

    graph: Graph
    judge: Callable[[str], SkipReason | None]
    opposed: Callable[[str, str], bool]
    settings: WalkSettings
    accepted: dict[str, CollectedExperience] = field(default_factory=dict)
    skipped: dict[str, Skipped] = field(default_factory=dict)
    opponents: dict[str, str] = field(default_factory=dict)
    ahead: list[tuple[float, str, tuple[str, ...], tuple[float, ...]]] = field(default_factory=list)
    steps: int = 0

    def run(self, seeds: Mapping[str, float]) -> Walk:
        for name, score in seeds.items():
            heapq.heappush(self.ahead, (-score, name, (name,), ()))
        while self.ahead and self.steps < self.settings.most_steps and len(self.accepted) < self.settings.most_taken:
            negative, name, path, scores = heapq.heappop(self.ahead)
            if name not in self.accepted and name not in self.skipped:
                self.steps += 1
                self._visit(name, -negative, path, scores)
        full = len(self.accepted) >= self.settings.most_taken
        for _, name, _, _ in sorted(self.ahead):
            if name not in self.accepted:
                self.skipped.setdefault(name, Skipped(experience=name, reason="room" if full else "steps"))
        return Walk(accepted=tuple(self.accepted.values()), skipped=tuple(self.skipped.values()), steps=self.steps)

    def _visit(self, name: str, score: float, path: tuple[str, ...], scores: tuple[float, ...]) -> None:
        edges = self.graph.edges(name)
        reason = self._reason(name, score, edges)
        if reason is not None:
            self.skipped[name] = reason
            return
        boundaries = tuple(edge.target for edge in edges if edge.relation == "boundary")
        self.accepted[name] = CollectedExperience(
            experience=name,
            path=path,
            score=score,
            steps=scores,
            quality=self._quality(name),
            boundaries=boundaries,
        )
        for edge in edges:
            if edge.relation == "conflict":
                self.opponents.setdefault(edge.target, name)
        for worth, target in self._onward(edges):
            heapq.heappush(self.ahead, (-score * worth, target, (*path, target), (*scores, worth)))

    def _reason(self, name: str, score: float, edges: Sequence[Edge]) -> Skipped | None:
        barred = self.judge(name)
        if barred is not None:
            return Skipped(experience=name, reason=barred)
        against = self.opponents.get(name) or self._opponent(name, edges)
        if against:
            return Skipped(experience=name, reason="conflict", because=against)
        return Skipped(experience=name, reason="below") if score < self.settings.least else None

    def _opponent(self, name: str, edges: Sequence[Edge]) -> str:
        """Return an accepted experience that states the opposite."""
        ends = {edge.target for edge in edges if edge.relation == "conflict"}
        return next((accepted for accepted in self.accepted if accepted in ends or self.opposed(name, accepted)), "")

    def _onward(self, edges: Sequence[Edge]) -> list[tuple[float, str]]:
        """Return the best unvisited neighbours with their scores. An edge of conflict is never followed."""
        neighbours = [
            ((edge.weight + self._quality(edge.target)) / 2.0, edge.target)
            for edge in edges
            if edge.relation != "conflict" and edge.target not in self.accepted and edge.target not in self.skipped
        ]
        return sorted(neighbours, key=lambda one: (-one[0], one[1]))[: self.settings.neighbours]

    def _quality(self, name: str) -> float:
        known = self.graph.quality(name)
        return DEFAULT_QUALITY if known is None else known


# Section 4.2 of the GSEM paper without the model: paths from several seeds, one shared visited set, four actions. The
# caller (a model, a test) gets a place and chooses an action; the limits are enforced here.
#
# Paths take turns. COLLECT accepts the experience at the path's place. EXPLORE moves to a forward candidate (the K_n
# best unvisited neighbours by equation 6). BACKTRACK moves to a candidate that an earlier place of the path offered.
# STOP ends the path, and with the last path the retrieval; or, as the paper prints it, the retrieval at once.


Action = Literal["COLLECT", "EXPLORE", "BACKTRACK", "STOP"]
ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A neighbour to move to; ``score`` is equation 6 for the step to it."""

    experience: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEnd:
    """The place of a path, and where it may move. ``seed`` names the path."""

    seed: str
    experience: str
    path: tuple[str, ...]
    forward: tuple[Neighbour, ...]
    backward: tuple[Neighbour, ...]
    collected: tuple[str, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that are allowed here."""
        is_possible = {
            "COLLECT": self.experience not in self.collected,
            "EXPLORE": bool(self.forward),
            "BACKTRACK": bool(self.backward),
            "STOP": True,
        }
        return tuple(action for action in ACTIONS if is_possible[action])


@dataclass(slots=True)
class _Path:
    """One path: the places it visited, and the neighbours that each of them offered."""

    places: list[str]
    offered: list[tuple[Neighbour, ...]] = field(default_factory=list)


@dataclass(slots=True)
class Traversal:
    """One retrieval. ``collected`` maps each collected experience to the path to it, in order."""

    graph: Graph
    judge: Callable[[str], SkipReason | None]
    settings: WalkSettings
    collected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    visited: dict[str, None] = field(default_factory=dict)
    steps: int = 0
    _active: list[_Path] = field(default_factory=list)

    def start(self, seeds: Mapping[str, float]) -> None:
        """Start one path at every seed, best first."""
        for name in sorted(seeds, key=lambda name: (-seeds[name], name)):
            self._visit(_Path(places=[]), name)

    def next_place(self) -> PathEnd | None:
        """Return the place of the path whose turn it is; None once the retrieval has ended."""
        full = len(self.collected) >= self.settings.most_taken
        if not self._active or full or self.steps >= self.settings.most_steps:
            return None
        path = self._active[0]
        return PathEnd(
            seed=path.places[0],
            experience=path.places[-1],
            path=tuple(path.places),
            forward=self._unvisited(path.offered[-1]),
            backward=self._unvisited(tuple(neighbour for earlier in path.offered[:-1] for neighbour in earlier)),
            collected=tuple(self.collected),
        )

    def act(self, place: PathEnd, action: Action, target: str = "") -> None:
        """Do one action at the offered place. Raises ValueError if the action is not allowed there."""
        ways = {"EXPLORE": place.forward, "BACKTRACK": place.backward}
        if action not in place.actions or (
            action in ways and target not in {neighbour.experience for neighbour in ways[action]}
        ):
            raise ValueError(f"{action} {target}".rstrip() + f" is not allowed at {place.experience!r}")
        self.steps += 1
        path = self._active.pop(0)
        if action == "COLLECT":
            self.collected[place.experience] = place.path
            self._active.append(path)
        elif action == "EXPLORE":
            self._visit(path, target)
        elif action == "BACKTRACK":
            self._visit(self._cut(path, target), target)
        elif self.settings.stop == "retrieval":
            self._active.clear()

    def _visit(self, path: _Path, name: str) -> None:
        """Move a path to an experience, and read its neighbours."""
        if name in self.visited or self.judge(name) is not None:
            return
        self.visited[name] = None
        path.places.append(name)
        path.offered.append(self._forward(name))
        self._active.append(path)

    def _cut(self, path: _Path, target: str) -> _Path:
        """Return the path back to the latest earlier place that offered the target."""
        place = next(
            number
            for number in range(len(path.offered) - 2, -1, -1)
            if target in {neighbour.experience for neighbour in path.offered[number]}
        )
        return _Path(places=path.places[: place + 1], offered=path.offered[: place + 1])

    def _forward(self, name: str) -> tuple[Neighbour, ...]:
        """Return the K_n best unvisited neighbours that may be offered. An edge of conflict is never followed."""
        scored = [
            Neighbour(experience=edge.target, score=(edge.weight + self._quality(edge.target)) / 2.0)
            for edge in self.graph.edges(name)
            if edge.relation != "conflict" and edge.target not in self.visited and self.judge(edge.target) is None
        ]
        scored.sort(key=lambda neighbour: (-neighbour.score, neighbour.experience))
        return tuple(scored[: self.settings.neighbours])

    def _unvisited(self, offered: tuple[Neighbour, ...]) -> tuple[Neighbour, ...]:
        unvisited = {
            neighbour.experience: neighbour for neighbour in offered if neighbour.experience not in self.visited
        }
        return tuple(unvisited.values())

    def _quality(self, name: str) -> float:
        known = self.graph.quality(name)
        return DEFAULT_QUALITY if known is None else known
