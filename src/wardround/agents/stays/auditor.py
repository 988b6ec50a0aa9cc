"""The Auditor: its checks in code, when it asks the model too, and what a failed check does to an action.

Code checks every action by ingredient and class: allergies, rules that forbid it, a drug that already runs or is
proposed twice, and citations that were not shown. Actions that no table knows are listed as unchecked. The model is
asked if the paper's gate opens: the reply is unsure (mean token log-probability), or an action of the risk vocabulary
is new. An action that passed at the step before is not sent to the model again; code still checks it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from math import log
from statistics import fmean
from typing import Any, Literal, Protocol

from wardround.agents.loop.context import cut_notice, cut_text
from wardround.agents.loop.episode import Episode
from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.model_roles import AUDITOR, ask_role
from wardround.agents.stays.router import HeldRule, due_actions
from wardround.agents.stays.settings import OnFail, TraceSettings
from wardround.agents.stays.steward import lines_that_fit
from wardround.clinical.codes import normalise_label
from wardround.clinical.protocols import RuleAction
from wardround.clinical.vocabulary import drug_class, drug_classes, ingredients, is_known_drug, misspelled_drug

_LEAST_SHARE = 1e-4
"""Replaces a share of 0, whose log is not a number."""
Reason = Literal["uncertain", "risk"]
Flaw = Literal["allergy", "contraindication", "duplicate", "repeated", "citation", "model"]
RISK_CLASSES = (
    "anticoagulants", "thrombolytics", "vasopressors", "inotropes", "opioids", "sedatives", "insulins",
    "antiarrhythmics", "neuromuscular blockers",
)  # fmt: skip
"""The vocabulary of high-stakes drugs: drugs that harm when given wrongly (our choice; the paper prints none).
Allergies to common drugs are checked in code at every step, so those drugs are not listed."""
RISK_PROCEDURES = (
    "intubat", "mechanical ventilation", "dialysis", "crrt", "hemofiltration", "transfus", "prbc", "red blood cells",
    "cardioversion", "defibrillat", "central line", "central venous", "cvc", "multi lumen", "lumbar puncture",
    "thoracentesis", "paracentesis", "pericardiocentesis", "chest tube", "ecmo",
)  # fmt: skip
"""Stems of invasive procedures."""


class DrugFacts(Protocol):
    """The facts of a patient that the checks need (``Facts``)."""

    @property
    def now(self) -> datetime:
        """The end of the bundle's hour."""
        ...

    def taking(self, drug: str) -> bool | None:
        """Whether a drug, or a drug of a class, is running now."""
        ...

    def allergic_to(self, substance: str) -> bool | None:
        """Whether an allergy to a drug or its class is known."""
        ...

    def unclear_allergies(self, substance: str) -> tuple[str, ...]:
        """The charted allergies for which it is unknown whether they forbid a drug."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """One objection to one action. ``because``: the rule, allergy or citation that it is based on."""

    action: PredictedAction
    flaw: Flaw
    because: str

    @property
    def critique(self) -> str:
        """In words."""
        return f"{self.action.name}: {_SAID[self.flaw].format(because=self.because)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """An action that a check could not judge, and why."""

    action: PredictedAction
    because: str

    @property
    def note(self) -> str:
        """In words."""
        return f"{self.action.name}: {self.because}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """The result of an audit.

    ``fired``: why the gate of the model's audit opened, empty if it did not. If actions failed, ``proposed`` are all
    actions before the audit, ``corrected`` their replacements. ``unavailable``: no uncertainty, since the endpoint
    gives no log-probabilities. ``unchecked``: actions that passed because no table could judge them."""

    fired: tuple[Reason, ...] = ()
    uncertainty: float | None = None
    unavailable: bool = False
    objections: tuple[Objection, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    proposed: tuple[PredictedAction, ...] = ()
    corrected: tuple[PredictedAction, ...] = ()
    critique: str = ""

    @property
    def status(self) -> Literal["PASS", "FAIL"]:
        """Whether an action failed, or the model objects without saying to which."""
        return "FAIL" if self.objections or self.critique else "PASS"

    @property
    def risk_level(self) -> Literal["LOW", "HIGH"]:
        """High if the audit failed or an action is of the risk vocabulary."""
        return "HIGH" if self.status == "FAIL" or "risk" in self.fired else "LOW"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict without empty fields."""
        body: dict[str, Any] = {"fired": list(self.fired)}
        if self.uncertainty is not None:
            body["uncertainty"] = round(self.uncertainty, 4)
        if self.unavailable:
            body["uncertainty_unavailable"] = True
        if self.fired or self.objections:
            body |= {"status": self.status, "risk_level": self.risk_level}
        if self.critique and not self.objections:
            body["critique"] = self.critique
        if self.objections:
            said = [
                {"action": objection.action.name, "flaw": objection.flaw, "because": objection.because}
                for objection in self.objections
            ]
            body |= {"objections": said, "critique": self.critique or "; ".join(o.critique for o in self.objections)}
            body["corrected_action"] = [action.to_json() for action in self.corrected]
        if self.unchecked:
            body["unchecked"] = [action.note for action in self.unchecked]
        if self.proposed:
            body["proposed"] = [action.to_json() for action in self.proposed]
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """``tau``: a reply with a mean negative log-probability per token above it is unsure (the value is our choice).
    ``on_fail``: a failed action is replaced by another one, dropped, or only marked."""

    tau: float = 0.5
    on_fail: OnFail = "replace"


def uncertainty_of(token_logprobs: Sequence[float] | None) -> float | None:
    """Return the mean negative log-probability of the reply's tokens (section 3.3); None without log-probabilities."""
    return -fmean(token_logprobs) if token_logprobs else None


def uncertainty_of_shares(shares: Sequence[float]) -> float | None:
    """Return the mean negative log of the shares of proposed actions, used as probabilities by the coded Reasoner."""
    return uncertainty_of([log(max(share, _LEAST_SHARE)) for share in shares])


def is_risky(action: PredictedAction) -> bool:
    """Whether an action is of the risk vocabulary, under either of the types that a model may give it."""
    return action.kind != "LABS" and _is_risky(action.name)


@lru_cache(maxsize=65_536)
def _is_risky(name: str) -> bool:
    is_drug = bool({drug_class(name), *drug_classes(name)} & set(RISK_CLASSES))
    words = name.lower().replace("-", " ")
    return is_drug or any(word in words for word in RISK_PROCEDURES)


def reasons_to_look(
    actions: Sequence[PredictedAction], uncertainty: float | None, settings: AuditSettings
) -> tuple[Reason, ...]:
    """Return why the gate of the model's audit opens, empty if it does not. ``actions``: the new ones."""
    unsure = uncertainty is not None and uncertainty > settings.tau
    risky = any(map(is_risky, actions))
    return (*(("uncertain",) if unsure else ()), *(("risk",) if risky else ()))


def find_objections(
    actions: Sequence[PredictedAction], facts: DrugFacts, held: Sequence[HeldRule], shown: Collection[str]
) -> tuple[Objection, ...]:
    """Return all objections to some actions. ``shown``: the ids that could be cited."""
    found: list[Objection] = []
    avoided = [(rule.id, action) for rule in held for action in rule.forbids if action.verb == "avoid"]
    drugs: list[PredictedAction] = []
    for action in actions:
        allergy, forbidden = _allergy(action, facts), _forbidden(action, avoided) if avoided else None
        spelt = misspelled_drug(action.name)
        if spelt is not None:
            meant = replace(action, name=spelt)
            allergy, forbidden = allergy or _allergy(meant, facts), forbidden or _forbidden(meant, avoided)
        again = None
        if action.kind == "MEDICATIONS":
            again = _duplicate(action, facts) or _repeated(action, drugs)
            drugs.append(action)
        uncited = _citation(action, shown)
        if allergy or forbidden or again or uncited:
            flaws = filter(None, (allergy, forbidden, again, uncited))
            found += [Objection(action=action, flaw=flaw, because=because) for flaw, because in flaws]
    return tuple(found)


def find_unchecked(actions: Sequence[PredictedAction], facts: DrugFacts) -> tuple[Unchecked, ...]:
    """Return the drugs that no table knows, and those for which a charted allergy cannot be judged."""
    return tuple(
        Unchecked(action=action, because=because)
        for action in actions
        if is_checked(action)
        for because in why_unchecked(action.name, facts.unclear_allergies(action.name))
    )


def is_checked(action: PredictedAction) -> bool:
    """Whether an action is looked up in the tables of drugs."""
    return action.kind == "MEDICATIONS" or is_known_drug(action.name)


def why_unchecked(drug: str, unclear: Sequence[str]) -> Iterator[str]:
    """Yield why a drug cannot be judged; ``unclear``: the allergies that cannot be judged."""
    if unclear:
        yield f"not checked against the allergy to {'; '.join(unclear)}"
    if not is_known_drug(drug):
        yield "no table knows this drug: not checked by ingredient or class"


def without(
    actions: Sequence[PredictedAction], record: AuditRecord | None, on_fail: OnFail
) -> tuple[PredictedAction, ...]:
    """Return the actions after an audit; without an audit unchanged."""
    failed = [objection.action for objection in record.objections] if record is not None else []
    if record is None or on_fail == "flag" or not failed:
        return tuple(actions)
    kept = tuple(action for action in actions if action not in failed)
    return (*kept, *record.corrected) if on_fail == "replace" else kept


def replacements(
    objections: Sequence[Objection], spare: Sequence[PredictedAction], facts: DrugFacts, held: Sequence[HeldRule]
) -> tuple[PredictedAction, ...]:
    """Return for each failed action the next one of its type without an objection."""
    left = list(spare)
    found = []
    for kind in [action.kind for action in dict.fromkeys(objection.action for objection in objections)]:
        for candidate in left:
            if candidate.kind == kind and not find_objections([candidate], facts, held, candidate.because):
                found.append(candidate)
                left.remove(candidate)
                break
    return tuple(found)


def _allergy(action: PredictedAction, facts: DrugFacts) -> tuple[Flaw, str] | None:
    is_drug = action.kind in ("MEDICATIONS", "PROCEDURES") or is_known_drug(action.name)
    if is_drug and facts.allergic_to(action.name):
        return "allergy", action.name
    return None


def _forbidden(action: PredictedAction, avoided: Sequence[tuple[str, RuleAction]]) -> tuple[Flaw, str] | None:
    for rule, one in avoided:
        if one.forbids(action.name):
            return "contraindication", rule
    return None


def _duplicate(action: PredictedAction, facts: DrugFacts) -> tuple[Flaw, str] | None:
    if drug_class(action.name) is None and facts.taking(action.name):
        return "duplicate", action.name
    return None


def _repeated(action: PredictedAction, before: Iterable[PredictedAction]) -> tuple[Flaw, str] | None:
    """Object to a drug that is already proposed under another name (the list itself has no equal names)."""
    own = ingredients(action.name)
    for other in before if own else ():
        if own <= ingredients(other.name) and other.name != action.name:
            return "repeated", other.name
    return None


def _citation(action: PredictedAction, shown: Collection[str]) -> tuple[Flaw, str] | None:
    """Object to an action without any valid citation. A wrong citation beside a valid one is only recorded."""
    for one in action.because:
        if one in shown:
            return None
    return ("citation", ", ".join(action.because)) if action.because else None


_SAID: Mapping[Flaw, str] = {
    "allergy": "an allergy to it, to what it holds or to its class is on the chart",
    "contraindication": "rule {because} holds and says to avoid it",
    "duplicate": "it is being given already",
    "repeated": "it is proposed already, as {because}",
    "citation": "it cites {because}, which was not shown",
    "model": "{because}",
}


# A proposal and its audit: checks in code of every action, then the model's audit if its gate opens.


_SPARE = 100
_ACTION_TOKENS = 400
_THOUGHT_TOKENS = 100
"""Limits of the rationale (characters) and of the citations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The Reasoner's proposal and what it was shown.

    ``history``: the bundles; ``uncertainty``: None without log-probabilities; ``before``: the actions that passed the
    audit of the step before; ``value``: the model's reply, if the Reasoner is the model."""

    facts: DrugFacts
    held: tuple[HeldRule, ...]
    shown: Collection[str]
    state: str
    rules: str
    history: str = ""
    actions: tuple[PredictedAction, ...] = ()
    before: frozenset[str] = frozenset()
    uncertainty: float | None = None
    by_model: bool = False
    value: Mapping[str, Any] = field(default_factory=dict)

    @property
    def new(self) -> tuple[PredictedAction, ...]:
        """The actions that did not pass the audit of the step before."""
        return tuple(action for action in self.actions if action.name not in self.before)

    def said(self) -> dict[str, Any]:
        """Return what is logged beside the actions: thought, type, citations, and citations that were not shown."""
        cited = [row.strip("[] ") for row in self.value.get("citations", ())]
        return {
            "thought_process": self.value.get("thought_process", ""),
            "next_bundle_type": self.value.get("next_bundle_type"),
            "citations": [row for row in cited if row in self.shown],
            "wrong_citations": [row for row in cited if row not in self.shown],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Checks every proposal in code; asks the model too if the reply is unsure or a new action is risky."""

    settings: TraceSettings

    async def audit(self, episode: Episode, proposal: Proposal) -> AuditRecord:
        """Return the audit of a proposal, by code and, if its gate opens, by the model."""
        record = self._checked(proposal)
        if record.fired and self.settings.auditor == "model":
            record = await self._by_model(episode, proposal, record)
        return _corrected(record, proposal)

    def audit_in_code(self, proposal: Proposal) -> AuditRecord:
        """Return the audit by the checks in code alone."""
        return _corrected(self._checked(proposal), proposal)

    def _checked(self, proposal: Proposal) -> AuditRecord:
        unavailable = proposal.by_model and proposal.uncertainty is None
        settings = AuditSettings(tau=self.settings.tau, on_fail=self.settings.on_fail)
        return AuditRecord(
            fired=reasons_to_look(proposal.new, proposal.uncertainty, settings),
            uncertainty=proposal.uncertainty,
            unavailable=unavailable,
            objections=find_objections(proposal.actions, proposal.facts, proposal.held, proposal.shown),
            unchecked=find_unchecked(proposal.actions, proposal.facts),
        )

    async def _by_model(self, episode: Episode, proposal: Proposal, record: AuditRecord) -> AuditRecord:
        """Ask the model too: its objections follow those of the code, its correction replaces the actions.

        A verdict that names no proposed action is against the new risky ones; if there are none, against nothing.
        """
        lines = [
            "- " + " ".join(filter(None, (f"{action.kind}:", action.dose, action.name))) for action in proposal.actions
        ]
        thought = str(proposal.value.get("thought_process", ""))
        cited = tuple(dict.fromkeys(row for action in proposal.actions for row in action.because))
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
        named = [action for action in proposal.actions if normalise_label(action.name) in failed]
        against = named or [action for action in proposal.new if is_risky(action)]
        objections = tuple(Objection(action=action, flaw="model", because=critique) for action in against)
        safer = str(answered.value.get("corrected_action", "")).strip()
        corrected = (_instead(safer, against),) if safer and against else ()
        return replace(record, objections=(*record.objections, *objections), critique=critique, corrected=corrected)


def _instead(name: str, failed: Sequence[PredictedAction]) -> PredictedAction:
    """Return an action in the place of failed ones: a drug for a drug, else of the type of the first."""
    drugs = [action for action in failed if action.kind == "MEDICATIONS"] if is_known_drug(name) else []
    return replace((*drugs, *failed)[0], name=name, dose=None)


def _corrected(record: AuditRecord, proposal: Proposal) -> AuditRecord:
    """Record the proposal, and replace failed actions that the model did not correct."""
    if not record.objections:
        return record
    record = replace(record, proposed=proposal.actions)
    if record.corrected:
        return record
    facts, held = proposal.facts, proposal.held
    spare = [due_action for due_action in due_actions(held, held, most=_SPARE) if due_action not in proposal.actions]
    return replace(record, corrected=replacements(record.objections, spare, facts, held))
