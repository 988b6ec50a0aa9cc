"""The Reflector in code: grow rules one after another from counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from wardround.clinical.protocols import ProtocolRule, RuleOrigin
from wardround.core import check_settings, setting
from wardround.learning.induction.step_table import NEVER, Flags, Hours, StepTable

# Rules of one action, grown one after another: each predicts decisions that no earlier rule predicts.
#
# A rule starts with the trigger whose precision has the highest lower bound, and adds conditions while they clearly
# raise its precision: sequential covering as in CN2 (Clark and Niblett, 1989).


Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]
_NONE = -1.0
_MOST_RULES = 100
"""Limit on the rules of one action, if no other limit stops first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionSettings:
    """How much evidence a rule needs, and limits. The paper prints 441 rules and no thresholds."""

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
        100.0,
        "ridge penalty of the weights that rules add up",
        unit="steps",
        above=0,
        source="ours: tuned on synthetic",
    )
    least_weight: float = setting(
        0.002, "weights nearer to zero are left out", least=0, source="ours: keeps the file readable"
    )
    common: int = setting(15, "actions of a type in the frequency prior", least=1, source="ours")

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class GrownRule:
    """A conjunction of triggers (indices) and one action.

    ``share``: its precision, smoothed towards the prior. ``gain``: decisions that it predicts and no earlier rule
    does.
    """

    triggers: tuple[int, ...]
    action: int
    support: int
    hits: int
    share: float
    gain: int


@dataclass(frozen=True, kw_only=True)
class _Grown:
    """A conjunction while it grows: since when it holds at each step, and its counts."""

    triggers: tuple[int, ...]
    since: Hours
    support: int
    hits: int
    bound: float


def grow_rules(table: StepTable, action: int, settings: InductionSettings) -> Iterator[GrownRule]:
    """Yield rules of one action, highest lower bound first."""
    growth = _Growth(table, action, settings)
    unpredicted = table.missed[action].copy()
    for _ in range(_MOST_RULES):
        rule = growth.best(unpredicted)
        if rule is None or growth.share(rule) < settings.lift * growth.prior:
            return
        newly_predicted = unpredicted & (rule.since > table.done[action])
        unpredicted &= ~newly_predicted
        yield GrownRule(
            triggers=rule.triggers,
            action=action,
            support=rule.support,
            hits=rule.hits,
            share=growth.share(rule),
            gain=int(newly_predicted.sum()),
        )


class _Growth:
    """The data shared by all rules of one action."""

    def __init__(self, table: StepTable, action: int, settings: InductionSettings) -> None:
        self.table = table
        self.settings = settings
        self.prior = table.rate(action)
        self.done = table.done[action]
        self.decided = table.decided[action]
        self.holds_now: Flags = table.since > NEVER
        self.due = table.due(action)
        self.support: Counts = self.due.sum(axis=1)
        self.hits: Counts = self.due[:, self.decided].sum(axis=1)
        self.gain = max(settings.gain, settings.gain_share * int(self.decided.sum()))

    def share(self, rule: _Grown) -> float:
        """Return the smoothed precision of a rule."""
        return float(self._smoothed(np.array([rule.hits]), np.array([rule.support]))[0])

    def best(self, unpredicted: Flags) -> _Grown | None:
        """Return the rule with the highest lower bound that predicts enough of what is left."""
        gains = self.due[:, unpredicted].sum(axis=1)
        bounds = self._bounds(self.hits, self.support, gains)
        index = int(np.argmax(bounds))
        if bounds[index] == _NONE:
            return None
        rule = _Grown(
            triggers=(index,),
            since=self.table.since[index],
            support=int(self.support[index]),
            hits=int(self.hits[index]),
            bound=float(bounds[index]),
        )
        for _ in range(self.settings.conditions - 1):
            narrower = self._narrower(rule, unpredicted)
            if narrower is None:
                break
            rule = narrower
        return rule

    def _narrower(self, rule: _Grown, unpredicted: Flags) -> _Grown | None:
        """Return the rule with the best further condition; None where none clearly raises its precision.

        An action is due under both conditions where both hold and it is due under the one that began to hold last.
        """
        columns = np.flatnonzero(rule.since > NEVER)
        due = self.holds_now[:, columns] & (self.due[:, columns] | (rule.since > self.done)[columns])
        support: Counts = due.sum(axis=1)
        hits: Counts = due[:, self.decided[columns]].sum(axis=1)
        bounds = self._bounds(hits, support, due[:, unpredicted[columns]].sum(axis=1))
        index = int(np.argmax(bounds))
        if bounds[index] <= self.share(rule):
            return None
        both = np.minimum(rule.since, self.table.since[index]) > NEVER
        return _Grown(
            triggers=(*rule.triggers, index),
            since=np.where(both, np.maximum(rule.since, self.table.since[index]), np.float32(NEVER)),
            support=int(support[index]),
            hits=int(hits[index]),
            bound=float(bounds[index]),
        )

    def _bounds(self, hits: Counts, support: Counts, gains: Counts) -> Shares:
        """Return the lower bound of each precision; ``_NONE`` where there is too little evidence."""
        enough = (support >= self.settings.support) & (hits >= self.settings.hits) & (gains >= self.gain)
        share = self._smoothed(hits, support)
        error = np.sqrt(share * (1 - share) / np.maximum(support + self.settings.smoothing, 1))
        return np.where(enough, share - self.settings.caution * error, _NONE)

    def _smoothed(self, hits: Counts, support: Counts) -> Shares:
        weight = self.settings.smoothing
        shares: Shares = (hits + weight * self.prior) / np.maximum(support + weight, 1)
        return shares


# The Reflector in code: from counts over steps that were not predicted to rules.


PRIOR = "PRIOR"
_AND = " AND "
_OF_THE_CLOCK: Sequence[tuple[str, str, str]] = (
    ("hours since stay <", "ADMISSION_PRIOR", "The admission prior: what is commonest when a stay begins"),
    ("hours since stay >=", "STAY_PRIOR", "The prior of a stay: what is commonest after its first hours"),
    ("hour of day", "TIME_OF_DAY_PRIOR", "The prior of the time of day: what is commonest at these hours"),
)
"""Rules without a condition on the patient: start of their trigger, category, start of their text. A run reads them
like any rule."""
_VERBS: Mapping[str, str] = {"MEDICATIONS": "start", "LABS": "order", "PROCEDURES": "perform"}


def reflect(table: StepTable, settings: InductionSettings) -> tuple[ProtocolRule, ...]:
    """Return the rules, one per trigger, with the share of each of its actions, best action first.

    After them comes the frequency prior, in the category that only the filling arm reads.
    """
    grown = [rule for action in range(len(table.actions)) for rule in grow_rules(table, action, settings)]
    by_trigger: dict[str, list[GrownRule]] = {}
    for rule in grown:
        texts = sorted(table.triggers[index] for index in rule.triggers)
        by_trigger.setdefault(
            _AND.join(dict.fromkeys(part for trigger in texts for part in trigger.split(_AND))), []
        ).append(rule)
    useful = sorted(by_trigger, key=lambda trigger: (-sum(rule.gain for rule in by_trigger[trigger]), trigger))
    kept = [
        (trigger, sorted(by_trigger[trigger], key=lambda rule: (-rule.share, rule.action)))
        for trigger in useful[: settings.rules]
    ]
    ranked = sorted(kept, key=lambda entry: (-entry[1][0].share, entry[0]))
    weights = _weights(table, [grown_rules[0].triggers for _, grown_rules in ranked], settings)
    rules = [
        replace(_rule(table, trigger, grown_rules, index), weights=weights[index])
        for index, (trigger, grown_rules) in enumerate(ranked)
    ]
    return (*rules, *_prior(table, settings))


def _weights(
    table: StepTable, triggers: Sequence[tuple[int, ...]], settings: InductionSettings
) -> list[Mapping[str, float]]:
    """Return for each rule its weight on the probability of each action, largest first.

    The weights come from a ridge regression, without intercept, of the decisions at a step on the rules that held, each
    step weighted by ``StepTable.step_weights``. Rules of the clock replace the intercept.
    """
    if not triggers:
        return []
    holds = np.array(
        [(table.since[list(trigger_indices)] > NEVER).all(axis=0) for trigger_indices in triggers], np.float64
    )
    penalty = settings.shrinkage * np.eye(len(triggers))
    weighted = holds * table.step_weights
    fitted = np.linalg.solve(weighted @ holds.T + penalty, weighted @ table.decided.T.astype(np.float64)).round(3)
    action_names = [_action_text(*action) for action in table.actions]
    return [
        {
            action_names[index]: float(row[index])
            for index in np.argsort(-np.abs(row), kind="stable")
            if row[index] and abs(row[index]) >= settings.least_weight
        }
        for row in fitted
    ]


def _rule(table: StepTable, trigger: str, grown: Sequence[GrownRule], index: int) -> ProtocolRule:
    """Return one rule; its precision is that of its best action."""
    actions = tuple(_action_text(*table.actions[grown_rule.action]) for grown_rule in grown)
    shares = tuple(round(grown_rule.share, 4) for grown_rule in grown)
    prior = _prior_of_the_clock(trigger)
    category, text = prior or (table.actions[grown[0].action][0], "")
    rule = f"IF {trigger} THEN {'; '.join(actions)}."
    return ProtocolRule(
        id=f"C{index + 1:03d}",
        category=category,
        trigger=trigger,
        actions=actions,
        text=f"{text}, whoever the patient is. {rule}" if text else rule,
        provenance=RuleOrigin(origin="counted", source="failed steps of training stays"),
        support=grown[0].support,
        precision=shares[0],
        shares=shares,
    )


def _prior_of_the_clock(trigger: str) -> tuple[str, str] | None:
    """Return category and text of a rule whose trigger only uses the clock; None for any other."""
    parts = trigger.split(_AND)
    named = [(category, text) for begins, category, text in _OF_THE_CLOCK if parts[0].startswith(begins)]
    clock = all(part.startswith(("hours since stay", "hour of day")) for part in parts)
    return named[0] if named and clock else None


def _action_text(kind: str, name: str) -> str:
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
                actions=tuple(_action_text(kind, name) for _, name in common),
                text="What is commonest, whoever the patient is.",
                provenance=RuleOrigin(origin="counted", source="all steps of training stays"),
                support=table.steps,
                precision=shares[0],
                shares=shares,
            )
