"""Qualities, and edges that were asked for, of a bank in memory: read once, then followed by what was written since.

Rebuildable from the file at any time. A walk asks for hundreds of qualities and dozens of nodes; a query of the file
for each would be most of its cost.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from wardround.memory.edges import Edge, edges_from
from wardround.memory.effect import PRIOR_QUALITY, MaskingTrial
from wardround.memory.trials import quality_of, trial_of

_MOST_NODES = 50_000
"""Nodes whose edges are held; with more, those that are asked for next are held instead."""
_CHANGED = "SELECT DISTINCT source FROM edge WHERE number > ? AND number <= ?"

_SET = "SELECT experience, value FROM quality WHERE number > ? AND number <= ? ORDER BY number"
_TRIED = """
SELECT experience, task, shown, shown_total, shown_squares, masked, masked_total, masked_squares FROM trial
WHERE number > ? AND number <= ? ORDER BY number
"""


@dataclass(slots=True)
class GraphCache:
    """Everything that says how good experiences are, and the edges of some of them, as of ``revision``."""

    revision: int = 0
    _set: dict[str, float | None] = field(default_factory=dict)
    _trials: dict[str, dict[str, MaskingTrial]] = field(default_factory=dict)
    _known: dict[tuple[str, str], float | None] = field(default_factory=dict)
    _edges: dict[str, tuple[Edge, ...]] = field(default_factory=dict)

    def follow(self, connection: sqlite3.Connection, upto: int) -> None:
        """Take in what was written up to a revision."""
        if upto <= self.revision:
            return
        bounds = (self.revision, upto)
        changed = dict(connection.execute(_SET, bounds).fetchall())
        self._set.update(changed)
        moved = bool(changed)
        for name, task, *sums in connection.execute(_TRIED, bounds):
            self._trials.setdefault(name, {})[task] = trial_of(sums)
            moved = True
        if moved:
            self._known.clear()
        for (source,) in connection.execute(_CHANGED, bounds) if self._edges else ():
            self._edges.pop(source, None)
        self.revision = upto

    def quality(self, experience: str, task: str) -> float | None:
        """The quality of an experience for a task; None while nothing is known of it."""
        name = (experience, task)
        if name not in self._known:
            self._known[name] = self._quality(experience, task)
        return self._known[name]

    def edges(self, connection: sqlite3.Connection, experience: str) -> tuple[Edge, ...]:
        """The live edges that lead from an experience, by their targets' ids."""
        held = self._edges.get(experience)
        if held is None:
            if len(self._edges) >= _MOST_NODES:
                self._edges.clear()
            held = self._edges[experience] = edges_from(connection, experience, self.revision)
        return held

    def _quality(self, experience: str, task: str) -> float | None:
        known = self._set.get(experience)
        held = self._trials.get(experience)
        trials = {one: trial for one, trial in held.items() if trial.episodes} if held else {}
        return quality_of(trials, task, prior=PRIOR_QUALITY if known is None else known) if trials else known
