"""Scores of which a part is not charted: the least and the most that they can be, and what rules then say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical.definitions.hand_made import Charts, Ward
from wardround.clinical.definitions import (
    UrineRates,
    inflammatory_response,
    kdigo_bounds,
    meld,
    meld_bounds,
    quick_sofa,
)
from wardround.clinical.definitions.formulas import kdigo_stage, kdigo_urine
from wardround.clinical.protocols import GivenFacts, compile_trigger
from wardround.clinical.vocabulary import RELATIONS, Bounds
from wardround.runs.stays import chart_score

CREATININE, BILIRUBIN, PLATELETS, INR, SODIUM, WHITE_CELLS, BANDS = 50912, 50885, 51265, 51237, 50983, 51301, 51144
MEAN, EYE, VERBAL, MOTOR, WEIGHT, HEART, BREATHS, CELSIUS = (
    220181,
    220739,
    223900,
    223901,
    226512,
    220045,
    220210,
    223762,
)
NOREPINEPHRINE, SALINE, DEVICE = 221906, 225158, 226732


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Charts:
    ward = Ward()
    ward.person("platelets of 60").lab(PLATELETS, 1, 60, "K/uL")
    ward.person("nothing")
    ward.person("drip of unknown rate").drip(NOREPINEPHRINE, 0, 9, None, "mcg/kg/min").lab(PLATELETS, 1, 200, "K/uL")
    ward.person("only movement").charted(MOTOR, 1, 2)
    ward.person("movement, then all").charted(MOTOR, 0.5, 1).charted(EYE, 1, 4).charted(VERBAL, 1, 5).charted(
        MOTOR, 1, 6)  # fmt: skip
    ward.person("no INR").lab(CREATININE, 1, 3.0, "mg/dL").lab(BILIRUBIN, 1, 20, "mg/dL").lab(SODIUM, 1, 140, "mEq/L")
    ward.person("creatinine steady").lab(CREATININE, -1, 1.0, "mg/dL").lab(CREATININE, 1, 1.0, "mg/dL")
    calm = ward.person("calm").charted(HEART, 1, 80).charted(BREATHS, 1, 14).charted(CELSIUS, 1, 37.0)
    calm.lab(WHITE_CELLS, 1, 8, "K/uL")
    ward.person("gas, breathing unknown").gas(1, 90, "ART.", oxygen=100)
    ward.person("gas, nasal cannula").charted(DEVICE, 0.5, "Nasal cannula").gas(1, 90, "ART.", oxygen=100)
    whole = ward.person("whole").charted(WEIGHT, -1, 80, "kg").drip(SALINE, -1, 90, 10, "mL/hour")
    for hour in range(-1, 31):
        whole.charted(MEAN, hour, 90, "mmHg").charted(EYE, hour, 4).charted(VERBAL, hour, 5).charted(MOTOR, hour, 6)
        whole.charted(HEART, hour, 80).urine(hour, 80)
    whole.lab(CREATININE, 29, 1.0, "mg/dL").lab(BILIRUBIN, 29, 0.5, "mg/dL").lab(PLATELETS, 29, 200, "K/uL")
    whole.charted(DEVICE, 28, "None").gas(29, 100, "ART.", oxygen=21)
    return ward.open(tmp_path_factory.mktemp("bounds"))


@pytest.mark.parametrize(
    ("name", "hours", "score", "bounds"),
    [
        ("platelets of 60", 2, "sofa", (2, 22)),  # five parts of at most 4 are missing
        ("nothing", 2, "sofa", (0, 24)),
        ("drip of unknown rate", 3, "sofa", (3, 20)),  # it runs: 3 or 4 of circulation; 0 of platelets; 4 parts missing
        ("whole", 29.5, "sofa", (0, 0)),
        ("gas, breathing unknown", 2, "sofa", (2, 24)),  # PaO2/FiO2 of 90: 2 points, 4 with a machine
        ("gas, nasal cannula", 2, "sofa", (2, 22)),
        ("only movement", 2, "gcs", (4, 11)),  # eyes 1 to 4, speech 1 to 5
        ("only movement", 2, "qsofa", (1, 3)),  # below 15 whatever the others are
        ("movement, then all", 2, "gcs", (15, 15)),  # one charted apart is no total
        ("nothing", 2, "gcs", (3, 15)),
        # 9.57 * ln 3 + 3.78 * ln 20 + 6.43 = 28.27: with an INR of 1 and a sodium that adds nothing
        ("no INR", 2, "meld", (28, 40)),
        ("nothing", 2, "meld", (6, 40)),
        ("creatinine steady", 2, "kdigo", (0, 3)),  # urine is not charted
        ("whole", 29.5, "kdigo", (0, 3)),  # one creatinine alone
        ("calm", 2, "sirs", (0, 2)),  # PaCO2 and bands may meet a criterion
        ("nothing", 2, "sirs", (0, 4)),
    ],
)  # fmt: skip
def test_the_least_and_the_most_that_a_score_can_be(
    charts: Charts, name: str, hours: float, score: str, bounds: tuple[float, float]
) -> None:
    assert chart_score(charts.of(name, hours), score, None) == Bounds(*bounds)


@pytest.mark.parametrize(
    ("name", "hours", "rule", "truth"),
    [
        ("platelets of 60", 2, "sofa >= 2", True), ("platelets of 60", 2, "sofa < 2", False),
        ("platelets of 60", 2, "sofa >= 3", None), ("platelets of 60", 2, "sofa < 3", None),
        ("platelets of 60", 2, "sofa > 22", False), ("platelets of 60", 2, "NOT sofa >= 3", None),
        ("nothing", 2, "sofa < 2", None), ("whole", 29.5, "sofa < 2", True), ("whole", 29.5, "sofa >= 2", False),
        ("drip of unknown rate", 3, "sofa >= 3", True), ("drip of unknown rate", 3, "sofa >= 4", None),
        ("only movement", 2, "gcs < 9", None), ("only movement", 2, "gcs < 13", True),
        ("only movement", 2, "gcs = 15", False), ("movement, then all", 2, "gcs < 9", False),
        ("no INR", 2, "meld >= 20", True), ("no INR", 2, "meld < 20", False), ("no INR", 2, "meld > 30", None),
        ("creatinine steady", 2, "kdigo >= 1", None), ("creatinine steady", 2, "kdigo < 1", None),
        ("calm", 2, "sirs >= 2", None), ("calm", 2, "sirs < 3", True), ("nothing", 2, "sirs < 2", None),
        ("only movement", 2, "qsofa >= 1", True), ("only movement", 2, "qsofa < 2", None),
        ("nothing", 2, "age >= 40", True), ("nothing", 2, "pf_ratio < 200", None),
    ],
)  # fmt: skip
def test_rules_on_scores_of_which_parts_are_missing(
    charts: Charts, name: str, hours: float, rule: str, truth: bool | None
) -> None:
    node, chart = compile_trigger(rule).node, charts.of(name, hours)
    assert node is not None
    known = {each: chart_score(chart, each, None) for each in ("sofa", "gcs", "meld", "kdigo", "sirs", "qsofa", "age")}
    told = {each: (one.low, one.high) for each, one in known.items() if one is not None}
    assert node.holds(GivenFacts(scores=told)) is truth


@given(
    st.tuples(*(st.none() | st.integers(0, 1) for _ in range(3))),
    st.tuples(*(st.integers(0, 1) for _ in range(3))),
    st.sampled_from(sorted(RELATIONS)),
    st.integers(0, 4),
)
def test_a_definite_answer_stays_true_whatever_the_missing_parts_are(
    charted: tuple[int | None, ...], truly: tuple[int, ...], relation: str, threshold: int
) -> None:
    """The truth fills in what is not charted; a definite answer on the chart is that of the truth."""
    inputs = ((30.0, 14.0), (90.0, 120.0), (9, 15))

    def score(each: tuple[int | None, ...]) -> Bounds:
        values = [None if one is None else pair[1 - one] for one, pair in zip(each, inputs, strict=True)]
        return quick_sofa(*values).bounds  # type: ignore[arg-type]

    whole = tuple(one if said is None else said for said, one in zip(charted, truly, strict=True))
    said, true = score(charted).holds(relation, threshold), score(whole).holds(relation, threshold)  # type: ignore[arg-type]
    assert true is not None
    assert said in (None, true)


_LAB = st.floats(0.2, 30)


@given(
    st.lists(st.tuples(st.booleans(), _LAB), min_size=3, max_size=3), st.booleans(), st.floats(110, 160), st.booleans()
)
def test_the_bounds_of_meld_hold_whatever_is_missing(
    labs: list[tuple[bool, float]], sodium_known: bool, sodium: float, dialysis: bool
) -> None:
    charted = [value if known else None for known, value in labs]
    bounds = meld_bounds(*charted, sodium if sodium_known else None, dialysis=None)
    true = meld(*(value for _, value in labs), sodium, dialysis=dialysis)
    assert true is not None
    assert bounds.low <= true <= bounds.high


_RATE = st.none() | st.floats(0, 2)


@given(st.none() | st.integers(0, 3), _RATE, _RATE, _RATE, st.integers(0, 3), st.floats(0, 2), st.floats(0, 2))
def test_the_bounds_of_kdigo_hold_whatever_is_missing(
    stage: int | None, six: float | None, twelve: float | None, day: float | None, other: int, more: float, less: float
) -> None:
    bounds = kdigo_bounds(stage, UrineRates(hours_6=six, hours_12=twelve, hours_24=day))
    whole = UrineRates(
        hours_6=more if six is None else six,
        hours_12=less if twelve is None else twelve,
        hours_24=more if day is None else day,
    )
    true = kdigo_stage(other if stage is None else stage, kdigo_urine(whole))
    assert true is not None
    assert bounds.low <= true <= bounds.high


def test_a_criterion_known_by_one_measurement_may_be_met_by_the_other() -> None:
    assert inflammatory_response(breaths=14).bounds == Bounds(0, 4)
    assert inflammatory_response(breaths=14, carbon_dioxide=40).bounds == Bounds(0, 3)
    assert inflammatory_response(breaths=30).bounds == Bounds(1, 4)
    assert Bounds(90, math.inf).holds("<", 90) is False
