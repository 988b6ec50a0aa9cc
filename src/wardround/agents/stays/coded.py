"""A step of TRACE with all roles in code: the Router finds rules, the Reasoner orders what is due, the Auditor checks.

For whoever has a patient's state after a bundle and no episode: a live stream. A played stay calls the same parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from wardround.agents.loop.steps import PredictedAction, SubjectScore
from wardround.agents.stays.auditing import Auditor, Proposal
from wardround.agents.stays.auditor import AuditRecord, DrugFacts, uncertainty_of_shares, without
from wardround.agents.stays.reasoner import due_actions, shares_of
from wardround.agents.stays.router import HeldRule, Router, RuleMemory, asking, stood_on
from wardround.agents.stays.settings import TraceSettings
from wardround.bundles import NOTHING_KNOWN, Carried, PatientState
from wardround.protocols import RuleIndex, read_protocol

NO_ROWS: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedStep:
    """What the roles in code came to after a bundle. ``rows``: by rule that was read, those that its trigger stood on;
    of stays played together they are not looked up."""

    actions: tuple[PredictedAction, ...]
    read: tuple[HeldRule, ...]
    held: tuple[HeldRule, ...]
    audit: AuditRecord
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict: the predictions and how they came about."""
        said = {"predicted": [action.to_json() for action in self.actions]}
        return {**said, **rules_noted(self.read, self.held), **audit_noted(self.audit)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedRoles:
    """The roles of any number of stays under one protocol; what one stay is remembered by is handed in."""

    index: RuleIndex
    settings: TraceSettings
    carried: Carried = NOTHING_KNOWN
    score: SubjectScore | None = None
    """Works out scores where the charts are at hand."""

    def play(
        self,
        state: PatientState,
        hour: datetime,
        memory: RuleMemory,
        before: Iterable[PatientState] | None = None,
    ) -> CodedStep:
        """Return the step after the bundle of an hour; ``memory`` is brought up to it. ``before``: where the bundle
        amends the record, the states before it as if that had always been so."""
        settings, router = self.settings, self._router(memory, state.subject_id)
        if before is not None:
            router.remember_afresh(before, window_hours=settings.window_hours)
        facts = router.facts(state, hour, window_hours=settings.window_hours)
        held = router.held(facts)
        router.suspect(held, facts)
        rows = {rule.id: stood_on(rule.compiled, facts, memory.suspected) for rule in asking(held)}
        return self.answered(facts, held, due_actions(asking(held), held, most=settings.predictions), rows)

    def remember(self, state: PatientState, hour: datetime, memory: RuleMemory) -> None:
        """Bring what is remembered up to the bundle of an hour, as ``play`` does."""
        self._router(memory, state.subject_id).remember(state, hour, window_hours=self.settings.window_hours)

    def _router(self, memory: RuleMemory, subject: int) -> Router:
        settings = self.settings
        return Router(
            index=self.index,
            most=settings.rules,
            predictions=settings.predictions,
            carried=self.carried,
            score=None if self.score is None else partial(self.score, subject),
            memory=memory,
        )

    def answered(
        self,
        facts: DrugFacts,
        held: tuple[HeldRule, ...],
        due: tuple[PredictedAction, ...],
        rows: Mapping[str, tuple[str, ...]] = NO_ROWS,
    ) -> CodedStep:
        """Return the step of a patient for whom some rules hold, of whose actions these are ``due``. ``rows``: what
        triggers stood on, by rule."""
        read = asking(held)
        shown = tuple(rule.id for rule in read)
        proposal = Proposal(
            facts=facts,
            held=held,
            shown=shown,
            state="",
            rules="",
            actions=due,
            before=proposed_before(due, read, facts),
            uncertainty=coded_uncertainty(read, due, self.settings),
        )
        audit = Auditor(settings=self.settings).audit_in_code(proposal)
        kept = without(due, audit, self.settings.on_fail)
        return CodedStep(actions=kept, read=read, held=held, audit=audit, rows=rows)


def proposed_before(actions: Iterable[PredictedAction], rules: Iterable[HeldRule], facts: DrugFacts) -> frozenset[str]:
    """Return the actions that stand on a rule that held before this hour already: code proposed them then."""
    old = {rule.id for rule in rules if rule.since < facts.now}
    return frozenset(action.name for action in actions if not old.isdisjoint(action.because))


def coded_uncertainty(
    rules: Sequence[HeldRule], actions: Sequence[PredictedAction], settings: TraceSettings
) -> float | None:
    """Return how unsure the coded Reasoner is of its actions, where the settings ask for it."""
    return uncertainty_of_shares(shares_of(rules, actions)) if settings.unsure_by_shares else None


def coded_roles(protocol: Path, carried: Carried = NOTHING_KNOWN, score: SubjectScore | None = None) -> CodedRoles:
    """Return the roles under a protocol file, as settings have them by default. UserError: it cannot be read."""
    return CodedRoles(index=RuleIndex(read_protocol(protocol)), settings=TraceSettings(), carried=carried, score=score)


def rules_noted(read: Sequence[HeldRule], held: Sequence[HeldRule]) -> dict[str, Any]:
    """Return the ids of the rules that were read and of those that hold, as a step notes them."""
    return {"read": [rule.id for rule in read], "held": [rule.id for rule in held]}


def audit_noted(audit: AuditRecord | None) -> Mapping[str, Any]:
    """Return an audit as a step notes it; nothing where there is no Auditor."""
    return {} if audit is None else {"audit": audit.to_json()}
