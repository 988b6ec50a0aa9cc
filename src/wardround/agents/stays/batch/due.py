"""The due actions after many bundles at once, equal to those of ``due_actions`` for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from wardround.agents.stays.batch.facts import BatchFacts
from wardround.agents.stays.batch.onward import Mask
from wardround.agents.stays.router import action_place, is_withheld, predicted_of
from wardround.clinical.bundles.events import Integers
from wardround.clinical.protocols import FORBIDDING, CompiledRule, RuleAction, RuleIndex

_TOGETHER = 4_096
"""Bundles at a time: a few MB for each table of bundles by actions."""


def asked_of(compiled: CompiledRule) -> tuple[RuleAction, ...]:
    """Return a rule's actions without those it forbids."""
    return tuple(action for action in compiled.actions if action.verb not in FORBIDDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Pairs (p,) of a rule and a bundle after which it holds, in the protocol's order and then by bundle.

    ``since``: the end of the hour in which it began to hold, in microseconds; ``due``: by rule (k, a), which of its
    actions are not done yet after each of its bundles."""

    rule: Integers
    bundle: Integers
    since: Integers
    due: tuple[Mask, ...]

    def of_rules(self, rules: int) -> Iterator[slice]:
        """Yield the pairs of each rule."""
        starts = np.searchsorted(self.rule, np.arange(rules + 1)).tolist()
        return (slice(start, stop) for start, stop in pairwise(starts))


def due_of(index: RuleIndex, rule: Integers, bundle: Integers, since: Integers, facts: BatchFacts) -> tuple[Mask, ...]:
    """Return by rule (k, a) which of its actions are not done yet after the bundles where it holds."""
    starts = np.searchsorted(rule, np.arange(len(index.rules) + 1)).tolist()
    found = []
    for compiled, (start, stop) in zip(index.rules, pairwise(starts), strict=True):
        asked = asked_of(compiled)
        due = np.empty((stop - start, len(asked)), bool)
        for place, action in enumerate(asked if stop > start else ()):
            due[:, place] = ~_is_fulfilled(action, bundle[start:stop], since[start:stop], facts)
        found.append(due)
    return tuple(found)


def _is_fulfilled(action: RuleAction, bundle: Integers, since: Integers, facts: BatchFacts) -> Mask:
    """Return for some bundles whether an action was done since its rule began to hold, or its drug is running."""
    done: Mask = facts.last_done(action.name, is_drug=action.kind == "MEDICATIONS")[bundle] >= since
    return done | facts.taking(action.name)[0][bundle] if action.verb == "start" else done


@dataclass(frozen=True, slots=True, kw_only=True)
class DueAsks:
    """The due actions of many bundles (m,), by bundle and then the most probable first.

    ``bundle``: where each is due; ``ask``: the action of a rule that it is."""

    bundle: Integers
    ask: Integers


@lru_cache(maxsize=4)
def due_actions_of(index: RuleIndex, most: int) -> DueActions:
    """Return the due actions of a protocol's rules, made once for all streams."""
    return DueActions(index, most)


def order_of(numbers: Integers, count: int) -> Integers:
    """Return the stable order of numbers below a count; numbers that fit two bytes use a radix sort."""
    return np.argsort(numbers.astype(np.uint16) if count < 1 << 16 else numbers, kind="stable")


class DueActions:
    """The due actions of all rules that hold, at most ``most`` of a type.

    An *ask* is an action of a rule; asks are numbered from 0, the most probable first, ties in the protocol's order. A
    *column* is a type and name of some rule's action.
    """

    def __init__(self, index: RuleIndex, most: int) -> None:
        self.rules, self.most = index.rules, most
        asked = [(place, slot) for place, one in enumerate(self.rules) for slot in range(len(asked_of(one)))]
        asks = [(place, slot, asked_of(self.rules[place])[slot]) for place, slot in asked]
        asks.sort(key=lambda ask: -self.rules[ask[0]].share(ask[2]))
        named = {action_place(action): action for _, _, action in reversed(asks)}
        actions = dict(sorted(named.items(), key=lambda item: item[0][0]))  # columns of a type are adjacent
        columns = {place: column for column, place in enumerate(actions)}
        self.predicted = [predicted_of(action, self.rules[place].rule.id) for place, _, action in asks]
        self.rule_of = np.array([place for place, _, _ in asks], np.int64)
        """By ask: the predicted action, and its rule."""
        self._asks = [
            (place, slot, columns[action_place(action)], self.rules[place].share(action))
            for place, slot, action in asks
        ]
        self._weights = np.array([[*(rule.weights.get(column, 0.0) for column in columns), 0.0] for rule in self.rules])
        waits = [[action for action in rule.actions if action.verb == "hold"] for rule in self.rules]
        self._withheld_by = [
            [column for column, action in enumerate(actions.values()) if is_withheld(action, said)] if said else []
            for said in waits
        ]
        kinds, keys = [kind for kind, _ in actions], [(action.verb, action.key) for action in actions.values()]
        self._kind = np.array([sorted({*kinds}).index(kind) for kind in kinds], np.int64)
        self._key = np.array([keys.index(key) for key in keys], np.int64)
        """By column: the number of its type, and of the action that its names share."""

    def after_all(self, holding: Holding, bundles: int) -> DueAsks:
        """Return the due actions after each of ``bundles`` bundles."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for start in range(0, bundles, _TOGETHER):
            rows, asks = self._best(*self._asked(holding, start, min(start + _TOGETHER, bundles)))
            found.append((rows + start, asks))
        return DueAsks(bundle=np.concatenate([rows for rows, _ in found]), ask=np.concatenate([a for _, a in found]))

    def _asked(self, holding: Holding, start: int, stop: int) -> tuple[npt.NDArray[np.float64], Integers]:
        """Return (b, c) the probability of each column after each bundle, minus infinity without a rule for it, and its
        first ask."""
        count, columns = stop - start, len(self._kind)
        # by column and bundle: rows are adjacent in memory
        first = np.full((columns, count), len(self.predicted))
        sure, weighed = np.full((columns, count), -np.inf), np.zeros((columns, count), bool)
        withheld = np.zeros((columns, count), bool)
        held = []
        for place, own in enumerate(holding.of_rules(len(self.rules))):
            begin, end = np.searchsorted(holding.bundle[own], [start, stop]).tolist()
            rows = holding.bundle[own][begin:end] - start
            held.append((rows, holding.due[place][begin:end]))
            for column in self._withheld_by[place]:
                withheld[column, rows] = True
        for ask, (place, slot, column, share) in reversed([*enumerate(self._asks)]):
            rows, due = held[place]
            if not len(rows):
                continue
            rows = rows[due[:, slot]]
            first[column, rows] = ask
            if self.rules[place].weights:
                weighed[column, rows] = True
            else:
                sure[column, rows] = share  # the most probable comes last
        probable = np.where(weighed.T, self._summed([rows for rows, _ in held], count), -np.inf)
        np.maximum(probable, sure.T, out=probable)
        probable[withheld.T] = -np.inf
        return probable, first.T

    def _summed(self, held: Sequence[Integers], count: int) -> npt.NDArray[np.float64]:
        """Return the sums (b, c) of the weights of the rules that hold. ``held``: by rule, the bundles after which it
        holds. Weights of a bundle are added in the protocol's order as in ``due_actions``, to the same last digit."""
        weighed = [(place, rows) for place, rows in enumerate(held) if self.rules[place].weights]
        rule = np.repeat([place for place, _ in weighed], [len(rows) for _, rows in weighed]).astype(np.int64)
        bundle = np.concatenate([*(rows for _, rows in weighed), np.empty(0, np.int64)])
        by_bundle = order_of(bundle, count)
        rule, starts = rule[by_bundle], np.searchsorted(bundle[by_bundle], np.arange(count + 1)).tolist()
        width = self._weights.shape[1]
        total, room = np.zeros((count, width)), np.empty((len(self.rules), width))
        for row, (start, stop) in enumerate(pairwise(starts)):
            if stop > start:
                own = self._weights.take(rule[start:stop], axis=0, out=room[: stop - start], mode="clip")
                np.add.reduce(own, axis=0, out=total[row])  # row by row with more than one column
        return total[:, :-1]

    def _best(self, probable: npt.NDArray[np.float64], first: Integers) -> tuple[Integers, Integers]:
        """Return rows and asks of the most probable actions of each type, by row and then the most probable first."""
        could = np.isfinite(probable)
        for kind in np.unique(self._kind):
            own = slice(*np.searchsorted(self._kind, [kind, kind + 1]).tolist())
            keys = self._key[own]
            enough = self.most + len(keys) - len(np.unique(keys))
            if enough < len(keys):
                at = len(keys) - enough
                could[:, own] &= probable[:, own] >= np.partition(probable[:, own], at, axis=1)[:, [at]]
        rows, columns = np.nonzero(could)
        order = np.lexsort((first[rows, columns], -probable[rows, columns], rows))
        rows, columns = rows[order], columns[order]
        once = np.sort(np.unique(rows * len(self._key) + self._key[columns], return_index=True)[1])
        rows, columns = rows[once], columns[once]
        of_kind = rows * len(self._kind) + self._kind[columns]
        by_kind = np.argsort(of_kind, kind="stable")
        number = np.empty_like(rows)
        number[by_kind] = np.arange(len(rows)) - np.searchsorted(of_kind[by_kind], of_kind[by_kind])
        rows, columns = rows[number < self.most], columns[number < self.most]
        return rows, first[rows, columns]
