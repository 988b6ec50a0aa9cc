"""What a bank has learnt as of a revision, computed from its outcomes in their order: qualities, evidence, weights.

One pass over facts, taken up where it was as the bank grows and begun anew where something was withdrawn or undone:
the state is a function of what counts, so that no withdrawal can leave anything behind.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wardround.memory.credit import (
    EdgeHistory,
    ScoreBaseline,
    edge_credit,
    first_quality,
    moved_edge,
    moved_quality,
    node_credit,
    signal,
)
from wardround.memory.edges import Edge
from wardround.memory.effect import PRIOR_QUALITY, CoinEvidence
from wardround.memory.experience import said_words
from wardround.memory.outcomes import LearntEpisode

EdgeFacts = Callable[[str, int], Mapping[str, tuple[int, Edge]]]
"""The edges that were set from an experience, by target, as of a revision: each with the number it was set at."""


@dataclass(slots=True, kw_only=True)
class Learned:
    """The state of a fold over outcomes and set qualities. ``gone``: experiences that count no more."""

    edges: EdgeFacts
    gone: frozenset[str] = frozenset()
    qualities: dict[str, float | None] = field(default_factory=dict)
    evidence: dict[str, dict[str, CoinEvidence]] = field(default_factory=dict)
    weights: dict[tuple[str, str], tuple[int, EdgeHistory]] = field(default_factory=dict)
    _baselines: dict[tuple[str, str], ScoreBaseline] = field(default_factory=dict)
    _tried: dict[str, tuple[int, int]] = field(default_factory=dict)

    def set_quality(self, experience: str, value: float | None) -> None:
        """Take in a quality that somebody set; None where it was taken back."""
        if experience not in self.gone:
            self.qualities[experience] = value

    def learn(self, outcome: LearntEpisode) -> None:
        """Take in an episode: who was shown and masked, and what came of it."""
        met = [one for one in outcome.met if one.experience not in self.gone]
        shown = [one.experience for one in met if one.shown]
        if outcome.rule.writer == "eq4":
            self._try(shown, outcome.score)
            return
        place = (outcome.run, outcome.task)
        baseline = self._baselines.get(place, ScoreBaseline())
        self._baselines[place] = baseline.with_score(outcome.score)
        residual = baseline.signal(outcome.score)
        delta = residual if outcome.rule.delta_baseline == "mean" else signal(outcome.score)
        if outcome.rule.writer == "eq10":
            self._move_qualities(shown, delta, outcome)
        else:
            for one in met:
                tasks = self.evidence.setdefault(one.experience, {})
                tasks[outcome.task] = tasks.get(outcome.task, CoinEvidence()).with_episode(
                    residual, shown=one.shown, masked_share=one.masked_share, half_life=outcome.rule.half_life
                )
        self._move_weights(shown, delta, outcome)

    def weighed(self, number: int, edge: Edge) -> Edge:
        """An edge that was set at a number, with what outcomes have moved it by since."""
        moved = self.weights.get((edge.source, edge.target))
        if moved is None or moved[0] != number:
            return edge
        return replace(edge, weight=moved[1].weight, phi=moved[1].phi)

    def _try(self, shown: Iterable[str], score: float) -> None:
        """Equation 4 over the trials so far; a score of at least 1/2 is a success."""
        for name in shown:
            successes, trials = self._tried.get(name, (0, 0))
            self._tried[name] = successes, trials = successes + (score >= 0.5), trials + 1
            self.qualities[name] = first_quality(successes, trials)

    def _move_qualities(self, shown: Sequence[str], delta: float, outcome: LearntEpisode) -> None:
        for name, share in node_credit(shown, decay=outcome.rule.decay).items():
            before = self.qualities.get(name)
            start = PRIOR_QUALITY if before is None else before
            self.qualities[name] = moved_quality(start, share, delta, rate=outcome.rule.quality_rate)

    def _move_weights(self, shown: Sequence[str], delta: float, outcome: LearntEpisode) -> None:
        """The edges among what was shown, moved by equations 9 and 10."""
        there = frozenset(shown)
        found = {
            (name, target): fact
            for name in shown
            for target, fact in self.edges(name, outcome.number).items()
            if target in there and fact[1].live
        }
        shares = edge_credit(node_credit(shown, decay=outcome.rule.decay), found)
        for ends, share in shares.items():
            number, edge = found[ends]
            held = self.weights.get(ends)
            is_new = held is None or held[0] != number
            history = EdgeHistory(prior=edge.weight, weight=edge.weight) if is_new or held is None else held[1]
            rule = outcome.rule
            moved = moved_edge(history, share, delta, rate=rule.weight_rate, reading=rule.weight_reading)
            self.weights[ends] = number, moved


_WORDS = """
SELECT kind, tool, title, description, condition, content, exclusions
FROM revision JOIN experience ON id = revision.experience
WHERE revision.experience = ? AND number <= ? ORDER BY number DESC LIMIT 1
"""


def words_of(connection: sqlite3.Connection, experience: str, revision: int) -> str:
    """What an experience says as of a revision; its id where there is none."""
    row = connection.execute(_WORDS, (experience, revision)).fetchone()
    if row is None:
        return experience
    kind, tool, *texts, exclusions = row
    return said_words(kind, tool, texts, json.loads(exclusions))
