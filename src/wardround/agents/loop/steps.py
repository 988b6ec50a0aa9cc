"""Run an episode of many steps: predict the next actions after every bundle of a stay.

The caller passes one bundle after each recorded prediction. An agent has no access to later bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from wardround.agents.loop.episode import Ending, Episode, to_its_ending
from wardround.clinical.bundles import NOTHING_KNOWN, Bundle, Carried
from wardround.clinical.protocols import ActionKind, Dose
from wardround.clinical.vocabulary import Bounds
from wardround.core import Sealed, unsealed
from wardround.tasks.answers import StepAction

STEP_NOTE = "step"
_FAILED = ("error", "content_filter")


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedAction:
    """One action of a prediction. ``because``: its grounds, ids of rules and of entries of the state."""

    kind: ActionKind
    name: str
    dose: Dose | None = None
    because: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"kind": self.kind, "name": self.name, "dose": self.dose, "because": list(self.because)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPrediction:
    """What an agent says after one bundle: actions, the likeliest first, and how it came to them, which is noted."""

    actions: tuple[PredictedAction, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)


ChartScore = Callable[[str, float | None, datetime], Bounds | None]
"""The least and the most that a score can be: by its name over some hours, or its own, as of a moment."""
SubjectScore = Callable[[int, str, float | None, datetime], Bounds | None]
"""The same of a subject."""


@dataclass(frozen=True, slots=True)
class _SealedScore:
    """A feed's score for its player, without the way to the feed, in which the rest of the stay lies."""

    feed: Sealed[StepFeed]

    def __call__(self, name: str, hours: float | None, at: datetime) -> Bounds | None:
        return unsealed(self.feed).score(name, hours, at)


class StepFeed(Protocol):
    """Where bundles come from: the runner's. It writes a prediction down before it hands out the next bundle."""

    @property
    def past(self) -> Sequence[Bundle]:
        """What was known before the first step, oldest first."""
        ...

    @property
    def carried(self) -> Carried:
        """The kinds of events that the source has, and the units of its measurements."""
        ...

    def score(self, name: str, hours: float | None, at: datetime) -> Bounds | None:
        """Return a project score on the chart as of a moment; None if it is unknown then.

        LeakError: the moment is later than the hour that was handed out last.
        """
        ...

    def first(self) -> Bundle:
        """Return the bundle before the first prediction."""
        ...

    def after(self, prediction: StepPrediction) -> Bundle | None:
        """Take a prediction; return what became known next, None at the end of the stay."""
        ...


class StepPlayer(Protocol):
    """One agent on one stay: state lives in the instance, which serves one episode."""

    def begin(self, past: Sequence[Bundle], carried: Carried = NOTHING_KNOWN, score: ChartScore | None = None) -> None:
        """Start with the history, the source's capabilities, and the calculator of scores."""
        ...

    async def predict(self, episode: Episode, bundle: Bundle) -> StepPrediction:
        """Read a bundle and predict the next actions."""
        ...


async def run_stay(player: StepPlayer, state: Episode, feed: StepFeed) -> Ending:
    """Run one stay to its end, to the limit of steps, or to whatever else ends an episode."""
    notes: list[str] = []
    ending = await to_its_ending(_play(player, state, feed, notes), state)
    if ending.finish in _FAILED:
        return ending
    return replace(ending, answer=tuple(notes))  # predictions before a limit count: each of these steps was complete


async def _play(player: StepPlayer, state: Episode, feed: StepFeed, notes: list[str]) -> Ending:
    player.begin(feed.past, feed.carried, _SealedScore(Sealed(feed)))
    bundle: Bundle | None = feed.first()
    while bundle is not None:
        if state.turn >= state.limits.steps:
            return Ending(finish="step_limit")
        if state.spent:
            return Ending(finish="budget")
        prediction = await player.predict(state, bundle)
        notes.extend(answer_of(state.turn, prediction))
        state.turn += 1
        bundle = feed.after(prediction)
    return Ending(finish="finish")


def answer_of(step: int, prediction: StepPrediction) -> list[str]:
    """Return a prediction as part of the episode's answer."""
    return [str(StepAction(step=step, kind=action.kind, name=action.name)) for action in prediction.actions]
