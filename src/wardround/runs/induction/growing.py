"""Rules of one action, grown one after another: each foretells decisions that none before it does.

A rule begins with the trigger whose precision is surely the highest (its lower bound), and takes further conditions as
long as they make it clearly more precise: sequential covering, as CN2 has it (Clark and Niblett, 1989).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wardround.core import check_settings, setting
from wardround.runs.induction.step_table import NEVER, Flags, Hours, StepTable

Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]
_NONE = -1.0
_MOST_RULES = 100
"""Of one action: an end, should the others not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionSettings:
    """How much evidence a rule needs, and how many there may be. The paper prints 441 rules and no thresholds."""

    rules: int = setting(441, "most rules", least=1, source="TRACE, section 5")
    support: int = setting(10, "steps at which a rule must have spoken", unit="steps", least=1, source="ours")
    hits: int = setting(4, "steps at which its action must have followed", unit="steps", least=1, source="ours")
    lift: float = setting(0.5, "least ratio to how often the action follows any step", least=0, source="ours")
    gain: int = setting(2, "decisions that a rule must foretell and none before it does", least=1, source="ours")
    gain_share: float = setting(
        0.02, "and the least share of all decisions of its action", least=0, most=1, source="ours: tuned on training"
    )
    conditions: int = setting(
        2, "most triggers of the vocabulary joined in one rule", least=1, source="ours: two tell a sequence"
    )
    smoothing: float = setting(
        10.0, "steps of the frequency prior that are added to a rule's own", unit="steps", least=0, source="m-estimate"
    )
    caution: float = setting(
        2.0, "standard errors that a precision is lowered by while rules are chosen", least=0, source="ours"
    )
    common: int = setting(15, "actions of a type in the frequency prior", least=1, source="ours")

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class GrownRule:
    """A conjunction of triggers, by place, and one action. ``share``: its precision, smoothed towards the prior;
    ``gain``: the decisions that it foretells and none before it does."""

    triggers: tuple[int, ...]
    action: int
    support: int
    hits: int
    share: float
    gain: int


@dataclass(frozen=True, kw_only=True)
class _Grown:
    """A conjunction while it grows: since when it holds at each step, and how it counts."""

    triggers: tuple[int, ...]
    since: Hours
    support: int
    hits: int
    bound: float


def grow_rules(table: StepTable, action: int, settings: InductionSettings) -> Iterator[GrownRule]:
    """Yield rules of one action, the surest first."""
    growth = _Growth(table, action, settings)
    left = table.missed[action].copy()
    for _ in range(_MOST_RULES):
        found = growth.best(left)
        if found is None or growth.share(found) < settings.lift * growth.prior:
            return
        foretold = left & (found.since > table.done[action])
        left &= ~foretold
        yield GrownRule(
            triggers=found.triggers,
            action=action,
            support=found.support,
            hits=found.hits,
            share=growth.share(found),
            gain=int(foretold.sum()),
        )


class _Growth:
    """What is the same for every rule of one action."""

    def __init__(self, table: StepTable, action: int, settings: InductionSettings) -> None:
        self.table = table
        self.settings = settings
        self.prior = table.rate(action)
        self.done = table.done[action]
        self.decided = table.decided[action]
        self.held: Flags = table.since > NEVER
        self.due = table.due(action)
        self.support: Counts = self.due.sum(axis=1)
        self.hits: Counts = self.due[:, self.decided].sum(axis=1)
        self.gain = max(settings.gain, settings.gain_share * int(self.decided.sum()))

    def share(self, rule: _Grown) -> float:
        """The precision of a rule, smoothed."""
        return float(self._smoothed(np.array([rule.hits]), np.array([rule.support]))[0])

    def best(self, left: Flags) -> _Grown | None:
        """Return the surest rule that foretells enough of what is left."""
        gains = self.due[:, left].sum(axis=1)
        bounds = self._bounds(self.hits, self.support, gains)
        place = int(np.argmax(bounds))
        if bounds[place] == _NONE:
            return None
        rule = _Grown(
            triggers=(place,),
            since=self.table.since[place],
            support=int(self.support[place]),
            hits=int(self.hits[place]),
            bound=float(bounds[place]),
        )
        for _ in range(self.settings.conditions - 1):
            narrower = self._narrower(rule, left)
            if narrower is None:
                break
            rule = narrower
        return rule

    def _narrower(self, rule: _Grown, left: Flags) -> _Grown | None:
        """Return a rule with the further condition that makes it surest, surely more precise than it is without; None
        where none does. An action is due under both where both hold and it is due under the one that came to hold last.
        """
        columns = np.flatnonzero(rule.since > NEVER)
        due = self.held[:, columns] & (self.due[:, columns] | (rule.since > self.done)[columns])
        support: Counts = due.sum(axis=1)
        hits: Counts = due[:, self.decided[columns]].sum(axis=1)
        bounds = self._bounds(hits, support, due[:, left[columns]].sum(axis=1))
        place = int(np.argmax(bounds))
        if bounds[place] <= self.share(rule):
            return None
        both = np.minimum(rule.since, self.table.since[place]) > NEVER
        return _Grown(
            triggers=(*rule.triggers, place),
            since=np.where(both, np.maximum(rule.since, self.table.since[place]), np.float32(NEVER)),
            support=int(support[place]),
            hits=int(hits[place]),
            bound=float(bounds[place]),
        )

    def _bounds(self, hits: Counts, support: Counts, gains: Counts) -> Shares:
        """The lower bound of each precision; ``_NONE`` where there is too little evidence."""
        enough = (support >= self.settings.support) & (hits >= self.settings.hits) & (gains >= self.gain)
        share = self._smoothed(hits, support)
        error = np.sqrt(share * (1 - share) / np.maximum(support + self.settings.smoothing, 1))
        return np.where(enough, share - self.settings.caution * error, _NONE)

    def _smoothed(self, hits: Counts, support: Counts) -> Shares:
        weight = self.settings.smoothing
        shares: Shares = (hits + weight * self.prior) / np.maximum(support + weight, 1)
        return shares
