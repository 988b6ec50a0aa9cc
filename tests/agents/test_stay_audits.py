"""Audits by hand: what is risky, what is said against an action, what takes its place; and replies read with care."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from doubles import ListRecorder
from stay_doubles import HOUR, before, episode_of, facts, medication

from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.auditor import (
    Auditor,
    AuditRecord,
    AuditSettings,
    Objection,
    Proposal,
    find_objections,
    is_risky,
    reasons_to_look,
    replacements,
    uncertainty_of,
    without,
)
from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.model_roles import REASONER, Answered, ask_role, predicted, prompt_tokens
from wardround.agents.stays.player import proposed_before
from wardround.agents.stays.router import HeldRule, Router, due_actions
from wardround.agents.stays.settings import TraceSettings
from wardround.clinical.bundles import EventKind, PatientState
from wardround.clinical.bundles.state import ActiveMedication, DoneAction, KnownAllergy
from wardround.clinical.protocols import GlobalProtocol, ProtocolRule, RuleIndex
from wardround.clinical.protocols.index import compile_rule
from wardround.core import Message
from wardround.models.protocol import Request
from wardround.models.replay import Line, ScriptedModel, say


def drug(name: str, *because: str) -> PredictedAction:
    return PredictedAction(kind="MEDICATIONS", name=name, because=because)


def procedure(name: str, *because: str) -> PredictedAction:
    return PredictedAction(kind="PROCEDURES", name=name, because=because)


def rule(
    name: str,
    *actions: str,
    support: int = 0,
    precision: float | None = None,
    shares: tuple[float, ...] = (),
    weights: Mapping[str, float] | None = None,
    due: bool = True,
) -> HeldRule:
    compiled = compile_rule(
        ProtocolRule(
            id=name,
            category="C",
            trigger="hours since stay >= 0",
            actions=actions or ("order Lactate",),
            support=support,
            precision=precision,
            shares=shares,
            weights=weights or {},
        )
    )
    asked = tuple(one for one in compiled.actions if one.verb not in ("avoid", "hold", "stop"))
    forbids = tuple(one for one in compiled.actions if one not in asked)
    return HeldRule(compiled=compiled, since=HOUR, due=asked if due else (), forbids=forbids)


@pytest.mark.parametrize(
    ("action", "risky"),
    [
        (drug("Heparin"), True),
        (drug("opioids"), True),
        (drug("Paracetamol"), False),
        (procedure("Endotracheal INTUBATION"), True),
        (procedure("EKG"), False),
        (PredictedAction(kind="LABS", name="Heparin"), False),
        (PredictedAction(kind="LABS", name="dialysis fluid"), False),
    ],
)
def test_what_harms_when_it_is_wrong_is_risky(action: PredictedAction, risky: bool) -> None:
    assert is_risky(action) is risky


def test_it_looks_above_tau_and_at_risk() -> None:
    settings = AuditSettings(tau=0.5)
    assert reasons_to_look([drug("Paracetamol")], 0.5, settings) == ()
    assert reasons_to_look([drug("Paracetamol")], 0.51, settings) == ("uncertain",)
    assert reasons_to_look([drug("Paracetamol"), drug("Heparin")], None, settings) == ("risk",)
    assert reasons_to_look([drug("Heparin")], 0.6, settings) == ("uncertain", "risk")
    assert reasons_to_look([], None, settings) == ()
    assert uncertainty_of([-1.0, -3.0]) == 2.0
    assert (uncertainty_of(()), uncertainty_of(None)) == (None, None)
    assert (AuditSettings().tau, AuditSettings().on_fail) == (0.5, "replace")


def patient() -> StateFacts:
    allergy = KnownAllergy(concept="Penicillin", reaction=None, since=HOUR, row_id="a")
    return facts(allergies={"Penicillin": allergy}, medications={"m": medication("Heparin")})


def test_everything_against_an_action_is_found_each_with_its_reason() -> None:
    held = [rule("R0", "order Lactate"), rule("R1", "avoid Heparin", "order Lactate")]
    actions = [drug("Heparin", "R9", "S-01"), drug("penicillin"), procedure("Heparin"), drug("Paracetamol", "R9", "R1")]
    found = find_objections(actions, patient(), held, ["R1"])
    assert [(one.action, one.flaw, one.because) for one in found] == [
        (actions[0], "contraindication", "R1"),
        (actions[0], "duplicate", "Heparin"),
        (actions[0], "citation", "R9, S-01"),
        (actions[1], "allergy", "penicillin"),
        (actions[2], "contraindication", "R1"),
    ]
    assert [one.critique for one in found[:3]] == [
        "Heparin: rule R1 holds and says to avoid it",
        "Heparin: it is being given already",
        "Heparin: it cites R9, S-01, which was not shown",
    ]
    assert find_objections([drug("anticoagulants")], patient(), [], []) == (), "a class may be wanted twice"


def test_what_waits_is_not_forbidden() -> None:
    assert find_objections([drug("Aspirin")], facts(), [rule("R1", "hold Aspirin")], []) == ()


def test_after_an_audit_actions_are_replaced_dropped_or_marked() -> None:
    bad, good, other = drug("Heparin"), drug("Aspirin"), drug("Paracetamol")
    record = AuditRecord(objections=(Objection(action=bad, flaw="duplicate", because="Heparin"),), corrected=(other,))
    assert without([bad, good], record, "replace") == (good, other)
    assert without([bad, good], record, "drop") == (good,)
    assert without([bad, good], record, "flag") == (bad, good)
    assert without([good], replace(record, objections=()), "replace") == (good,)


def test_each_that_failed_is_replaced_once_by_the_next_of_its_type() -> None:
    failed = [drug("A"), drug("B"), procedure("C")]
    objections = [Objection(action=one, flaw="model", because="x") for one in (*failed, failed[0])]
    spare = [drug("Heparin", "R1"), procedure("EKG", "R1"), drug("Aspirin", "R1"), drug("Ibuprofen", "R1")]
    found = replacements(objections, spare, patient(), [])
    assert [one.name for one in found] == ["Aspirin", "Ibuprofen", "EKG"], "heparin runs already"
    assert replacements(objections, [], patient(), []) == ()


def test_an_audit_is_told_without_what_was_not_found() -> None:
    assert AuditRecord().to_json() == {"fired": []}
    assert AuditRecord(unavailable=True).to_json() == {"fired": [], "uncertainty_unavailable": True}
    looked = AuditRecord(fired=("uncertain",), uncertainty=0.123456)
    assert looked.to_json() == {"fired": ["uncertain"], "uncertainty": 0.1235, "status": "PASS", "risk_level": "LOW"}
    one = Objection(action=drug("Heparin"), flaw="duplicate", because="Heparin")
    failed = AuditRecord(fired=("risk",), objections=(one, one), corrected=(drug("Aspirin"),))
    said = {"action": "Heparin", "flaw": "duplicate", "because": "Heparin"}
    assert failed.to_json() == {
        "fired": ["risk"],
        "status": "FAIL",
        "risk_level": "HIGH",
        "objections": [said, said],
        "critique": "Heparin: it is being given already; Heparin: it is being given already",
        "corrected_action": [{"kind": "MEDICATIONS", "name": "Aspirin", "dose": None, "because": []}],
    }
    assert replace(failed, critique="so").to_json()["critique"] == "so"
    assert (replace(failed, objections=()).risk_level, AuditRecord(objections=(one,)).risk_level) == ("HIGH", "HIGH")


def proposed(*actions: PredictedAction, **more: Any) -> Proposal:
    return Proposal(
        facts=patient(), held=(), shown=("R1",), state="the state", rules="the rules", actions=actions, **more
    )


def test_what_is_noted_of_a_reply_parts_right_citations_from_wrong() -> None:
    value = {"thought_process": "so", "next_bundle_type": "LABS", "citations": ["[R1]", " R2 "]}
    assert proposed(value=value).said() == {
        "thought_process": "so",
        "next_bundle_type": "LABS",
        "citations": ["R1"],
        "wrong_citations": ["R2"],
    }
    assert proposed().said()["thought_process"] == ""


def audited(proposal: Proposal, reply: Any = None, **settings: Any) -> tuple[AuditRecord, ListRecorder]:
    asked = ScriptedModel([] if reply is None else [say(json.dumps(reply))])
    episode = episode_of("trace", asked)
    record = asyncio.run(Auditor(settings=TraceSettings(**settings)).audit(episode, proposal))
    assert isinstance(episode.recorder, ListRecorder)
    return record, episode.recorder


def test_the_gate_does_not_open_without_a_reason_and_says_where_it_cannot_know() -> None:
    plain = proposed(drug("Penicillin G", "R9"), uncertainty=0.4, by_model=True)
    assert audited(replace(plain, actions=(procedure("EKG"),)))[0] == AuditRecord(uncertainty=0.4)
    unknown = replace(plain, actions=(procedure("EKG"),), uncertainty=None)
    assert audited(unknown)[0] == AuditRecord(unavailable=True)
    assert audited(replace(unknown, by_model=False))[0] == AuditRecord()


def test_code_checks_every_action_whether_the_gate_opens_or_not() -> None:
    known = facts(allergies={"Metformin": KnownAllergy(concept="Metformin", reaction=None, since=HOUR, row_id="a")})
    some = (drug("Glucophage"), drug("Lasix"), drug("Furosemide"), procedure("EKG", "R9"))
    plain = replace(proposed(), actions=some, facts=known, uncertainty=0.1, by_model=True)
    record = audited(plain, auditor="model", on_fail="drop")[0]  # the model has no reply: it would be an error to ask
    assert record.fired == ()
    assert [(one.flaw, one.action.name) for one in record.objections] == [
        ("allergy", "Glucophage"),
        ("repeated", "Furosemide"),
        ("citation", "EKG"),
    ]
    assert record.to_json()["status"] == "FAIL"


def allergic(*names: str) -> StateFacts:
    return facts(allergies={one: KnownAllergy(concept=one, reaction=None, since=HOUR, row_id=one) for one in names})


@pytest.mark.parametrize(
    ("allergies", "proposed_drug", "notes"),
    [
        (("blue stuff",), "Metoprolol", ["Metoprolol: not checked against the allergy to blue stuff"]),
        (("Penicillin",), "Ceftriaxone", ["Ceftriaxone: not checked against the allergy to Penicillin"]),
        (("Penicillin",), "Metoprolol", []),
        ((), "Metoprolol", []),
        ((), "Xylozomab", ["Xylozomab: no table knows this drug: not checked by ingredient or class"]),
        (("latex", "shellfish"), "Metoprolol", []),
        (("Penicillin",), "Xylozomab",
         ["Xylozomab: not checked against the allergy to Penicillin",
          "Xylozomab: no table knows this drug: not checked by ingredient or class"]),
    ],
)  # fmt: skip
def test_what_no_table_knows_is_listed_as_unchecked(
    allergies: tuple[str, ...], proposed_drug: str, notes: list[str]
) -> None:
    record = audited(replace(proposed(), actions=(drug(proposed_drug),), facts=allergic(*allergies), shown=()))[0]
    assert record.to_json().get("unchecked", []) == notes
    assert record.status == "PASS"


@pytest.mark.parametrize(
    ("allergy", "written", "because"),
    [("Penicillins", "Amoxicilin", "amoxicillin"), ("Penicillins", "pipercillin-tazobactam", None),
     ("Sulfa", "Sulfadiazin 1 g", "sulfadiazine"), ("Penicillins", "Azithromicin", None), ("Aspirin", "Plavix", None)],
)  # fmt: skip
def test_a_drug_with_one_wrong_letter_is_checked_as_what_it_means(
    allergy: str, written: str, because: str | None
) -> None:
    found = find_objections([drug(written)], allergic(allergy), (), ())
    assert [one.because for one in found if one.flaw == "allergy"] == ([] if because is None else [because])


def test_a_laboratory_test_is_no_drug_to_be_checked() -> None:
    some = (PredictedAction(kind="LABS", name="Lactate"), procedure("EKG"))
    assert audited(replace(proposed(), actions=some, facts=allergic("blue stuff")))[0].unchecked == ()


def test_a_risky_action_opens_the_gate_when_it_is_new_and_code_checks_it_at_every_step() -> None:
    first = replace(proposed(), actions=(drug("Insulin"),), facts=facts())
    assert audited(first)[0].fired == ("risk",)
    again = replace(first, before=frozenset({"Insulin"}))
    assert audited(again)[0].fired == ()
    assert audited(replace(again, actions=(drug("Insulin"), drug("Heparin"))))[0].fired == ("risk",)
    against = audited(replace(again, facts=allergic("Insulin")))[0]
    assert [one.flaw for one in against.objections] == ["allergy"]


@pytest.mark.parametrize(
    ("kind", "name", "risky"),
    [
        ("MEDICATIONS", "start norepinephrine", True), ("MEDICATIONS", "begin heparin infusion", True),
        ("PROCEDURES", "Heparin drip", True), ("PROCEDURES", "Intubate", True), ("MEDICATIONS", "vasopressors", True),
        ("PROCEDURES", "Central venous catheter placement", True), ("MEDICATIONS", "2 units PRBC", True),
        ("LABS", "Heparin level", False), ("LABS", "Insulin", False), ("PROCEDURES", "Chest X-ray", False),
        ("MEDICATIONS", "start acetaminophen", False), ("PROCEDURES", "EKG", False),
    ],
)  # fmt: skip
def test_risk_is_seen_in_the_words_and_kinds_that_models_write(kind: Any, name: str, risky: bool) -> None:
    assert is_risky(PredictedAction(kind=kind, name=name)) is risky


def test_without_log_probabilities_a_risky_action_opens_the_gate() -> None:
    without_logprobs = replace(proposed(drug("start norepinephrine", "R1")), uncertainty=None, by_model=True)
    record, recorder = audited(without_logprobs, VERDICT | {"status": "PASS"}, auditor="model")
    assert (record.fired, record.unavailable) == (("risk",), True)
    assert [purpose for _, _, _, purpose in recorder.turns] == ["auditor"]


def test_what_a_rule_proposed_before_this_hour_is_not_new() -> None:
    since, now = {"R1": HOUR, "R2": facts().now}, facts().now
    actions = (drug("Insulin", "R1"), drug("Heparin", "R2"))
    assert proposed_before(actions, since, now) == {"Insulin"}


def test_the_code_replaces_what_fails_by_what_is_due_and_not_proposed_yet() -> None:
    held = (rule("R1", "start Heparin", "start Aspirin", "start Ibuprofen"),)
    record, _ = audited(replace(proposed(drug("Heparin", "R1"), drug("Aspirin", "R1")), held=held))
    assert [(one.flaw, one.action.name) for one in record.objections] == [("duplicate", "Heparin")]
    assert record.corrected == (drug("Ibuprofen", "R1"),)
    assert record.fired == ("risk",)


VERDICT = {"status": "FAIL", "risk_level": "HIGH", "critique": "no", "corrected_action": " Dalteparin "}


def test_a_models_verdict_stands_behind_the_codes() -> None:
    dosed = replace(drug("Fondaparinux", "R1"), dose="low-dose")
    record, recorder = audited(
        proposed(procedure("EKG", "R1"), dosed, drug("Heparin", "R1")),
        VERDICT | {"failed_actions": ["fondaparinux"]},
        auditor="model",
    )
    assert [(one.flaw, one.action.name, one.because) for one in record.objections] == [
        ("duplicate", "Heparin", "Heparin"),
        ("model", "Fondaparinux", "no"),
    ]
    assert record.corrected == (drug("Dalteparin", "R1"),), "without the dose of another drug"
    assert record.critique == "no"
    (asked,) = [request for request, _, _, purpose in recorder.turns if purpose == "auditor"]
    said = asked.messages[1].content or ""
    assert "- PROCEDURES: EKG\n- MEDICATIONS: low-dose Fondaparinux\n- MEDICATIONS: Heparin" in said
    assert "the state" in said
    assert "the rules" in said


def test_a_verdict_that_names_no_action_is_against_the_risky_ones_and_one_that_passes_is_none() -> None:
    """The gate opened for them; what was not doubted (a test, a procedure) stays."""
    actions = (procedure("EKG", "R1"), drug("Fondaparinux", "R1"), drug("Ondansetron", "R1"))
    for named in ([], ["the anticoagulant"]):
        record, _ = audited(proposed(*actions), VERDICT | {"failed_actions": named}, auditor="model")
        assert [one.action.name for one in record.objections] == ["Fondaparinux"]
        assert record.corrected == (drug("Dalteparin", "R1"),)
    lab = replace(procedure("EKG", "R1"), kind="LABS", name="PTT")
    unsure = replace(proposed(lab), uncertainty=0.9)
    record, _ = audited(unsure, VERDICT, auditor="model")
    assert (record.objections, record.corrected) == ((), ()), "nobody said against what"
    assert record.to_json().items() >= {"status": "FAIL", "risk_level": "HIGH", "critique": "no"}.items()


def test_a_drug_is_corrected_into_a_drug() -> None:
    """Of several failed actions the correction takes the type that it is of."""
    verdict = VERDICT | {"failed_actions": ["ekg", "fondaparinux"]}
    actions = (procedure("EKG", "R1"), drug("Fondaparinux", "R1"))
    record, _ = audited(proposed(*actions), verdict, auditor="model")
    assert record.corrected == (drug("Dalteparin", "R1"),)
    record, _ = audited(proposed(*actions), verdict | {"corrected_action": "Echocardiogram"}, auditor="model")
    assert record.corrected == (procedure("Echocardiogram", "R1"),)


def test_a_verdict_without_a_correction_drops_and_one_that_passes_does_nothing() -> None:
    nothing, _ = audited(
        proposed(drug("Fondaparinux", "R1")), VERDICT | {"corrected_action": "  "}, auditor="model", on_fail="drop"
    )
    assert (nothing.status, nothing.corrected) == ("FAIL", ())
    passed, _ = audited(proposed(drug("Fondaparinux", "R1")), VERDICT | {"status": "PASS"}, auditor="model")
    assert (passed.status, passed.critique) == ("PASS", "")


def action(kind: str, name: str, **more: str) -> dict[str, str]:
    return {"type": kind, "name": name, **more}


def test_a_prediction_is_read_with_its_limits() -> None:
    value = {
        "predicted_actions": [
            action("LABS", " Lactate "),
            action("LABS", "  "),
            action("LABS", "Sodium"),
            action("MEDICATIONS", "x" * 300, dose="high-dose"),
            action("MEDICATIONS", "y", dose="none"),
            action("MEDICATIONS", "z", dose="low-dose"),
        ],
        "citations": ["[R1]", "S-01 ", "R1"],
    }
    assert predicted(value, most=2) == (
        PredictedAction(kind="LABS", name="Lactate", because=("R1", "S-01")),
        PredictedAction(kind="MEDICATIONS", name="x" * 200, dose="high-dose", because=("R1", "S-01")),
        PredictedAction(kind="MEDICATIONS", name="y", because=("R1", "S-01")),
    )
    assert predicted({}, most=2) == ()


def asked_for(model: ScriptedModel, most_tokens: int) -> tuple[Answered, Any]:
    episode = episode_of("trace", model)
    common = dict.fromkeys(("rules", "state", "summary", "segments", "history", "examples"), "words")
    found = asyncio.run(ask_role(episode, REASONER, most_tokens, most=5, **common))
    return found, episode


def test_a_prompt_may_be_as_long_as_its_budget_and_is_counted() -> None:
    body = {"thought_process": "", "next_bundle_type": "LABS", "predicted_actions": [], "citations": []}
    found, episode = asked_for(ScriptedModel([say(json.dumps(body))]), 4000)
    assert (found.value, found.problem) == (body, None)
    (request,) = episode.model.requests
    counted = prompt_tokens(episode, request.messages)
    assert counted == sum(episode.counter.count(one.content) for one in request.messages)
    assert episode.prompt_tokens == counted
    assert episode.recorder.of("prompt") == [{"step": 0, "role": "reasoner", "tokens": counted}]
    assert request.settings.token_logprobs
    assert (request.episode, request.ordinal) == ("stay", 0)
    asked_for(ScriptedModel([say(json.dumps(body))]), counted)
    with pytest.raises(ValueError, match=f"the reasoner's prompt has {counted} tokens, its budget is {counted - 1}"):
        asked_for(ScriptedModel([say(json.dumps(body))]), counted - 1)
    assert prompt_tokens(episode, [Message(role="assistant", content=None)]) == 0


def test_what_cannot_be_read_is_a_problem_and_is_noted() -> None:
    def never(request: Request) -> Line:
        return say("no")

    found, episode = asked_for(ScriptedModel(never), 4000)
    assert found.value == {}
    assert found.problem
    assert episode.recorder.of("unreadable") == [{"step": 0, "role": "reasoner", "problem": found.problem}]


def test_rules_are_read_by_precision_then_support_then_name_those_with_something_due_first() -> None:
    router = Router(index=RuleIndex(GlobalProtocol(name="n", rules=())), most=3, predictions=1)
    held = [
        rule("b", precision=0.5, support=1),
        rule("done", precision=1.0, due=False),
        rule("a", "perform EKG", precision=0.5, support=1),
        rule("c", "start Aspirin", precision=0.5, support=2),
        rule("full", "order Sodium", precision=0.4),
        rule("word", "order Glucose"),
    ]
    assert [one.id for one in router.selected(held)] == ["word", "c", "a"], "b and full have no room for a second test"
    assert [one.id for one in router.selected([held[0], held[1], held[4]])] == ["b", "done"]
    assert [held[5].precision, held[0].precision] == [1.0, 0.5]
    assert (Router(index=router.index).most, Router(index=router.index).predictions) == (3, 5)


def test_a_rule_is_due_again_once_it_holds_again() -> None:
    lactate = ProtocolRule(
        id="R1", category="C", trigger="hours since EKG < 4", actions=("order Lactate", "avoid Aspirin")
    )
    common = ProtocolRule(id="P", category="PRIOR", trigger="hours since stay >= 0", actions=("order Sodium",))
    router = Router(index=RuleIndex(GlobalProtocol(name="n", rules=(lactate, common))))
    ekg = DoneAction(concept="EKG", kind=EventKind.PROCEDURE, last=before(1), count=1, row_id="r")
    holding = facts(actions={(ekg.kind, ekg.concept): ekg})
    (first,) = router.held(holding)
    assert (first.id, first.since, [one.name for one in first.due]) == ("R1", holding.now, ["Lactate"])
    assert [str(one) for one in first.forbids] == ["avoid Aspirin"]
    later = StateFacts(holding.state, before(-1), window_hours=6)
    assert router.held(later)[0].since == holding.now, "it holds since it came to hold"
    ordered = DoneAction(concept="Lactate", kind=EventKind.LAB, last=holding.now, count=1, row_id="r")
    state = PatientState(subject_id=1, actions={**holding.state.actions, (ordered.kind, ordered.concept): ordered})
    assert router.held(StateFacts(state, before(-1), window_hours=6))[0].due == ()
    assert router.held(facts()) == ()
    assert router.memory.held_since == {}
    asked = router.read(router.index.rules[0], facts())
    assert (asked.since, [one.name for one in asked.due]) == (facts().now, ["Lactate"])


def test_a_drug_that_runs_is_started_whenever_it_was() -> None:
    router = Router(index=RuleIndex(GlobalProtocol(name="n", rules=())))
    compiled = compile_rule(
        ProtocolRule(id="R", category="C", trigger="hours since stay >= 0", actions=("start Heparin",))
    )
    running = ActiveMedication(
        concept="Heparin", dose=None, unit=None, since=before(9), kind=EventKind.MEDICATION_START, row_id="m"
    )
    assert router.read(compiled, facts(medications={"m": running})).due == ()
    assert [one.name for one in router.read(compiled, facts()).due] == ["Heparin"]


def test_weights_of_all_rules_that_hold_are_summed() -> None:
    """Sodium 0.3 + 0.3 + 0.1 against Lactate 0.5; a rule whose action was done still counts, and asks for nothing."""
    one = rule("R1", "order Lactate", "order Sodium", weights={"order Lactate": 0.5, "order Sodium": 0.3})
    two = rule("R2", "order Sodium", weights={"order Sodium": 0.3})
    done = rule("R3", "order Sodium", weights={"order Sodium": 0.1, "order Calcium": 0.9}, due=False)
    held = [one, two, done]
    assert [action.name for action in due_actions([one], [one], most=5)] == ["Lactate", "Sodium"]
    assert [action.name for action in due_actions([one, two], held, most=5)] == ["Sodium", "Lactate"]
    against = rule("R4", "perform EKG", weights={"order Sodium": -0.3})
    assert [action.name for action in due_actions([one, two], [*held, against], most=5)] == ["Lactate", "Sodium"]
    written = rule("R5", "order Glucose", precision=0.6)
    found = due_actions([one, two, written], [*held, written], most=5)
    assert [action.name for action in found] == ["Sodium", "Glucose", "Lactate"], "0.7, 0.6, 0.5"


def test_what_is_due_is_said_once_by_its_first_rule_and_not_before_its_turn() -> None:
    one, two = (
        rule("R1", "start low-dose Aspirin", "order Lactate"),
        rule("R2", "start Aspirin", "order Sodium", "perform EKG"),
    )
    found = due_actions([one, two], [], most=1)
    assert found == (
        PredictedAction(kind="MEDICATIONS", name="Aspirin", dose="low-dose", because=("R1",)),
        PredictedAction(kind="LABS", name="Lactate", because=("R1",)),
        PredictedAction(kind="PROCEDURES", name="EKG", because=("R2",)),
    )
    held = [rule("W", "hold Aspirin", "avoid Lactate")]
    assert [action.name for action in due_actions([one], held, most=5)] == ["Lactate"], "only what waits is left out"


def test_the_likeliest_action_comes_first_whichever_rule_asks_for_it() -> None:
    """Each action by its own share; a rule nobody counted is taken at its word."""
    some = rule("R1", "order Sodium", "order Lactate", shares=(0.2, 0.6))
    word = rule("R2", "order Sodium", precision=0.4)
    said = due_actions([some, word, rule("R3", "order Calcium")], [], most=3)
    assert [(one.name, one.because) for one in said] == [
        ("Calcium", ("R3",)),
        ("Lactate", ("R1",)),
        ("Sodium", ("R2",)),
    ]
