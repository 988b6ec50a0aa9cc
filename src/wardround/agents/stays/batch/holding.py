"""Which rules hold after which bundles, since when, and what of their actions is due, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wardround.agents.stays.batch.facts import BatchFacts
from wardround.agents.stays.batch.onward import Mask, afterwards
from wardround.agents.stays.batch.truths import truths
from wardround.agents.stays.router import PRIOR
from wardround.bundles.events import Integers
from wardround.protocols import FORBIDDING, CompiledRule, RuleAction, RuleIndex, Stated, conditions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Pairs (p,) of a rule and a bundle after which it holds, by bundle and then in the protocol's order. ``since``:
    the end of the hour in which it came to hold, in microseconds; ``due``: (p, a) which of its actions that it asks
    for are still to be done."""

    rule: Integers
    bundle: Integers
    since: Integers
    due: Mask


def asked_of(compiled: CompiledRule) -> tuple[RuleAction, ...]:
    """Return what a rule asks for: not what it says is not to be done."""
    return tuple(action for action in compiled.actions if action.verb not in FORBIDDING)


def holding(index: RuleIndex, facts: BatchFacts) -> Holding:
    """Find what holds. What rules make suspect is a problem to others from the next bundle on."""
    held = _held(index, facts)
    rules = [place for place, mask in held.items() for _ in range(int(np.count_nonzero(mask)))]
    rule = np.array(rules, np.int64)
    bundles = [np.flatnonzero(mask) for mask in held.values()]
    bundle = np.concatenate(bundles) if bundles else rule
    since = _since(rule, bundle, facts)
    due = _due(index, rule, bundle, since, facts)
    order = np.lexsort((rule, bundle))
    return Holding(rule=rule[order], bundle=bundle[order], since=since[order], due=due[order])


def _held(index: RuleIndex, facts: BatchFacts) -> dict[int, Mask]:
    """Return by rule after which bundles it holds, where it does after any."""
    held = {place: _holds(one, facts) for place, one in enumerate(index.rules) if _is_asked(one)}
    suspecting = {one.rule.suspects for place, one in enumerate(index.rules) if place in held} - {None}
    asking = [place for place in held if suspecting and _asks_of_problems(index.rules[place])]
    while asking:
        suspected = _suspected(index, held, facts)
        if all(np.array_equal(mask, facts.suspected.get(name, ())) for name, mask in suspected.items()):
            break
        facts.suspected = suspected
        held |= {place: _holds(index.rules[place], facts) for place in asking}
    return {place: mask for place, mask in held.items() if mask.any()}


def _is_asked(compiled: CompiledRule) -> bool:
    return compiled.trigger.node is not None and compiled.rule.category != PRIOR


def _holds(compiled: CompiledRule, facts: BatchFacts) -> Mask:
    assert compiled.trigger.node is not None  # others are not asked
    return truths(compiled.trigger.node, facts).yes & ~facts.is_over


def _asks_of_problems(compiled: CompiledRule) -> bool:
    conditions = conditions_of(compiled.trigger.node) if compiled.trigger.node is not None else ()
    return any(isinstance(one, Stated) and one.what == "problem" for one in conditions)


def _suspected(index: RuleIndex, held: Mapping[int, Mask], facts: BatchFacts) -> dict[str, Mask]:
    """Return by problem after which bundles a rule had held before that makes it suspect."""
    found: dict[str, Mask] = {}
    for place, mask in held.items():
        problem = index.rules[place].rule.suspects
        if problem is not None:
            found[problem] = found.get(problem, False) | afterwards(mask, facts.stay)
    return found


def _since(rule: Integers, bundle: Integers, facts: BatchFacts) -> Integers:
    """Return of pairs, by rule and bundle, the end of the hour of the first of the bundles in a row."""
    stay = facts.stay[bundle]
    follows = (rule[1:] == rule[:-1]) & (np.diff(bundle) == 1) & (stay[1:] == stay[:-1])
    own = np.arange(len(rule))
    own[1:][follows] = 0
    return facts.now[bundle[np.maximum.accumulate(own)]]


def _due(index: RuleIndex, rule: Integers, bundle: Integers, since: Integers, facts: BatchFacts) -> Mask:
    most = max((len(asked_of(one)) for one in index.rules), default=0)
    due = np.zeros((len(rule), most), dtype=bool)
    starts = np.searchsorted(rule, np.arange(len(index.rules) + 1)).tolist()
    for compiled, start, stop in zip(index.rules, starts, starts[1:], strict=False):
        for place, action in enumerate(asked_of(compiled) if stop > start else ()):
            due[start:stop, place] = ~_is_fulfilled(action, bundle[start:stop], since[start:stop], facts)
    return due


def _is_fulfilled(action: RuleAction, bundle: Integers, since: Integers, facts: BatchFacts) -> Mask:
    """Say of some bundles whether an action was done since its rule came to hold, or the drug it starts runs."""
    done: Mask = facts.last_done(action.name)[bundle] >= since
    return done | facts.taking(action.name)[0][bundle] if action.verb == "start" else done
