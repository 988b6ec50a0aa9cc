"""A stay's timeline by hand: what was predicted and happened, which rules were read, and what the audit said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from wardround.reports.stay_pages import timeline

STEP = {
    "step": 1,
    "hour": "2150-01-01 08:00",
    "actions": [
        {"kind": "LABS", "name": "Lactate", "because": ["r9"]},
        {"kind": "LABS", "name": "Sodium"},
        {"kind": "MEDICATIONS", "name": "Heparin"},
    ],
    "read": [f"r{number}" for number in range(17)],
    "audit": {"fired": ["risk", "unsure"], "status": "revised", "critique": "Bleeding."},
}
QUIET = {"step": 2, "hour": "2150-01-01 09:00", "actions": [], "read": [], "audit": {"fired": [], "status": "passed"}}


def shown(*steps: dict[str, Any]) -> Any:
    notes = [SimpleNamespace(kind="step", detail=one) for one in steps]
    played = SimpleNamespace(notes=[SimpleNamespace(kind="other", detail={}), *notes], outcome={"answer": []})
    return timeline(cast(Any, played), cast(Any, SimpleNamespace(target=())))


def test_a_step_says_what_was_predicted_by_type_and_which_rules_it_stands_on() -> None:
    first, second = shown(STEP, QUIET)
    assert first.predicted == "labs: Lactate, Sodium; medications: Heparin"
    assert first.rules.split(", ")[0] == "r9"
    assert first.rules.endswith(" and 2 more")
    assert (second.predicted, second.rules) == ("", "")


def test_an_audit_is_told_only_where_something_called_for_it() -> None:
    first, second = shown(STEP, QUIET)
    assert first.audit == "revised (risk, unsure): Bleeding."
    assert second.audit == ""


def test_what_code_found_and_what_nobody_could_check_are_told_where_the_gate_stayed_closed() -> None:
    audit = {"fired": [], "status": "FAIL", "critique": "Bleeding.", "unchecked": ["Xylozomab: no table knows it"]}
    (only,) = shown(STEP | {"audit": audit})
    assert only.audit == "FAIL: Bleeding.; unchecked: Xylozomab: no table knows it"


def test_proposals_stand_with_the_text_of_their_rules_and_what_was_done_is_marked() -> None:
    played = SimpleNamespace(notes=[SimpleNamespace(kind="step", detail=STEP)], outcome={"answer": []})
    stay = SimpleNamespace(target=("00001|LABS|lactate", "00001|MEDICATIONS|Aspirin", "00002|LABS|Sodium"))
    (only,) = timeline(cast(Any, played), cast(Any, stay), {"r9": "IF shock THEN order Lactate."})
    assert [(one.actions, one.reasons) for one in only.proposals] == [
        ("labs: Lactate", (("r9", "IF shock THEN order Lactate."),)),
        ("labs: Sodium; medications: Heparin", ()),
    ]
    assert only.done == (("lactate", True), ("Aspirin", False))


def test_what_the_audit_stopped_says_why_and_what_took_its_place() -> None:
    audit = {
        "fired": [],
        "status": "FAIL",
        "critique": "Heparin: bleeding.",
        "objections": [{"action": "Heparin", "flaw": "contraindicated", "because": "Platelet Count 20"}],
        "corrected_action": [{"kind": "MEDICATIONS", "name": "Pantoprazole", "dose": None, "because": []}],
    }
    (only,) = shown(STEP | {"audit": audit})
    assert only.stopped == (
        "Heparin: contraindicated, because Platelet Count 20",
        "proposed instead: medications: Pantoprazole",
    )
