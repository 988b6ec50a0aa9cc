"""How a model uses its tools, before and after training (ClinSeekAgent Figure 5): what it calls, and how often rightly.

An attempt is a tool call that was made, or a reply that made none and ended nothing. It is valid where the tool
answered without an error. A model that writes prose instead of calls has attempts, too, and none of them valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wardround.log import LogReader, Trajectory
from wardround.runs import EpisodeKey, RunFolder, score_run
from wardround.scoring import PairedTest, paired_test

_ACT = "act"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The tool use of one episode. ``calls`` counts the calls that were answered, by tool."""

    attempts: int
    valid: int
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def valid_share(self) -> float:
        """Valid attempts among all; 0 where nothing was attempted."""
        return self.valid / self.attempts if self.attempts else 0.0


def tool_use(trajectory: Trajectory) -> ToolUse:
    """Count an episode's attempts."""
    turns = [turn for turn in trajectory.turns if turn.purpose == _ACT]
    results = [result for turn in turns for result in turn.results]
    right = [result for result in results if not result.is_error]
    without = sum(not turn.results for turn in turns)
    ended_by_text = (trajectory.outcome or {}).get("finish") == "text"
    return ToolUse(
        attempts=len(results) + without - ended_by_text,
        valid=len(right),
        calls=Counter(result.call.name for result in right),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseShift:
    """Two runs on the same samples: the mean share of valid calls and the score, each with its paired test.

    ``before`` and ``after`` are means over the shared samples; ``calls_before`` and ``calls_after`` are calls per
    episode by tool.
    """

    samples: int
    valid_before: float
    valid_after: float
    valid_test: PairedTest
    score_before: float
    score_after: float
    score_test: PairedTest
    calls_before: dict[str, float]
    calls_after: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    use: ToolUse
    score: float
    person: int


def tool_use_shift(before: RunFolder, after: RunFolder, *, seed: int = 0) -> ToolUseShift:
    """Compare two runs, sample by sample and epoch by epoch; agents and models may differ, one of each in a run."""
    first, second = _played(before), _played(after)
    shared = sorted(set(first) & set(second))
    one, other = [first[key] for key in shared], [second[key] for key in shared]
    people = [played.person for played in one]

    def test(values: Any) -> PairedTest:
        return paired_test([values(played) for played in one], [values(played) for played in other], people, seed=seed)

    return ToolUseShift(
        samples=len(shared),
        valid_before=_mean([played.use.valid_share for played in one]),
        valid_after=_mean([played.use.valid_share for played in other]),
        valid_test=test(lambda played: played.use.valid_share),
        score_before=_mean([played.score for played in one]),
        score_after=_mean([played.score for played in other]),
        score_test=test(lambda played: played.score),
        calls_before=_per_episode(one),
        calls_after=_per_episode(other),
    )


def _played(folder: RunFolder) -> dict[tuple[str, int], _Played]:
    scores = {score.episode: score for score in score_run(folder)}
    with LogReader(folder.logs, may_be_empty=True) as reader:
        return {
            (key.sample, key.epoch): _Played(
                use=tool_use(reader.trajectory(episode)), score=score.value, person=score.subject_id
            )
            for episode, score in scores.items()
            for key in [EpisodeKey.parse(episode)]
        }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _per_episode(played: Sequence[_Played]) -> dict[str, float]:
    total: Counter[str] = sum((one.use.calls for one in played), Counter())
    return {name: count / len(played) for name, count in sorted(total.items())}
