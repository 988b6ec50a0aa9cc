"""What rules may ask of a readmitted patient: of this encounter, and nothing of the one a year ago."""

from __future__ import annotations

import pytest

from clinical.definitions.hand_made import BEGAN, Charts, Ward, at
from wardround.agents.stays.batch.facts import BatchFacts
from wardround.agents.stays.batch.steps import truths
from wardround.agents.stays.charted import StateFacts
from wardround.clinical.bundles import (
    ActiveProblem,
    DoneAction,
    EventKind,
    PatientState,
    StateEncounter,
    Trend,
    TrendReading,
    ValueLevel,
    bundles_of,
    states,
)
from wardround.clinical.bundles.state import admitted_at
from wardround.clinical.protocols import GlobalProtocol, ProtocolRule, RuleIndex, compile_trigger

CULTURE = "Blood Culture, Routine"
RULES = (
    f'done "{CULTURE}"', f'NOT done "{CULTURE}"', f'hours since "{CULTURE}" >= 48', f'hours since "{CULTURE}" < 3',
    f'ever done "{CULTURE}"', f'NOT ever done "{CULTURE}"',
    "done vancomycin", "done Creatinine", "hours since Creatinine < 9",
    "creatinine > 1.2", "creatinine >= 1.5 x baseline", "creatinine rises by >= 0.3 mg/dL within 48 h",
    "creatinine is rising", "creatinine is falling", "any creatinine > 1.2 in last 48 h", "creatinine > 1.2 for 90 min",
)  # fmt: skip


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Charts:
    ward = Ward()
    year = ward.newcomer("a year ago").admit(-9000, -8900).culture(-8999).drug("Vancomycin", -8998)
    year.admit().lab(50912, -5, 1.0, "mg/dL").lab(50912, 1, 1.0, "mg/dL").culture(10).lab(50912, 12, 1.0, "mg/dL")
    day = ward.newcomer("back within a day").admit(-60, -12).culture(-13).lab(50912, -13, 1.0, "mg/dL")
    day.admit().lab(50912, 0, 1.1, "mg/dL")
    moved = ward.newcomer("from observation to ward").admit(-10, -2).culture(-9).admit(-2).lab(50912, 0, 1.1, "mg/dL")
    moved.drug("Vancomycin", -1)
    for name, left in (("creatinine of the stay before", -31), ("creatinine of the stay before, back soon", -3)):
        back = (
            ward.newcomer(name).admit(-60, left).lab(50912, left - 2, 1.0, "mg/dL").lab(50912, left - 1, 1.4, "mg/dL")
        )
        back.admit(5 if left == -3 else BEGAN).lab(50912, 6, 2.2, "mg/dL").lab(50912, 9, 2.0, "mg/dL")
    return ward.open(tmp_path_factory.mktemp("ward"))


def _facts(charts: Charts, name: str, hours: float) -> StateFacts:
    """Of the last bundle that is closed so many hours after noon."""
    seen = list(states(bundles_of(charts.of(name, hours))))
    assert seen[-1].hour is not None
    return StateFacts(seen[-1], seen[-1].hour, window_hours=6)


@pytest.mark.parametrize(
    ("name", "hours", "is_done", "since"),
    [
        ("a year ago", -8990, True, 2.0), ("a year ago", 2, False, None),
        ("a year ago", 13, True, pytest.approx(3, abs=1)), ("back within a day", -12.5, True, 1.0),
        ("back within a day", 2, False, None), ("from observation to ward", 2, True, pytest.approx(10, abs=1)),
    ],
)  # fmt: skip
def test_what_was_done_belongs_to_this_encounter(
    charts: Charts, name: str, hours: float, is_done: bool, since: float | None
) -> None:
    facts = _facts(charts, name, hours)
    assert facts.done(CULTURE) is is_done
    assert facts.hours_since(CULTURE) == since
    assert facts.done(CULTURE, ever=True)


@pytest.mark.parametrize(
    ("name", "hours", "rule", "truth"),
    [
        # 1.4 at the end of the stay before, 2.2 and 2.0 in this one
        ("creatinine of the stay before", 8, "creatinine >= 1.5 x baseline", None),
        ("creatinine of the stay before", 8, "creatinine rises by >= 0.3 mg/dL within 48 h", None),
        ("creatinine of the stay before", 8, "creatinine is rising", None),
        ("creatinine of the stay before", 11, "creatinine is falling", True),
        ("creatinine of the stay before", 3, "any creatinine > 1.2 in last 48 h", None),
        ("creatinine of the stay before", -32, "creatinine >= 1.4 x baseline", True),
        ("creatinine of the stay before, back soon", 5.9, "creatinine > 1.2", None),
        ("creatinine of the stay before, back soon", 8, "creatinine is rising", None),
        ("creatinine of the stay before, back soon", 11, "creatinine is falling", True),
        ("creatinine of the stay before, back soon", 8, "creatinine >= 1.5 x baseline", None),
    ],
)  # fmt: skip
def test_readings_of_an_earlier_admission_say_nothing_of_this_one(
    charts: Charts, name: str, hours: float, rule: str, truth: bool | None
) -> None:
    seen = list(states(bundles_of(charts.of(name, hours))))
    assert seen[-1].hour is not None
    node = compile_trigger(rule).node
    assert node is not None
    assert node.holds(StateFacts(seen[-1], seen[-1].hour, window_hours=12)) is truth


def test_what_was_done_before_admission_on_the_same_day_belongs_to_it(charts: Charts) -> None:
    assert _facts(charts, "a year ago", 0).hours_since("Creatinine") == pytest.approx(5, abs=1.01)
    assert _facts(charts, "back within a day", -1).hours_since("Creatinine") is None


def test_all_bundles_at_once_say_the_same(charts: Charts) -> None:
    """Each bundle of a whole record, by state and by columns."""
    said = set()
    for name in charts.numbers:
        stream = bundles_of(charts.of(name, 101))
        batch = BatchFacts(stream=stream, window_hours=6)
        for rule in RULES:
            node = compile_trigger(rule).node
            assert node is not None
            found = truths(node, batch)
            for place, state in enumerate(states(stream)):
                assert state.hour is not None
                held = node.holds(StateFacts(state, state.hour, window_hours=6))
                assert (bool(found.yes[place]), bool(found.no[place])) == (held is True, held is False), (name, rule)
                said.add((rule, held))
    assert len(said) >= 2 * len(RULES)


def test_problems_of_an_earlier_encounter_are_not_known_in_this_one() -> None:
    hour, began = at(0), at(-2)
    old = ActiveProblem(concept="Sepsis", since=at(-9000), last=at(-8900), row_ids=("a",))
    again = ActiveProblem(concept="Pneumonia", since=at(-9000), last=at(-1), row_ids=("b",))
    action = DoneAction(concept="EKG", kind=EventKind.PROCEDURE, last=at(-8900), count=1, row_id="c")
    state = PatientState(
        subject_id=1, hour=hour, problems={"Sepsis": old, "Pneumonia": again}, actions={(action.kind, "EKG"): action},
        encounter=StateEncounter(since=began),
    )  # fmt: skip
    facts = StateFacts(state, hour, window_hours=6)
    assert (facts.has_problem("sepsis"), facts.has_problem("pneumonia"), facts.done("EKG")) == (None, True, False)
    told = PatientState(subject_id=1, hour=hour, problems=state.problems, actions=state.actions)
    everything = StateFacts(told, hour, window_hours=6)
    assert (everything.has_problem("sepsis"), everything.done("EKG")) == (True, True), "no admission was told"


@pytest.mark.parametrize(
    ("before", "since"),
    [
        (None, -24), (StateEncounter(since=at(-90)), -90), (StateEncounter(since=at(-90), ended=at(-6)), -90),
        (StateEncounter(since=at(-90), ended=at(-6.1)), -6.1), (StateEncounter(since=at(-90), ended=at(-30)), -24),
        (StateEncounter(since=at(-90), ended=at(3)), -90),
    ],
)  # fmt: skip
def test_when_an_encounter_begins(before: StateEncounter | None, since: float) -> None:
    assert admitted_at(at(0), before) == StateEncounter(since=at(since))


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("ever done colonoscopy", "ever done colonoscopy"), ("history of sepsis", "ever problem sepsis"),
        ("NOT ever problem heart failure", "NOT ever problem heart failure"), ("done colonoscopy", "done colonoscopy"),
        ("problem sepsis AND ever problem sepsis", "problem sepsis AND ever problem sepsis"),
    ],
)  # fmt: skip
def test_a_rule_says_where_it_means_earlier_encounters_too(text: str, spelt: str) -> None:
    node = compile_trigger(text).node
    assert str(node) == spelt
    assert compile_trigger(spelt).node == node


def test_what_was_ever_so_is_known_of_earlier_encounters() -> None:
    old = ActiveProblem(concept="Sepsis", since=at(-9000), last=at(-8900), row_ids=("a",))
    action = DoneAction(concept="EKG", kind=EventKind.PROCEDURE, last=at(-8900), count=1, row_id="c")
    state = PatientState(
        subject_id=1, hour=at(0), problems={"Sepsis": old}, actions={(action.kind, "EKG"): action},
        encounter=StateEncounter(since=at(-2)),
    )  # fmt: skip
    facts = StateFacts(state, at(0), window_hours=6)
    ever = [compile_trigger(text).node for text in ("ever problem sepsis", "ever done EKG")]
    now = [compile_trigger(text).node for text in ("problem sepsis", "done EKG")]
    assert [node and (node.holds(facts), facts.rows(node)) for node in ever] == [(True, ("a",)), (True, ("c",))]  # type: ignore[arg-type]
    assert [node and (node.holds(facts), facts.rows(node)) for node in now] == [(None, ()), (False, ())]  # type: ignore[arg-type]
    rule = ProtocolRule(id="r", category="c", trigger="ever done EKG", actions=("perform EKG",))
    found = RuleIndex(GlobalProtocol(name="p", rules=(rule,))).find(facts, facts.names)
    assert [one.rule.id for one in found] == ["r"]


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        ("creatinine is rising", ("a", "c")), ("creatinine > 1.2", ("c",)), ("creatinine is high", ("c",)),
        ("any creatinine > 1.5 in last 6 h", ("b",)), ("any creatinine < 1.1 in last 6 h", ("a",)),
        ("creatinine rises by >= 0.3 mg/dL within 48 h", ("a", "c")),
        ("sodium is rising", ()), ("sodium > 145", ()), ("sodium is high", ()), ("any sodium > 145 in last 6 h", ()),
        ("sodium > 145 for 90 min", ()),
    ],
)  # fmt: skip
def test_the_rows_of_a_rule_are_the_readings_that_decide_it(rule: str, rows: tuple[str, ...]) -> None:
    """Creatinine 1.0, 1.6 and 1.4, and no sodium: nothing is cited for what nobody measured."""
    readings = tuple(
        TrendReading(time=at(hours), value=value, level=ValueLevel.HIGH, row_id=row)
        for hours, value, row in ((-4, 1.0, "a"), (-2.5, 1.6, "b"), (-1, 1.4, "c"))
    )
    trend = Trend(concept="Creatinine", unit="mg/dL", kind=EventKind.LAB, readings=readings)
    state = PatientState(subject_id=1, hour=at(0), trends={(EventKind.LAB, "Creatinine", ""): trend})
    node = compile_trigger(rule).node
    assert node is not None
    assert StateFacts(state, at(0), window_hours=6).rows(node) == rows  # type: ignore[arg-type]
