"""A protocol as rules to plant into a synthetic hospital: each obeyed as often as its precision says."""

from __future__ import annotations

from typing import Literal, TypedDict, cast

from wardround.clinical.protocols.conditions import AtValue
from wardround.clinical.protocols.index import CompiledRule, compile_rule
from wardround.clinical.protocols.rules import GlobalProtocol
from wardround.core import UserError
from wardround.synth.planting import PlantedRule

_VERBS = ("start", "order", "perform")


def planted_rules(protocol: GlobalProtocol) -> tuple[PlantedRule, ...]:
    """Return the rules to plant, one for each action; rules that say ``avoid`` forbid the others' actions while they
    hold. UserError: a trigger that is not one laboratory value above or below a number."""
    compiled = [compile_rule(rule) for rule in protocol.rules]
    avoided = [one for one in compiled if any(action.verb == "avoid" for action in one.actions)]
    return tuple(
        PlantedRule(
            id=one.rule.id,
            **_condition(one),
            verb=cast(Literal["start", "order", "perform"], action.verb),
            name=action.name,
            rate=1.0 if one.rule.precision is None else one.rule.precision,
            forbidden=tuple(_forbids(other) for other in avoided if _avoids(other, action.name)),
        )
        for one in compiled
        for action in one.actions
        if action.verb in _VERBS
    )


def _avoids(rule: CompiledRule, name: str) -> bool:
    return any(action.verb == "avoid" and action.names(name) for action in rule.actions)


def _forbids(rule: CompiledRule) -> tuple[str, Literal[">", "<"], float]:
    condition = _condition(rule)
    return condition["lab"], condition["relation"], condition["threshold"]


class _Condition(TypedDict):
    lab: str
    relation: Literal[">", "<"]
    threshold: float


def _condition(rule: CompiledRule) -> _Condition:
    node = rule.trigger.node
    if not isinstance(node, AtValue) or node.relation not in (">", "<"):
        raise UserError(f"rule {rule.rule.id!r} cannot be planted: its trigger must be one test, such as 'Lactate > 2'")
    return {"lab": node.concept, "relation": node.relation, "threshold": node.threshold}
