"""The language of triggers: what is read, what is not, and that unknown is never taken for normal."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.clinical.protocols import (
    ChangedBy,
    CompiledRule,
    CourseReading,
    Facts,
    GivenFacts,
    GlobalProtocol,
    Node,
    ProtocolRule,
    ReadingCourse,
    RuleIndex,
    can_hold_together,
    compile_trigger,
    implies,
)

NOON = datetime(2150, 1, 2, 12)


def node(text: str) -> Node:
    trigger = compile_trigger(text)
    assert trigger.node is not None, trigger.problem
    return trigger.node


def truth(text: str, facts: Facts) -> bool | None:
    return node(text).holds(facts)


@pytest.mark.parametrize(
    ("text", "value", "held"),
    [
        ("lactate > 4", 4.0, False), ("lactate > 4", 4.1, True), ("lactate >= 4", 4.0, True),
        ("lactate < 4", 4.0, False), ("lactate <= 4", 4.0, True), ("lactate = 4", 4.0, True),
        ("lactate ≥ 4 mmol/L", 4.0, True), ("NOT lactate > 4", 4.0, True),
    ],
)  # fmt: skip
def test_a_number_is_compared_at_its_boundary(text: str, value: float, held: bool) -> None:
    assert truth(text, GivenFacts(values={"Lactate": value})) is held


def test_what_is_not_charted_is_unknown_on_both_sides_of_not() -> None:
    nothing = GivenFacts()
    for text in ("lactate > 4", "NOT lactate > 4", "potassium is normal", "on heparin", "NOT problem sepsis"):
        assert truth(text, nothing) is None
    assert truth("lactate > 4 OR map < 65", GivenFacts(values={"map": 50})) is True
    assert truth("lactate > 4 AND map < 65", GivenFacts(values={"map": 50})) is None
    assert truth("lactate > 4 AND map < 65", GivenFacts(values={"map": 70})) is False


def test_and_binds_more_than_or_and_brackets_more_than_both() -> None:
    facts = GivenFacts(values={"lactate": 3, "potassium": 4, "sodium": 140})
    assert truth("lactate > 2 OR potassium > 5 AND sodium > 150", facts) is True
    assert truth("(lactate > 2 OR potassium > 5) AND sodium > 150", facts) is False


@pytest.mark.parametrize(
    ("trigger", "meanings"),
    [
        ("problem AS", "aortic stenosis or ankylosing spondylitis"),
        ("problem ms", "multiple sclerosis, mitral stenosis or mental status"),
        ("lactate > 4 mmol/L AND problem CP", "chest pain or cerebral palsy"),
        ("on MS", "morphine sulfate or magnesium sulfate"), ("done PT", "prothrombin time or physical therapy"),
        ("no PT in last 24 h", "prothrombin time or physical therapy"),
    ],
)  # fmt: skip
def test_a_short_name_of_several_things_is_refused_with_its_meanings(trigger: str, meanings: str) -> None:
    assert meanings in (compile_trigger(trigger).problem or "")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("hemoglobin drop of at least 2 g/dL within 24 h", "hemoglobin falls by >= 2 g/dL within 24 h"),
        ("platelets fall by 50 % within 5 days", "platelets falls by >= 50 % within 120 h"),
        ("creatinine increase of 0.3 mg/dL within 48 h", "creatinine rises by >= 0.3 mg/dL within 48 h"),
        ("drop in hemoglobin of >= 2 g/dL within 24 h", "hemoglobin falls by >= 2 g/dL within 24 h"),
        ("NOT on any anticoagulant", "NOT on anticoagulant"), ("allergy to sulfa", "allergy sulfa"),
    ],
)  # fmt: skip
def test_nouns_of_change_and_little_words_are_read(written: str, meant: str) -> None:
    assert str(compile_trigger(written).node) == meant


def test_short_names_of_one_thing_and_quoted_ones_are_taken() -> None:
    for trigger in (
        "PT > 15 sec",
        "Mg < 1.6 mg/dL",
        "done HD",
        "problem AF",
        'problem "AS"',
        "problem aortic stenosis",
    ):
        assert compile_trigger(trigger).node is not None, trigger


def test_a_unit_that_differs_is_converted_and_what_cannot_be_is_unknown() -> None:
    assert truth("lactate > 4 mmol/L", GivenFacts(values={"lactate": 40}, units={"lactate": "mg/dL"})) is True
    assert truth("lactate > 4 mmol/L", GivenFacts(values={"lactate": 30}, units={"lactate": "mg/dL"})) is False
    assert truth("lactate > 4 mmol/L", GivenFacts(values={"lactate": 40}, units={"lactate": "sec"})) is None
    assert truth("hemoglobin < 7", GivenFacts(values={"Hgb": 59}, units={"Hgb": "g/L"})) is True
    assert truth("creatinine > 2", GivenFacts(values={"creatinine": 150}, units={"creatinine": "umol/L"})) is False
    assert truth("platelets < 50,000", GivenFacts(values={"platelets": 120}, units={"platelets": "K/uL"})) is False
    assert truth("lactate > 4 mmol/L", GivenFacts(values={"lactate": 40}, units={"lactate": "mmol / l"})) is True
    assert truth("lactate > 4 mmol/L", GivenFacts(values={"lactate": 40})) is True


@pytest.mark.parametrize(
    ("concept", "charted", "rose"),
    [
        ("mystery marker", (), True),
        ("mystery marker", ("U/L",), True),
        ("mystery marker", ("U/L", "mU/L"), None),
        ("INR", ("INR", "ratio"), True),
        ("lactate", ("mmol/L",), True),
        ("lactate", ("mmol/L", "mg/dL"), None),
    ],
)
def test_bare_numbers_are_of_one_unit_where_a_source_has_no_other(
    concept: str, charted: tuple[str, ...], rose: bool | None
) -> None:
    readings = tuple(
        CourseReading(time=NOON - timedelta(hours=hours), value=value) for hours, value in ((6, 3), (1, 6))
    )
    rises = node(f'"{concept}" rises by >= 2 within 24 h')
    assert isinstance(rises, ChangedBy)
    assert rises.holds_of(ReadingCourse(now=NOON, readings=readings, charted=frozenset(charted))) is rose


def test_names_are_known_by_their_spellings_and_drugs_by_their_class() -> None:
    facts = GivenFacts(
        values={"Non Invasive Blood Pressure mean": 60},
        on=("Piperacillin-Tazobactam",),
        finished=("Blood Cultured",),
        allergies=("Penicillins",),
        problems=("Suspected sepsis",),
        since={"Blood Cultured": 7.0},
    )
    for text in (
        "MAP < 65", "on broad-spectrum antibiotics", "on penicillins", "done blood cultures", "allergy ampicillin",
        "problem sepsis", "hours since blood culture >= 6",
    ):  # fmt: skip
        assert truth(text, facts) is True, text
    for text in ("on vasopressors", "done urine culture", "allergy vancomycin", "problem pneumonia"):
        assert truth(text, facts) is False, text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"), ("patient looks unwell", "asked nothing"), ("lactate > high", "no number"),
        ("lactate > 4 AND", "a name is missing"), ("(lactate > 4", "not closed"), ('"lactate > 4', "quote"),
        ("lactate is odd", "say one of"), ("lactate > 4 )", "nothing belongs"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_language_is_not_compiled_and_says_why(text: str, why: str) -> None:
    trigger = compile_trigger(text)
    assert trigger.node is None
    assert why in (trigger.problem or "")


_NAMES = st.sampled_from(["lactate", "map", "Calcium, Total", "heparin", "creatinine"])
_SMALL = st.integers(1, 3)
_CONDITIONS = st.one_of(
    st.builds(
        "{0} {1} {2}".format,
        _NAMES.map(lambda name: f'"{name}"'),
        st.sampled_from([">", ">=", "<", "<=", "="]),
        st.integers(0, 3),
    ),
    st.builds('"{0}" is {1}'.format, _NAMES, st.sampled_from(["low", "high", "normal", "abnormal", "rising"])),
    st.builds('{1} "{0}"'.format, _NAMES, st.sampled_from(["on", "problem", "allergy", "done"])),
    st.builds('hours since "{0}" > {1}'.format, _NAMES, st.integers(0, 3)),
    st.builds('{1} "{0}" > {2} in last {3} h'.format, _NAMES, st.sampled_from(["any", "every"]), _SMALL, _SMALL),
    st.builds('"{0}" > {1} for {2} h'.format, _NAMES, _SMALL, _SMALL),
    st.builds('"{0}" {1} by >= {2} within {3} h'.format, _NAMES, st.sampled_from(["rises", "falls"]), _SMALL, _SMALL),
    st.builds('"{0}" >= {1} x baseline'.format, _NAMES, _SMALL),
    st.builds('count of "{0}" in last {1} h >= {2}'.format, _NAMES, _SMALL, _SMALL),
    st.builds('done "{0}" in last {1} h'.format, _NAMES, _SMALL),
    st.builds("rate of heparin > {0} units/h".format, _SMALL),
    st.builds("{0} >= {1}".format, st.sampled_from(["sofa", "kdigo"]), _SMALL),
)
_TRIGGERS = st.recursive(
    _CONDITIONS,
    lambda inner: st.one_of(
        st.builds("({0} AND {1})".format, inner, inner),
        st.builds("({0} OR {1})".format, inner, inner),
        st.builds("NOT ({0})".format, inner),
    ),
    max_leaves=5,
)
_HOURS = st.integers(0, 4).map(float)
_MAYBE = st.one_of(st.none(), st.lists(_NAMES, unique=True, max_size=3).map(tuple))
_FACTS = st.builds(
    GivenFacts,
    values=st.dictionaries(_NAMES, st.integers(0, 3).map(float), max_size=4),
    levels=st.dictionaries(_NAMES, st.sampled_from(["low", "normal", "high"]), max_size=4),
    trends=st.dictionaries(_NAMES, st.sampled_from(["rising", "falling", "steady"]), max_size=4),
    on=_MAYBE, problems=_MAYBE, allergies=_MAYBE, finished=_MAYBE,
    since=st.dictionaries(_NAMES, st.integers(0, 4).map(float), max_size=3),
    courses=st.dictionaries(_NAMES, st.lists(st.tuples(_HOURS, _HOURS), min_size=1, max_size=4).map(tuple), max_size=3),
    times=st.dictionaries(_NAMES, st.lists(_HOURS, max_size=3).map(tuple), max_size=2),
    rates=st.dictionaries(st.just("heparin"), st.sampled_from(["2 units/h", "30 mU/min", "2 mg"])),
    scores=st.dictionaries(st.sampled_from(["sofa", "kdigo"]), st.integers(0, 4).map(float)),
)  # fmt: skip


@given(_TRIGGERS, _FACTS)
def test_a_trigger_written_out_again_means_the_same(text: str, facts: GivenFacts) -> None:
    first = node(text)
    assert node(str(first)).holds(facts) == first.holds(facts)


@given(_TRIGGERS, _TRIGGERS, _FACTS)
def test_what_implies_another_never_holds_without_it(one: str, other: str, facts: GivenFacts) -> None:
    first, second = node(one), node(other)
    if implies(first, second) and first.holds(facts) is True:
        assert second.holds(facts) is True


@pytest.mark.parametrize(
    ("first", "second", "follows", "together"),
    [
        ("lactate < 4", "lactate <= 4", True, True),
        ("lactate <= 4", "lactate < 4", False, True),
        ("lactate > 4", "lactate >= 4", True, True),
        ("lactate >= 4", "lactate > 4", False, True),
        ("lactate < 3", "lactate < 4", True, True),
        ("lactate < 5", "lactate < 4", False, True),
        ("lactate > 5", "lactate > 4", True, True),
        ("lactate > 3", "lactate > 4", False, True),
        ("lactate = 4", "lactate <= 4", True, True),
        ("lactate = 4", "lactate < 4", False, False),
        ("lactate > 4", "NOT lactate = 4", True, True),
        ("NOT lactate = 4", "lactate > 4", False, True),
        ("lactate <= 4", "lactate >= 4", False, True),
        ("lactate < 4", "lactate >= 4", False, False),
        ("lactate <= 4", "lactate > 4", False, False),
        ("lactate > 36 mg/dL", "lactate > 3.9 mmol/L", True, True),
        ("lactate > 35 mg/dL", "lactate > 3.9 mmol/L", False, True),
        ("lactate > 4 AND map < 65", "lactate > 4", True, True),
        ("lactate > 4 OR map < 65", "lactate > 4", False, True),
        ("potassium is low", "potassium is abnormal", True, True),
        ("potassium is abnormal", "potassium is low", False, True),
        ("potassium is low", "NOT potassium is high", True, True),
        ("potassium is low", "potassium is normal", False, False),
        ("creatinine >= 2 x baseline", "creatinine >= 1.5 x baseline", True, True),
        ("hours since heparin < 3", "hours since heparin < 2", False, True),
        ("sofa >= 3", "sofa >= 2", True, True),
        ("lactate > 4", "potassium > 4", False, False),
    ],
)
def test_triggers_beside_each_other(first: str, second: str, follows: bool, together: bool) -> None:
    """Of two that share no condition nothing is said."""
    assert implies(node(first), node(second)) == follows
    assert can_hold_together(node(first), node(second)) == can_hold_together(node(second), node(first)) == together


@given(_TRIGGERS, _FACTS)
def test_a_trigger_that_holds_can_hold(text: str, facts: GivenFacts) -> None:
    if node(text).holds(facts) is True:
        assert can_hold_together(node(text), node(text))


def named_in(facts: GivenFacts) -> tuple[str, ...]:
    given = (facts.on, facts.problems, facts.allergies, facts.finished)
    listed = [name for names in given for name in names or ()]
    asked = (*facts.courses, *facts.times, *facts.rates)
    return (*facts.values, *facts.levels, *facts.trends, *facts.since, *asked, *listed)


@given(st.lists(_TRIGGERS, min_size=1, max_size=6), _FACTS)
def test_the_index_finds_what_asking_every_rule_finds(triggers: list[str], facts: GivenFacts) -> None:
    rules = tuple(
        ProtocolRule(id=f"R{place}", category="ANY", trigger=trigger, actions=("order Lactate",))
        for place, trigger in enumerate(triggers)
    )
    index = RuleIndex(GlobalProtocol(name="any", rules=rules))

    def ids(found: tuple[CompiledRule, ...]) -> list[str]:
        return [one.rule.id for one in found]

    assert ids(index.find(facts, named_in(facts))) == ids(tuple(one for one in index.rules if one.holds(facts)))


def test_an_index_of_441_rules_asks_a_handful() -> None:
    rules = tuple(
        ProtocolRule(id=f"R{place}", category="ANY", trigger=f'"test{place}" > 4', actions=("order Lactate",))
        for place in range(441)
    )
    index = RuleIndex(GlobalProtocol(name="many", rules=rules))
    assert [one.rule.id for one in index.candidates(["test7", "test300", "heparin"])] == ["R7", "R300"]


def test_an_index_that_forgets_the_names_it_met_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tuple(
        ProtocolRule(id=f"R{place}", category="ANY", trigger=f'"test{place}" > 4', actions=("order Lactate",))
        for place in range(9)
    )
    index = RuleIndex(GlobalProtocol(name="many", rules=rules))
    monkeypatch.setattr("wardround.clinical.protocols.index._NAMES", 1)
    for names in (["test1", "test2"], ["test2", "test1"], ["test3"], ["test1", "test3", "other"]):
        assert [one.rule.id for one in index.candidates(names)] == sorted(f"R{n[4:]}" for n in names if n != "other")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("on two vasopressors", "several of a class are not counted"), (">= 2 vasopressors", "is not counted"),
        ("ALT > 3 x ULN", "keeps no limits of laboratories"), ("troponin > ULN", "write `troponin is high`"),
        ("GCS verbal = 1", "a tube is charted as 1"), ("age > 92", "told as 90"),
        ("pf ratio < 200 mg/dL", "mmHg alone"),
    ],
)  # fmt: skip
def test_what_a_state_cannot_tell_is_refused_with_what_to_write(text: str, said: str) -> None:
    assert said in str(compile_trigger(text).problem)


def test_a_gas_of_an_untold_specimen_is_no_arterial_one() -> None:
    asked = "PaO2 < 60 mmHg"
    assert truth(asked, GivenFacts(values={"pO2": 35.0})) is None
    assert truth(asked, GivenFacts(values={"Arterial O2 pressure": 55.0})) is True
    assert truth("P/F ratio < 200 AND age >= 65 years", GivenFacts(scores={"pf_ratio": 150.0, "age": 70.0})) is True
    assert (
        truth("RASS <= -3 AND gcs motor < 6", GivenFacts(values={"Richmond-RAS Scale": -4.0, "GCS motor": 5})) is True
    )
