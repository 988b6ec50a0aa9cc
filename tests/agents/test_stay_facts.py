"""What rules may ask of a patient: values within the window, what runs, what was done, and what nobody knows."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from stay_doubles import HOUR, before, facts, medication

from wardround.agents.stays.router import is_fulfilled
from wardround.clinical.bundles import Carried, EventKind, ValueLevel
from wardround.clinical.bundles.state import ActiveProblem, DoneAction, KnownAllergy, Trend, TrendReading
from wardround.clinical.protocols import ChartedValue, RuleAction, compile_trigger
from wardround.clinical.vocabulary import Bounds

LAB, VITAL = EventKind.LAB, EventKind.VITAL


def trend(
    concept: str, *values: float, hours_ago: float = 0, level: ValueLevel = ValueLevel.NORMAL, kind: EventKind = LAB
) -> Trend:
    """Readings an hour apart, the last of them so long ago."""
    readings = tuple(
        TrendReading(time=before(hours_ago + len(values) - place), value=value, level=level, row_id="r")
        for place, value in enumerate(values, start=1)
    )
    return Trend(concept=concept, unit="u", kind=kind, readings=readings)


def done(concept: str, hours_ago: float, kind: EventKind = EventKind.PROCEDURE) -> DoneAction:
    return DoneAction(concept=concept, kind=kind, last=before(hours_ago), count=1, row_id="r")


def test_a_value_is_asked_about_up_to_six_hours_before_the_hour() -> None:
    known = facts(trend("Lactate", 3, 4, hours_ago=6), trend("Sodium", 140, hours_ago=6.01))
    assert known.value("Lactate") == ChartedValue(value=4, unit="u")
    assert known.trend("lactate") == "rising"
    assert (known.value("Sodium"), known.level("Sodium"), known.trend("Sodium")) == (None, None, None)
    assert known.value("hour of day") == ChartedValue(value=9)
    assert facts().value("Lactate") is None


def test_a_score_is_asked_of_the_chart_once_as_of_the_end_of_the_hour_and_is_unknown_without_one() -> None:
    asked = []

    def score(name: str, hours: float | None, at: datetime) -> Bounds | None:
        asked.append((name, hours, at))
        return Bounds(3, 3) if name == "sofa" else None

    rule = compile_trigger("sofa >= 2 AND NOT sofa >= 4").node
    assert rule is not None
    assert rule.holds(facts(score=score)) is True
    assert asked == [("sofa", None, HOUR + timedelta(hours=1) - timedelta(microseconds=1))]
    urine = compile_trigger("urine output < 0.5 mL/kg/h for 6 h").node
    assert urine is not None
    assert urine.holds(facts(score=score)) is None
    assert asked[-1][:2] == ("urine_output", 6.0)
    assert rule.holds(facts()) is None


def test_what_no_source_is_known_to_carry_is_unknown_on_both_sides_of_not() -> None:
    labs = facts(trend("Lactate", 3), actions={(LAB, "Lactate"): done("Lactate", 1, LAB)})
    for text in ("on heparin", "NOT on heparin", "done blood culture", "NOT done blood culture"):
        node = compile_trigger(text).node
        assert node is not None
        assert node.holds(labs) is None, text
    full = facts(trend("Lactate", 3), carried=Carried(kinds=frozenset(EventKind)))
    assert [full.taking("heparin"), full.done("blood culture")] == [False, False]
    assert facts(medications={"m": medication("Aspirin")}).taking("heparin") is False


def test_one_reading_goes_nowhere_two_do() -> None:
    assert facts(trend("Lactate", 4)).trend("Lactate") is None
    assert facts(trend("Lactate", 4, 4)).trend("Lactate") == "steady"
    assert facts(trend("Lactate", 5, 4)).trend("Lactate") == "falling"


@pytest.mark.parametrize(
    ("level", "said"),
    [
        (ValueLevel.LOW, "low"),
        (ValueLevel.BELOW_BASELINE, "low"),
        (ValueLevel.NORMAL, "normal"),
        (ValueLevel.AT_BASELINE, "normal"),
        (ValueLevel.HIGH, "high"),
        (ValueLevel.ABOVE_BASELINE, "high"),
        (ValueLevel.UNKNOWN, None),
    ],
)
def test_levels_are_three_whatever_they_rest_on(level: ValueLevel, said: str | None) -> None:
    assert facts(trend("Lactate", 4, level=level)).level("Lactate") == said


@pytest.mark.parametrize(("first", "second", "value"), [(2, 1, 80), (1, 2, 70), (1, 1, 80)])
def test_of_two_trends_of_one_name_the_newest_counts_and_of_as_new_ones_the_last(
    first: float, second: float, value: float
) -> None:
    cuff = trend("MAP", 70, hours_ago=first, kind=VITAL)
    assert facts(cuff, trend("map", 80, hours_ago=second, kind=VITAL)).value("MAP") == ChartedValue(
        value=value, unit="u"
    )


def test_what_runs_is_taken_and_what_does_not_is_not() -> None:
    known = facts(medications={"m": medication("Heparin")})
    assert (known.taking("heparin"), known.taking("aspirin")) == (True, False)


def test_problems_that_are_not_known_are_unknown() -> None:
    problem = ActiveProblem(concept="Sepsis", since=HOUR, last=HOUR, row_ids=("p",))
    known = facts(problems={"Sepsis": problem}, suspected=("pneumonia",))
    assert [known.has_problem(name) for name in ("sepsis", "pneumonia", "gout")] == [True, True, None]


def test_an_allergy_is_denied_only_where_others_are_charted() -> None:
    charted = KnownAllergy(concept="Penicillin", reaction=None, since=HOUR, row_id="a")
    known = facts(allergies={"Penicillin": charted})
    assert (known.allergic_to("penicillin"), known.allergic_to("latex")) == (True, False)
    assert facts().allergic_to("latex") is None


def test_hours_count_from_the_end_of_the_hour_and_never_below_none() -> None:
    actions = [done("EKG", 2), done("ekg", 5, EventKind.MEDICATION_START), done("Bronchoscopy", -1.5)]
    known = facts(actions={(one.kind, one.concept): one for one in actions}, began=before(4))
    assert (known.done("EKG"), known.done("X-ray")) == (True, False)
    assert (known.hours_since("EKG"), known.hours_since("X-ray")) == (3.0, None)
    assert known.last_done("EKG") == before(2)
    assert known.hours_since("Bronchoscopy") == 0.0
    assert (known.hours_since("stay"), facts().hours_since("stay")) == (5.0, 1.0)


def test_rules_are_looked_up_by_all_that_is_known_and_recent() -> None:
    one = done("EKG", 2)
    known = facts(
        trend("Lactate", 4, hours_ago=6),
        trend("Sodium", 140, hours_ago=99),
        medications={"m": medication("Heparin")},
        actions={(one.kind, one.concept): one},
    )
    assert list(known.names) == ["hour of day", "stay", "lactate", "Heparin", "EKG"]


@pytest.mark.parametrize(
    ("given", "kind", "asked", "answer"),
    [
        ("Dextrose 5%", EventKind.INFUSION_START, "glucose", False),  # sugar that runs in is not sugar measured
        ("Glucose", LAB, "glucose", True),
        ("Glucose (Urine)", LAB, "Glucose (Urine)", True),
        ("Dextrose 50%", EventKind.ADMINISTRATION, "Glucose (Urine)", False),
        ("Calcium Gluconate", EventKind.ADMINISTRATION, "Free Calcium", False),
        ("Free Calcium", LAB, "Free Calcium", True),
        ("Calcium, Total", LAB, "calcium gluconate", False),
        ("Vancomycin", LAB, "vancomycin", False),  # a level in blood is no dose
        ("Vancomycin", EventKind.ADMINISTRATION, "vancomycin", True),
        ("Potassium Chloride", EventKind.ADMINISTRATION, "sodium", False),
        ("Digoxin", LAB, "digoxin", False),
        ("Home-made mixture 7", EventKind.ADMINISTRATION, "Home-made mixture 7", True),  # in no table: either
        ("Home-made mixture 7", LAB, "Home-made mixture 7", True),
    ],
)
def test_to_give_a_substance_is_not_to_measure_it(given: str, kind: EventKind, asked: str, answer: bool) -> None:
    known = facts(carried=Carried(kinds=frozenset(EventKind)), actions={(kind, given): done(given, 1, kind)})
    assert known.done(asked) is answer
    assert (known.hours_since(asked) is not None) is answer


def test_a_rule_that_orders_a_test_is_not_satisfied_by_the_drug_of_that_name() -> None:
    glucose, heparin = RuleAction.parse("order Glucose"), RuleAction.parse("start Heparin")
    since = before(3)
    dextrose = facts(
        actions={(EventKind.ADMINISTRATION, "Dextrose 50%"): done("Dextrose 50%", 1, EventKind.ADMINISTRATION)}
    )
    level = facts(actions={(LAB, "Heparin"): done("Heparin", 1, LAB)})
    assert not is_fulfilled(glucose, dextrose, since)
    assert not is_fulfilled(heparin, level, since)
    assert is_fulfilled(glucose, facts(actions={(LAB, "Glucose"): done("Glucose", 1, LAB)}), since)


@pytest.mark.parametrize("name", ["albumin", "potassium", "magnesium", "iron", "calcium", "phosphorus"])
def test_one_word_for_a_test_and_a_drug_is_known_only_where_both_say_the_same(name: str) -> None:
    test, drug = (LAB, name), (EventKind.ADMINISTRATION, name)
    full = Carried(kinds=frozenset(EventKind))
    both = {test: done(name, 1, LAB), drug: done(name, 1, EventKind.ADMINISTRATION)}
    assert facts(carried=full).done(name) is False
    assert facts(carried=full, actions={test: both[test]}).done(name) is None
    assert facts(carried=full, actions={drug: both[drug]}).done(name) is None
    assert facts(carried=full, actions=both).done(name) is True
    assert facts(carried=full, actions=both).done(name, 0.5) is False
    assert facts(carried=full, actions={drug: both[drug]}).hours_since(name) is None  # hours since the test


def test_dextrose_is_given_and_glucose_measured() -> None:
    kind = EventKind.INFUSION_START
    given = {(kind, "Dextrose 5%"): done("Dextrose 5%", 1, kind)}
    known = facts(carried=Carried(kinds=frozenset(EventKind)), actions=given)
    assert [known.done(name) for name in ("dextrose", "Dextrose 5%", "glucose")] == [True, True, False]


def test_a_count_of_one_word_for_a_test_and_a_drug_lies_between_both() -> None:
    given, now = EventKind.ADMINISTRATION, before(1)
    counts = {f"{int(LAB)} Potassium": [(now, now)] * 3, f"{int(given)} Potassium": [(now, now)]}
    known = facts(carried=Carried(kinds=frozenset(EventKind)), counts=counts)
    assert known.times_done("potassium", 4) == (1, 3)
    assert known.times_done("vancomycin", 4) == (0, 0)
    for text, truth in (("< 1", False), (">= 2", None), ("<= 3", True), ("= 2", None)):
        node = compile_trigger(f"count of potassium in last 4 h {text}").node
        assert node is not None
        assert node.holds(known) is truth, text
