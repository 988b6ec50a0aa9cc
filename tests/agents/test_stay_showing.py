"""What a prompt shows of a stay, counted in words: the state by weight, the newest hours, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from stay_doubles import DONE, LAB, START, at, event, stay

from wardround.agents.stays.router import HeldRule, Suspicion
from wardround.agents.stays.steward import (
    Absorbed,
    Steward,
    lines_that_fit,
    newest_bundles,
    shown_rules,
    shown_state,
    since,
)
from wardround.clinical.bundles import EventKind, PatientState, ValueLevel, bundle_text, states
from wardround.clinical.bundles.state import (
    ActiveMedication,
    ActiveProblem,
    DoneAction,
    KnownAllergy,
    Trend,
    TrendReading,
)
from wardround.clinical.protocols import ProtocolRule
from wardround.clinical.protocols.index import compile_rule

NOW = datetime(2150, 3, 10, 9)


class Words:
    """A token is a word."""

    def count(self, text: str) -> int:
        return len(text.split())


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def medication(
    name: str, since_hours: float, row: str, dose: str | None = None, unit: str | None = None
) -> ActiveMedication:
    return ActiveMedication(
        concept=name, dose=dose, unit=unit, since=ago(since_hours), kind=EventKind.MEDICATION_START, row_id=row
    )


def trend(name: str, level: ValueLevel, hours_ago: float, *values: float, unit: str | None = None) -> Trend:
    """Readings three hours apart, the last so long ago."""
    readings = tuple(
        TrendReading(time=ago(hours_ago + 3 * (len(values) - place)), value=value, level=level, row_id="r")
        for place, value in enumerate(values, start=1)
    )
    return Trend(concept=name, unit=unit, kind=EventKind.LAB, readings=readings)


def action(name: str, hours_ago: float, count: int, kind: EventKind = EventKind.PROCEDURE) -> DoneAction:
    return DoneAction(concept=name, kind=kind, last=ago(hours_ago), count=count, row_id="r")


STATE = PatientState(
    subject_id=1,
    problems={name: ActiveProblem(concept=name, since=NOW, last=NOW, row_ids=()) for name in ("Gout", "Sepsis")},
    allergies={"Latex": KnownAllergy(concept="Latex", reaction="rash", since=NOW, row_id="a")},
    medications={
        "1": medication("Old", 5, "1"),
        "2": medication("Low row", 1, "2", dose="5", unit="mg"),
        "3": medication("High row", 1, "3", dose="7"),
    },
    trends={
        (EventKind.LAB, str(place), ""): one
        for place, one in enumerate(
            [
                trend("B", ValueLevel.HIGH, 2, 10),
                trend("Normal", ValueLevel.NORMAL, 0, 1),
                trend("A", ValueLevel.LOW, 2, 10, 6, unit="g"),
                trend("Newest", ValueLevel.ABOVE_BASELINE, 1, 1.5),
                trend("Own", ValueLevel.BELOW_BASELINE, 4, 3),
                trend("Own too", ValueLevel.AT_BASELINE, 0, 3),
                trend("Unknown", ValueLevel.UNKNOWN, 0, 3),
            ]
        )
    },
    actions={
        (one.kind, one.concept): one
        for one in (
            action("EKG", 4, 2),
            action("Biopsy", 2, 1),
            action("Sodium", 3, 5, LAB),
            action("Heparin", 3, 5, EventKind.ADMINISTRATION),
            action("Potassium", 3, 5, LAB),
        )
    },
)
LINES = [
    "S-01 allergy: Latex",
    "S-02 suspected problem: pneumonia (by rule R1)",
    "S-03 problem: Sepsis",
    "S-04 problem: Gout",
    "S-05 given now: High row 7",
    "S-06 given now: Low row 5 mg",
    "S-07 given now: Old",
    "S-08 trend: Newest 1.5 above baseline",
    "S-09 trend: A 6 g low, falling by -4 in 3 h",
    "S-10 trend: B 10 high",
    "S-11 trend: Own 3 below baseline",
    "S-12 last done: Biopsy 10 Mar 07:00",
    "S-13 last done: Sodium; Potassium 10 Mar 06:00 (x5)",
    "S-14 last given: Heparin 10 Mar 06:00 (x5)",
    "S-15 last done: EKG 10 Mar 05:00 (x2)",
    "S-16 last value: Normal 1",
    "S-17 last value: Own too 3",
    "S-18 last value: Unknown 3",
]


def test_a_state_is_shown_by_weight_with_numbers_to_cite() -> None:
    shown = shown_state(STATE, {"pneumonia": Suspicion(rule="R1", row_ids=("l:1",))}, Words(), 1000)
    assert shown.text.split("\n") == LINES
    assert shown.ids == dict(line.split(" ", 1) for line in LINES)


def test_what_is_left_out_cannot_be_cited() -> None:
    # three words and one for the line's end each: 4 + 9 + 4 = 17, and 12 are kept for the notice
    shown = shown_state(STATE, {"pneumonia": Suspicion(rule="R1", row_ids=("l:1",))}, Words(), 17 + 12)
    assert shown.text.split("\n") == [*LINES[:3], "(15 more, left out for room)"]
    assert list(shown.ids) == ["S-01", "S-02", "S-03"]
    assert shown_state(PatientState(subject_id=1), {}, Words(), 10).ids == {}


def test_all_but_the_last_line_leave_room_for_a_notice() -> None:
    assert lines_that_fit(["a b"], Words(), 3) == ["a b"]
    assert lines_that_fit(["a b"], Words(), 2) == ["(1 more, left out for room)"]
    assert lines_that_fit(["a b", "c"], Words(), 15) == ["a b", "c"]
    assert lines_that_fit(["a b", "c"], Words(), 14) == ["(2 more, left out for room)"]
    assert lines_that_fit(["a b", "c " * 12], Words(), 15) == ["a b", "(1 more, left out for room)"]
    assert lines_that_fit(["a b", "c " * 11], Words(), 15) == ["a b", "c " * 11]
    assert lines_that_fit([], Words(), 0) == []


def rule(name: str, *actions: str, text: str = "") -> HeldRule:
    compiled = compile_rule(ProtocolRule(id=name, category="C", trigger="lactate > 4", actions=actions, text=text))
    return HeldRule(compiled=compiled, since=NOW, due=compiled.actions[1:], forbids=())


def test_rules_say_what_is_still_to_be_done() -> None:
    rules = [
        rule("R1", "start fluids", "perform EKG", "order Lactate", text="Do."),
        rule("R2", "start fluids", text="X."),
    ]
    assert shown_rules(rules, Words(), 100).split("\n") == [
        "[R1] Do. Still to be done: perform EKG; order Lactate.",
        "[R2] X. All of it is done.",
    ]
    assert shown_rules(rules, Words(), 10) == "(2 more, left out for room)"
    whole = replace(rules[1], due=rules[1].compiled.actions)
    assert shown_rules([whole], Words(), 100) == "[R2] X. Still to be done: all of it."


BUNDLES = list(
    stay(
        event(0, LAB, "Lactate", 4.8),
        event(1, START, "Heparin"),
        event(3, DONE, "EKG"),
        event(3, LAB, "Sodium", 140.0),
    )
)
TEXTS = [bundle_text(one) for one in BUNDLES]
NEEDS = [len(text.split()) + 1 for text in TEXTS]


def test_the_newest_hours_fit_as_far_as_they_go() -> None:
    assert newest_bundles(BUNDLES, Words(), sum(NEEDS)) == "\n".join(TEXTS)
    assert newest_bundles(BUNDLES, Words(), sum(NEEDS) - 1) == "\n".join(TEXTS[1:])
    assert newest_bundles(BUNDLES, Words(), sum(NEEDS[1:]) - 1) == TEXTS[2]
    assert newest_bundles(BUNDLES, Words(), NEEDS[2]) == TEXTS[2]
    lines = TEXTS[2].split("\n")
    assert newest_bundles(BUNDLES, Words(), NEEDS[2] - 1) == "\n".join(lines_that_fit(lines, Words(), NEEDS[2] - 1))
    assert newest_bundles([], Words(), 9) == ""


def test_since_an_hour_is_that_hour_and_later() -> None:
    assert since(BUNDLES, at(1)) == BUNDLES[1:]
    assert since(BUNDLES, at(1.5)) == BUNDLES[2:]
    assert since(BUNDLES, at(9)) == []


def test_a_steward_absorbs_every_bundle_or_where_the_limit_is_passed() -> None:
    eager, patient = Steward(), Steward(when="at_limit", limit_tokens=NEEDS[0] + NEEDS[1])
    taken = [eager.take_in(one, Words()) for one in BUNDLES]
    assert [one and one.bundles for one in taken] == [(one,) for one in BUNDLES]
    assert [one and one.before for one in taken] == [None, *list(states(BUNDLES))[:2]]
    assert (eager.mitoses, eager.buffer, eager.buffered_tokens, eager.absorbed) == (3, [], 0, eager.state)
    assert [patient.take_in(one, Words()) for one in BUNDLES[:2]] == [None, None]
    assert (patient.mitoses, patient.buffer, patient.absorbed) == (0, BUNDLES[:2], None)
    assert patient.buffered_tokens == NEEDS[0] + NEEDS[1], "exactly at the limit is within it"
    assert patient.shown(BUNDLES[1]) == (None, BUNDLES[:2])
    assert patient.take_in(BUNDLES[2], Words()) == Absorbed(before=None, bundles=tuple(BUNDLES))
    assert (patient.mitoses, patient.buffer, patient.buffered_tokens) == (1, [], 0)
    assert patient.absorbed == patient.state == eager.state
    assert patient.shown(BUNDLES[2]) == (eager.state, BUNDLES[2:]), "an empty buffer shows the newest bundle"
    past = Steward(when="at_limit")
    assert past.take_in(BUNDLES[0]), "what is taken in without a counter is absorbed"


def test_behind_a_state_only_the_newest_bundle_is_shown() -> None:
    steward = Steward(window_hours=2)
    for one in BUNDLES:
        steward.take_in(one, Words())
    state, shown = steward.shown(BUNDLES[2])
    assert (state, list(shown)) == (steward.state, BUNDLES[2:])
    assert steward.state_at(BUNDLES[2]) is steward.state
    assert state is not None
    assert [one.concept for one in state.trends.values()] == ["Lactate", "Sodium"]


def test_without_a_state_only_the_window_is_known() -> None:
    steward = Steward(keeps_all=False, window_hours=2)
    for one in BUNDLES:
        steward.take_in(one, Words())
    assert steward.state is None
    assert Steward().state_at(BUNDLES[0]) == PatientState(subject_id=7), "before anything was taken in"
    assert steward.shown(BUNDLES[2]) == (None, BUNDLES[1:])
    state = steward.state_at(BUNDLES[2])
    assert [one.concept for one in state.trends.values()] == ["Sodium"]
    assert [one.concept for one in state.medications.values()] == ["Heparin"]
    assert state.subject_id == 7
