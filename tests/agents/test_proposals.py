"""Two hundred proposals against what a chart holds, and two hundred harmless ones: by name, brand, class."""

from __future__ import annotations

from pathlib import Path

from stay_doubles import HOUR, facts, medication

from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.auditor import find_objections
from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.router import HeldRule
from wardround.clinical.bundles.state import KnownAllergy
from wardround.clinical.protocols import ProtocolRule, compile_rule
from wardround.clinical.vocabulary import find_concept

Proposal = tuple[str, str, str]


def read(column: int) -> list[Proposal]:
    text = (Path(__file__).parent / "proposals.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return [(row[0], row[1], one) for row in rows for one in row[column].split(";") if one]


def avoiding(name: str) -> HeldRule:
    rule = ProtocolRule(id="SAFETY", category="C", trigger="hours since stay >= 0", actions=(f"avoid {name}",))
    compiled = compile_rule(rule)
    return HeldRule(compiled=compiled, since=HOUR, due=(), forbids=compiled.actions)


def chart(what: str, name: str) -> tuple[StateFacts, tuple[HeldRule, ...]]:
    if what == "avoid":
        return facts(), (avoiding(name),)
    if what == "running":
        return facts(medications={"m": medication(name)}), ()
    return facts(allergies={name: KnownAllergy(concept=name, reaction=None, since=HOUR, row_id="a")}), ()


def is_caught(proposal: Proposal) -> bool:
    what, name, proposed = proposal
    concept = find_concept(proposed)
    kind = "PROCEDURES" if concept is not None and concept.kind == "procedure" else "MEDICATIONS"
    known, held = chart(what, name)
    return bool(find_objections([PredictedAction(kind=kind, name=proposed)], known, held, ()))  # type: ignore[arg-type]


def test_there_are_two_hundred_of_each() -> None:
    assert len(read(2)) >= 200
    assert len(read(3)) >= 200


def test_every_dangerous_proposal_is_caught() -> None:
    assert [one for one in read(2) if not is_caught(one)] == []


def test_no_harmless_proposal_is_caught() -> None:
    assert [one for one in read(3) if is_caught(one)] == []
