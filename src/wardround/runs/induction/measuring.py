"""How often what a rule asks for was done, over training stays: at the steps at which it speaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from wardround.benchmarks import Sample
from wardround.protocols import GlobalProtocol, ProtocolRule, RuleAction, RuleIndex
from wardround.records import Store
from wardround.runs.induction.stay_steps import Action, decisions_of, seen_steps

_Asked = tuple[str, RuleAction]


def measured(rules: Sequence[ProtocolRule], store: Store, samples: Iterable[Sample]) -> tuple[ProtocolRule, ...]:
    """Return the rules with support and precision, and a share for each action. A rule that never spoke, or that no
    code can judge, is left as it is."""
    index = RuleIndex(GlobalProtocol(name="measured", rules=tuple(rules)))
    due: Counter[_Asked] = Counter()
    followed: Counter[_Asked] = Counter()
    for sample in samples:
        decided = decisions_of(sample)
        for step, seen in enumerate(seen_steps(store, sample, index)):
            asked = [(rule.id, action) for rule in seen.held for action in rule.due]
            due.update(asked)
            followed.update(one for one in asked if _was_decided(one[1], decided.get(step, ())))
    return tuple(_with_counts(one, index.by_id[one.id].actions, due, followed) for one in rules)


def _was_decided(action: RuleAction, decided: Iterable[Action]) -> bool:
    return any(kind == action.kind and action.names(name) for kind, name in decided)


def _with_counts(
    rule: ProtocolRule, actions: Sequence[RuleAction], due: Counter[_Asked], followed: Counter[_Asked]
) -> ProtocolRule:
    asked = [(rule.id, action) for action in actions]
    if not due[asked[0]]:
        return rule
    shares = tuple(round(followed[one] / due[one], 4) if due[one] else 0.0 for one in asked)
    return replace(rule, support=due[asked[0]], precision=shares[0], shares=shares)
