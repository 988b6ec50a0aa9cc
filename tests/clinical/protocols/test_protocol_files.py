"""Protocols as files: read strictly, written the same, checked, joined, compared, tried on written cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.clinical.protocols import (
    GlobalProtocol,
    ProtocolRule,
    RuleAction,
    RuleOrigin,
    compile_rule,
    diff_protocols,
    lint_protocol,
    merge_protocols,
    protocol_text,
    read_protocol,
    write_protocol,
)
from wardround.core import UserError

SEPSIS = """
schema = 1
name = "icu"

[[rule]]
id = "SEPSIS.V1"
category = "SEPSIS"
trigger = "lactate > 4 mmol/L OR map < 65 mmHg"
actions = ["start fluids", "start broad-spectrum antibiotics"]
suspects = "suspected sepsis"
support = 40
precision = 0.5

[[rule]]
id = "PRESSOR"
category = "SHOCK"
trigger = "map < 65 AND on fluids"
actions = ["start low-dose norepinephrine"]
"""
CASES = """
[[case]]
name = "lactate"
facts = { values = { lactate = 4.8 } }
holds = ["SEPSIS.V1"]

[[case]]
name = "pressure on fluids"
facts = { values = { map = 55 }, on = ["Lactated Ringers"] }
holds = ["SEPSIS.V1", "PRESSOR"]

[[case]]
name = "nothing charted"
"""


def rule(name: str, trigger: str, *actions: str, **more: object) -> ProtocolRule:
    return ProtocolRule(id=name, category="ANY", trigger=trigger, actions=actions, **more)  # type: ignore[arg-type]


def protocol(*rules: ProtocolRule) -> GlobalProtocol:
    return GlobalProtocol(name="any", rules=rules)


def faults(*rules: ProtocolRule) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.fault, one.rules) for one in lint_protocol(protocol(*rules))]


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    odd = rule(
        "ODD", '"Calcium, Total" < 8 AND NOT on "a \\"b"', "start high-dose calcium", "avoid digoxin",
        text='Say "stop"\nand ünïcode.', suspects="x", support=3, precision=0.25,
        provenance=RuleOrigin(origin="counted", source="run 1", doi="10.1/x"),
    )  # fmt: skip
    first = GlobalProtocol(name="a", rules=(odd, rule("PLAIN", "lactate > 4", "order Lactate")), about="about")
    write_protocol(tmp_path / "a.toml", first)
    assert read_protocol(tmp_path / "a.toml") == first
    assert protocol_text(read_protocol(tmp_path / "a.toml")) == (tmp_path / "a.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('category = "SHOCK"', 'categori = "SHOCK"', "categor"),
        ('"start fluids"', '"give fluids"', "begin with one of start"),
        ('id = "PRESSOR"', 'id = "SEPSIS.V1"', "SEPSIS.V1"),
        ("precision = 0.5", "precision = 5", "0 to 1"),
        ("schema = 1", "schema = 9", "schema 9"),
        ('id = "PRESSOR"', 'id = "A [B]"', "one word"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(SEPSIS.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=said.replace("[", r"\[")):
        read_protocol(path)


def test_an_action_is_a_verb_a_dose_and_a_name() -> None:
    action = RuleAction.parse("start low-dose norepinephrine")
    assert (action.verb, action.dose, action.name, action.kind) == (
        "start",
        "low-dose",
        "norepinephrine",
        "MEDICATIONS",
    )
    assert RuleAction.parse("order Lactate").kind == "LABS"
    assert RuleAction.parse("perform blood cultures").kind == "PROCEDURES"
    assert RuleAction.parse("avoid metformin").kind is None
    assert RuleAction.parse("start broad-spectrum antibiotics").names("CefePIME")
    assert not RuleAction.parse("start broad-spectrum antibiotics").names("Heparin")
    assert RuleAction.parse("perform blood cultures").names("Blood Cultured")


def test_duplicates_are_found_however_they_are_spelt() -> None:
    same = [("duplicate", ("A", "B"))]
    one = rule("A", "lactate > 4 OR map < 65", "start fluids")
    assert faults(one, rule("B", "mean blood pressure < 65 OR NOT serum lactate <= 4", "start IV fluids")) == same
    assert faults(one, rule("B", "lactate > 2 OR map < 65", "start fluids")) == [("subsumed", ("A", "B"))]
    assert faults(one, rule("B", "lactate > 4 OR map < 65", "order Lactate")) == []
    assert faults(rule("A", "looks ill", "start x"), rule("B", "looks ill", "start x"))[-1:] == same


def test_contradictions_are_found_across_classes_and_not_where_both_cannot_hold() -> None:
    starts = rule("A", "potassium < 3", "start piperacillin-tazobactam")
    assert faults(starts, rule("B", "potassium < 4", "avoid antibiotics")) == [("contradiction", ("A", "B"))]
    assert faults(starts, rule("B", "potassium > 2 AND map < 65", "stop penicillins")) == [("may-conflict", ("A", "B"))]
    assert faults(starts, rule("B", "potassium > 5", "avoid antibiotics")) == []
    assert faults(starts, rule("B", "allergy penicillins", "avoid penicillins")) == []


def test_a_trigger_that_cannot_hold_and_one_not_compiled_are_said() -> None:
    assert faults(rule("A", "map < 50 AND map > 60", "order Lactate")) == [("never-holds", ("A",))]
    assert faults(rule("A", "map < 50 OR map > 60", "order Lactate")) == []
    assert faults(rule("A", "the patient looks unwell", "order Lactate")) == [("not-compiled", ("A",))]


def test_merging_keeps_what_both_say_once_and_counts_both() -> None:
    first = protocol(
        rule("A", "lactate > 4", "start fluids", support=30, precision=0.5), rule("B", "map < 65", "order K")
    )
    second = protocol(
        rule("X", "serum lactate > 4", "start IV fluids", support=10, precision=0.9), rule("B", "map < 60", "order K")
    )
    merged = merge_protocols(first, second)
    assert merged.same == {"X": "A"}
    assert merged.renamed == {"B": "B-2"}
    assert [one.id for one in merged.protocol.rules] == ["A", "B", "B-2"]
    assert merged.protocol.rules[0].support == 40
    assert merged.protocol.rules[0].precision == pytest.approx(0.6)


@pytest.mark.parametrize("counted", ["both", "second"])
def test_a_merged_rule_keeps_no_share_of_one_side(counted: str) -> None:
    """The shares of single actions were of 30 cases; the merged rule is of others too."""
    own = {"support": 30, "precision": 0.5} if counted == "both" else {}
    first = rule("A", "lactate > 4", "start fluids", "order Lactate", shares=(0.9, 0.1), **own)
    second = rule("X", "lactate > 4", "start fluids", "order Lactate", support=10, precision=0.9, shares=(0.2, 0.8))
    (merged,) = merge_protocols(protocol(first), protocol(second)).protocol.rules
    assert merged.shares == ()
    expected = 0.6 if counted == "both" else 0.9
    compiled = compile_rule(merged)
    assert [compiled.share(action) for action in compiled.actions] == pytest.approx([expected] * 2)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(0.2, 0.5, {}), (0.2, 0.0, {"order Lactate": 0.2}), (0.0, 0.5, {"order Lactate": 0.5})],
)
def test_weights_of_two_protocols_are_never_summed(first: float, second: float, kept: dict[str, float]) -> None:
    """They were fitted together with the other rules of their own protocol alone."""
    both = [
        protocol(rule("A", "lactate > 4", "order Lactate", weights={"order Lactate": weight} if weight else {}))
        for weight in (first, second)
    ]
    (merged,) = merge_protocols(*both).protocol.rules
    assert merged.weights == kept


def test_a_diff_names_what_changed() -> None:
    before = protocol(rule("A", "lactate > 4", "start fluids"), rule("B", "map < 65", "order K"))
    after = protocol(rule("A", "lactate > 2", "start fluids"), rule("C", "map < 65", "order K"))
    found = diff_protocols(before, after)
    assert (found.removed, found.added) == (("B",), ("C",))
    assert found.changed == {"A": {"trigger": ("lactate > 4", "lactate > 2")}}
    assert diff_protocols(before, before).is_empty


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, cases, other = tmp_path / "a.toml", tmp_path / "cases.toml", tmp_path / "b.toml"
    file.write_text(SEPSIS, encoding="utf-8")
    cases.write_text(CASES, encoding="utf-8")
    other.write_text(SEPSIS.replace("> 4 mmol/L", "> 2 mmol/L"), encoding="utf-8")
    assert main(["protocol", "lint", str(file)]) == 0
    assert "2 rules, 2 compiled; 0 errors, 0 notes" in capsys.readouterr().out
    assert main(["protocol", "test", str(file), str(cases)]) == 0
    assert "3 of 3 cases pass" in capsys.readouterr().out
    cases.write_text(CASES.replace('["SEPSIS.V1", "PRESSOR"]', '["PRESSOR"]'), encoding="utf-8")
    assert main(["protocol", "test", str(file), str(cases)]) == 1
    assert "held without cause: SEPSIS.V1" in capsys.readouterr().out
    assert main(["protocol", "diff", str(file), str(other)]) == 1
    assert "~ SEPSIS.V1 trigger" in capsys.readouterr().out
    assert main(["protocol", "merge", str(file), str(other), "--out", str(tmp_path / "c.toml")]) == 0
    assert main(["protocol", "lint", str(tmp_path / "c.toml")]) == 0
    assert "subsumed: SEPSIS.V1 and SEPSIS.V1-2" in capsys.readouterr().out
    assert main(["protocol", "show", str(file), "--rule", "PRESSOR"]) == 0
    assert "compiled map < 65 AND on fluids" in capsys.readouterr().out
    assert main(["protocol", "show", str(file), "--rule", "NONE"]) == 2
    assert "has no rule 'NONE'" in capsys.readouterr().err


def test_the_example_is_sound_and_its_cases_hold(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[3] / "examples"
    assert main(["protocol", "lint", str(folder / "sepsis.toml")]) == 0
    assert main(["protocol", "test", str(folder / "sepsis.toml"), str(folder / "sepsis_cases.toml")]) == 0
    assert "5 of 5 cases pass" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["sepsis_bundle", "kidney_watch", "ketoacidosis"])
def test_the_example_protocols_are_sound_and_their_cases_hold(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[3] / "examples" / f"{name}.toml"
    assert main(["protocol", "lint", str(file)]) == 0
    assert "compiled; 0 errors, 0 notes" in capsys.readouterr().out
    assert main(["protocol", "test", str(file), str(file.with_name(f"{name}_cases.toml"))]) == 0
    assert "7 of 7 cases pass" in capsys.readouterr().out


def test_a_digest_names_all_that_a_protocol_says(tmp_path: Path) -> None:
    first = rule("A", "lactate > 4", "order Lactate", precision=0.5, support=9, shares=(0.123456,))
    first = replace(first, weights={"order Sodium": -0.0123456})
    one = protocol(first)
    assert one.digest == protocol(first).digest
    changes: list[dict[str, object]] = [
        {"id": "B"}, {"category": "X"}, {"trigger": "lactate > 5"}, {"actions": ("order pH",)}, {"text": "x"},
        {"suspects": "sepsis"}, {"support": 8}, {"precision": 0.6}, {"shares": (0.5,)},
        {"weights": {"order Lactate": 0.1}}, {"provenance": RuleOrigin(source="x")},
    ]  # fmt: skip
    others = {protocol(replace(first, **each)).digest for each in changes}  # type: ignore[arg-type]
    others |= {replace(one, name="x").digest, replace(one, about="x").digest}
    assert len(others - {one.digest}) == 13
    write_protocol(tmp_path / "a.toml", one)
    assert read_protocol(tmp_path / "a.toml").digest == one.digest
