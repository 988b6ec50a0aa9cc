"""The Reasoner in code: what the rules that hold ask for and was not done, the likeliest action first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.router import HeldRule
from wardround.protocols import RuleAction


def due_actions(rules: Sequence[HeldRule], held: Sequence[HeldRule], *, most: int) -> tuple[PredictedAction, ...]:
    """Return at most so many actions of each type, by how often each followed in training; among equals the rule that
    comes first says its actions first. ``rules`` are those that are read; what any rule of ``held`` withholds is left
    out: its turn has not come."""
    withheld = [action for rule in held for action in rule.forbids if action.verb == "hold"]
    kept: dict[tuple[str, str], PredictedAction] = {}
    counts: dict[str, int] = {}
    looked: set[tuple[str, str]] = set()
    for rule, action in sorted(_asked(rules), key=lambda one: -one[0].compiled.share(one[1])):
        kind = str(action.kind)
        if counts.get(kind, 0) >= most or (action.verb, action.key) in looked:
            continue  # where hundreds of rules hold, few actions are looked at: a type is soon full
        if any(_meets(held_back, action) for held_back in withheld):
            continue
        looked.add((action.verb, action.key))
        if (kind, action.name) not in kept:
            kept[kind, action.name] = _predicted(action, rule.id)
            counts[kind] = counts.get(kind, 0) + 1
    return tuple(kept.values())


def shares_of(rules: Iterable[HeldRule], actions: Sequence[PredictedAction]) -> tuple[float, ...]:
    """Return how often each action followed in training, by the surest of the rules that ask for it."""
    surest: dict[tuple[str, str], float] = {}
    for rule, action in _asked(rules):
        place = str(action.kind), action.name
        surest[place] = max(surest.get(place, 0.0), rule.compiled.share(action))
    return tuple(surest.get((action.kind, action.name), 0.0) for action in actions)


def first_of_each_type(actions: Iterable[PredictedAction], most: int) -> tuple[PredictedAction, ...]:
    """Return the first so many names of each type, in order, each once."""
    kept: dict[tuple[str, str], PredictedAction] = {}
    counts: dict[str, int] = {}
    for action in actions:
        if counts.get(action.kind, 0) < most and (action.kind, action.name) not in kept:
            kept[action.kind, action.name] = action
            counts[action.kind] = counts.get(action.kind, 0) + 1
    return tuple(kept.values())


def _asked(rules: Iterable[HeldRule]) -> list[tuple[HeldRule, RuleAction]]:
    return [(rule, action) for rule in rules for action in rule.due]


def _predicted(action: RuleAction, rule: str) -> PredictedAction:
    assert action.kind is not None  # what is not to be done is never due
    return PredictedAction(kind=action.kind, name=action.name, dose=action.dose, because=(rule,))


def _meets(one: RuleAction, other: RuleAction) -> bool:
    return one.key == other.key or one.names(other.name)
