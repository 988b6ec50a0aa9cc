"""Sixty rules as clinicians write them: each compiles to what is written beside it, or is refused in useful words."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.clinical.protocols import (
    AndOr,
    AtLevel,
    AtRate,
    AtScore,
    AtValue,
    ChangedBy,
    CountedActions,
    HeldFor,
    HoursSince,
    InWindow,
    Moving,
    Negated,
    Node,
    Stated,
    TimesBaseline,
    compile_trigger,
)
from wardround.clinical.vocabulary import clinical_name, drug_class, drug_name, find_concept

RULES = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "clinician_rules.tsv").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def meaning(node: Node) -> str:
    """A compiled trigger in the notation of ``clinician_rules.tsv``: not what the language itself prints."""
    match node:
        case AndOr():
            return f"({node.how.lower()} {' '.join(map(meaning, node.parts))})"
        case Negated():
            return f"(not {meaning(node.part)})"
        case AtValue():
            unit = f" {node.unit}" if node.unit else ""
            return f"(value {clinical_name(node.concept)} {node.relation} {node.threshold:g}{unit})".replace(
                "e+06", "000000"
            )
        case HeldFor():
            return f"(held {node.minutes:g} {meaning(node.value)})"
        case InWindow():
            return f"({'any' if node.how == 'any' else 'all'} {node.hours:g} {meaning(node.value)})"
        case TimesBaseline():
            return f"(times {clinical_name(node.concept)} {node.relation} {node.times:g})"
        case ChangedBy():
            verb = node.direction + ("%" if node.share else "")
            unit = f" {node.unit}" if node.unit else ""
            return f"({verb} {clinical_name(node.concept)} {node.amount:g}{unit} {node.hours:g})"
        case Moving():
            return f"(moving {clinical_name(node.concept)} {node.direction})"
        case AtLevel():
            return f"(level {clinical_name(node.concept)} {node.level})"
        case HoursSince():
            return f"(since {clinical_name(node.concept)} {node.relation} {node.threshold:g})"
        case AtScore():
            hours = "" if node.hours is None else f" {node.hours:g}"
            return f"(score {node.score} {node.relation} {node.threshold:g}{hours})"
        case AtRate():
            return f"(rate {drug_name(node.concept)} {node.relation} {node.threshold:g} {node.unit})"
        case CountedActions():
            return f"(count {clinical_name(node.concept)} {node.hours:g} {node.relation} {node.threshold:g})"
        case Stated():
            found = find_concept(node.concept, "problem") if node.what == "problem" else None
            named = drug_class(node.concept) or (found.name if found else clinical_name(node.concept))
            hours = "" if node.hours is None else f" {node.hours:g}"
            return f"({node.what} {named}{hours})"


def check(rule: str, said: str) -> None:
    trigger = compile_trigger(rule)
    if said.startswith("refused "):
        assert trigger.node is None, f"{rule!r} was read as {trigger.node}"
        assert said.removeprefix("refused ") in str(trigger.problem), trigger.problem
        return
    assert trigger.node is not None, f"{rule!r}: {trigger.problem}"
    assert meaning(trigger.node) == said
    again = compile_trigger(str(trigger.node))
    assert again.node == trigger.node, f"{trigger.node} is read again as {again.node}: {again.problem}"


def test_there_are_sixty() -> None:
    assert len(RULES) == len({rule for rule, _ in RULES}) == 60


@pytest.mark.parametrize(("rule", "said"), RULES)
def test_rules_mean_what_their_writer_says(rule: str, said: str) -> None:
    check(rule, said)
