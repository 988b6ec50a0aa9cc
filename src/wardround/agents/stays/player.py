"""TRACE's loop over a stay: the Steward takes a bundle in, the Router finds rules, the Reasoner predicts, the Auditor
looks where it must (section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wardround.agents.loop.episode import Episode
from wardround.agents.loop.steps import PredictedAction, StepPrediction
from wardround.agents.stays.auditor import (
    AuditRecord,
    AuditSettings,
    find_objections,
    reasons_to_look,
    replacements,
    without,
)
from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.reasoner import due_actions, filled_up
from wardround.agents.stays.router import PRIOR, HeldRule, Router
from wardround.agents.stays.settings import TraceSettings
from wardround.agents.stays.steward import Steward
from wardround.bundles import Bundle
from wardround.protocols import RuleIndex

OFFLINE = "offline"
"""The model that has no language: roles are played in code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What of TRACE there is: an ablation leaves one out."""

    protocol: bool = True
    state: bool = True
    auditor: bool = True


class TracePlayer:
    """One stay. All it knows of the patient is what it was handed."""

    def __init__(self, index: RuleIndex, settings: TraceSettings, parts: Parts) -> None:
        self.index = index
        self.settings = settings
        self.parts = parts
        self.router = Router(index=index, most=settings.rules)
        self.steward = Steward(keeps_all=parts.state, window_hours=settings.window_hours)
        self.suspected: dict[str, str] = {}
        self.began: datetime | None = None

    def begin(self, past: Sequence[Bundle]) -> None:
        """Take in what was known before the stay."""
        for bundle in past:
            self.steward.take_in(bundle)

    async def predict(self, episode: Episode, bundle: Bundle) -> StepPrediction:
        """Take in a bundle and say what is done next."""
        self.steward.take_in(bundle)
        self.began = self.began or bundle.hour
        facts = self._facts(bundle)
        held = self.router.held(facts) if self.parts.protocol else ()
        self._suspect(held)
        read = self.router.selected(held)
        actions = self._due(read, held)
        shown = [rule.id for rule in read]
        audit = self._audit(actions, facts, held, shown)
        return StepPrediction(
            actions=actions if audit is None else without(actions, audit, self.settings.on_fail),
            notes=self._notes(read, held, audit),
        )

    def _facts(self, bundle: Bundle) -> StateFacts:
        return StateFacts(
            self.steward.state_at(bundle),
            bundle.hour,
            window_hours=self.settings.window_hours,
            suspected=self.suspected,
            began=self.began,
        )

    def _suspect(self, held: Sequence[HeldRule]) -> None:
        """What a rule that holds makes suspect is an active problem from here on, with the rule as its reason."""
        for rule in held:
            problem = rule.compiled.rule.suspects
            if problem is not None:
                self.suspected.setdefault(problem, rule.id)

    def _due(self, read: Sequence[HeldRule], held: Sequence[HeldRule]) -> tuple[PredictedAction, ...]:
        most = self.settings.predictions
        actions = due_actions(read, held, most=most)
        if not self.settings.fill or not self.parts.protocol:
            return actions
        return filled_up(actions, [one for one in self.index.rules if one.rule.category == PRIOR], most=most)

    def _audit(
        self,
        actions: Sequence[PredictedAction],
        facts: StateFacts,
        held: Sequence[HeldRule],
        shown: Sequence[str],
    ) -> AuditRecord | None:
        if not self.parts.auditor:
            return None
        settings = AuditSettings(tau=self.settings.tau, on_fail=self.settings.on_fail)
        fired = reasons_to_look(actions, None, settings)
        if not fired:
            return AuditRecord()
        prior = [one.rule.id for one in self.index.rules if one.rule.category == PRIOR] if self.settings.fill else []
        objections = find_objections(actions, facts, held, (*shown, *prior))
        spare = [one for one in due_actions(held, held, most=len(actions) + 20) if one not in actions]
        corrected = replacements(objections, spare, facts, held)
        return AuditRecord(fired=fired, objections=objections, corrected=corrected)

    def _notes(
        self, read: Sequence[HeldRule], held: Sequence[HeldRule], audit: AuditRecord | None
    ) -> Mapping[str, Any]:
        notes: dict[str, Any] = {"read": [rule.id for rule in read], "held": [rule.id for rule in held]}
        if audit is not None:
            notes["audit"] = audit.to_json()
        return notes
