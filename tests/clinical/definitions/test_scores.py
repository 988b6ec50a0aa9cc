"""Every boundary of every definition, on it and on both sides of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from wardround.clinical.definitions import (
    DEFINITIONS,
    UrineRates,
    coma_scale,
    inflammatory_response,
    is_sepsis,
    kdigo_creatinine,
    kdigo_stage,
    kdigo_urine,
    meld,
    norepinephrine_equivalent,
    quick_sofa,
    sofa_brain,
    sofa_circulation,
    sofa_coagulation,
    sofa_kidney,
    sofa_liver,
    sofa_respiration,
    suspected_infection,
    urine_rate,
    ventilation_status,
)
from wardround.clinical.definitions.formulas import Culture, inspired_oxygen, is_antibiotic, is_arterial
from wardround.clinical.vocabulary import Bounds

NOON = datetime(2150, 1, 1, 12)


def hours(number: float) -> datetime:
    return NOON + timedelta(hours=number)


def taken(number: float) -> Culture:
    return Culture(day=hours(number).date(), time=hours(number))


@pytest.mark.parametrize(
    ("ratio", "ventilated", "points"),
    [
        (400, True, 0), (399.9, True, 1), (300, True, 1), (299.9, True, 2), (200, True, 2), (199.9, True, 3),
        (100, True, 3), (99.9, True, 4), (199.9, False, 2), (99.9, False, 2), (99.9, None, 2), (None, True, None),
    ],
)  # fmt: skip
def test_respiration(ratio: float | None, ventilated: bool | None, points: int | None) -> None:
    assert sofa_respiration(ratio, ventilated=ventilated) == points


@pytest.mark.parametrize(
    ("platelets", "points"),
    [(150, 0), (149, 1), (100, 1), (99, 2), (50, 2), (49, 3), (20, 3), (19, 4), (None, None)],
)
def test_coagulation(platelets: float | None, points: int | None) -> None:
    assert sofa_coagulation(platelets) == points


@pytest.mark.parametrize(
    ("bilirubin", "points"),
    [(1.19, 0), (1.2, 1), (1.99, 1), (2.0, 2), (5.99, 2), (6.0, 3), (11.99, 3), (12.0, 4), (None, None)],
)
def test_liver(bilirubin: float | None, points: int | None) -> None:
    assert sofa_liver(bilirubin) == points


@pytest.mark.parametrize(
    ("pressure", "drugs", "points"),
    [
        (70, {}, 0), (69.9, {}, 1), (None, {}, None), (None, {"dobutamine": 0.1}, 2), (90, {"dopamine": 5}, 2),
        (90, {"dopamine": 5.1}, 3), (90, {"dopamine": 15}, 3), (90, {"dopamine": 15.1}, 4),
        (90, {"norepinephrine": 0.1}, 3), (90, {"norepinephrine": 0.101}, 4), (90, {"epinephrine": 0.1}, 3),
        (90, {"epinephrine": 0.101}, 4), (90, {"norepinephrine": 0.001}, 3), (90, {"epinephrine": 0.001}, 3),
    ],
)  # fmt: skip
def test_circulation(pressure: float | None, drugs: dict[str, float], points: int | None) -> None:
    assert sofa_circulation(pressure, **drugs) == points


@pytest.mark.parametrize(
    ("coma", "points"), [(15, 0), (14, 1), (13, 1), (12, 2), (10, 2), (9, 3), (6, 3), (5, 4), (None, None)]
)
def test_brain(coma: int | None, points: int | None) -> None:
    assert sofa_brain(coma) == points


@pytest.mark.parametrize(
    ("creatinine", "urine", "points"),
    [
        (1.19, None, 0), (1.2, None, 1), (1.99, None, 1), (2.0, None, 2), (3.49, None, 2), (3.5, None, 3),
        (4.99, None, 3), (5.0, None, 4), (None, 500, 0), (None, 499, 3), (None, 200, 3), (None, 199, 4),
        (2.0, 499, 3), (5.0, 3000, 4), (None, None, None),
    ],
)  # fmt: skip
def test_kidney(creatinine: float | None, urine: float | None, points: int | None) -> None:
    assert sofa_kidney(creatinine, urine) == points


@pytest.mark.parametrize(
    ("breaths", "systolic", "coma", "total"),
    [(22, 100, 14, 3), (21, 101, 15, 0), (22, 101, 15, 1), (21, 100, 15, 1), (21, 101, 14, 1)],
)
def test_quick_sofa(breaths: float, systolic: float, coma: int, total: int) -> None:
    assert quick_sofa(breaths, systolic, coma).total == total


def test_what_is_not_charted_is_named_and_never_normal() -> None:
    score = quick_sofa(None, 90, None)
    assert (score.total, score.unknown) == (1, ("breathing", "consciousness"))
    assert quick_sofa(None, None, None).total is None
    assert inflammatory_response(bands=10).unknown == ("temperature", "heart rate", "breathing")


@pytest.mark.parametrize(
    ("given", "total"),
    [
        ({"temperature": 38.0}, 0), ({"temperature": 38.1}, 1), ({"temperature": 36.0}, 0), ({"temperature": 35.9}, 1),
        ({"heart_rate": 90}, 0), ({"heart_rate": 91}, 1), ({"breaths": 20}, 0), ({"breaths": 21}, 1),
        ({"carbon_dioxide": 32}, 0), ({"carbon_dioxide": 31.9}, 1), ({"white_cells": 12}, 0),
        ({"white_cells": 12.1}, 1), ({"white_cells": 4}, 0), ({"white_cells": 3.9}, 1), ({"bands": 10}, 0),
        ({"bands": 10.1}, 1), ({"breaths": 30, "carbon_dioxide": 20}, 1), ({"white_cells": 8, "bands": 20}, 1),
    ],
)  # fmt: skip
def test_inflammatory_response(given: dict[str, float], total: int) -> None:
    assert inflammatory_response(**given).total == total


def test_coma_scale() -> None:
    assert coma_scale(1, 1, 1) == 3
    assert coma_scale(4, 5, 6) == 15
    assert coma_scale(4, None, 6) is None
    assert coma_scale(1, None, 1, intubated=True) == 15


@pytest.mark.parametrize(
    ("now", "low_48", "low_7", "stage"),
    [
        (1.29, 1.0, 1.0, 0), (1.31, 1.0, 1.0, 1), (1.49, 1.49, 1.0, 0), (1.5, 1.5, 1.0, 1), (1.99, 1.99, 1.0, 1),
        (2.0, 2.0, 1.0, 2), (2.99, 2.99, 1.0, 2), (3.0, 3.0, 1.0, 3), (4.0, 3.6, 3.6, 3), (3.99, 3.6, 3.6, 1),
        (4.0, 3.9, 3.9, 0), (1.0, None, None, None), (5.0, None, None, None),
        (None, 1.0, 1.0, None), (1.2, None, 1.0, 0), (1.5, None, 1.0, 1),
    ],
)  # fmt: skip
def test_kdigo_by_creatinine(now: float | None, low_48: float | None, low_7: float | None, stage: int | None) -> None:
    assert kdigo_creatinine(now, lowest_48=low_48, lowest_7=low_7) == stage


@pytest.mark.parametrize(
    ("rates", "stage"),
    [
        (UrineRates(), None), (UrineRates(hours_6=0.5), 0), (UrineRates(hours_6=0.49), 1),
        (UrineRates(hours_6=0.4, hours_12=0.5), 1), (UrineRates(hours_12=0.49), 2),
        (UrineRates(hours_12=0.4, hours_24=0.3), 2), (UrineRates(hours_24=0.29), 3), (UrineRates(hours_12=0.0), 3),
    ],
)  # fmt: skip
def test_kdigo_by_urine(rates: UrineRates, stage: int | None) -> None:
    assert kdigo_urine(rates) == stage


def test_kdigo_is_the_worse_and_replacement_is_three() -> None:
    assert kdigo_stage(1, 2) == 2
    assert kdigo_stage(None, None) is None
    assert kdigo_stage(0, None, replaced=True) == 3


def test_urine_rate_needs_a_weight() -> None:
    assert urine_rate(210, 70, 6) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="weight"):
        urine_rate(210, 0, 6)


@pytest.mark.parametrize(
    ("creatinine", "bilirubin", "inr", "sodium", "dialysis", "points"),
    [
        (1.0, 1.0, 1.0, 140, False, 6), (0.5, 0.5, 0.8, 140, False, 6), (4.0, 1.0, 1.0, 137, False, 20),
        (9.0, 1.0, 1.0, 137, False, 20), (4.0, 0.5, 0.8, 137, False, 20), (None, 1.0, 1.0, 137, True, 20),
        (4.0, 30.0, 6.0, 137, False, 40),
        (1.0, 3.0, 1.0, 120, False, 11), (None, 1.0, 1.0, 137, False, None), (1.0, None, 1.0, 137, False, None),
        (2.0, 3.0, 1.5, 137, False, 22), (2.0, 3.0, 1.5, 125, False, 29), (2.0, 3.0, 1.5, 120, False, 29),
    ],
)  # fmt: skip
def test_meld(
    creatinine: float | None,
    bilirubin: float | None,
    inr: float | None,
    sodium: float | None,
    dialysis: bool,
    points: int | None,
) -> None:
    """By hand: 0.957 ln 4 + 0.643 = 1.97, so 20; 0.957 ln 2 + 0.378 ln 3 + 1.12 ln 1.5 + 0.643 = 2.175, so 22."""
    assert meld(creatinine, bilirubin, inr, sodium, dialysis=dialysis) == points
    if not dialysis:
        assert meld(creatinine, bilirubin, inr, sodium) == points


def test_norepinephrine_equivalents() -> None:
    assert norepinephrine_equivalent() == 0
    assert norepinephrine_equivalent(norepinephrine=0.1, epinephrine=0.1) == pytest.approx(0.2)
    assert norepinephrine_equivalent(phenylephrine=1.0, dopamine=10.0) == pytest.approx(0.2)
    assert norepinephrine_equivalent(vasopressin=2.4) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("device", "mode", "status"),
    [
        ("Endotracheal tube", None, "invasive"), ("Trach mask ", "CMV", "tracheostomy"), ("Bipap mask ", None,
        "non-invasive"), ("High flow nasal cannula", None, "high-flow"), ("Nasal cannula", None,
        "supplemental oxygen"), ("None", None, "none"), (None, "CMV/ASSIST/AutoFlow", "invasive"),
        ("Nasal cannula", "PSV/SBT", "invasive"), (None, None, None), ("A new device", None, None),
    ],
)  # fmt: skip
def test_ventilation(device: str | None, mode: str | None, status: str | None) -> None:
    devices, modes = [device] if device else [], [mode] if mode else []
    assert ventilation_status(devices, modes) == status


@pytest.mark.parametrize(
    ("devices", "modes", "status"),
    [
        (["Nasal cannula", "CPAP mask "], [], "non-invasive"), (["None", "Face tent"], [], "supplemental oxygen"),
        (["Bipap mask "], ["CPAP/PSV"], "non-invasive"), (["CPAP mask "], ["CMV/ASSIST"], "non-invasive"),
        (["Bipap mask ", "Endotracheal tube"], ["CPAP/PSV"], "invasive"),
        ([], ["Standby"], None), ([], ["NIV-ST"], "non-invasive"), (["Endotracheal tube", "Trach mask"], [],
        "tracheostomy"), (["High flow nasal cannula"], ["NIV"], "non-invasive"),
    ],
)  # fmt: skip
def test_what_supports_most_counts_of_one_minute(devices: list[str], modes: list[str], status: str | None) -> None:
    assert ventilation_status(devices, modes) == status


@pytest.mark.parametrize(
    ("charted", "percent"),
    [(1.0, 100), (0.21, 21), (0.2, 20), (0.19, None), (1.1, None), (19.9, None), (20, 20), (100, 100), (101, None),
     (0, None), (None, None)],
)  # fmt: skip
def test_inspired_oxygen_is_a_share_or_a_percentage(charted: float | None, percent: float | None) -> None:
    assert inspired_oxygen(charted) == (None if percent is None else pytest.approx(percent))


@pytest.mark.parametrize(
    ("kind", "arterial"), [("ART.", True), ("Arterial", True), ("VEN.", False), ("MIX.", False), (None, False)]
)
def test_specimens(kind: str | None, arterial: bool) -> None:
    assert is_arterial(kind) is arterial


@pytest.mark.parametrize(
    ("drug", "culture", "suspected"),
    [
        (72.0, 0.0, 0.0), (72.1, 0.0, None), (0.0, 24.0, 0.0), (0.0, 24.1, None), (0.0, 0.0, 0.0), (5.0, 0.0, 0.0),
        (0.0, 5.0, 0.0),
    ],
)  # fmt: skip
def test_suspected_infection(drug: float, culture: float, suspected: float | None) -> None:
    found = suspected_infection([hours(drug)], [taken(culture)])
    assert found == (None if suspected is None else hours(suspected))
    assert suspected_infection([], [taken(0)]) is None


def test_the_newest_suspicion_counts_from_the_first_culture_before_its_antibiotic() -> None:
    cultures = [taken(0), taken(10), taken(100)]
    assert suspected_infection([hours(20)], cultures) == hours(0)
    assert suspected_infection([hours(20), hours(101)], cultures) == hours(100)
    assert suspected_infection([hours(101), hours(20)], cultures) == hours(100)
    assert suspected_infection([hours(80), hours(90)], cultures) == hours(90), "a culture follows within 24 hours"


@pytest.mark.parametrize(
    ("drug", "suspected"), [(60.0, -12.0), (83.9, -12.0), (84.0, None), (-12.0, -12.0), (-12.1, -12.1), (-36.1, None)]
)
def test_a_culture_of_a_day_counts_by_days(drug: float, suspected: float | None) -> None:
    """Noon's day begins 12 hours before it; the fourth day after it begins 84 hours after noon."""
    found = suspected_infection([hours(drug)], [Culture(day=NOON.date())])
    assert found == (None if suspected is None else hours(suspected))


@pytest.mark.parametrize(
    ("drug", "route", "is_one"),
    [
        ("Vancomycin", "IV", True), ("*NF* Ertapenem Sodium", "IV", True), ("Tigecycline", None, True),
        ("Sulfameth/Trimethoprim DS", "PO", True), ("Unasyn", "IV", True), ("Furosemide", "IV", False),
        ("Insulin", "SC", False), ("Fluconazole", "PO", False), ("Acyclovir", "IV", False), ("Vancomycin", "OD", False),
        ("Gentamicin Ophth. Ointment", "BOTH EYES", False), ("Ciprofloxacin", "LEFT EAR", False),
        ("Metronidazole Cream 0.75%", "TP", False), ("Penicillin G desensitization", "IV", False),
        ("Rifaximin", "PO", False),
    ],
)  # fmt: skip
def test_antibiotics(drug: str, route: str | None, is_one: bool) -> None:
    assert is_antibiotic(drug, route) is is_one


@pytest.mark.parametrize(
    ("when", "points", "whole", "sepsis"),
    [
        (-48.0, 2, True, True), (-48.1, 2, True, None), (24.0, 2, True, True), (24.1, 9, True, None),
        (0.0, 1, True, False), (0.0, 2, True, True), (0.0, 1, False, None), (0.0, 2, False, True),
        (0.0, None, False, None),
    ],
)  # fmt: skip
def test_sepsis(when: float, points: int | None, whole: bool, sepsis: bool | None) -> None:
    bounds = Bounds(points or 0, points or 0 if whole else 24)
    assert is_sepsis(NOON, [(hours(when), bounds)]) is sepsis
    assert is_sepsis(None, [(hours(when), bounds)]) is False


def test_one_score_of_which_a_part_is_unknown_leaves_sepsis_unknown() -> None:
    near = [(hours(0), Bounds(0, 0)), (hours(1), Bounds(1, 5))]
    assert is_sepsis(NOON, near) is None
    assert is_sepsis(NOON, [*near, (hours(2), Bounds(2, 6))]) is True


def test_every_definition_says_where_it_is_from() -> None:
    assert {"sofa", "qsofa", "sirs", "kdigo", "meld", "gcs", "sepsis3", "suspicion_of_infection"} <= set(DEFINITIONS)
    for definition in DEFINITIONS.values():
        assert definition.doi.startswith("10.")
        assert definition.unit
        assert definition.title
