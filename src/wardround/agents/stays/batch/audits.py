"""What the Auditor's checks in code come to after many bundles at once: most pass without a look at each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.auditor import has_no_table, is_risky
from wardround.agents.stays.batch.due import DueActions, DueAsks, Holding
from wardround.agents.stays.batch.facts import BatchFacts, Mask
from wardround.clinical.bundles.events import Integers
from wardround.clinical.vocabulary import drug_class, ingredients, is_known_drug, misspelled_drug


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAudits:
    """``by_hand``: (b,) after which bundles the checks have to be made one by one, as something may be said against an
    action; of the others ``risky``: whether an action of the risk vocabulary is new. ``unchecked``: (m,) the due
    actions that no table knows."""

    by_hand: Mask
    risky: Mask
    unchecked: Mask

    @classmethod
    def of(cls, due: DueAsks, actions: DueActions, holding: Holding, facts: BatchFacts) -> BatchAudits:
        """Look at all due actions, name by name."""
        number = {
            place: at for at, place in enumerate(dict.fromkeys((one.kind, one.name) for one in actions.predicted))
        }
        column = np.array([number[one.kind, one.name] for one in actions.predicted], np.int64)[due.ask]
        by_column = np.argsort(column, kind="stable")
        starts = np.searchsorted(column[by_column], np.arange(len(number) + 1))
        named = {
            PredictedAction(kind=kind, name=name): by_column[start:stop]
            for (kind, name), (start, stop) in zip(number, pairwise(starts.tolist()), strict=True)
            if stop > start
        }
        found = cls(
            by_hand=_warned(actions, holding, facts),
            risky=np.zeros(len(facts.stream), bool),
            unchecked=np.zeros(len(due.ask), bool),
        )
        for action, places in named.items():
            bundles = due.bundle[places]
            found.by_hand[bundles] |= _may_be_wrong(action, bundles, facts)
            found.unchecked[places] = has_no_table(action)
        found.by_hand[_with_several(due, named)] = True
        risky = {action.name for action in named if is_risky(action)}
        for name in risky:
            several = [places for action, places in named.items() if action.name == name]
            new = [places for action, places in named.items() if action.name == name and is_risky(action)]
            old = _began_before(due, actions, holding, facts, np.concatenate(several))
            fresh = due.bundle[np.concatenate(new)]
            found.risky[fresh[~np.isin(fresh, old)]] = True
        return found


def _warned(actions: DueActions, holding: Holding, facts: BatchFacts) -> Mask:
    """Say after which bundles a rule holds that says to avoid something."""
    avoiding = [place for place, one in enumerate(actions.rules) if any(each.verb == "avoid" for each in one.actions)]
    found = np.zeros(len(facts.stream), bool)
    found[holding.bundle[np.isin(holding.rule, avoiding)]] = True
    return found


def _may_be_wrong(action: PredictedAction, bundles: Integers, facts: BatchFacts) -> Mask:
    """Say after which of some bundles something is to be said of an action by name."""
    name, is_known = action.name, is_known_drug(action.name)
    found = np.full(len(bundles), misspelled_drug(name) is not None)
    if action.kind == "LABS" and not is_known:
        return found
    found |= facts.allergic_to(name)[0][bundles]
    for mask in facts.unclear_allergies(name).values():
        found |= mask[bundles]
    if action.kind == "MEDICATIONS" and drug_class(name) is None:
        found |= facts.taking(name)[0][bundles]
    return found


def _with_several(due: DueAsks, named: dict[PredictedAction, Integers]) -> Integers:
    """Return the bundles after which drugs are due of which one may be what another holds."""
    drugs = [action for action in named if action.kind == "MEDICATIONS"]
    alike = [named[one] for one in drugs if any(_holds(one, other) or _holds(other, one) for other in drugs)]
    bundles, counts = np.unique(due.bundle[np.concatenate([*alike, _NONE])], return_counts=True)
    return bundles[counts > 1]


def _holds(one: PredictedAction, other: PredictedAction) -> bool:
    own = ingredients(one.name)
    return bool(own) and one.name != other.name and own <= ingredients(other.name)


def _began_before(due: DueAsks, actions: DueActions, holding: Holding, facts: BatchFacts, places: Integers) -> Integers:
    """Return the bundles of some due actions whose rule held before the bundle's hour."""
    bundle, rule = due.bundle[places], actions.rule_of[due.ask[places]]
    count = len(facts.stream)
    pair = np.searchsorted(holding.rule * count + holding.bundle, rule * count + bundle)
    return bundle[holding.since[pair] < facts.now[bundle]]


_NONE: Integers = np.empty(0, np.int64)
