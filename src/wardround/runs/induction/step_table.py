"""The steps of training stays as columns: when each trigger came to hold, when each action was last done.

A rule asks for an action while its trigger holds and the action was not done since it came to hold, as the Router has
it (``agents/stays/router.py``). So an action is *due* under a trigger where the one moment lies before the other, and
a rule is measured over the steps at which it would have spoken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wardround.runs.induction.stay_steps import Action

Hours = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
NEVER = -np.inf
RUNNING = np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """One step of a stay. ``hour``: its end, in hours of the stay; ``done``: when actions were last done in the same
    hours, ``RUNNING`` for a drug that runs; ``foretold``: what the rules there were already foretold."""

    stay: int
    hour: float
    triggers: frozenset[str]
    done: Mapping[Action, float]
    decided: tuple[Action, ...]
    foretold: tuple[Action, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """``since`` (t, s): since when a trigger holds at a step, ``NEVER`` where it does not; ``done`` (a, s): when an
    action was last done; ``decided`` and ``missed`` (a, s): it was decided; and not foretold."""

    triggers: tuple[str, ...]
    actions: tuple[Action, ...]
    since: Hours
    done: Hours
    decided: Flags
    missed: Flags

    @classmethod
    def of(cls, steps: Sequence[TrainingStep], *, support: int, hits: int) -> StepTable:
        """Return the table of steps, stay by stay, of what holds in so many of them and is decided in so many."""
        held = Counter(trigger for step in steps for trigger in step.triggers)
        counts = Counter(action for step in steps for action in step.decided)
        triggers = tuple(sorted(name for name, count in held.items() if count >= support))
        actions = tuple(sorted(name for name, count in counts.items() if count >= hits))
        decided = _flags(actions, [step.decided for step in steps])
        return cls(
            triggers=triggers,
            actions=actions,
            since=_since(triggers, steps),
            done=_done(actions, steps),
            decided=decided,
            missed=decided & ~_flags(actions, [step.foretold for step in steps]),
        )

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return int(self.since.shape[1])

    def rate(self, action: int) -> float:
        """The share of all steps at which an action is decided: its prior."""
        return float(self.decided[action].mean())

    def due(self, action: int) -> Flags:
        """(t, s) whether an action is due under each trigger."""
        flags: Flags = self.since > self.done[action]
        return flags


def _since(triggers: Sequence[str], steps: Sequence[TrainingStep]) -> Hours:
    """A trigger holds since the first of the steps in a row at which it holds, within one stay."""
    place_of = {name: place for place, name in enumerate(triggers)}
    since = np.full((len(triggers), len(steps)), NEVER, np.float32)
    before: dict[int, float] = {}
    stay: int | None = None
    for column, step in enumerate(steps):
        if step.stay != stay:
            before, stay = {}, step.stay
        places = [place_of[name] for name in step.triggers if name in place_of]
        before = {place: before.get(place, step.hour) for place in places}
        for place, hour in before.items():
            since[place, column] = hour
    return since


def _done(actions: Sequence[Action], steps: Sequence[TrainingStep]) -> Hours:
    done = np.full((len(actions), len(steps)), NEVER, np.float32)
    for column, step in enumerate(steps):
        for row, action in enumerate(actions):
            done[row, column] = step.done.get(action, NEVER)
    return done


def _flags(actions: Sequence[Action], said: Sequence[Sequence[Action]]) -> Flags:
    row_of = {action: row for row, action in enumerate(actions)}
    flags = np.zeros((len(actions), len(said)), bool)
    for column, some in enumerate(said):
        for action in some:
            if action in row_of:
                flags[row_of[action], column] = True
    return flags
