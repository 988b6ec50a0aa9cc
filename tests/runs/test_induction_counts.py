"""Counting what follows what, and rules from counts, by hand: every threshold at its edge, every order of ties."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from wardround.agents.stays.charted import StateFacts
from wardround.bundles import EventKind, PatientState, ValueLevel
from wardround.bundles.state import DoneAction, Trend, TrendReading
from wardround.protocols import ProtocolRule, RuleOrigin
from wardround.runs.induction import InductionSettings
from wardround.runs.induction.coded_reflector import reflect
from wardround.runs.induction.counting import TriggerCounts, candidate_triggers, cut_points

HOUR = datetime(2150, 3, 10, 9)
EKG, CT, HEPARIN, SODIUM = ("PROCEDURES", "EKG"), ("PROCEDURES", "CT"), ("MEDICATIONS", "Heparin"), ("LABS", "Sodium")


def ago(hours: float) -> datetime:
    """So long before the end of the hour."""
    return HOUR + timedelta(hours=1) - timedelta(hours=hours)


def lab(
    value: float,
    taken: float,
    *,
    level: ValueLevel = ValueLevel.NORMAL,
    kind: EventKind = EventKind.LAB,
    charted: float = 1,
) -> dict[str, Any]:
    """A state with one measurement, of a specimen that was taken so long ago."""
    reading = TrendReading(time=ago(charted), value=value, level=level, row_id="r")
    trend = Trend(concept="Lactate", unit=None, kind=kind, readings=(reading,))
    action = DoneAction(concept="Lactate", kind=EventKind.LAB, last=ago(taken), count=1, row_id="r")
    actions = {(action.kind, action.concept): action} if taken >= 0 else {}
    return {"trends": {(kind, "Lactate", ""): trend}, "actions": actions}


def triggers(cuts: dict[str, list[float]] | None = None, hour: datetime = HOUR, **state: Any) -> list[str]:
    """What holds beside the stay's first hours and the time of day."""
    known = StateFacts(PatientState(subject_id=1, hour=HOUR, **state), hour, window_hours=6, began=HOUR)
    return list(candidate_triggers(known, cuts or {}))


def test_the_time_of_day_is_two_hours_from_an_even_one() -> None:
    assert triggers() == ["hours since stay < 2", "hour of day >= 8 AND hour of day < 10"]
    assert triggers(hour=HOUR + timedelta(hours=1)) == [
        "hours since stay >= 2",
        "hour of day >= 10 AND hour of day < 12",
    ]
    assert triggers(hour=HOUR - timedelta(hours=9))[1] == "hour of day >= 0 AND hour of day < 2"


def test_a_result_says_where_it_stands_while_it_is_new() -> None:
    cuts = {"lactate": [2.0, 4.0, 5.5]}
    fresh = " AND hours since Lactate < 3"
    assert triggers(cuts, **lab(4.0, 2.9, level=ValueLevel.HIGH))[2:] == [
        f"Lactate is high{fresh}",
        f"Lactate > 2{fresh}",
        f"Lactate <= 4{fresh}",
        f"Lactate <= 5.5{fresh}",
    ]
    assert triggers(cuts, **lab(4.0, 3.0))[2:] == []
    assert triggers(cuts, **lab(4.0, -1))[2:] == [], "nobody took a specimen"
    assert triggers({}, **lab(4.0, 1, level=ValueLevel.LOW))[2:] == [f"Lactate is low{fresh}"]
    assert triggers({}, **lab(4.0, 1))[2:] == [], "a normal one says nothing by its level"
    assert triggers(cuts, **lab(4.0, 1, charted=8))[2:] == [], "older than the window"


def test_a_vital_sign_needs_no_specimen() -> None:
    assert triggers({"lactate": [4.0]}, **lab(5.0, -1, kind=EventKind.VITAL))[2:] == ["Lactate > 4"]


@pytest.mark.parametrize(
    ("kind", "hours", "count", "said"),
    [
        (EventKind.PROCEDURE, 1.99, 5, ["hours since EKG < 2"]),
        (EventKind.PROCEDURE, 2, 5, []),
        (EventKind.MEDICATION_START, 1, 1, ["hours since EKG < 2"]),
        (EventKind.ADMINISTRATION, 1, 2, []),
        (EventKind.LAB, 4, 2, ["hours since EKG >= 1", "hours since EKG >= 4"]),
        (EventKind.LAB, 3.99, 2, ["hours since EKG >= 1"]),
        (EventKind.LAB, 4, 1, []),
        (EventKind.CULTURE, 99, 2, [f"hours since EKG >= {wait}" for wait in (1, 4, 6, 8, 12, 18, 24)]),
        (EventKind.CULTURE_TAKEN, 1, 2, []),
    ],
)
def test_what_was_just_done_and_what_is_done_again(kind: EventKind, hours: float, count: int, said: list[str]) -> None:
    action = DoneAction(concept="EKG", kind=kind, last=ago(hours), count=count, row_id="r")
    assert triggers(actions={(kind, "EKG"): action})[2:] == said


def test_a_name_of_more_than_words_is_quoted() -> None:
    action = DoneAction(concept="X (2)", kind=EventKind.PROCEDURE, last=ago(1), count=1, row_id="r")
    assert triggers(actions={(action.kind, action.concept): action})[2:] == ['hours since "X (2)" < 2']


def test_cut_points_are_eleven_shares_in_three_digits_each_once() -> None:
    values = [1000 + n * 1.0 for n in range(20)]
    shares = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    cuts = cut_points({"a": values, "b": [5.0] * 20, "c": [float(n) for n in range(101)], "d": values[:19]})
    assert cuts == {
        "a": sorted({float(f"{np.quantile(values, share):.3g}") for share in shares}),
        "b": [5.0],
        "c": [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95],
    }
    assert cuts["a"] == [1000, 1010, 1020]


def test_steps_are_counted_once_for_every_trigger_whatever_is_repeated() -> None:
    counts = TriggerCounts()
    counts.add(["t", "t", "u"], [EKG, SODIUM], [SODIUM])
    counts.add(["t"], [EKG], [EKG])
    counts.add(["t"], [], [])
    assert counts.steps == 3
    assert counts.held == {"t": 3, "u": 1}
    assert counts.decided == {EKG: 2, SODIUM: 1}
    assert counts.hits == {("t", EKG): 2, ("t", SODIUM): 1, ("u", EKG): 1, ("u", SODIUM): 1}
    assert counts.missed == {("t", EKG): [0], ("u", EKG): [0]}
    assert counts.precision("t", EKG) == pytest.approx(2 / 3)
    assert counts.lift("t", EKG) == pytest.approx(2 / 3 / (2 / 3))
    assert counts.lift("u", SODIUM) == pytest.approx(1 / (1 / 3))


def counted(*held: tuple[str, tuple[Any, ...], int], rest: int = 0) -> TriggerCounts:
    """Steps: so many of a trigger with what was decided at them; the rest hold nothing."""
    counts = TriggerCounts()
    for trigger, decided, times in held:
        for _ in range(times):
            counts.add([trigger], decided, [])
    for _ in range(rest):
        counts.add([], [], [])
    return counts


def rules_of(counts: TriggerCounts, **settings: Any) -> list[tuple[str, tuple[str, ...]]]:
    named = {"support": 1, "hits": 1, "precision": 0.0, "lift": 0.0, "gain": 1} | settings
    return [
        (one.trigger, one.actions) for one in reflect(counts, InductionSettings(**named)) if one.category != "PRIOR"
    ]


@pytest.mark.parametrize(
    ("setting", "taken", "refused"),
    [("support", 8, 9), ("hits", 4, 5), ("precision", 0.5, 0.51), ("lift", 2.0, 2.01), ("gain", 4, 5)],
)
def test_a_rule_needs_its_evidence_to_the_edge(setting: str, taken: float, refused: float) -> None:
    # 8 steps hold t, at 4 of them an EKG follows, 16 steps in all: precision 0.5, twice as often as the 4 of 16
    counts = counted(("t", (EKG,), 4), ("t", (), 4), rest=8)
    assert rules_of(counts, **{setting: taken}) == [("t", ("perform EKG",))]
    assert rules_of(counts, **{setting: refused}) == []


def test_rules_are_whole_and_in_the_order_of_their_precision() -> None:
    counts = counted(("b", (EKG,), 4), ("b", (), 1), ("a", (HEPARIN, SODIUM), 3), ("c", (CT,), 4), ("c", (), 1), rest=2)
    found = reflect(counts, InductionSettings(support=1, hits=1, precision=0.0, lift=0.0, gain=1))
    assert found == (
        ProtocolRule(
            id="C001",
            category="LABS",
            trigger="a",
            actions=("order Sodium", "start Heparin"),
            text="IF a THEN order Sodium; start Heparin.",
            provenance=RuleOrigin(origin="counted", source="failed steps of training stays"),
            support=3,
            precision=1.0,
        ),
        ProtocolRule(
            id="C002",
            category="PROCEDURES",
            trigger="b",
            actions=("perform EKG",),
            text="IF b THEN perform EKG.",
            provenance=RuleOrigin(origin="counted", source="failed steps of training stays"),
            support=5,
            precision=0.8,
        ),
        ProtocolRule(
            id="C003",
            category="PROCEDURES",
            trigger="c",
            actions=("perform CT",),
            text="IF c THEN perform CT.",
            provenance=RuleOrigin(origin="counted", source="failed steps of training stays"),
            support=5,
            precision=0.8,
        ),
        *(
            ProtocolRule(
                id=f"PRIOR-{kind}",
                category="PRIOR",
                trigger="hours since stay >= 0",
                actions=actions,
                text="What is commonest, whoever the patient is.",
                provenance=RuleOrigin(origin="counted", source="all steps of training stays"),
                support=15,
                precision=share,
            )
            for kind, actions, share in (
                ("MEDICATIONS", ("start Heparin",), 0.2),
                ("LABS", ("order Sodium",), 0.2),
                ("PROCEDURES", ("perform CT", "perform EKG"), 0.2667),
            )
        ),
    )


def test_what_is_foretold_by_a_surer_rule_is_no_gain() -> None:
    counts = TriggerCounts()
    for step in range(10):
        counts.add(["sure", "wide"] if step < 4 else ["wide"], [EKG] if step < 6 else [], [])
    # wide foretells the four that sure does, and two more
    assert rules_of(counts, gain=2) == [("sure", ("perform EKG",)), ("wide", ("perform EKG",))]
    assert rules_of(counts, gain=3) == [("sure", ("perform EKG",))]


def test_of_as_precise_triggers_the_wider_is_taken_first_then_the_first_by_name() -> None:
    counts = TriggerCounts()
    for step in range(4):
        counts.add(["wide", "b", "a"] if step < 2 else ["wide"], [EKG], [])
    assert rules_of(counts) == [("wide", ("perform EKG",))]
    counts = TriggerCounts()
    for _ in range(2):
        counts.add(["b", "a"], [EKG], [])
    assert rules_of(counts) == [("a", ("perform EKG",))]


def test_a_rule_has_so_many_actions_of_a_type() -> None:
    counts = counted(("t", (EKG, CT, HEPARIN, SODIUM), 3))
    assert rules_of(counts, actions=1) == [("t", ("order Sodium", "start Heparin", "perform CT"))]
    assert rules_of(counts, actions=2) == [("t", ("order Sodium", "start Heparin", "perform CT", "perform EKG"))]
    priors = reflect(counts, InductionSettings(support=9, actions=1))
    assert [one.actions for one in priors] == [("start Heparin",), ("order Sodium",), ("perform CT",)]


def test_there_are_so_many_rules() -> None:
    counts = counted(("a", (EKG,), 3), ("b", (CT,), 3))
    assert rules_of(counts, rules=1) == [("a", ("perform EKG",))]
    assert len(rules_of(counts, rules=2)) == 2
