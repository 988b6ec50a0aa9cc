"""Counting what follows what, and rules from counts, by hand: every threshold at its edge, every order of ties."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from wardround.agents.stays.charted import StateFacts
from wardround.clinical.bundles import EventKind, PatientState, ValueLevel
from wardround.clinical.bundles.state import DoneAction, Trend, TrendReading
from wardround.clinical.protocols import ProtocolRule, RuleOrigin
from wardround.learning.induction import InductionSettings
from wardround.learning.induction.coded_reflector import reflect
from wardround.learning.induction.step_table import (
    NEVER,
    RUNNING,
    StepTable,
    TrainingStep,
    candidate_triggers,
    cut_points,
)

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
    waits = [f"hours since Lactate >= {wait}" for wait in (1, 2, 3)]
    assert triggers(cuts, **lab(4.0, 2.9, level=ValueLevel.HIGH))[2:] == [
        f"Lactate is high{fresh}",
        f"Lactate > 2{fresh}",
        f"Lactate <= 4{fresh}",
        f"Lactate <= 5.5{fresh}",
        *waits[:2],
    ]
    assert triggers(cuts, **lab(4.0, 3.0))[2:] == waits
    assert triggers(cuts, **lab(4.0, -1))[2:] == [], "nobody took a specimen"
    assert triggers({}, **lab(4.0, 1, level=ValueLevel.LOW))[2:] == [f"Lactate is low{fresh}", *waits[:1]]
    assert triggers({}, **lab(4.0, 1))[2:] == waits[:1], "a normal one says nothing by its level"
    assert triggers(cuts, **lab(4.0, 1, charted=8))[2:] == waits[:1], "older than the window"


def test_a_vital_sign_needs_no_specimen() -> None:
    assert triggers({"lactate": [4.0]}, **lab(5.0, -1, kind=EventKind.VITAL))[2:] == ["Lactate > 4"]


def below(*ends: int) -> list[str]:
    return [f"hours since EKG < {end}" for end in ends]


def between(*hours: tuple[int, int]) -> list[str]:
    return [f"hours since EKG >= {first} AND hours since EKG < {end}" for first, end in hours]


@pytest.mark.parametrize(
    ("kind", "hours", "count", "said"),
    [
        (EventKind.PROCEDURE, 1.99, 5, [*below(2, 4, 8, 12), *between((1, 2), (1, 4))]),
        (EventKind.PROCEDURE, 2, 5, [*below(4, 8, 12), *between((1, 4), (2, 4), (2, 8))]),
        (EventKind.PROCEDURE, 23.99, 5, between((8, 24), (12, 24))),
        (EventKind.PROCEDURE, 24, 5, []),
        (EventKind.MEDICATION_START, 0.99, 1, below(2, 4, 8, 12)),
        (EventKind.ADMINISTRATION, 1, 2, []),
        (EventKind.LAB, 4, 2, [f"hours since EKG >= {wait}" for wait in (1, 2, 3, 4)]),
        (EventKind.LAB, 3.99, 1, [f"hours since EKG >= {wait}" for wait in (1, 2, 3)]),
        (EventKind.LAB, 0.99, 1, []),
        (EventKind.CULTURE, 99, 2, [f"hours since EKG >= {wait}" for wait in (1, 2, 3, 4, 6, 8, 12, 18, 24)]),
        (EventKind.CULTURE_TAKEN, 1, 2, []),
    ],
)
def test_what_was_just_done_and_what_is_done_again(kind: EventKind, hours: float, count: int, said: list[str]) -> None:
    name = "Heparin" if kind is EventKind.MEDICATION_START else "EKG"
    action = DoneAction(concept=name, kind=kind, last=ago(hours), count=count, row_id="r")
    assert triggers(actions={(kind, name): action})[2:] == [text.replace("EKG", name) for text in said]


def test_a_name_of_more_than_words_is_quoted() -> None:
    action = DoneAction(concept="X (2)", kind=EventKind.PROCEDURE, last=ago(0.5), count=1, row_id="r")
    assert triggers(actions={(action.kind, action.concept): action})[2] == 'hours since "X (2)" < 2'


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


def table(*held: tuple[str, tuple[Any, ...], int], rest: int = 0, **more: Any) -> StepTable:
    """Steps, each of a stay of its own: so many of a trigger, or of some, with what was decided; the rest hold none."""
    told = [(set(trigger.split()), decided) for trigger, decided, times in held for _ in range(times)]
    told += [(set(), ())] * rest
    steps = [
        TrainingStep(stay=stay, hour=1.0, triggers=frozenset(some), done={}, decided=decided, **more)
        for stay, (some, decided) in enumerate(told)
    ]
    return StepTable.of(steps, support=1, hits=1)


def rules_of(counts: StepTable, **settings: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.trigger, one.actions) for one in reflect(counts, loose(**settings)) if one.category != "PRIOR"]


def loose(**settings: Any) -> InductionSettings:
    named = {"support": 1, "hits": 1, "lift": 0.0, "gain": 1, "gain_share": 0.0, "smoothing": 0.0, "caution": 0.0}
    return InductionSettings(**(named | settings))


def test_a_step_says_since_when_what_holds_and_when_what_was_done() -> None:
    steps = [
        TrainingStep(stay=0, hour=1.0, triggers=frozenset("t"), done={}, decided=(EKG, SODIUM), predicted=(SODIUM,)),
        TrainingStep(stay=0, hour=2.5, triggers=frozenset("t"), done={EKG: 2.0, HEPARIN: RUNNING}, decided=(HEPARIN,)),
        TrainingStep(stay=1, hour=1.5, triggers=frozenset("tu"), done={}, decided=()),
    ]
    found = StepTable.of(steps, support=1, hits=1)
    assert (found.triggers, found.actions, found.steps) == (("t", "u"), (SODIUM, HEPARIN, EKG), 3)
    assert found.since.tolist() == [[1, 1, 1.5], [NEVER, NEVER, 1.5]]
    assert found.done.tolist() == [[NEVER] * 3, [NEVER, RUNNING, NEVER], [NEVER, 2, NEVER]]
    assert found.decided.tolist() == [[True, False, False], [False, True, False], [True, False, False]]
    assert found.missed.tolist()[0] == [False] * 3
    assert found.rate(0) == pytest.approx(1 / 3)
    assert found.due(1).tolist() == [[True, False, True], [False, False, True]]
    assert StepTable.of(steps, support=2, hits=2).triggers == ("t",)
    assert StepTable.of(steps, support=2, hits=2).actions == ()


@pytest.mark.parametrize(
    ("setting", "taken", "refused"),
    [("support", 8, 9), ("hits", 4, 5), ("lift", 2.0, 2.01), ("gain", 4, 5), ("gain_share", 1.0, None)],
)
def test_a_rule_needs_its_evidence_to_the_edge(setting: str, taken: float, refused: float | None) -> None:
    # 8 steps hold t, at 4 of them an EKG follows, 16 steps in all: precision 0.5, twice as often as the 4 of 16
    counts = table(("t", (EKG,), 4), ("t", (), 4), rest=8)
    assert rules_of(counts, **{setting: taken}) == [("t", ("perform EKG",))]
    assert refused is None or rules_of(counts, **{setting: refused}) == []


def test_a_rule_that_foretells_too_small_a_share_of_its_action_is_none() -> None:
    counts = table(("t", (EKG,), 1), ("u", (EKG,), 3))
    assert rules_of(counts, gain_share=0.26) == [("u", ("perform EKG",))]
    assert len(rules_of(counts, gain_share=0.25)) == 2


def test_caution_takes_the_wider_of_as_precise_triggers_and_else_the_first_by_name() -> None:
    counts = table(("wide a", (EKG,), 2), ("wide", (EKG,), 30), rest=40)
    assert rules_of(counts, smoothing=1.0, caution=2.0) == [("wide", ("perform EKG",))]
    assert rules_of(counts) == [("a", ("perform EKG",)), ("wide", ("perform EKG",))]


def test_rules_are_whole_and_in_the_order_of_their_surest_action() -> None:
    counts = table(("b", (EKG,), 4), ("b", (), 1), ("a", (HEPARIN, SODIUM), 3), ("c", (CT,), 4), ("c", (), 1), rest=2)
    more = {"provenance": RuleOrigin(origin="counted", source="failed steps of training stays")}
    first = ProtocolRule(
        id="C001",
        category="LABS",
        trigger="a",
        actions=("order Sodium", "start Heparin"),
        text="IF a THEN order Sodium; start Heparin.",
        support=3,
        precision=1.0,
        shares=(1.0, 1.0),
        weights={"order Sodium": 0.016, "start Heparin": 0.016},  # 3 w / (3 w + 100), w = (1 / 2) / 0.9
        **more,  # type: ignore[arg-type]
    )
    found = reflect(counts, loose())
    assert found[0] == first
    assert [(one.id, one.trigger, one.shares, one.support) for one in found[1:3]] == [
        ("C002", "b", (0.8,), 5),
        ("C003", "c", (0.8,), 5),
    ]
    assert [(one.id, one.category, one.actions, one.shares, one.support) for one in found[3:]] == [
        ("PRIOR-MEDICATIONS", "PRIOR", ("start Heparin",), (0.2,), 15),
        ("PRIOR-LABS", "PRIOR", ("order Sodium",), (0.2,), 15),
        ("PRIOR-PROCEDURES", "PRIOR", ("perform CT", "perform EKG"), (0.2667, 0.2667), 15),
    ]


def test_what_is_foretold_by_a_surer_rule_is_no_gain() -> None:
    counts = table(("sure wide", (EKG,), 4), ("wide", (EKG,), 2), ("wide", (), 4))
    # wide foretells the four that sure does, and two more
    assert rules_of(counts, gain=2) == [("sure", ("perform EKG",)), ("wide", ("perform EKG",))]
    assert rules_of(counts, gain=3) == [("sure", ("perform EKG",))]


def test_the_prior_has_so_many_actions_of_a_type() -> None:
    priors = reflect(table(("t", (EKG, CT, HEPARIN, SODIUM), 3)), loose(support=9, common=1))
    assert [one.actions for one in priors] == [("start Heparin",), ("order Sodium",), ("perform CT",)]


def test_there_are_so_many_rules() -> None:
    counts = table(("a", (EKG,), 3), ("b", (CT,), 3))
    assert rules_of(counts, rules=1) == [("a", ("perform EKG",))]
    assert len(rules_of(counts, rules=2)) == 2
