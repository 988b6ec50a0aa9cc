"""The data files: every name they use exists, codes have the form of codes, the coders know them."""

from __future__ import annotations

import re

import pytest

from wardround.clinical.codes import load_ccs
from wardround.synth.catalog import Catalog, load_catalog
from wardround.synth.dialects.mimiciii import PROCEDURES
from wardround.synth.person import MOST_PATIENTS, scramble

_SHAPES = {"steady", "resolve", "hump", "rise"}
_ICD9, _ICD10 = re.compile(r"[0-9VE][0-9]{2}[0-9]{0,2}"), re.compile(r"[A-Z][0-9][0-9A-Z][0-9A-Z]{0,4}")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_conditions_name_only_what_exists(catalog: Catalog) -> None:
    links = {
        "drugs": catalog.drugs, "icu_drugs": catalog.drugs, "home_drugs": catalog.drugs, "panels": catalog.panels,
        "procedures": catalog.procedures, "micro": catalog.cultures["orders"], "complications": catalog.conditions,
        "imaging": catalog.notes["exams"],
    }  # fmt: skip
    plain = ("needs", "driven_by", "boosted_by", "hidden_by", "excludes", "leaves")
    for condition in catalog.conditions.values():
        for field, known in links.items():
            assert all(entry[0] in known for entry in condition.get(field)), (condition.key, field)
        for field in plain:
            assert all(other in catalog.conditions for other in condition.get(field)), (condition.key, field)
        assert set(condition.labs) <= set(catalog.analytes), condition.key
        assert set(condition.vitals) <= set(catalog.vitals), condition.key
        for op, _, shape, _ in (*condition.labs.values(), *condition.vitals.values()):
            assert op in ("+", "x")
            assert shape in _SHAPES
        if condition.get("micro"):
            assert condition.get("organisms") in catalog.cultures["mixes"]


def test_there_are_dozens_of_reasons_to_come_and_each_tells_its_story(catalog: Catalog) -> None:
    acute = [condition for condition in catalog.conditions.values() if condition.kind == "acute"]
    assert len(acute) >= 40
    for condition in acute:
        for field in ("complaints", "service", "ward", "los", "drg", "hpi", "course", "advice"):
            assert condition.get(field), (condition.key, field)
        assert condition.get("ward") in catalog.units
        assert condition.get("service") in catalog.services


def test_every_condition_is_coded_in_both_versions(catalog: Catalog) -> None:
    for condition in catalog.conditions.values():
        if condition.kind == "terminal":
            continue
        assert condition.icd10
        assert condition.icd9 or condition.key == "covid"
        assert all(_ICD9.fullmatch(code) for code, _ in condition.icd9 + condition.severe9), condition.key
        assert all(_ICD10.fullmatch(code) for code, _ in condition.icd10 + condition.severe10), condition.key


def test_the_grouper_knows_the_diagnoses(catalog: Catalog) -> None:
    grouper = load_ccs("diagnoses")
    codes = [(code, 9) for c in catalog.conditions.values() for code, _ in c.icd9 + c.severe9]
    codes += [(code, 10) for c in catalog.conditions.values() for code, _ in c.icd10 + c.severe10]
    unknown = [pair for pair in codes if grouper.category(*pair) is None]
    assert len(unknown) <= 0.02 * len(codes), unknown


def test_the_categories_of_mimic_iii_are_those_of_the_same_procedures_in_icd_10(catalog: Catalog) -> None:
    """By the packaged grouper, which knows ICD-10-PCS alone."""
    grouper = load_ccs("procedures")
    acts = {act["icd9"][0]: act["icd10"][0] for act in catalog.procedures.values()}
    acts["8872"] = "B245ZZZ"  # an ultrasound of the heart, which this hospital does not code
    found = {code: grouper.category(acts[code], 10) for code in PROCEDURES}
    assert {code: category and category.number for code, category in found.items()} == PROCEDURES


def test_drugs_are_complete_and_substitutes_exist(catalog: Catalog) -> None:
    assert len({drug.ndc for drug in catalog.drugs.values()}) == len(catalog.drugs)
    for drug in catalog.drugs.values():
        assert drug.dose
        assert drug.unit
        assert drug.route
        assert re.fullmatch(r"\d{11}", drug.ndc)
        assert re.fullmatch(r"\d{6}", drug.gsn)
        if drug.instead:
            assert not catalog.drugs[drug.instead].kinds & drug.kinds & {"penicillin", "sulfa", "opioid"}


def test_reference_ranges_hold_the_healthy(catalog: Catalog) -> None:
    for analyte in catalog.analytes.values():
        for column in (0, 1):
            low, high = analyte.low[column], analyte.high[column]
            if low and high and analyte.key not in ("glucose", "ethanol"):
                assert float(low) <= analyte.base[column] <= float(high), analyte.key


@pytest.mark.parametrize("bits", [8, 12])
def test_scrambling_is_one_to_one(bits: int) -> None:
    assert len({scramble(number, bits) for number in range(1 << bits)}) == 1 << bits
    assert MOST_PATIENTS >= 1_000_000
