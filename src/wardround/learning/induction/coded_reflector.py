"""The Reflector in code: grow rules one after another from counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from wardround.clinical.protocols import ProtocolRule, RuleOrigin
from wardround.core import check_settings, setting
from wardround.learning.induction.step_table import NEVER, Flags, Hours, StepTable

# Rules of one action, grown one after another: each foretells decisions that none before it does.
#
# A rule begins with the trigger whose precision is surely the highest (its lower bound), and takes further conditions
# as long as they make it clearly more precise: sequential covering, as CN2 has it (Clark and Niblett, 1989).


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
    shrinkage: float = setting(
        30.0, "ridge penalty of the weights that rules add up", unit="steps", above=0, source="ours: tuned on synthetic"
    )
    least_weight: float = setting(
        0.002, "weights nearer to zero are left out", least=0, source="ours: keeps the file readable"
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


# The Reflector in code: from counts of what followed what, over steps that were not foretold, to rules.


PRIOR = "PRIOR"
_AND = " AND "
_OF_THE_CLOCK: Sequence[tuple[str, str, str]] = (
    ("hours since stay <", "ADMISSION_PRIOR", "The admission prior: what is commonest when a stay begins"),
    ("hours since stay >=", "STAY_PRIOR", "The prior of a stay: what is commonest after its first hours"),
    ("hour of day", "TIME_OF_DAY_PRIOR", "The prior of the time of day: what is commonest at these hours"),
)
"""Rules that ask nothing of the patient: how their triggers begin, their category, what their text says first. A run
reads them as it reads any rule."""
_VERBS: Mapping[str, str] = {"MEDICATIONS": "start", "LABS": "order", "PROCEDURES": "perform"}


def reflect(table: StepTable, settings: InductionSettings) -> tuple[ProtocolRule, ...]:
    """Return rules, those of the surest action first: one for each trigger, with the share of every action of it.
    Behind them the frequency prior, in the category that only the filling arm reads."""
    grown = [rule for action in range(len(table.actions)) for rule in grow_rules(table, action, settings)]
    by_trigger: dict[str, list[GrownRule]] = {}
    for rule in grown:
        by_trigger.setdefault(_trigger(table, rule), []).append(rule)
    useful = sorted(by_trigger, key=lambda trigger: (-sum(rule.gain for rule in by_trigger[trigger]), trigger))
    kept = [(trigger, _surest_first(by_trigger[trigger])) for trigger in useful[: settings.rules]]
    ranked = sorted(kept, key=lambda one: (-one[1][0].share, one[0]))
    weights = _weights(table, [some[0].triggers for _, some in ranked], settings)
    rules = [
        replace(_rule(table, trigger, some, place), weights=weights[place])
        for place, (trigger, some) in enumerate(ranked)
    ]
    return (*rules, *_prior(table, settings))


def _weights(
    table: StepTable, triggers: Sequence[tuple[int, ...]], settings: InductionSettings
) -> list[Mapping[str, float]]:
    """Return of each rule what its holding adds to the probability of each action, the largest first: ridge regression,
    without intercept, of what was decided at a step on which rules held. Rules of the clock stand for the intercept."""
    if not triggers:
        return []
    held = np.array([(table.since[list(places)] > NEVER).all(axis=0) for places in triggers], np.float64)
    penalty = settings.shrinkage * np.eye(len(triggers))
    fitted = np.linalg.solve(held @ held.T + penalty, held @ table.decided.T.astype(np.float64)).round(3)
    names = [_said(*action) for action in table.actions]
    return [
        {
            names[place]: float(row[place])
            for place in np.argsort(-np.abs(row), kind="stable")
            if row[place] and abs(row[place]) >= settings.least_weight
        }
        for row in fitted
    ]


def _surest_first(grown: Sequence[GrownRule]) -> list[GrownRule]:
    return sorted(grown, key=lambda rule: (-rule.share, rule.action))


def _trigger(table: StepTable, rule: GrownRule) -> str:
    said = sorted(table.triggers[place] for place in rule.triggers)
    return _AND.join(dict.fromkeys(part for trigger in said for part in trigger.split(_AND)))


def _rule(table: StepTable, trigger: str, grown: Sequence[GrownRule], place: int) -> ProtocolRule:
    """One rule; its precision is that of its surest action."""
    said = tuple(_said(*table.actions[one.action]) for one in grown)
    shares = tuple(round(one.share, 4) for one in grown)
    prior = _prior_of_the_clock(trigger)
    category, text = prior or (table.actions[grown[0].action][0], "")
    rule = f"IF {trigger} THEN {'; '.join(said)}."
    return ProtocolRule(
        id=f"C{place + 1:03d}",
        category=category,
        trigger=trigger,
        actions=said,
        text=f"{text}, whoever the patient is. {rule}" if text else rule,
        provenance=RuleOrigin(origin="counted", source="failed steps of training stays"),
        support=grown[0].support,
        precision=shares[0],
        shares=shares,
    )


def _prior_of_the_clock(trigger: str) -> tuple[str, str] | None:
    """Return the category and the words of a rule whose trigger knows only the clock; None of any other."""
    parts = trigger.split(_AND)
    named = [(category, text) for begins, category, text in _OF_THE_CLOCK if parts[0].startswith(begins)]
    clock = all(part.startswith(("hours since stay", "hour of day")) for part in parts)
    return named[0] if named and clock else None


def _said(kind: str, name: str) -> str:
    return f"{_VERBS[kind]} {name}"


def _prior(table: StepTable, settings: InductionSettings) -> Iterator[ProtocolRule]:
    for kind in _VERBS:
        counted = [(-table.rate(row), name) for row, (of, name) in enumerate(table.actions) if of == kind]
        common = sorted(counted)[: settings.common]
        if common:
            shares = tuple(round(-rate, 4) for rate, _ in common)
            yield ProtocolRule(
                id=f"PRIOR-{kind}",
                category=PRIOR,
                trigger="hours since stay >= 0",
                actions=tuple(_said(kind, name) for _, name in common),
                text="What is commonest, whoever the patient is.",
                provenance=RuleOrigin(origin="counted", source="all steps of training stays"),
                support=table.steps,
                precision=shares[0],
                shares=shares,
            )
