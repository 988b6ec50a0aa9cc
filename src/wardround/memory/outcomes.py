"""Outcomes a bank learned from, and the qualities computed from them in order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from wardround.memory.credit import (
    DECAY,
    HALF_LIFE,
    MASKED_SHARE,
    PRIOR_QUALITY,
    QUALITY_RATE,
    WEIGHT_RATE,
    CoinEvidence,
    EdgeHistory,
    ScoreBaseline,
    WeightReading,
    edge_credit,
    first_quality,
    moved_edge,
    moved_quality,
    node_credit,
    signal,
)
from wardround.memory.experience import duplicate_key
from wardround.memory.rows import Edge

# What a bank's file keeps of episodes that were learnt from: score, task, rule, and every experience that was met.
#
# Only these facts are kept, and what was withdrawn or undone; qualities, weights and evidence are computed from them
# (:mod:`wardround.memory.outcomes`), so that a bank without a source is the bank that never had it.


QualityWriter = Literal["credit", "eq10", "eq4"]
"""``credit``: the effect of being shown, by coins. ``eq10``: credit by rank. ``eq4``: the successes of trials."""
DeltaBaseline = Literal["mean", "none"]

_OUTCOMES = """
SELECT number, run, task, score, rule, sample, place, experience, shown, masked_share
FROM outcome JOIN step USING (number) LEFT JOIN met USING (number)
WHERE number > ? AND number <= ? ORDER BY number, place
"""
_OF_EXPERIENCE = """
SELECT number, run, task, score, rule, sample, place, experience, shown, masked_share
FROM met JOIN outcome USING (number) JOIN step USING (number) WHERE experience = ? AND number <= ? ORDER BY number
"""
_UNDONE = "SELECT number, target FROM undone WHERE number <= ? ORDER BY number DESC LIMIT 1"
_WITHDRAWN = "SELECT number, source, experience FROM withdrawal WHERE number <= ? ORDER BY number"
_CAUSED = "SELECT number FROM step WHERE sample = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRule:
    """How an outcome moves Q and W: what of the settings has to be known to compute it again."""

    writer: QualityWriter = "credit"
    half_life: float = HALF_LIFE
    decay: float = DECAY
    quality_rate: float = QUALITY_RATE
    weight_rate: float = WEIGHT_RATE
    weight_reading: WeightReading = "prior"
    delta_baseline: DeltaBaseline = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceTrial:
    """An experience that an episode met: shown or masked by its coin, and the chance that its coin masks."""

    experience: str
    shown: bool
    masked_share: float = MASKED_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntEpisode:
    """A scored training episode. ``met``: what was shown, best first, then what was masked."""

    number: int
    run: str
    task: str
    score: float
    rule: LearningRule
    sample: str
    met: tuple[ExperienceTrial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedOutcomes:
    """What of a file counts as of a revision: not what was undone, nor what came of a withdrawn source."""

    spans: tuple[tuple[int, int], ...]
    sources: frozenset[str] = frozenset()
    experiences: frozenset[str] = frozenset()
    left_out: frozenset[int] = frozenset()

    def holds(self, number: int) -> bool:
        """Return whether what was written at a number counts."""
        return number not in self.left_out and any(after < number <= upto for after, upto in self.spans)


def counted(connection: sqlite3.Connection, revision: int) -> CountedOutcomes:
    """Read what counts as of a revision."""
    spans: list[tuple[int, int]] = []
    upto = revision
    while (row := connection.execute(_UNDONE, (upto,)).fetchone()) is not None:
        spans.append((row[0], upto))
        upto = row[1]
    spans.append((0, upto))
    outcomes = CountedOutcomes(spans=tuple(spans))
    rows = [row for row in connection.execute(_WITHDRAWN, (revision,)) if outcomes.holds(row[0])]
    sources = frozenset(source for _, source, _ in rows)
    numbers = {number for source in sources for (number,) in connection.execute(_CAUSED, (source,))}
    return CountedOutcomes(
        spans=outcomes.spans,
        sources=sources,
        experiences=frozenset(experience for _, _, experience in rows if experience),
        left_out=frozenset(numbers - {number for number, _, _ in rows}),
    )


def outcomes_between(connection: sqlite3.Connection, after: int, upto: int) -> Iterator[LearntEpisode]:
    """Return the episodes learnt from after one revision, up to and including another, oldest first."""
    last: Sequence[object] = ()
    met: list[ExperienceTrial] = []
    for row in connection.execute(_OUTCOMES, (after, upto)):
        if last and row[0] != last[0]:
            yield _outcome(last, met)
            met = []
        last = row
        met += _met(row)
    if last:
        yield _outcome(last, met)


def outcomes_of(connection: sqlite3.Connection, experience: str, upto: int) -> list[LearntEpisode]:
    """Return the episodes that met an experience, without the other experiences they met; oldest first."""
    return [_outcome(row, _met(row)) for row in connection.execute(_OF_EXPERIENCE, (experience, upto))]


def write_outcome(connection: sqlite3.Connection, outcome: LearntEpisode) -> None:
    """Write the outcome of an episode, as of the step with its number."""
    rule = json.dumps(asdict(outcome.rule), sort_keys=True)
    values = (outcome.number, outcome.run, outcome.task, outcome.score, rule)
    connection.execute("INSERT INTO outcome VALUES (?, ?, ?, ?, ?)", values)
    rows = [
        (outcome.number, place, trial.experience, int(trial.shown), trial.masked_share)
        for place, trial in enumerate(outcome.met, start=1)
    ]
    connection.executemany("INSERT INTO met VALUES (?, ?, ?, ?, ?)", rows)


def write_undone(connection: sqlite3.Connection, number: int, target: int) -> None:
    """Let nothing count from a number on that was written after a target."""
    connection.execute("INSERT INTO undone VALUES (?, ?)", (number, target))


def write_withdrawal(connection: sqlite3.Connection, number: int, source: str, experiences: Iterable[str]) -> None:
    """Let nothing count from a number on that came of a source."""
    rows = [(number, source, experience) for experience in ("", *experiences)]
    connection.executemany("INSERT INTO withdrawal VALUES (?, ?, ?)", rows)


def _met(row: Sequence[object]) -> list[ExperienceTrial]:
    *_, experience, shown, share = row
    if experience is None:
        return []
    masked_share = float(share)  # type: ignore[arg-type]
    return [ExperienceTrial(experience=str(experience), shown=bool(shown), masked_share=masked_share)]


def _outcome(row: Sequence[object], met: Sequence[ExperienceTrial]) -> LearntEpisode:
    number, run, task, score, rule, sample, *_ = row
    return LearntEpisode(
        number=int(number),  # type: ignore[call-overload]
        run=str(run),
        task=str(task),
        score=float(score),  # type: ignore[arg-type]
        rule=LearningRule(**json.loads(str(rule))),
        sample=str(sample),
        met=tuple(met),
    )


# What a bank has learnt as of a revision, computed from its outcomes in their order: qualities, evidence, weights.
#
# One pass over facts, taken up where it was as the bank grows and begun anew where something was withdrawn or undone:
# the state is a function of what counts, so that no withdrawal can leave anything behind.


EdgeFacts = Callable[[str, int], Mapping[str, tuple[int, Edge]]]
"""The edges that were set from an experience, by target, as of a revision: each with the number it was set at."""


@dataclass(slots=True, kw_only=True)
class LearnedState:
    """The state of a fold over outcomes and set qualities. ``gone``: experiences that count no more."""

    edges: EdgeFacts
    gone: frozenset[str] = frozenset()
    qualities: dict[str, float | None] = field(default_factory=dict)
    evidence: dict[str, dict[str, CoinEvidence]] = field(default_factory=dict)
    weights: dict[tuple[str, str], tuple[int, EdgeHistory]] = field(default_factory=dict)
    _baselines: dict[tuple[str, str], ScoreBaseline] = field(default_factory=dict)
    _tried: dict[str, tuple[int, int]] = field(default_factory=dict)

    def set_quality(self, experience: str, value: float | None) -> None:
        """Read a quality that was set; None if it was unset."""
        if experience not in self.gone:
            self.qualities[experience] = value

    def learn(self, outcome: LearntEpisode) -> None:
        """Learn from an episode: what was shown and masked, and its score."""
        met = [trial for trial in outcome.met if trial.experience not in self.gone]
        shown = [trial.experience for trial in met if trial.shown]
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
            for trial in met:
                tasks = self.evidence.setdefault(trial.experience, {})
                tasks[outcome.task] = tasks.get(outcome.task, CoinEvidence()).with_episode(
                    residual, shown=trial.shown, masked_share=trial.masked_share, half_life=outcome.rule.half_life
                )
        self._move_weights(shown, delta, outcome)

    def weighed(self, number: int, edge: Edge) -> Edge:
        """Return an edge that was set to a number, with the updates by outcomes since then."""
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
        """Return the edges among the shown experiences, updated by equations 9 and 10."""
        shown_names = frozenset(shown)
        found = {
            (name, target): fact
            for name in shown
            for target, fact in self.edges(name, outcome.number).items()
            if target in shown_names and fact[1].live
        }
        shares = edge_credit(node_credit(shown, decay=outcome.rule.decay), found)
        for ends, share in shares.items():
            number, edge = found[ends]
            weight = self.weights.get(ends)
            is_new = weight is None or weight[0] != number
            history = EdgeHistory(prior=edge.weight, weight=edge.weight) if is_new or weight is None else weight[1]
            rule = outcome.rule
            moved = moved_edge(history, share, delta, rate=rule.weight_rate, reading=rule.weight_reading)
            self.weights[ends] = number, moved


_WORDS = """
SELECT kind, tool, title, description, condition, content, exclusions
FROM revision JOIN experience ON id = revision.experience
WHERE revision.experience = ? AND number <= ? ORDER BY number DESC LIMIT 1
"""


def words_of(connection: sqlite3.Connection, experience: str, revision: int) -> str:
    """Return the text of an experience as of a revision; its id if it has none."""
    row = connection.execute(_WORDS, (experience, revision)).fetchone()
    if row is None:
        return experience
    kind, tool, *texts, exclusions = row
    return duplicate_key(kind, tool, texts, json.loads(exclusions))
