"""Steps of training stays as columns, and the triggers that rules could have."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from wardround.agents import EstimatedTokens
from wardround.agents.stays import (
    HeldRule,
    Parts,
    StateFacts,
    TracePlayer,
    TraceSettings,
    due_actions,
    newest_bundles,
    shown_state,
)
from wardround.clinical.bundles import NOTHING_KNOWN, Bundle, Carried, EventKind, Trend, carried_by
from wardround.clinical.protocols import ChangedBy, RuleIndex, spell
from wardround.clinical.vocabulary import Window, baseline, clinical_name, find_measurement, highest
from wardround.records import Store
from wardround.runs.stays import played_bundles
from wardround.tasks.answers import StepAction
from wardround.tasks.benchmarks import Sample

FRESH_HOURS = 3
"""Hours after its specimen during which a result counts as new: a laboratory takes an hour or two."""
WAITS = (1, 2, 3, 4, 6, 8, 12, 18, 24)
"""Hours since an action was last done, as triggers."""
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Cut points of a measurement: these shares of the training values lie below them."""
CHANGES = (10, 25, 50, 100)
"""Percent by which a value rises or falls, as triggers."""
CHANGE_HOURS: Mapping[EventKind, int] = {EventKind.LAB: 24, EventKind.VITAL: 4}
"""Window in hours, at most that of a state's trends: induction counts what a run reads."""
AFTER = (
    *((0, 2), (0, 4), (0, 8), (0, 12), (1, 2), (1, 4), (2, 4), (2, 8), (3, 6), (3, 8), (4, 8), (4, 12), (6, 12)),
    *((8, 12), (8, 24), (12, 24)),
)
"""(from, below) hours after an action was done, as triggers."""
_REPEATED = (EventKind.LAB, EventKind.CULTURE)
_DONE_ONCE = (EventKind.PROCEDURE, EventKind.MEDICATION_START)
Cuts = Mapping[str, Sequence[float]]
"""Cut points by clinical name."""


def cut_points(values: Mapping[str, Sequence[float]]) -> Cuts:
    """Return the cut points of every measurement from training values."""
    return {
        name: sorted({float(f"{cut:.3g}") for cut in np.quantile(measurements, SHARES)})
        for name, measurements in values.items()
        if len(measurements) >= 20
    }


def candidate_triggers(facts: StateFacts, cuts: Cuts) -> Iterator[str]:
    """Yield every trigger of the vocabulary that holds.

    The vocabulary: new results against limits and cut points, their direction, hours since actions, the first hours of
    a stay, the time of day.
    """
    yield "hours since stay < 2" if (facts.hours_since("stay") or 0) < 2 else "hours since stay >= 2"
    begin = facts.hour.hour - facts.hour.hour % 2
    yield f"hour of day >= {begin} AND hour of day < {begin + 2}"
    for trend in facts.state.trends.values():
        yield from _trend_triggers(facts, trend, cuts.get(clinical_name(trend.concept), ()))
    for action in facts.state.actions.values():
        hours = facts.hours_since(action.concept)
        if hours is None:
            continue
        since = f"hours since {spell(action.concept, 'done')}"
        if action.kind in _DONE_ONCE:
            for first, end in AFTER:
                if first <= hours < end:
                    yield f"{since} < {end}" if not first else f"{since} >= {first} AND {since} < {end}"
        if action.kind in _REPEATED:
            yield from (f"{since} >= {wait}" for wait in WAITS if hours >= wait)


def _trend_triggers(facts: StateFacts, trend: Trend, cuts: Sequence[float]) -> Iterator[str]:
    """Yield the triggers of a new value; a laboratory result only while it is new."""
    if facts.value(trend.concept) is None:
        return
    name, value = spell(trend.concept), trend.last.value
    fresh = ""
    if trend.kind is EventKind.LAB:
        hours = facts.hours_since(trend.concept)
        if hours is None or hours >= FRESH_HOURS:
            return
        fresh = f" AND hours since {name} < {FRESH_HOURS}"
    level = facts.level(trend.concept)
    if level in ("low", "high"):
        yield f"{name} is {level}{fresh}"
    for cut in cuts:
        yield f"{name} {'>' if value > cut else '<='} {cut:g}{fresh}"
    for direction in ("rising", "falling"):
        if facts.trend(trend.concept) == direction:
            yield f"{name} is {direction}{fresh}"
    for changed in _changes(trend):
        yield f"{changed}{fresh}"


def _changes(trend: Trend) -> Iterator[ChangedBy]:
    """Yield how much a measurement rose and fell, as ``ChangedBy``.

    For a percentage (a hematocrit) percent means points: only its direction is used.
    """
    hours = CHANGE_HOURS.get(trend.kind)
    measurement = find_measurement(trend.concept)
    if hours is None or "%" in (trend.unit, measurement and measurement.units[0].unit):
        return
    series = [(reading.time, reading.value) for reading in trend.readings]
    window = Window(now=trend.last.time, hours=hours)
    lowest, top = baseline(series, window), highest(window.of(series)[:-1])
    last = trend.last.value
    directions: tuple[tuple[Literal["rises", "falls"], float | None], ...] = (("rises", lowest), ("falls", top))
    for direction, first in directions:
        if first is None or first <= 0:
            continue
        percent = 100 * (last - first if direction == "rises" else first - last) / first
        for threshold in CHANGES:
            if percent >= threshold:
                yield ChangedBy(concept=trend.concept, direction=direction, amount=threshold, hours=hours, share=True)


# Replay training stays in code: what was known at a step, and what some rules predict from it.


Action = tuple[str, str]
"""Type and name of a decision."""
_MOST_SHOWN = 48
"""Bundles of two days of hours: more than any prompt can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStep:
    """What was known at the end of one step.

    ``satisfied``: rules whose trigger held. ``newest``: the last bundles.
    """

    facts: StateFacts
    satisfied: tuple[HeldRule, ...]
    newest: Sequence[Bundle]

    @property
    def predicted(self) -> tuple[Action, ...]:
        """The actions that the rules predict."""
        actions = due_actions(self.satisfied, self.satisfied, most=TraceSettings().predictions)
        return tuple((action.kind, action.name) for action in actions)

    def render(self, *, state_tokens: int, history_tokens: int) -> tuple[str, str]:
        """Return the state and the newest bundles as a prompt shows them, each within its token limit."""
        counter = EstimatedTokens()
        state = shown_state(self.facts.state, {}, counter, state_tokens)
        return state.text, newest_bundles(self.newest, counter, history_tokens)


def seen_steps(store: Store, sample: Sample, index: RuleIndex) -> Iterator[SeenStep]:
    """Yield the steps of a stay in order, as some rules read them."""
    yield from steps_of(*played_bundles(store, sample), index, carried_by(store).for_subject(sample.subject_id))


def steps_of(
    past: Sequence[Bundle],
    bundles: Iterable[Bundle],
    index: RuleIndex,
    carried: Carried = NOTHING_KNOWN,
) -> Iterator[SeenStep]:
    """Yield the steps of a stay from the bundles before it and its own bundles."""
    player = TracePlayer(index, TraceSettings(), Parts(auditor=False))
    player.begin(past, carried)
    newest = deque(past, maxlen=_MOST_SHOWN)
    for bundle in bundles:
        facts, satisfied = player.read_on(bundle)
        newest.append(bundle)
        yield SeenStep(facts=facts, satisfied=satisfied, newest=tuple(newest))


def decisions_of(sample: Sample) -> Mapping[int, Sequence[Action]]:
    """Return the decisions at each step of a stay."""
    decided: dict[int, list[Action]] = {}
    for action in map(StepAction.parse, sample.target):
        decided.setdefault(action.step or 0, []).append((action.kind, action.name))
    return decided


# The steps of training stays as columns: since when each trigger holds, when each action was last done.
#
# A rule proposes an action while its trigger holds and the action was not done since the trigger began to hold, as in
# the Router (``agents/stays/router.py``). So an action is *due* under a trigger where it was last done before the
# trigger began to hold. A rule is measured over the steps at which its action is due.


Hours = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
NEVER = -np.inf
RUNNING = np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """One step of a stay.

    ``hour``: its end, in hours of the stay. ``done``: when actions were last done in the same unit, ``RUNNING`` for a
    running drug. ``predicted``: the actions that existing rules predicted.
    """

    stay: int
    hour: float
    triggers: frozenset[str]
    done: Mapping[Action, float]
    decided: tuple[Action, ...]
    predicted: tuple[Action, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """Arrays over triggers (t), actions (a) and steps (s).

    ``since`` (t, s): since when a trigger holds at a step, ``NEVER`` where it does not. ``done`` (a, s): when an
    action was last done. ``decided`` (a, s): it was decided. ``missed`` (a, s): it was decided and not predicted.
    ``step_weights`` (s,): the inverse of how many decisions the stay has, scaled to a mean of 1. A stay counts once in
    the mean of Recall@5, so a decision of a short stay counts more.
    """

    triggers: tuple[str, ...]
    actions: tuple[Action, ...]
    since: Hours
    done: Hours
    decided: Flags
    missed: Flags
    step_weights: npt.NDArray[np.float64]

    @classmethod
    def of(cls, steps: Sequence[TrainingStep], *, support: int, hits: int) -> StepTable:
        """Build the table of steps, in order of stays.

        Triggers that hold in fewer than ``support`` steps and actions decided in fewer than ``hits`` are left out. Of
        triggers that hold since the same hours at every step (two names of one pressure) only the first is kept.
        """
        trigger_counts = Counter(trigger for step in steps for trigger in step.triggers)
        counts = Counter(action for step in steps for action in step.decided)
        triggers = tuple(sorted(name for name, count in trigger_counts.items() if count >= support))
        actions = tuple(sorted(name for name, count in counts.items() if count >= hits))
        decided = _flags(actions, [step.decided for step in steps])
        since = _since(triggers, steps)
        first = sorted({row.tobytes(): index for index, row in reversed([*enumerate(since)])}.values())
        return cls(
            triggers=tuple(triggers[index] for index in first),
            actions=actions,
            since=since[first],
            done=_done(actions, steps),
            decided=decided,
            missed=decided & ~_flags(actions, [step.predicted for step in steps]),
            step_weights=_step_weights(steps),
        )

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.since.shape[1])

    def rate(self, action: int) -> float:
        """Return the share of all steps at which an action is decided: its prior."""
        return float(self.decided[action].mean())

    def due(self, action: int) -> Flags:
        """Return (t, s) whether an action is due under each trigger."""
        flags: Flags = self.since > self.done[action]
        return flags


def _step_weights(steps: Sequence[TrainingStep]) -> npt.NDArray[np.float64]:
    decisions: Counter[int] = Counter()
    for step in steps:
        decisions[step.stay] += len(step.decided)
    weights = np.array([1 / max(decisions[step.stay], 1) for step in steps])
    return weights / weights.mean() if len(steps) else weights


def _since(triggers: Sequence[str], steps: Sequence[TrainingStep]) -> Hours:
    """Return since when each trigger holds: the first of consecutive steps of one stay at which it holds."""
    row_of = {name: row for row, name in enumerate(triggers)}
    since = np.full((len(triggers), len(steps)), NEVER, np.float32)
    before: dict[int, float] = {}
    stay: int | None = None
    for column, step in enumerate(steps):
        if step.stay != stay:
            before, stay = {}, step.stay
        rows = [row_of[name] for name in step.triggers if name in row_of]
        before = {row: before.get(row, step.hour) for row in rows}
        for row, hour in before.items():
            since[row, column] = hour
    return since


def _done(actions: Sequence[Action], steps: Sequence[TrainingStep]) -> Hours:
    done = np.full((len(actions), len(steps)), NEVER, np.float32)
    for column, step in enumerate(steps):
        for row, action in enumerate(actions):
            done[row, column] = step.done.get(action, NEVER)
    return done


def _flags(actions: Sequence[Action], actions_by_step: Sequence[Sequence[Action]]) -> Flags:
    row_of = {action: row for row, action in enumerate(actions)}
    flags = np.zeros((len(actions), len(actions_by_step)), bool)
    for column, step_actions in enumerate(actions_by_step):
        for action in step_actions:
            if action in row_of:
                flags[row_of[action], column] = True
    return flags
