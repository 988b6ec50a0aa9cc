"""A proposal and its audit: the checks in code of every action, then the model's where its gate opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.agents.loop.episode import Episode
from wardround.agents.loop.reductions import cut_notice, cut_text
from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.asking import AUDITOR, ask_role
from wardround.agents.stays.auditor import (
    AuditRecord,
    AuditSettings,
    DrugFacts,
    Objection,
    find_objections,
    find_unchecked,
    reasons_to_look,
    replacements,
)
from wardround.agents.stays.reasoner import due_actions
from wardround.agents.stays.router import HeldRule
from wardround.agents.stays.settings import TraceSettings
from wardround.agents.stays.showing import lines_that_fit
from wardround.codes import normalise_label

_SPARE = 100
_ACTION_TOKENS = 400
_THOUGHT_TOKENS = 100
"""Of the rationale, and of the citations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the Reasoner proposes and what it was shown. ``history``: the bundles; ``uncertainty`` is None where there
    are no log-probabilities; ``before``: what passed its audit at the step before; ``value``: its reply, where it is
    the model's."""

    facts: DrugFacts
    held: tuple[HeldRule, ...]
    shown: tuple[str, ...]
    state: str
    rules: str
    history: str = ""
    actions: tuple[PredictedAction, ...] = ()
    before: frozenset[str] = frozenset()
    uncertainty: float | None = None
    by_model: bool = False
    value: Mapping[str, Any] = field(default_factory=dict)

    def said(self) -> dict[str, Any]:
        """What of the reply is noted beside the actions: thought, type, citations and those that were not shown."""
        cited = [one.strip("[] ") for one in self.value.get("citations", ())]
        return {
            "thought_process": self.value.get("thought_process", ""),
            "next_bundle_type": self.value.get("next_bundle_type"),
            "citations": [one for one in cited if one in self.shown],
            "wrong_citations": [one for one in cited if one not in self.shown],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Checks every proposal in code; asks the model where the reply was unsure or a new action is risky."""

    settings: TraceSettings

    async def audit(self, episode: Episode, proposal: Proposal) -> AuditRecord:
        """Return what an audit came to; the model may not have been asked."""
        record = self._checked(proposal)
        if record.fired and self.settings.auditor == "model":
            record = await self._by_model(episode, proposal, record)
        return _corrected(record, proposal)

    def audit_in_code(self, proposal: Proposal) -> AuditRecord:
        """Return what the checks in code alone come to."""
        return _corrected(self._checked(proposal), proposal)

    def _checked(self, proposal: Proposal) -> AuditRecord:
        unavailable = proposal.by_model and proposal.uncertainty is None
        settings = AuditSettings(tau=self.settings.tau, on_fail=self.settings.on_fail)
        new = [one for one in proposal.actions if one.name not in proposal.before]
        return AuditRecord(
            fired=reasons_to_look(new, proposal.uncertainty, settings),
            uncertainty=proposal.uncertainty,
            unavailable=unavailable,
            objections=find_objections(proposal.actions, proposal.facts, proposal.held, proposal.shown),
            unchecked=find_unchecked(proposal.actions, proposal.facts),
        )

    async def _by_model(self, episode: Episode, proposal: Proposal, record: AuditRecord) -> AuditRecord:
        """Ask the model too; its objections come behind those of the code, its correction takes their place."""
        lines = ["- " + " ".join(filter(None, (f"{one.kind}:", one.dose, one.name))) for one in proposal.actions]
        thought = str(proposal.value.get("thought_process", ""))
        cited = tuple(dict.fromkeys(one for action in proposal.actions for one in action.because))
        answered = await ask_role(
            episode,
            AUDITOR,
            self.settings.prompt_tokens,
            actions="\n".join(lines_that_fit(lines, episode.counter, _ACTION_TOKENS)),
            thought=cut_text(thought, episode.counter, _THOUGHT_TOKENS, notice=cut_notice),
            citations=", ".join(lines_that_fit(cited, episode.counter, _THOUGHT_TOKENS)) or "none",
            state=proposal.state or "nothing",
            history=proposal.history or "nothing",
            rules=proposal.rules or "none",
        )
        if answered.value.get("status") != "FAIL":
            return record
        failed = {normalise_label(name) for name in answered.value.get("failed_actions", ())}
        critique = str(answered.value.get("critique", ""))
        against = [one for one in proposal.actions if normalise_label(one.name) in failed] or [*proposal.actions[:1]]
        objections = tuple(Objection(action=one, flaw="model", because=critique) for one in against)
        safer = str(answered.value.get("corrected_action", "")).strip()
        corrected = (replace(against[0], name=safer, dose=None),) if safer and against else ()
        return replace(record, objections=(*record.objections, *objections), critique=critique, corrected=corrected)


def _corrected(record: AuditRecord, proposal: Proposal) -> AuditRecord:
    """Note what was proposed, and put other actions in the place of those that failed where the model has not."""
    if not record.objections:
        return record
    record = replace(record, proposed=proposal.actions)
    if record.corrected:
        return record
    facts, held = proposal.facts, proposal.held
    spare = [one for one in due_actions(held, held, most=_SPARE) if one not in proposal.actions]
    return replace(record, corrected=replacements(record.objections, spare, facts, held))
