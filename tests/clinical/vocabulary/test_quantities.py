"""Numbers with units: read, converted, compared; a definite answer only where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.clinical.vocabulary import (
    RELATIONS,
    Quantity,
    compare,
    comparison,
    convert,
    find_measurement,
    parse_quantity,
    read_unit,
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("50,000 /uL", Quantity(value=50000, unit="/uL")),
        ("1.5 mg/dL", Quantity(value=1.5, unit="mg/dL")),
        ("<0.01", Quantity(value=0.01, comparator="<")),
        ("≥ 4 mmol/L", Quantity(value=4, unit="mmol/L", comparator=">=")),
        ("70-100 mmHg", Quantity(value=70, high=100, unit="mmHg")),
        ("between 70 and 100 mmHg", Quantity(value=70, high=100, unit="mmHg")),
        ("1.5 x baseline", Quantity(value=1.5, multiple_of="baseline")),
        ("2-fold of baseline", Quantity(value=2, multiple_of="baseline")),
        ("50k", Quantity(value=50000)),
        ("50 K/uL", Quantity(value=50, unit="K/uL")),
        ("38.5°C", Quantity(value=38.5, unit="°C")),
        ("150 x 10^9/L", Quantity(value=150, unit="x 10^9/L")),
        ("-4 mEq/L", Quantity(value=-4, unit="mEq/L")),
        ("1,5 mg/dL", None),  # a comma of thousands or of decimals: not to be told
        ("0,500 mg", None),
        ("50.000 /uL", None),
        ("2+", None),
        ("4 for 30 minutes", None),
        ("1.5 x creatinine", None),
        ("100-70", None),
        ("", None),
    ],
)
def test_quantities_are_read_or_refused(text: str, read: Quantity | None) -> None:
    assert parse_quantity(text) == read


@pytest.mark.parametrize(
    ("value", "source", "target", "concept", "found"),
    [
        (59, "g/L", "g/dL", None, 5.9),
        (150, "umol/L", "mg/dL", "creatinine", 1.6968),
        (180.156, "mg/dL", "mmol/L", "glucose", 10.0),
        (28.014, "mg/dL", "mmol/L", "BUN", 10.0),
        (1, "mg/dL", "umol/L", "bilirubin", 17.104),
        (4.1, "mmol/L", "mEq/L", "potassium", 4.1),
        (1, "mmol/L", "mEq/L", "magnesium", 2.0),
        (8.0156, "mg/dL", "mmol/L", "calcium", 2.0),
        (14, "g/dL", "mmol/L", "hemoglobin", 8.68783),
        (150, "K/uL", "10*9/L", None, 150),
        (150000, "/uL", "K/mm3", None, 150),
        (4.5, "m/uL", "10E12/L", None, 4.5),
        (98.6, "°F", "C", None, 37.0),
        (1, "kPa", "mm Hg", None, 7.50062),
        (2.4, "units/hour", "mU/min", None, 40.0),
        (30, "mL/hr", "L/day", None, 0.72),
        (154.324, "lb", "kg", None, 70.0),
    ],
)
def test_conversions_by_hand(value: float, source: str, target: str, concept: str | None, found: float) -> None:
    assert convert(value, source, target, concept) == pytest.approx(found, rel=1e-4)
    assert convert(found, target, source, concept) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(
    ("spellings", "value", "unit"),
    [
        ("kg|kgs|kilogram|kilograms", 1000, "g"), ("g|gm|gms|gram|grams", 1000, "mg"), ("lb|lbs", 453.59237, "g"),
        ("mg|mgs|milligram|milligrams", 1000, "ug"), ("ug|mcg|mcgs|microgram|micrograms|µg", 1000, "ng"),
        ("ng|nanogram|nanograms", 1000, "pg"), ("uug", 1, "pg"),
        ("L|liter|liters|litre|litres", 10, "dL"), ("dL", 100, "mL"), ("u3", 1, "fL"), ("uL", 1e9, "fL"),
        ("mL|mls|milliliter|milliliters|cc|ccs", 1000, "uL"),
        ("uL|mcl|microliter|cmm|cumm|mm3|mm^3|mm³|mmcu", 0.001, "mL"),
        ("mol", 1000, "mmol"), ("mmol|mmols|millimol", 1000, "umol"), ("umol|mcmol|micromol", 1000, "nmol"),
        ("nmol", 1000, "pmol"), ("Eq", 1000, "mEq"), ("mEq|meqs", 0.001, "eq"), ("mmol/L|mm/l", 1000, "umol/L"),
        ("U|unit|units|unt|IU|[iU]|[U]", 1000, "mU"), ("ku", 1000, "U"),
        ("mU|miu|m[iU]|milliunit|milliunits|munits", 1000, "uU"),
        ("uU|uiu|mcu|mciu|u[iU]|mcunit|mcunits|microiu", 0.001, "mU"),
        ("s|sec|secs|second|seconds", 1000, "ms"), ("ms|msec", 0.001, "s"), ("min|mins|minute|minutes", 60, "s"),
        ("h|hr|hrs|hour|hours", 60, "min"), ("d|day|days|24h|24hr|24hrs", 24, "h"), ("wk|week|weeks", 7, "d"),
        ("yr|yrs|year|years", 365.25, "d"), ("bpm|rate|breaths|beats", 1, "/min"), ("lpm", 1, "L/min"),
        ("mmHg|mm Hg|mm[Hg]|mm/hg|mm(hg)|torr", 1, "mmHg"), ("kPa", 7.50062, "mmHg"),
        ("cmH2O|cm H2O|cm[H2O]|cm/h2o|cmH20|cmH?O|cmH₂O", 0.735559, "mmHg"),
        ("osm", 1000, "mosm"), ("mosm|mosmol", 0.001, "osm"), ("mosm/kg|mosm/k|mosm/kgh2o|mmol/kgh2o", 1, "mosm/kg"),
        ("in|inch|inches", 2.54, "cm"), ("m", 100, "cm"), ("cm", 10, "mm"), ("m2|m^2", 1, "m^2"),
        ("mL/min/1.73m2|mL/min/1.73m^2|mL/min/1.73 m2", 60, "mL/h/1.73m^2"),
        ("mg%", 10, "mg/L"), ("g%|gm%", 1, "g/dL"), ("vol%", 1, "mL/dL"),
        ("%|percent|%sat|sat%|%thb|%totalhgb", 0.01, "ratio"),
        ("ratio|fraction|points|#|cells|cell|copies|cop|insp|b|br", 100, "%"),
        ("k|th|ths|thou|thous|thousand", 1000, "cells"), ("mil|mill|mi|million", 1e6, "cells"),
        ("x103|x10^3/uL|10E3/mcL|10*9/L|K/cumm|thou/mm3", 1, "K/uL"), ("x106|10*12/L|m/uL|mil/mm3", 1000, "K/uL"),
        ("C|degC|Celsius|degrees C|degree C|deg. C|Cel|degrees Celsius|°C", 310.15 - 273.15, "C"),
    ],
)  # fmt: skip
def test_spellings_of_a_unit_are_one_and_of_its_size(spellings: str, value: float, unit: str) -> None:
    """By the prefixes of the SI and the definitions of inch, pound, torr and week; 37 degrees are 37 degrees."""
    amount = 37.0 if unit == "C" else 1.0
    found = {each: convert(amount, each, unit) for each in spellings.split("|")}
    assert found == dict.fromkeys(found, pytest.approx(value, rel=1e-5))


@pytest.mark.parametrize(
    "unit", ["F", "degF", "Fahrenheit", "degrees F", "degree F", "[degF]", "°F", "degrees Fahrenheit"]
)
def test_degrees_of_fahrenheit(unit: str) -> None:
    assert (convert(32, unit, "C"), convert(212, unit, "C")) == (pytest.approx(0, abs=1e-9), pytest.approx(100))


def test_what_cannot_be_converted_is_unknown() -> None:
    assert convert(5, "mg/hr", "ug/kg/min", weight=80) == pytest.approx(1.04167, rel=1e-5)
    assert convert(5, "mg/hr", "ug/kg/min") is None
    assert convert(150, "umol/L", "mg/dL") is None, "no molar mass without a concept"
    assert convert(150, "umol/L", "mg/dL", "procalcitonin") is None
    assert convert(500, "ng/mL FEU", "ng/mL") is None
    assert convert(1, "mEq/L", "mmol/L", "phosphate") is None, "its valence depends on the pH"
    assert read_unit("K/uL") != read_unit("m/uL")
    assert read_unit("bananas") is None
    assert convert(1, "/lpf", "/hpf") is None, "a microscope's fields are as large as the microscope makes them"


@pytest.mark.parametrize(
    ("reading", "unit", "relation", "threshold", "asked", "concept", "truth"),
    [
        (59, "g/L", "<", 7, None, "hemoglobin", True),
        (59, "g/L", "<", 7, "g/dL", "hemoglobin", True),
        (80, "g/L", "<", 7, "g/dL", "hemoglobin", False),
        (80, "g/L", "<", 7, None, "hemoglobin", None),  # not under 7 g/dL, under 7 mmol/L
        (150, "umol/L", ">", 2, None, "creatinine", False),
        (150, "umol/L", ">", 120, None, "creatinine", True),
        (1.5, "mg/dL", ">", 120, None, "creatinine", True),
        (120, "K/uL", "<", 50000, None, "platelets", False),
        (40, "K/uL", "<", 50000, None, "platelets", True),
        (40000, "/uL", "<", 50, None, "platelets", True),
        (8, "mmol/L", "<", 40, None, "glucose", None),
        (8, "mmol/L", ">", 180, None, "glucose", False),
        (39, "mg/dL", "<", 40, None, "glucose", True),
        (5.6, "mEq/L", ">", 5.5, "mmol/L", "K", True),
        (4.5, None, ">", 4, "mmol/L", "lactate", None),  # or 4.5 mg/dL, which is 0.5 mmol/L
        (4.5, None, ">", 4, None, "lactate", True),  # both in one unit, whichever it is
        (12, None, "<", 70, None, "glucose", None),  # 70 is in mg/dL, 12 may be in mmol/L
        (12, None, ">", 10, None, "glucose", True),
        (1.2, None, ">", 2, None, "creatinine", False),  # 1.2 and 2 are in mg/dL alone
        (6.2, None, ">", 6, "mmol/L", "potassium", True),  # mEq/L and mmol/L say the same of it
        (7.1, None, "<", 7.2, None, "pH", True),
        (9, None, ">", 8, None, "GCS", True),
        (0.6, None, ">", 50, "%", "FiO2", True),
        (60, None, ">", 0.5, None, "FiO2", True),
        (7.2, "units", "<", 7.3, None, "pH", True),
        (98.6, "°F", ">", 38, None, "temperature", False),
        (102, None, ">", 38.3, "C", "Temperature Fahrenheit", True),
        (900, "ng/mL FEU", ">", 500, None, "D-dimer", True),
        (900, "ng/mL", ">", 500, None, "D-dimer", True),
        (900, "ng/mL", ">", 500, "ng/mL FEU", "D-dimer", None),
        (5, "mmol/L", ">", 0, None, "lactate", True),
        (40, "mg/dL", ">", 10, "mmol/L", "urea", False),  # of urea, not of its nitrogen
        (8.0, "mmol/L", ">", 40, "mg/dL", "urea", True),
        (300, "pg/mL", ">", 100, None, "BNP", True),
        (30, None, "<", 0.5, "mL/kg/h", "urine output", None),
        (400, "mL", "<", 0.5, None, "urine output", None),
        (0.92, "%", "<", 90, None, "SpO2", None),  # a fraction in a column of per cent
        (0.5, "%", ">", 40, None, "FiO2", None),
        (38.9, "F", ">", 38, None, "temperature", None),
        (10, "foo", ">", 5, "bar", "made-up test", None),
        (10, "foo", ">", 5, "foo", "made-up test", True),
        (10, "mg/dL", ">", 5, "sec", "creatinine", None),
    ],
)
def test_a_bare_number_is_compared_only_where_it_says_one_thing(
    reading: float,
    unit: str | None,
    relation: str,
    threshold: float,
    asked: str | None,
    concept: str,
    truth: bool | None,
) -> None:
    assert compare(reading, unit, relation, threshold, asked, concept) is truth  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reading", "unit", "threshold", "asked", "concept", "charted", "truth"),
    [
        (4.5, None, 4, "mmol/L", "lactate", ["mmol/L"], True),
        (4.5, None, 4, "mmol/L", "lactate", ["mmol/L", "mEq/L"], True),
        (4.5, None, 4, "mmol/L", "lactate", ["mg/dL"], False),
        (4.5, None, 4, "mmol/L", "lactate", ["mg/dL", "mmol/L"], None),
        (6.5, None, 6, None, "hemoglobin", ["g/dL"], True),
        (6.5, None, 6, None, "hemoglobin", ["g/dL", "mmol/L"], None),
        (9.0, "g/dL", 7, None, "hemoglobin", ["g/dL"], True),
        (9.0, "g/dL", 7, None, "hemoglobin", ["mmol/L"], False),
        (9.0, "g/dL", 7, None, "hemoglobin", ["g/dL", "mmol/L"], None),
        (6.0, "g/dL", 7, None, "hemoglobin", ["g/dL", "mmol/L"], False),  # above neither
        (39.0, "degC", 38.5, None, "temperature", ["degC", "degF"], True),  # 38.5 is no temperature in degF
        (8.0, "mmol/L", 40, None, "glucose", ["mmol/L"], False),
        (10, "foo", 5, None, "made-up test", ["foo"], True),
        (10, "foo", 5, None, "made-up test", ["foo", "bar"], None),
        (10, None, 5, None, "made-up test", ["foo", "bar"], None),
        (10, None, 5, None, "made-up test", [], True),
        (7.4, None, 7.2, None, "pH", ["units"], True),
    ],
)
def test_a_bare_number_has_the_only_unit_that_the_store_has(
    reading: float,
    unit: str | None,
    threshold: float,
    asked: str | None,
    concept: str,
    charted: list[str],
    truth: bool | None,
) -> None:
    assert compare(reading, unit, ">", threshold, asked, concept, charted=charted) is truth


@given(
    st.sampled_from(["g/L", "g/dL", "mmol/L", None]),
    st.sampled_from(sorted(RELATIONS)),
    st.floats(0.5, 300),
    st.sampled_from(["g/L", "g/dL", None]),
    st.lists(st.floats(0.5, 300), min_size=1, max_size=5),
)
def test_many_readings_are_compared_as_one_by_one(
    unit: str | None, relation: str, threshold: float, asked: str | None, values: list[float]
) -> None:
    way = comparison(unit, relation, threshold, asked, "hemoglobin")  # type: ignore[arg-type]
    true, known = way.holds_of(np.array(values))
    assert [bool(t) if k else None for t, k in zip(true, known, strict=True)] == [way.holds(one) for one in values]


def test_a_number_is_plausible_in_the_usual_unit_of_its_measurement() -> None:
    known = find_measurement("Hgb")
    assert known is not None
    assert known.units[0].is_plausible(14)
    assert not known.units[0].is_plausible(140)


_LIFE: dict[str, tuple[str, float, float, tuple[float, ...], tuple[str, ...]]] = {
    # a unit, the lowest and the highest ever measured in it, thresholds that people write, other units of records
    "temperature": ("degC", 10, 46.5, (35, 36, 37.5, 38, 38.3, 38.5, 39, 40), ("degF",)),
    "glucose": ("mg/dL", 2, 2800, (40, 54, 70, 140, 180, 200, 250, 400), ("mmol/L",)),
    "creatinine": ("mg/dL", 0.1, 53, (0.6, 1.2, 1.5, 2, 3, 4, 6), ("umol/L",)),
    "hemoglobin": ("g/dL", 0.9, 27, (6, 7, 8, 9, 10, 12, 16), ("g/L", "mmol/L")),
    "weight": ("kg", 0.25, 640, (1.5, 5, 40, 50, 60, 100, 120, 150), ("lb", "g")),
    "height": ("cm", 18, 272, (100, 140, 150, 160, 180, 200), ("in", "m")),
    "potassium": ("mEq/L", 0.8, 15, (2.5, 3, 3.5, 5, 5.5, 6, 6.5), ("mmol/L",)),
    "calcium": ("mg/dL", 2.5, 28, (6, 7, 8, 10.5, 12, 14), ("mmol/L", "mEq/L")),
    "magnesium": ("mg/dL", 0.2, 36, (1.2, 1.6, 2, 4), ("mmol/L", "mEq/L")),
    "lactate": ("mmol/L", 0.1, 45, (1, 2, 2.5, 4, 5, 10), ("mg/dL",)),
    "total bilirubin": ("mg/dL", 0.1, 80, (1, 1.2, 2, 6, 12), ("umol/L",)),
    "albumin": ("g/dL", 0.4, 7, (2, 2.5, 3, 3.5), ("g/L",)),
    "platelets": ("K/uL", 1, 14000, (10, 20, 50, 100, 150, 450), ("/uL",)),
    "WBC": ("K/uL", 0.1, 1400, (0.5, 1, 4, 11, 12, 20, 50), ("/uL",)),
    "BUN": ("mg/dL", 1, 450, (10, 20, 30, 60, 100), ("mmol/L",)),
    "arterial po2": ("mm Hg", 5, 700, (55, 60, 80, 100), ("kPa",)),
    "FiO2": ("%", 16, 100, (21, 30, 40, 50, 60, 80), ()),
    "mean arterial pressure": ("mm Hg", 0, 280, (50, 55, 60, 65, 70, 100), ("kPa",)),
}


@given(st.data())
def test_a_bare_number_of_life_is_never_compared_wrongly_where_a_store_has_several_units(data: st.DataObject) -> None:
    """The truth has both units; the chart, the rule or both leave theirs out."""
    concept = data.draw(st.sampled_from(sorted(_LIFE)))
    usual, low, high, thresholds, others = _LIFE[concept]
    units = [usual, *others]
    reading_unit = data.draw(st.sampled_from(units))
    charted = sorted({reading_unit, *data.draw(st.sets(st.sampled_from(units)))})
    asked = data.draw(st.sampled_from(charted))
    reading = convert(data.draw(st.floats(low, high)), usual, reading_unit, concept)
    threshold = convert(data.draw(st.sampled_from(thresholds)), usual, asked, concept)
    assert reading is not None
    assert threshold is not None
    relation = data.draw(st.sampled_from(["<", ">", "<=", ">="]))
    meant = convert(threshold, asked, reading_unit, concept)
    assert meant is not None
    true = bool(RELATIONS[relation](reading, meant))
    for own, other in ((None, asked), (reading_unit, None), (None, None)):
        said = compare(reading, own, relation, threshold, other, concept, charted=charted)  # type: ignore[arg-type]
        near = abs(reading - meant) <= 1e-6 * abs(meant)
        assert near or said in (None, true), (concept, charted, reading, own or reading_unit, threshold, other or asked)


@pytest.mark.parametrize(
    ("reading", "unit", "relation", "threshold", "concept", "charted", "truth"),
    [
        (38.9, None, ">", 38.5, "temperature", ["degC", "degF"], True),  # nobody was ever at 38.9 degF
        (102.2, None, ">", 38.5, "temperature", ["degC", "degF"], True),
        (5.0, None, "<", 70, "glucose", ["mg/dL", "mmol/L"], None),  # 5 mg/dL and 5 mmol/L both happen
        (250, None, ">", 180, "glucose", ["mg/dL", "mmol/L"], True),  # neither is ever in mmol/L
        (12, None, ">", 2, "creatinine", ["mg/dL", "umol/L"], None),
        (90, None, ">", 2, "creatinine", ["mg/dL", "umol/L"], False),  # 90 is in umol/L: nobody had 90 mg/dL
        (150, None, ">", 100, "weight", ["kg", "lb"], None),
        (1200, None, "<", 5, "weight", ["kg", "g"], None),
        (71, None, "<", 150, "height", ["cm", "in"], None),
        (6.2, None, ">", 6, "potassium", ["mEq/L", "mmol/L"], True),
        (1500, None, "<", 50, "platelets", ["K/uL", "/uL"], None),
        (45, None, "<", 50, "platelets", ["K/uL", "/uL"], True),
    ],
)  # fmt: skip
def test_a_bare_number_where_a_store_has_several_units(
    reading: float, unit: str | None, relation: str, threshold: float, concept: str, charted: list[str],
    truth: bool | None,
) -> None:  # fmt: skip
    assert compare(reading, unit, relation, threshold, None, concept, charted=charted) is truth  # type: ignore[arg-type]
