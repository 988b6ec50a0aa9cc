"""Decisions of training stays that a run did not foretell: what a Reflector is asked about, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wardround.answers import StepAction
from wardround.benchmarks import Sample
from wardround.core import LeakError, UserError, derive_seed
from wardround.log import LogReader, Trajectory
from wardround.runs.banks import TRAINING_SPLIT
from wardround.runs.induction.stay_steps import Action
from wardround.runs.settings import EpisodeKey
from wardround.scoring import missed_actions


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedDecision:
    """One decision that was not foretold at its step. ``predicted``: the names that were, of all types."""

    sample: Sample
    step: int
    action: Action
    predicted: tuple[str, ...]

    @property
    def key(self) -> str:
        """Names it in a record."""
        return f"{self.sample.id}|{self.step}|{'|'.join(self.action)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaughtStays:
    """The finished stays of one contender of a training run: samples, steps that were played, what was missed."""

    samples: tuple[Sample, ...]
    steps: int
    missed: tuple[MissedDecision, ...]


def taught_stays(reader: LogReader, samples: Mapping[str, Sample], agent: str, model: str) -> TaughtStays:
    """Return the finished stays that an agent played with a model. Raises LeakError for one that may not teach."""
    found: dict[str, Sample] = {}
    missed: list[MissedDecision] = []
    steps = 0
    for trajectory in reader.trajectories():
        key = EpisodeKey.parse(trajectory.episode)
        if (key.agent, key.model) != (agent, model) or trajectory.outcome is None or key.sample in found:
            continue
        sample = samples[key.sample]
        if sample.split != TRAINING_SPLIT:
            raise LeakError(f"sample {sample.id!r} is of split {sample.split!r}: nothing may be learnt from it")
        found[sample.id] = sample
        played = _missed(trajectory, sample)
        steps += played[0]
        missed += played[1]
    if not found:
        raise UserError(f"the run holds no finished stay of {agent} with {model}; go on with `wardround run --resume`")
    return TaughtStays(samples=tuple(found[name] for name in sorted(found)), steps=steps, missed=tuple(missed))


def _missed(trajectory: Trajectory, sample: Sample) -> tuple[int, list[MissedDecision]]:
    """The steps of a stay that were played, and what was missed at them."""
    said = {note.detail["step"]: note.detail["actions"] for note in trajectory.notes if note.kind == "step"}
    answer = [
        str(StepAction(step=step, kind=one["kind"], name=one["name"])) for step, some in said.items() for one in some
    ]
    return len(said), [
        MissedDecision(
            sample=sample,
            step=action.step,
            action=(action.kind, action.name),
            predicted=tuple(one["name"] for one in said[action.step]),
        )
        for action in missed_actions(answer, sample.target)
        if action.step is not None and action.step in said
    ]


def in_turn(missed: Sequence[MissedDecision], *, seed: int) -> list[MissedDecision]:
    """Return decisions in the order in which they are asked about: of every action one, the most missed action first,
    then a second of each, and so on. Which of an action comes first is drawn."""
    counts = Counter(one.action for one in missed)
    met: Counter[Action] = Counter()
    places: list[tuple[int, int, Action, int]] = []
    drawn = sorted(missed, key=lambda one: derive_seed(seed, "reflect", one.key))
    for place, one in enumerate(drawn):
        places.append((met[one.action], -counts[one.action], one.action, place))
        met[one.action] += 1
    return [drawn[place] for *_, place in sorted(places)]
