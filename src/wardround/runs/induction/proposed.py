"""A rule that a model proposed, checked in code before it counts: whom it names, what it asks for, whether it held."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wardround.agents.stays.router import PRIOR
from wardround.core import UserError
from wardround.knowledge.egress import Fingerprint, identifying_traits
from wardround.protocols import ProtocolRule, RuleAction, RuleOrigin, compile_rule
from wardround.runs.induction.missed import MissedDecision
from wardround.runs.induction.stay_steps import SeenStep

VERBS: Mapping[str, str] = {"MEDICATIONS": "start", "LABS": "order", "PROCEDURES": "perform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A rule, or why it is none."""

    rule: ProtocolRule | None = None
    refused: str | None = None


def proposed_rule(
    said: Mapping[str, Any], missed: MissedDecision, seen: SeenStep, record: Fingerprint, *, number: int, model: str
) -> Proposed:
    """Read a Reflector's reply. A rule that names its patient, asks for something else than what was missed, or did not
    hold when it should have is refused; one that no code can judge is kept for a model's Router."""
    told = "\n".join(str(said[field]) for field in ("category", "trigger", "action", "text"))
    traits = identifying_traits(told, record)
    if traits:
        return Proposed(refused=f"holds {traits[0]}")
    kind, name = missed.action
    try:
        action = _action(str(said["action"]), VERBS[kind])
        rule = ProtocolRule(
            id=f"M{number:03d}",
            category=_category(str(said["category"])),
            trigger=" ".join(str(said["trigger"]).split()),
            actions=(str(action),),
            text=" ".join(str(said["text"]).split()),
            provenance=RuleOrigin(origin="reflected", source=f"{model}, training stays"),
        )
    except UserError as error:
        return Proposed(refused=str(error))
    if action.kind != kind or not action.names(name):
        return Proposed(refused="asks for something else than what was missed")
    compiled = compile_rule(rule)
    if compiled.trigger.node is not None and not compiled.holds(seen.facts):
        return Proposed(refused="its trigger did not hold when the decision was missed")
    return Proposed(rule=rule)


def _action(text: str, verb: str) -> RuleAction:
    """An action; a bare name gets the verb of its type."""
    try:
        return RuleAction.parse(text)
    except UserError:
        return RuleAction.parse(f"{verb} {text}")


def _category(text: str) -> str:
    """A label of capitals; the frequency prior's own is not to be had."""
    label = re.sub(r"\W+", "_", text.upper()).strip("_") or "OTHER"
    return f"{label}_RULE" if label == PRIOR else label
