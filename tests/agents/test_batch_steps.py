"""Texts and steps of many bundles at once are those of one bundle after another, whatever happened to a patient."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stay_doubles import at

from wardround.agents.stays.batch import BatchSteps, batch_steps
from wardround.agents.stays.player import CodedRoles, CodedStep
from wardround.agents.stays.router import RuleMemory
from wardround.agents.stays.settings import TraceSettings
from wardround.cli import main
from wardround.clinical.bundles import (
    Bundle,
    BundleEvent,
    BundleStream,
    Carried,
    EventKind,
    PatientState,
    bundle_text,
    bundle_texts,
    event_of,
    fold,
    states,
    store_bundles,
    stream_of,
    subject_bundles,
)
from wardround.clinical.bundles.events import amends, cut
from wardround.clinical.bundles.fold import as_they_read
from wardround.clinical.bundles.state import joined
from wardround.clinical.protocols import GlobalProtocol, ProtocolRule, RuleIndex
from wardround.clinical.vocabulary import Bounds
from wardround.records import Store

TRIGGERS = (
    ("lactate > 4 mmol/L", "start heparin, order lactate, perform intubation", None),
    ("lactate > 4 g/dL OR NOT done sepsis", "order potassium", "shock"),
    ("problem shock AND hours since stay > 3", "start antibiotics, avoid heparin", "worse shock"),
    ('problem "worse shock"', "order sodium, hold potassium", None),
    ("NOT problem sepsis", "stop heparin, order lactate", None),
    ("potassium is low OR potassium is abnormal", "start low-dose insulin, order potassium", None),
    ("creatinine is rising AND NOT on anticoagulants", "start heparin, start vancomycin", None),
    ("creatinine is steady OR creatinine is falling", "order creatinine, avoid anticoagulants", None),
    ("on heparin AND hours since lactate < 5", "order lactate", None),
    ("NOT (allergy penicillins OR on vancomycin)", "start ampicillin, start vancomycin", None),
    ("allergy heparin AND done intubation", "start heparin", None),
    ("hour of day >= 10 AND hours since vancomycin >= 1", "start vancomycin, order sodium", None),
    ("lactate > 4 OR lactate rises by >= 3 mg/dL within 24 h", "order potassium", None),
    ("mean arterial pressure < 65", "start norepinephrine, start phenylephrine", None),
    ("lactate > 4 for 1 h", "start norepinephrine", None),
    ("any lactate > 4 mmol/L in last 12 h AND NOT every potassium < 4 in last 30 h", "order lactate", None),
    ("creatinine rises by >= 0.3 mg/dL within 48 h OR potassium falls by >= 10 % within 24 h", "order sodium", None),
    ("NOT creatinine >= 1.5 x baseline", "order creatinine", None),
    ("count of lactate in last 9 h >= 2 OR NOT count of heparin in last 24 h < 2", "start insulin", None),
    ("done lactate in last 2 h AND NOT done heparin in last 24 h", "order potassium", None),
    ("done potassium AND NOT done vancomycin", "order glucose", None),
    ("NOT done potassium in last 4 h", "start vancomycin", None),
    ("count of potassium in last 9 h >= 2 OR NOT count of potassium in last 24 h < 2", "order sodium", None),
    ("count of potassium in last 9 h = 1", "order chloride", None),
    ("hours since glucose < 6 OR hours since vancomycin < 3", "order vancomycin", None),
    ("rate of heparin > 2 mmol/min OR NOT rate of vancomycin > 2 mmol/kg/h", "start phenylephrine", None),
    ("sofa >= 2 OR MAP < 1", "order lactate", None),
    ("NOT (sofa >= 2 AND lactate > 4 mmol/L) AND age < 2", "order sodium", None),
    ("a model must judge this", "order lactate", None),
)
CONCEPTS = (
    "Lactate", "Potassium", "Creatinine", "Sodium", "Heparin", "Vancomycin", "Ampicillin", "Penicillin", "Sepsis",
    "Septic shock", "Intubation", "Arterial Blood Pressure mean", "Non Invasive Blood Pressure mean", "Glucose",
    "Chloride", "Bicarbonate", "", "Weight",
)  # fmt: skip
KEY = ("subject_id", "hour")
PRIOR = ProtocolRule(id="P", category="PRIOR", trigger="hour of day >= 0", actions=("order lactate",))


UNITS = {"lactate": {"mmol/L": -1, "mg/dL": 1}, "mean arterial pressure": {"kPa": 0}, "weight": {"kg": -1}}
"""Subject 1 has lactate in mg/dL alone, subject 0 pressures in kPa."""


def score(subject: int, name: str, hours: float | None, at: datetime) -> Bounds | None:
    """Known after some hours, after others in part or not at all."""
    low = float((at.hour + subject) % 4)
    return None if at.hour % 3 == 0 else Bounds(low, low + at.hour % 2)


def roles_of(rules: tuple[ProtocolRule, ...], **changed: object) -> CodedRoles:
    protocol = GlobalProtocol(name="many", rules=(*rules, PRIOR))
    told = TraceSettings(**changed)  # type: ignore[arg-type]
    return CodedRoles(index=RuleIndex(protocol), settings=told, carried=Carried(units=UNITS), score=score)


def weights_of(place: int, actions: list[str]) -> dict[str, float]:
    """Weights of which sums differ in their last digit by the order in which they are added."""
    asked = [one for one in actions if not one.startswith(("stop", "avoid", "hold"))]
    weights = {"order lactate": 0.1 * (place % 4 - 1), "start heparin": 0.7, "order potassium": 0.3}
    return weights | dict.fromkeys(asked[1:], 0.1 + place / 30)


EVERY_RULE = tuple(
    ProtocolRule(
        id=f"R{place}",
        category="ANY",
        trigger=trigger,
        actions=tuple(actions.split(", ")),
        suspects=suspects,
        precision=place % 3 / 3,
        weights=weights_of(place, actions.split(", ")) if place % 2 else {},
    )
    for place, (trigger, actions, suspects) in enumerate(TRIGGERS)
)


def one_by_one(stream: BundleStream, roles: CodedRoles) -> Iterator[CodedStep]:
    for _, several in groupby(stream, key=lambda bundle: bundle.subject_id):
        memory, bundles = RuleMemory(), list(several)
        for place, (bundle, state) in enumerate(zip(bundles, states(bundles), strict=True)):
            if any(map(amends, bundle.events)):
                memory = remembered(bundles[: place + 1], roles)
            yield roles.play(state, bundle.hour, memory)


def remembered(bundles: list[Bundle], roles: CodedRoles) -> RuleMemory:
    """What somebody remembers before the last bundle who looked at the record as it reads now after each before it."""
    memory = RuleMemory(began=bundles[0].hour, played=bundles[0].hour)
    visible = {bundle.hour: bundle for bundle in as_they_read(bundles)}
    state = PatientState(subject_id=bundles[0].subject_id)
    for told in bundles[:-1]:
        state = fold(state, visible[told.hour]) if told.hour in visible else replace(state, hour=told.hour)
        roles.play(state, told.hour, memory)
    return memory


def check(stream: BundleStream, roles: CodedRoles) -> BatchSteps:
    found = batch_steps(stream, roles)
    assert list(found) == list(one_by_one(stream, roles))
    assert bundle_texts(stream) == [bundle_text(bundle) for bundle in stream]
    return found


@st.composite
def events(draw: st.DrawFn, *, amended: bool) -> list[BundleEvent]:
    """Events of one person: results that come late, orders that end, are begun again, or never end."""
    kinds = [kind for kind in EventKind if amended or kind is not EventKind.RETRACTION]
    found = []
    for _ in range(draw(st.integers(1, 25))):
        happened = draw(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 8.0, 9.0, 26.0, 40.0]))
        found.append(
            event_of(
                draw(st.sampled_from(kinds)),
                draw(st.sampled_from(CONCEPTS)),
                at(happened + draw(st.sampled_from([0.0, 0.0, 0.25, 3.0]))),
                time=at(happened),
                value=draw(st.sampled_from([None, 1.0, 1.05, 3.3, 4.5, 140.0])),
                text=draw(st.sampled_from([None, "", "1000"])),
                unit=draw(st.sampled_from([None, "", "mmol/L", "mg/dL", "mmol/min", "kg"])),
                row_id=draw(st.sampled_from(["r:1", "r:2", "r:3", ""])),
                revision=draw(st.sampled_from([0, 0, 1])) if amended else 0,
            )
        )
    return found


def together(*people: list[BundleEvent]) -> BundleStream:
    return cut(joined([stream_of(number, each).columns for number, each in enumerate(people)]))


def test_nothing_is_foretold_after_the_stay_and_another_begins_afresh() -> None:
    rules = (
        ProtocolRule(id="A", category="ANY", trigger="lactate > 4", actions=("order potassium",), suspects="shock"),
        ProtocolRule(id="B", category="ANY", trigger="problem shock", actions=("order sodium",)),
        ProtocolRule(id="C", category="ANY", trigger="hours since stay > 3", actions=("order sodium",)),
    )
    lactates = [event_of(EventKind.LAB, "Lactate", at(h), value=5.0, row_id=f"l:{h}") for h in (0, 1, 5, 6, 50, 51, 54)]
    moves = [event_of(EventKind.ADMISSION, "WARD", at(hour), row_id=f"a:{hour}") for hour in (0, 50)]
    leaves = event_of(EventKind.DISCHARGE, "HOME", at(5.5), row_id="a:0")
    found = check(stream_of(1, [*lactates, *moves, leaves]), roles_of(rules))
    held = [" ".join(rule.id for rule in step.held) for step in found]
    assert held == ["A", "A B", "", "", "A", "A B", "A B C"]
    assert [len(step.actions) > 0 for step in found] == [True, True, False, False, True, True, True]
    assert [step.held[0].since for step in found if step.held] == [at(1)] * 2 + [at(51)] * 3


@settings(max_examples=60, deadline=None)
@given(events(amended=False), events(amended=False), st.sampled_from(["replace", "drop", "flag"]))
def test_many_at_once_come_to_what_one_after_another_does(
    first: list[BundleEvent], second: list[BundleEvent], on_fail: str
) -> None:
    assert not check(together(first, second), roles_of(EVERY_RULE, on_fail=on_fail)).folded


@settings(max_examples=20, deadline=None)
@given(events(amended=True), events(amended=True))
def test_whose_rows_were_amended_is_played_one_by_one(first: list[BundleEvent], second: list[BundleEvent]) -> None:
    check(together(first, second), roles_of(EVERY_RULE))


def test_who_has_more_entries_than_a_state_keeps_is_played_one_by_one() -> None:
    many = [event_of(EventKind.LAB, f"Test {place}", at(place % 7), value=1.0) for place in range(450)]
    few = [event_of(EventKind.LAB, "Lactate", at(1), value=5.0, unit="mmol/L")]
    found = check(together(few, many), roles_of(EVERY_RULE))
    assert set(found.folded) == set(range(1, 8))
    assert not batch_steps(stream_of(1, []), roles_of(EVERY_RULE)).folded


def test_who_has_no_reading_of_a_name_is_not_given_those_of_the_next() -> None:
    rules = (
        ProtocolRule(id="A", category="ANY", trigger="lactate > 4 for 1 h", actions=("order sodium",)),
        ProtocolRule(id="B", category="ANY", trigger="any lactate > 4 in last 12 h", actions=("order lactate",)),
        ProtocolRule(id="C", category="ANY", trigger="count of lactate in last 9 h >= 2", actions=("order glucose",)),
        ProtocolRule(id="D", category="ANY", trigger="lactate rises by >= 1 within 9 h", actions=("order chloride",)),
    )
    without = [event_of(EventKind.LAB, "Potassium", at(hour), value=4.0, row_id=f"k:{hour}") for hour in (0, 1, 5)]
    lactates = [
        event_of(EventKind.LAB, "Lactate", at(hour), value=5.0 + hour, unit="mmol/L", row_id=f"l:{hour}")
        for hour in (0, 1, 2)
    ]
    found = check(together(without, lactates, without), roles_of(rules))
    assert ["".join(rule.id for rule in step.held) for step in found] == ["", "", "", "B", "ABCD", "ABCD", "", "", ""]


def test_what_was_done_longest_ago_is_forgotten_where_more_was_done_than_a_state_keeps() -> None:
    rules = (
        ProtocolRule(id="A", category="ANY", trigger="done intubation", actions=("order sodium",)),
        ProtocolRule(id="B", category="ANY", trigger="hours since intubation < 6", actions=("perform intubation",)),
        ProtocolRule(id="C", category="ANY", trigger="NOT done intubation", actions=("order potassium",)),
    )
    times = [
        (1, 1.0),
        (6, 0.5),
        (7, 7.0),
    ]  # told, done: the second was done before the first, which is forgotten by then
    tubes = [event_of(EventKind.PROCEDURE, "Intubation", at(h), time=at(t), row_id=f"t:{h}") for h, t in times]
    others = [
        event_of(EventKind.PROCEDURE, f"Procedure {place}", at(2 + place // 100), row_id=f"p:{place}")
        for place in range(400)
    ]
    few = [event_of(EventKind.PROCEDURE, "Intubation", at(1), row_id="t")]
    found = check(together(few, [*tubes, *others]), roles_of(rules))
    assert not found.folded
    held = ["".join(rule.id for rule in step.held) for step in found]
    assert held == ["AB", "AB", "AB", "AB", "AB", "C", "A", "AB"]  # of the 401 names at hour 5 the first goes
    counting = ProtocolRule(
        id="D", category="ANY", trigger="count of heparin in last 9 h >= 2", actions=("order sodium",)
    )
    assert set(check(together(few, [*tubes, *others]), roles_of((*rules, counting))).folded) == set(range(1, 8))


def test_a_drug_that_runs_under_the_name_of_its_class_is_the_one_asked_for() -> None:
    rule = ProtocolRule(id="A", category="ANY", trigger="glucose > 2", actions=("start Insulin Human Regular",))
    runs = event_of(EventKind.MEDICATION_START, "Insulin", at(1), row_id="i:1")
    glucose = [event_of(EventKind.LAB, "Glucose", at(hour), value=9.0, row_id=f"g:{hour}") for hour in (0, 2)]
    found = check(stream_of(1, [runs, *glucose]), roles_of((rule,)))
    assert [[action.name for action in step.actions] for step in found] == [["Insulin Human Regular"], [], []]


BOUNDS = (None, Bounds(1, 1), Bounds(1, 2), Bounds(1, 3), Bounds(2, 2), Bounds(2, 3), Bounds(3, 3))
"""Of a score after each of seven hours."""


@pytest.mark.parametrize(
    ("trigger", "holds", "does_not"),
    [
        ("sofa > 2", {6}, {1, 2, 4}),
        ("sofa >= 2", {4, 5, 6}, {1}),
        ("sofa < 2", {1}, {4, 5, 6}),
        ("sofa <= 2", {1, 2, 4}, {6}),
        ("sofa = 2", {4}, {1, 6}),
    ],
)
def test_a_score_known_in_part_decides_only_where_both_ends_do(
    trigger: str, holds: set[int], does_not: set[int]
) -> None:
    rules = tuple(
        ProtocolRule(id=name, category="ANY", trigger=words, actions=("order sodium",))
        for name, words in {"yes": trigger, "no": f"NOT ({trigger})"}.items()
    )
    hourly = [event_of(EventKind.LAB, "Lactate", at(hour), value=1.0, row_id=f"l:{hour}") for hour in range(7)]
    began = at(0).hour
    roles = replace(roles_of(rules), score=lambda subject, name, hours, moment: BOUNDS[moment.hour - began])
    held = [{rule.id for rule in step.held} for step in check(stream_of(1, hourly), roles)]
    assert {place for place, found in enumerate(held) if "yes" in found} == holds
    assert {place for place, found in enumerate(held) if "no" in found} == does_not


def test_the_command_writes_the_words_and_the_step_of_every_bundle(synthetic_store: Store, tmp_path: Path) -> None:
    protocol = Path(__file__).parents[2] / "examples" / "sepsis.toml"
    words = [
        "export",
        "bundles",
        "--store",
        str(synthetic_store.path),
        "--out",
        str(tmp_path / "out"),
        "--protocol",
        str(protocol),
    ]
    assert main(words) == 0
    rows = pq.read_table(tmp_path / "out" / "steps.parquet")
    told = set(
        zip(*(pq.read_table(tmp_path / "out" / "events.parquet").column(n).to_pylist() for n in KEY), strict=True)
    )
    assert len(rows) == len(told) > 1_000
    first = rows.slice(0, 1).to_pylist()[0]
    bundle = subject_bundles(synthetic_store, first["subject_id"])[0]
    assert (first["hour"], first["text"]) == (bundle.hour, bundle_text(bundle))
    steps = [json.loads(text) for text in rows.column("step").to_pylist()]
    assert {"predicted", "read", "held", "audit"} == set(steps[0])
    assert any(step["predicted"] for step in steps)
    assert main([*words[:3], "--subject", "1", "--protocol", str(protocol)]) == 2


@pytest.mark.parametrize("window_hours", [6.0, 0.7])
def test_the_synthetic_hospital_comes_to_the_same(synthetic_store: Store, window_hours: float) -> None:
    stream = next(store_bundles(synthetic_store, rows_at_once=5_000))
    found = check(stream, roles_of(EVERY_RULE, window_hours=window_hours))
    audited = [step for step in found if step.audit.objections]
    assert not found.folded
    assert {rule.id for step in found for rule in step.held} >= {"R1", "R5", "R6", "R7", "R11"}
    assert audited
