"""The Reasoner in code: what the rules that hold ask for and was not done, the most precise rule first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.router import HeldRule
from wardround.protocols import CompiledRule, RuleAction


def due_actions(rules: Sequence[HeldRule], held: Sequence[HeldRule], *, most: int) -> tuple[PredictedAction, ...]:
    """Return at most so many actions of each type. ``rules`` are those that are read; what any rule of ``held``
    withholds is left out: its turn has not come."""
    withheld = [action for rule in held for action in rule.forbids if action.verb == "hold"]
    found: dict[tuple[str, str], PredictedAction] = {}
    for rule in rules:
        for action in rule.due:
            if not any(_meets(held_back, action) for held_back in withheld):
                found.setdefault((action.verb, action.key), _predicted(action, rule.id))
    return first_of_each_type(found.values(), most)


def filled_up(
    actions: Sequence[PredictedAction], prior: Iterable[CompiledRule], *, most: int
) -> tuple[PredictedAction, ...]:
    """Return actions with what is commonest behind them, as far as there is room: the filling arm."""
    said = {(action.kind, action.name) for action in actions}
    common = [_predicted(action, one.rule.id) for one in prior for action in one.actions]
    more = [action for action in common if (action.kind, action.name) not in said]
    return first_of_each_type((*actions, *more), most)


def first_of_each_type(actions: Iterable[PredictedAction], most: int) -> tuple[PredictedAction, ...]:
    """Return the first so many of each type, in order."""
    counts: dict[str, int] = {}
    kept = []
    for action in actions:
        counts[action.kind] = counts.get(action.kind, 0) + 1
        if counts[action.kind] <= most:
            kept.append(action)
    return tuple(kept)


def _predicted(action: RuleAction, rule: str) -> PredictedAction:
    assert action.kind is not None  # what is not to be done is never due
    return PredictedAction(kind=action.kind, name=action.name, dose=action.dose, because=(rule,))


def _meets(one: RuleAction, other: RuleAction) -> bool:
    return one.key == other.key or one.names(other.name)
