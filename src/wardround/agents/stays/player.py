"""TRACE's loop over a stay, bundle by bundle, with roles in code or by the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from wardround.agents.loop.episode import Episode
from wardround.agents.loop.steps import ChartScore, PredictedAction, StepPrediction, SubjectScore
from wardround.agents.stays.auditor import (
    Auditor,
    AuditRecord,
    DrugFacts,
    Proposal,
    uncertainty_of,
    uncertainty_of_shares,
    without,
)
from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.model_roles import ROUTER, STEWARD, ask_reasoner, ask_role, predicted
from wardround.agents.stays.router import (
    PRIOR,
    HeldRule,
    Router,
    RuleMemory,
    Suspicion,
    due_actions,
    first_of_each_type,
    shares_of,
    stood_on,
    with_due,
)
from wardround.agents.stays.settings import TraceSettings
from wardround.agents.stays.steward import (
    Absorbed,
    ShownState,
    Steward,
    lines_that_fit,
    newest_bundles,
    numbered,
    shown_rules,
    shown_state,
)
from wardround.clinical.bundles import NOTHING_KNOWN, Bundle, Carried, PatientState
from wardround.clinical.bundles.events import amends
from wardround.clinical.protocols import CompiledRule, RuleIndex, read_protocol

# A step of TRACE with all roles in code: the Router finds rules, the Reasoner orders what is due, the Auditor checks.
#
# For callers with a patient's state after a bundle but no episode: a live stream. The loop over a stay uses the same.


NO_ROWS: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedStep:
    """The result of the roles in code after a bundle. ``rows``: by selected rule, the rows that made its trigger hold;
    not looked up for many stays at once."""

    actions: tuple[PredictedAction, ...]
    read: tuple[HeldRule, ...]
    held: tuple[HeldRule, ...]
    audit: AuditRecord
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict: predictions, selected rules, rules that hold, and the audit."""
        said = {"predicted": [action.to_json() for action in self.actions]}
        return {**said, **rules_noted(self.read, self.held), **audit_noted(self.audit)}


NOTHING_HELD = CodedStep(actions=(), read=(), held=(), audit=AuditRecord())
"""The common case: most bundles of most patients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedRoles:
    """The roles under one protocol, for any number of stays; the memory of a stay is passed in."""

    index: RuleIndex
    settings: TraceSettings
    carried: Carried = NOTHING_KNOWN
    score: SubjectScore | None = None
    """Computes clinical scores, if charts are available."""

    def play(
        self,
        state: PatientState,
        hour: datetime,
        memory: RuleMemory,
        before: Iterable[PatientState] | None = None,
    ) -> CodedStep:
        """Return the step after the bundle of an hour, and update ``memory``. ``before``: for an amending bundle, the
        states before it as if the amendments had always held."""
        settings, router = self.settings, self._router(memory, state.subject_id)
        if before is not None:
            router.remember_afresh(before, window_hours=settings.window_hours)
        facts = router.facts(state, hour, window_hours=settings.window_hours)
        held = router.held(facts)
        router.suspect(held, facts)
        rows = {rule.id: stood_on(rule.compiled, facts, memory.suspected) for rule in with_due(held)}
        return self.answered(facts, held, due_actions(with_due(held), held, most=settings.predictions), rows)

    def remember(self, state: PatientState, hour: datetime, memory: RuleMemory) -> None:
        """Update the memory with the bundle of an hour, as ``play`` does."""
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
        """Return the step of a patient, given the rules that hold and the ``due`` actions. ``rows``: by rule, the rows
        that made its trigger hold."""
        if not held:
            return NOTHING_HELD
        read = with_due(held)
        since = {rule.id: rule.since for rule in read}
        proposal = Proposal(
            facts=facts,
            held=held,
            shown=since.keys(),
            state="",
            rules="",
            actions=due,
            before=proposed_before(due, since, facts.now),
            uncertainty=coded_uncertainty(read, due, self.settings),
        )
        audit = Auditor(settings=self.settings).audit_in_code(proposal)
        kept = without(due, audit, self.settings.on_fail)
        return CodedStep(actions=kept, read=read, held=held, audit=audit, rows=rows)


def proposed_before(actions: Iterable[PredictedAction], since: Mapping[str, datetime], now: datetime) -> frozenset[str]:
    """Return the actions of rules that held before this hour: code proposed them earlier. ``since``: by rule, when it
    began to hold."""
    old = {rule for rule, began in since.items() if began < now}
    return frozenset([action.name for action in actions if not old.isdisjoint(action.because)])


def coded_uncertainty(
    rules: Sequence[HeldRule], actions: Sequence[PredictedAction], settings: TraceSettings
) -> float | None:
    """Return the uncertainty of the coded Reasoner, if the settings ask for it."""
    return uncertainty_of_shares(shares_of(rules, actions)) if settings.unsure_by_shares else None


def coded_roles(protocol: Path, carried: Carried = NOTHING_KNOWN, score: SubjectScore | None = None) -> CodedRoles:
    """Return the roles under a protocol file with default settings. UserError: the file cannot be read."""
    return CodedRoles(index=RuleIndex(read_protocol(protocol)), settings=TraceSettings(), carried=carried, score=score)


def rules_noted(read: Sequence[HeldRule], held: Sequence[HeldRule]) -> dict[str, Any]:
    """Return the ids of the selected rules and of those that hold, as a step logs them."""
    return {"read": [rule.id for rule in read], "held": [rule.id for rule in held]}


def audit_noted(audit: AuditRecord | None) -> Mapping[str, Any]:
    """Return an audit as a step logs it; empty without an Auditor."""
    return {} if audit is None else {"audit": audit.to_json()}


# TRACE's loop over a stay: the Steward adds a bundle, the Router finds rules, the Reasoner predicts, the Auditor checks
# (section 3.3). Each role is in code, or by the model if the settings say so.


KEPT_AS = {
    "allergies": "allergy",
    "active_problems": "problem",
    "current_meds": "given now",
    "trajectory": "trend",
    "procedures": "last done",
}
"""How prompts show the fields of the model's state, the most important first."""
OFFLINE = "offline"
"""The model without language: its roles run in code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of TRACE; an ablation leaves one out."""

    protocol: bool = True
    state: bool = True
    auditor: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The inputs of all roles at one step."""

    episode: Episode
    bundle: Bundle
    facts: StateFacts
    held: tuple[HeldRule, ...]
    state: ShownState
    history: str


class TracePlayer:
    """One stay. It knows only the bundles that it was given."""

    def __init__(self, index: RuleIndex, settings: TraceSettings, parts: Parts) -> None:
        self.index = index
        self.settings = settings
        self.parts = parts
        self.router = Router(index=index, most=settings.rules, predictions=settings.predictions)
        self.auditor = Auditor(settings=settings)
        self.steward = Steward(
            keeps_all=parts.state,
            window_hours=settings.window_hours,
            when=settings.steward,
            limit_tokens=settings.buffer_tokens,
        )
        self.fills = settings.fill and parts.protocol
        self.kept: tuple[str, ...] = ()
        self.unkept: tuple[Bundle, ...] = ()
        self.passed = frozenset[str]()
        """The actions that passed the audit at the step before."""

    @property
    def suspected(self) -> Mapping[str, Suspicion]:
        """Problems that rules made suspect, each with its reason."""
        return self.router.memory.suspected

    def begin(self, past: Sequence[Bundle], carried: Carried = NOTHING_KNOWN, score: ChartScore | None = None) -> None:
        """Begin a stay: earlier bundles, what the source carries, and the function that computes scores."""
        self.router.carried, self.router.score = carried, score
        for bundle in past:
            self.steward.take_in(bundle)

    async def predict(self, episode: Episode, bundle: Bundle) -> StepPrediction:
        """Add a bundle and return the predicted actions."""
        absorbed = self.steward.take_in(bundle, episode.counter)
        step = self._step(episode, bundle, absorbed)
        if absorbed is not None and self.settings.keeper == "model" and self.parts.state:
            await self._keep(episode, absorbed)
        read = await self._route(step)
        proposal = await self._reason(step, read)
        audit = await self.auditor.audit(episode, proposal) if self.parts.auditor else None
        failed = {objection.action.name for objection in audit.objections} if audit is not None else set[str]()
        self.passed = frozenset(action.name for action in proposal.actions) - failed
        actions = without(proposal.actions, audit, self.settings.on_fail)
        return StepPrediction(actions=actions, notes=self._notes(step, read, proposal, audit))

    def foretell(self, bundle: Bundle) -> tuple[StateFacts, tuple[PredictedAction, ...]]:
        """Add a bundle; return the facts after it and the predictions of the rules, in code and without an audit."""
        facts, held = self.read_on(bundle)
        return facts, due_actions(held, held, most=self.settings.predictions)

    def read_on(self, bundle: Bundle) -> tuple[StateFacts, tuple[HeldRule, ...]]:
        """Add a bundle; return the facts after it and the rules that hold."""
        self.steward.take_in(bundle)
        return self._look(bundle)

    def _look(self, bundle: Bundle) -> tuple[StateFacts, tuple[HeldRule, ...]]:
        """Return the facts after a bundle that was added, and the rules that hold."""
        if any(map(amends, bundle.events)):
            before = self.steward.states_before(bundle)
            self.router.remember_afresh(before, window_hours=self.settings.window_hours)
        state = self.steward.state_at(bundle)
        facts = self.router.facts(state, bundle.hour, window_hours=self.settings.window_hours)
        held = self.router.held(facts) if self.parts.protocol else ()
        self.router.suspect(held, facts)
        return facts, held

    def _step(self, episode: Episode, bundle: Bundle, absorbed: Absorbed | None) -> _Step:
        facts, held = self._look(bundle)
        written = ShownState(text="", ids={})
        history = ""
        if self._asks_a_model(episode):
            written, history = self._shown(episode, bundle, absorbed)
        return _Step(episode=episode, bundle=bundle, facts=facts, held=held, state=written, history=history)

    def _asks_a_model(self, episode: Episode) -> bool:
        return self.reasons_by_model(episode) or "model" in (self.settings.router, self.settings.auditor)

    def reasons_by_model(self, episode: Episode) -> bool:
        """Whether the Reasoner is the model in this episode."""
        return self.settings.reasoner == "model" or (self.settings.reasoner == "auto" and episode.model.name != OFFLINE)

    def _shown(self, episode: Episode, bundle: Bundle, absorbed: Absorbed | None) -> tuple[ShownState, str]:
        """Return the state and the bundles of a prompt. Beside a state that the model keeps: all that is not in it."""
        state, bundles = self.steward.shown(bundle)
        if self.kept:
            bundles = (*self.unkept, *(self.steward.buffer if absorbed is None else absorbed.bundles))
        history = newest_bundles(bundles, episode.counter, self.settings.buffer_tokens)
        return self._shown_state(episode, state), history

    def _shown_state(self, episode: Episode, state: PatientState | None) -> ShownState:
        """Return what is known as a prompt shows it: as the model keeps it where it does, else ``state``."""
        room = self.settings.state_tokens
        if self.kept:
            return numbered(self.kept, episode.counter, room)
        if state is None:
            return ShownState(text="", ids={})
        return shown_state(state, self.suspected, episode.counter, room)

    async def _route(self, step: _Step) -> tuple[HeldRule, ...]:
        """Return the rules that are read: a prompt has room for few, code reads all that ask for anything."""
        if not self.parts.protocol:
            return ()
        if self.settings.router == "code":
            by_model = self.reasons_by_model(step.episode)
            return self.router.selected(step.held) if by_model else with_due(step.held)
        listed = self._candidates(step)
        lines = [f"[{held.rule.id}] {held.rule.trigger}" for held in listed]
        answered = await ask_role(
            step.episode,
            ROUTER,
            self.settings.prompt_tokens,
            state=step.state.text or "nothing",
            history=step.history,
            index="\n".join(lines_that_fit(lines, step.episode.counter, self.settings.rules_tokens)),
            most=self.settings.rules,
        )
        chosen = [rule_id.strip("[] ") for rule_id in answered.value.get("selected_protocol_ids", ())]
        known = {held.rule.id: held for held in listed}
        found = [known[rule_id] for rule_id in dict.fromkeys(chosen) if rule_id in known][: self.settings.rules]
        return tuple(self.router.read(rule, step.facts) for rule in found)

    def _candidates(self, step: _Step) -> list[CompiledRule]:
        """The rules that what is known could make hold, those that hold first, and those that no code can judge."""
        held = {rule.id for rule in step.held}
        found = [*self.index.candidates(step.facts.names), *self.index.not_compiled]
        return sorted(
            (rule for rule in found if rule.rule.category != PRIOR), key=lambda rule: rule.rule.id not in held
        )

    async def _reason(self, step: _Step, read: Sequence[HeldRule]) -> Proposal:
        prior = self.router.prior(step.facts) if self.fills else ()
        shown = [*(rule.id for rule in read), *step.state.ids, *(rule.id for rule in prior)]
        most = self.settings.predictions
        told = (
            shown_rules(read, step.episode.counter, self.settings.rules_tokens)
            if self._asks_a_model(step.episode)
            else ""
        )
        common = Proposal(
            facts=step.facts,
            held=step.held,
            shown=tuple(shown),
            state=step.state.text,
            rules=told,
            history=step.history,
            before=self.passed,
        )
        if not self.reasons_by_model(step.episode):
            actions = due_actions((*read, *prior), step.held, most=most)
            return replace(
                common,
                actions=actions,
                uncertainty=coded_uncertainty((*read, *prior), actions, self.settings),
            )
        answered = await ask_reasoner(
            step.episode,
            self.settings,
            rules=told,
            state=step.state.text,
            history=step.history,
            examples=", ".join(shown[:2]) or "S-01",
        )
        actions = (*predicted(answered.value, most=most), *due_actions(prior, step.held, most=most))
        return replace(
            common,
            actions=first_of_each_type(actions, most),
            uncertainty=uncertainty_of(answered.token_logprobs),
            by_model=True,
            value=answered.value,
        )

    async def _keep(self, episode: Episode, absorbed: Absorbed) -> None:
        """Have the model write the state that prompts show. Where it cannot be read the one before stands, and what
        was absorbed is sent again the next time."""
        self.unkept = (*self.unkept, *absorbed.bundles)
        answered = await ask_role(
            episode,
            STEWARD,
            self.settings.prompt_tokens,
            state=self._shown_state(episode, absorbed.before).text or "nothing",
            history=newest_bundles(
                self.unkept, episode.counter, self.settings.buffer_tokens + self.settings.rules_tokens
            ),
        )
        if answered.problem is None:
            self.kept = tuple(f"{said}: {line}" for key, said in KEPT_AS.items() for line in answered.value[key])
            self.unkept = ()

    def _notes(
        self, step: _Step, read: Sequence[HeldRule], proposal: Proposal, audit: AuditRecord | None
    ) -> dict[str, Any]:
        said = proposal.said() if proposal.by_model else {}
        return {**rules_noted(read, step.held), **said, **audit_noted(audit)}
