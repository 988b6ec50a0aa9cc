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
"""A result counts as new so long after its specimen: a laboratory takes an hour or two."""
WAITS = (1, 2, 3, 4, 6, 8, 12, 18, 24)
"""Hours since something was last done, as triggers."""
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Cut points of a measurement: these shares of the training values lie below them."""
CHANGES = (10, 25, 50, 100)
"""Percent by which a value rises or falls, as triggers."""
CHANGE_HOURS: Mapping[EventKind, int] = {EventKind.LAB: 24, EventKind.VITAL: 4}
"""Within so many hours, never more than a state's trends look back: what induction counts is what a run reads."""
AFTER = (
    *((0, 2), (0, 4), (0, 8), (0, 12), (1, 2), (1, 4), (2, 4), (2, 8), (3, 6), (3, 8), (4, 8), (4, 12), (6, 12)),
    *((8, 12), (8, 24), (12, 24)),
)
"""From and below so many hours after something was done, as triggers."""
_REPEATED = (EventKind.LAB, EventKind.CULTURE)
_DONE_ONCE = (EventKind.PROCEDURE, EventKind.MEDICATION_START)
Cuts = Mapping[str, Sequence[float]]
"""By clinical name."""


def cut_points(values: Mapping[str, Sequence[float]]) -> Cuts:
    """Return the cut points of every measurement from training values."""
    return {
        name: sorted({float(f"{cut:.3g}") for cut in np.quantile(some, SHARES)})
        for name, some in values.items()
        if len(some) >= 20
    }


def candidate_triggers(facts: StateFacts, cuts: Cuts) -> Iterator[str]:
    """Yield every trigger of the vocabulary that holds: new results against their limits and cut points, where they go,
    what was done in which hours before, what was last done how long ago, the first hours of a stay, the time of day.
    """
    yield "hours since stay < 2" if (facts.hours_since("stay") or 0) < 2 else "hours since stay >= 2"
    begin = facts.hour.hour - facts.hour.hour % 2
    yield f"hour of day >= {begin} AND hour of day < {begin + 2}"
    for trend in facts.state.trends.values():
        yield from _of_trend(facts, trend, cuts.get(clinical_name(trend.concept), ()))
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


def _of_trend(facts: StateFacts, trend: Trend, cuts: Sequence[float]) -> Iterator[str]:
    """Yield what a new value says: of a laboratory result only while it is new."""
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
    """Yield by how much a measurement rose and fell, as ``ChangedBy`` has it. Of a percentage (a hematocrit) a percent
    means points: its change is told by its direction alone."""
    hours = CHANGE_HOURS.get(trend.kind)
    known = find_measurement(trend.concept)
    if hours is None or "%" in (trend.unit, known and known.units[0].unit):
        return
    series = [(one.time, one.value) for one in trend.readings]
    window = Window(now=trend.last.time, hours=hours)
    lowest, top = baseline(series, window), highest(window.of(series)[:-1])
    last = trend.last.value
    ways: tuple[tuple[Literal["rises", "falls"], float | None], ...] = (("rises", lowest), ("falls", top))
    for direction, first in ways:
        if first is None or first <= 0:
            continue
        percent = 100 * (last - first if direction == "rises" else first - last) / first
        for least in CHANGES:
            if percent >= least:
                yield ChangedBy(concept=trend.concept, direction=direction, amount=least, hours=hours, share=True)


# Training stays replayed in code: what was known at a step, and what some rules make of it.


Action = tuple[str, str]
"""Type and name of a decision."""
_MOST_SHOWN = 48
"""Bundles: two days of hours, more than any prompt has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStep:
    """What was known at the end of one step. ``held``: rules whose trigger held; ``newest``: the last bundles."""

    facts: StateFacts
    held: tuple[HeldRule, ...]
    newest: Sequence[Bundle]

    @property
    def foretold(self) -> tuple[Action, ...]:
        """What the rules foretell."""
        actions = due_actions(self.held, self.held, most=TraceSettings().predictions)
        return tuple((action.kind, action.name) for action in actions)

    def told(self, *, state_tokens: int, history_tokens: int) -> tuple[str, str]:
        """The state and the newest bundles as a prompt shows them, each within its tokens."""
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
    """The same of the bundles before a stay and those of its steps."""
    player = TracePlayer(index, TraceSettings(), Parts(auditor=False))
    player.begin(past, carried)
    newest = deque(past, maxlen=_MOST_SHOWN)
    for bundle in bundles:
        facts, held = player.read_on(bundle)
        newest.append(bundle)
        yield SeenStep(facts=facts, held=held, newest=tuple(newest))


def decisions_of(sample: Sample) -> Mapping[int, Sequence[Action]]:
    """Return what was decided at each step of a stay."""
    decided: dict[int, list[Action]] = {}
    for action in map(StepAction.parse, sample.target):
        decided.setdefault(action.step or 0, []).append((action.kind, action.name))
    return decided


# The steps of training stays as columns: when each trigger came to hold, when each action was last done.
#
# A rule asks for an action while its trigger holds and the action was not done since it came to hold, as the Router has
# it (``agents/stays/router.py``). So an action is *due* under a trigger where the one moment lies before the other, and
# a rule is measured over the steps at which it would have spoken.


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
