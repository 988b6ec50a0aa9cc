"""The Auditor's checks in code after many bundles at once; most bundles need no check of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

import numpy as np

from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.auditor import Unchecked, is_checked, is_risky, why_unchecked
from wardround.agents.stays.batch.due import DueActions, DueAsks, Holding
from wardround.agents.stays.batch.facts import BatchFacts
from wardround.agents.stays.batch.onward import Mask
from wardround.clinical.bundles.events import Integers
from wardround.clinical.vocabulary import drug_class, ingredients, is_known_drug, misspelled_drug


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAudits:
    """``by_hand``: (b,) bundles that need the single checks, since an objection is possible; ``risky``: of the others,
    whether an action of the risk vocabulary is new; ``notes``: by place of a due action, why it could not be judged."""

    by_hand: Mask
    risky: Mask
    notes: dict[int, tuple[str, ...]]

    @classmethod
    def of(cls, due: DueAsks, actions: DueActions, holding: Holding, facts: BatchFacts) -> BatchAudits:
        """Check all due actions, name by name."""
        number = {
            place: at
            for at, place in enumerate(dict.fromkeys((action.kind, action.name) for action in actions.predicted))
        }
        column = np.array([number[action.kind, action.name] for action in actions.predicted], np.int64)[due.ask]
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
            notes={},
        )
        for action, places in named.items():
            bundles = due.bundle[places]
            found.by_hand[bundles] |= _may_be_wrong(action, bundles, facts)
            if is_checked(action):
                found.notes.update(_notes(action.name, places, bundles, facts))
        found.by_hand[_repeating(due, named)] = True
        found.risky[_newly_risky(due, actions, holding, facts, named)] = True
        return found

    def unchecked(self, own: slice, actions: Sequence[PredictedAction]) -> tuple[Unchecked, ...]:
        """Return why some due actions could not be judged."""
        if not self.notes:
            return ()
        return tuple(
            Unchecked(action=actions[place], because=because)
            for place in range(own.start, own.stop)
            for because in self.notes.get(place, ())
        )


def _notes(drug: str, places: Integers, bundles: Integers, facts: BatchFacts) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the places at which a drug cannot be judged, with the reasons."""
    unclear = facts.unclear_allergies(drug)
    which = np.array([mask[bundles] for mask in unclear.values()], bool).reshape(len(unclear), len(bundles))
    for told in np.unique(which, axis=1).T:
        names = sorted(compress(unclear, told.tolist()))
        reasons = tuple(why_unchecked(drug, names))
        for place in places[(which == told[:, None]).all(axis=0)].tolist() if reasons else ():
            yield place, reasons


def _warned(actions: DueActions, holding: Holding, facts: BatchFacts) -> Mask:
    """Return the bundles after which a rule with ``avoid`` holds."""
    avoiding = [place for place, one in enumerate(actions.rules) if any(each.verb == "avoid" for each in one.actions)]
    found = np.zeros(len(facts.stream), bool)
    for own in (own for place, own in enumerate(holding.of_rules(len(actions.rules))) if place in avoiding):
        found[holding.bundle[own]] = True
    return found


def _may_be_wrong(action: PredictedAction, bundles: Integers, facts: BatchFacts) -> Mask:
    """Return the bundles after which a check of an action's name may object or be unable to judge."""
    name, is_known = action.name, is_known_drug(action.name)
    found = np.full(len(bundles), misspelled_drug(name) is not None)
    if action.kind == "LABS" and not is_known:
        return found
    found |= facts.allergic_to(name)[0][bundles]
    if action.kind == "MEDICATIONS" and drug_class(name) is None:
        found |= facts.taking(name)[0][bundles]
    return found


def _repeating(due: DueAsks, named: Mapping[PredictedAction, Integers]) -> Integers:
    """Return the bundles after which a due drug contains, or is contained in, an earlier one."""
    drugs = [action for action in named if action.kind == "MEDICATIONS"]
    found = [_NONE]
    for one, other in ((drug, other) for drug in drugs for other in drugs if _holds(drug, other)):
        own, before = named[one], named[other]
        _, at, there = np.intersect1d(due.bundle[own], due.bundle[before], assume_unique=True, return_indices=True)
        found.append(due.bundle[own[at[before[there] < own[at]]]])
    return np.concatenate(found)


def _holds(one: PredictedAction, other: PredictedAction) -> bool:
    own = ingredients(one.name)
    return bool(own) and one.name != other.name and own <= ingredients(other.name)


def _newly_risky(
    due: DueAsks,
    actions: DueActions,
    holding: Holding,
    facts: BatchFacts,
    named: Mapping[PredictedAction, Integers],
) -> Integers:
    """Return the bundles after which an action of the risk vocabulary is due that no rule proposed before the bundle's
    hour (``proposed_before``)."""
    names = dict.fromkeys(action.name for action in named if is_risky(action))
    number = {name: place for place, name in enumerate(names)}
    of_name = [
        (number[action.name], places, is_risky(action)) for action, places in named.items() if action.name in names
    ]
    if not of_name:
        return _NONE
    places = np.concatenate([places for _, places, _ in of_name])
    sizes = [len(places) for _, places, _ in of_name]
    bundle, rule = due.bundle[places], actions.rule_of[due.ask[places]]
    count = len(facts.stream)
    pair = np.searchsorted(holding.rule * count + holding.bundle, rule * count + bundle)
    key = np.repeat([name for name, _, _ in of_name], sizes) * count + bundle
    old = key[holding.since[pair] < facts.now[bundle]]
    risky = np.repeat([is_risky for _, _, is_risky in of_name], sizes)
    return np.setdiff1d(key[risky], old) % count


_NONE: Integers = np.empty(0, np.int64)
