"""Section 4.2 of the GSEM paper as a game without its player: paths from several seeds, one shared visited set, four
actions. Whoever plays (a model, a test) is offered a place and says what to do; the limits are held here.

Paths take turns. COLLECT takes the experience a path stands at; EXPLORE goes on to a forward candidate (the K_n best
unvisited neighbours by equation 6); BACKTRACK goes to a candidate that an earlier place of the path had offered; STOP
ends the path, and with the last path the retrieval; or, as the paper prints it, the retrieval at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from wardround.memory.walk import DEFAULT_QUALITY, Graph, Passing, WalkSettings

Action = Literal["COLLECT", "EXPLORE", "BACKTRACK", "STOP"]
ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A neighbour that may be gone to; ``score`` is equation 6 for the step to it."""

    experience: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEnd:
    """Where a path stands, and where it may go. ``seed`` names the path."""

    seed: str
    experience: str
    path: tuple[str, ...]
    forward: tuple[Neighbour, ...]
    backward: tuple[Neighbour, ...]
    collected: tuple[str, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """What may be done here."""
        there = {
            "COLLECT": self.experience not in self.collected,
            "EXPLORE": bool(self.forward),
            "BACKTRACK": bool(self.backward),
            "STOP": True,
        }
        return tuple(action for action in ACTIONS if there[action])


@dataclass(slots=True)
class _Path:
    """One path on its way: the places it stood at, and what each of them offered."""

    places: list[str]
    offered: list[tuple[Neighbour, ...]] = field(default_factory=list)


@dataclass(slots=True)
class Traversal:
    """One retrieval. ``collected`` maps what was taken to the path that led to it, in order."""

    graph: Graph
    judge: Callable[[str], Passing | None]
    settings: WalkSettings
    collected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    visited: dict[str, None] = field(default_factory=dict)
    steps: int = 0
    _active: list[_Path] = field(default_factory=list)

    def start(self, seeds: Mapping[str, float]) -> None:
        """Stand at every seed, best first; one path each."""
        for name in sorted(seeds, key=lambda name: (-seeds[name], name)):
            self._visit(_Path(places=[]), name)

    def next_place(self) -> PathEnd | None:
        """The place of the path whose turn it is; None once the retrieval has ended."""
        full = len(self.collected) >= self.settings.most_taken
        if not self._active or full or self.steps >= self.settings.most_steps:
            return None
        path = self._active[0]
        return PathEnd(
            seed=path.places[0],
            experience=path.places[-1],
            path=tuple(path.places),
            forward=self._unvisited(path.offered[-1]),
            backward=self._unvisited(tuple(one for earlier in path.offered[:-1] for one in earlier)),
            collected=tuple(self.collected),
        )

    def act(self, place: PathEnd, action: Action, target: str = "") -> None:
        """Do one action at a place that was just offered. Raises ValueError where it may not be done there."""
        ways = {"EXPLORE": place.forward, "BACKTRACK": place.backward}
        if action not in place.actions or (action in ways and target not in {one.experience for one in ways[action]}):
            raise ValueError(f"at {place.experience!r} one may not {action} {target}".rstrip())
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
        """Let a path stand at an experience, and see what it offers."""
        if name in self.visited or self.judge(name) is not None:
            return
        self.visited[name] = None
        path.places.append(name)
        path.offered.append(self._forward(name))
        self._active.append(path)

    def _cut(self, path: _Path, target: str) -> _Path:
        """The path back to the latest earlier place that offered the target."""
        place = next(
            number
            for number in range(len(path.offered) - 2, -1, -1)
            if target in {one.experience for one in path.offered[number]}
        )
        return _Path(places=path.places[: place + 1], offered=path.offered[: place + 1])

    def _forward(self, name: str) -> tuple[Neighbour, ...]:
        """The K_n best unvisited neighbours that may be offered; what conflicts is no way on."""
        scored = [
            Neighbour(experience=edge.target, score=(edge.weight + self._quality(edge.target)) / 2.0)
            for edge in self.graph.edges(name)
            if edge.relation != "conflict" and edge.target not in self.visited and self.judge(edge.target) is None
        ]
        scored.sort(key=lambda one: (-one.score, one.experience))
        return tuple(scored[: self.settings.neighbours])

    def _unvisited(self, offered: tuple[Neighbour, ...]) -> tuple[Neighbour, ...]:
        there = {one.experience: one for one in offered if one.experience not in self.visited}
        return tuple(there.values())

    def _quality(self, name: str) -> float:
        known = self.graph.quality(name)
        return DEFAULT_QUALITY if known is None else known
