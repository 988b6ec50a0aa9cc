"""The roles in code, for a live stream: what they say of a state is what an episode of the agent says."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from stay_doubles import DONE, LAB, START, event, play_stay, stay

from wardround.agents.stays.player import CodedRoles
from wardround.agents.stays.router import RuleMemory, Suspicion
from wardround.agents.stays.settings import TraceSettings
from wardround.clinical.bundles import BundleStream, Carried, EventKind, states
from wardround.clinical.protocols import RuleIndex, read_protocol

SEPSIS = Path(__file__).parents[2] / "examples" / "sepsis.toml"
RISKY = """
schema = 1
name = "risky"
[[rule]]
id = "CLOT"
category = "BLEEDING"
trigger = "d-dimer > 500"
actions = ["start heparin", "start fondaparinux"]
[[rule]]
id = "BLEED"
category = "SAFETY"
trigger = "hemoglobin < 7"
actions = ["avoid heparin"]
"""
SHOCK = stay(
    event(0, LAB, "Lactate", 5.1, unit="mmol/L"),
    event(1, START, "Sodium Chloride 0.9% (fluids)", text="1000"),
    event(2, DONE, "Blood cultures"),
    event(3, START, "Vancomycin", text="1000"),
    event(9, LAB, "Lactate", 1.0, unit="mmol/L"),
)
BLEEDING = stay(
    event(0, EventKind.ALLERGY, "Penicillin"),
    event(1, LAB, "D-Dimer", 5_000.0, unit="ng/mL"),
    event(2, LAB, "Hemoglobin", 6.1, unit="g/dL"),
)


@pytest.mark.parametrize("on_fail", ["replace", "drop", "flag"])
@pytest.mark.parametrize(("stream", "rules"), [(SHOCK, ""), (BLEEDING, RISKY)])
def test_a_state_is_answered_as_in_an_episode(stream: BundleStream, rules: str, on_fail: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(rules or SEPSIS.read_text(encoding="utf-8"), encoding="utf-8")
    settings = TraceSettings(protocol=str(path), on_fail=on_fail)  # type: ignore[arg-type]
    roles = CodedRoles(
        index=RuleIndex(read_protocol(path)), settings=settings, carried=Carried(kinds=frozenset(EventKind))
    )
    memory = RuleMemory()
    played = play_stay("trace", stream, protocol=str(path), on_fail=on_fail).predictions
    bundles = list(stream)
    assert len(played) == len(bundles)
    for said, bundle, state in zip(played, bundles, states(bundles), strict=True):
        step = roles.play(state, bundle.hour, memory)
        assert (step.actions, said.notes.items() <= step.to_json().items()) == (said.actions, True)
    assert any(one.actions for one in played)


def test_what_is_remembered_of_a_stay_is_handed_in_and_out(tmp_path: Path) -> None:
    """Two stays under one protocol do not mix: each has its own memory of when its rules came to hold."""
    roles = CodedRoles(index=RuleIndex(read_protocol(SEPSIS)), settings=TraceSettings())
    first, second = RuleMemory(), RuleMemory()
    bundles = list(SHOCK)
    for bundle, state in zip(bundles[:2], states(bundles), strict=False):
        roles.play(state, bundle.hour, first)
    assert first.held_since == {"SEPSIS.V1": bundles[0].hour + timedelta(hours=1)} | dict(first.held_since)
    assert first.suspected == {"suspected sepsis": Suspicion(rule="SEPSIS.V1", row_ids=(SHOCK[0].events[0].row_id,))}
    assert second == RuleMemory()
