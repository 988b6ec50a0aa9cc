"""What a bank's file keeps of episodes that were learnt from: score, task, rule, and every experience that was met.

Only these facts are kept, and what was withdrawn or undone; qualities, weights and evidence are computed from them
(:mod:`wardround.memory.learned`), so that a bank without a source is the bank that never had it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from wardround.memory.credit import DECAY, QUALITY_RATE, WEIGHT_RATE, WeightReading
from wardround.memory.effect import HALF_LIFE, MASKED_SHARE

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
class Met:
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
    met: tuple[Met, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What of a file counts as of a revision: not what was undone, nor what came of a withdrawn source."""

    spans: tuple[tuple[int, int], ...]
    sources: frozenset[str] = frozenset()
    experiences: frozenset[str] = frozenset()
    left_out: frozenset[int] = frozenset()

    def holds(self, number: int) -> bool:
        """Whether what was written at a number counts."""
        return number not in self.left_out and any(after < number <= upto for after, upto in self.spans)


def counted(connection: sqlite3.Connection, revision: int) -> Counted:
    """Read what counts as of a revision."""
    spans: list[tuple[int, int]] = []
    upto = revision
    while (row := connection.execute(_UNDONE, (upto,)).fetchone()) is not None:
        spans.append((row[0], upto))
        upto = row[1]
    spans.append((0, upto))
    taken = Counted(spans=tuple(spans))
    rows = [row for row in connection.execute(_WITHDRAWN, (revision,)) if taken.holds(row[0])]
    sources = frozenset(source for _, source, _ in rows)
    numbers = {number for source in sources for (number,) in connection.execute(_CAUSED, (source,))}
    return Counted(
        spans=taken.spans,
        sources=sources,
        experiences=frozenset(experience for _, _, experience in rows if experience),
        left_out=frozenset(numbers - {number for number, _, _ in rows}),
    )


def outcomes_between(connection: sqlite3.Connection, after: int, upto: int) -> Iterator[LearntEpisode]:
    """The episodes learnt from between two revisions, the second included, oldest first."""
    last: Sequence[object] = ()
    met: list[Met] = []
    for row in connection.execute(_OUTCOMES, (after, upto)):
        if last and row[0] != last[0]:
            yield _outcome(last, met)
            met = []
        last = row
        met += _met(row)
    if last:
        yield _outcome(last, met)


def outcomes_of(connection: sqlite3.Connection, experience: str, upto: int) -> list[LearntEpisode]:
    """The episodes that met an experience, with nothing else that they met; oldest first."""
    return [_outcome(row, _met(row)) for row in connection.execute(_OF_EXPERIENCE, (experience, upto))]


def write_outcome(connection: sqlite3.Connection, outcome: LearntEpisode) -> None:
    """Write what an episode said, as of the step of its number."""
    rule = json.dumps(asdict(outcome.rule), sort_keys=True)
    values = (outcome.number, outcome.run, outcome.task, outcome.score, rule)
    connection.execute("INSERT INTO outcome VALUES (?, ?, ?, ?, ?)", values)
    rows = [
        (outcome.number, place, one.experience, int(one.shown), one.masked_share)
        for place, one in enumerate(outcome.met, start=1)
    ]
    connection.executemany("INSERT INTO met VALUES (?, ?, ?, ?, ?)", rows)


def write_undone(connection: sqlite3.Connection, number: int, target: int) -> None:
    """Let nothing count from a number on that was written after a target."""
    connection.execute("INSERT INTO undone VALUES (?, ?)", (number, target))


def write_withdrawal(connection: sqlite3.Connection, number: int, source: str, experiences: Iterable[str]) -> None:
    """Let nothing count from a number on that came of a source."""
    rows = [(number, source, experience) for experience in ("", *experiences)]
    connection.executemany("INSERT INTO withdrawal VALUES (?, ?, ?)", rows)


def _met(row: Sequence[object]) -> list[Met]:
    *_, experience, shown, share = row
    return [] if experience is None else [Met(experience=str(experience), shown=bool(shown), masked_share=float(share))]  # type: ignore[arg-type]


def _outcome(row: Sequence[object], met: Sequence[Met]) -> LearntEpisode:
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
