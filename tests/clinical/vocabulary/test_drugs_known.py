"""Drugs by their ingredients and classes, and allergies against them."""

from __future__ import annotations

import pytest

from wardround.clinical.vocabulary import (
    Truth,
    conflicts,
    drug_classes,
    drug_groups,
    ingredients,
    is_drug,
    is_known_drug,
    load_drug_classes,
    main_class,
    may_hold,
)
from wardround.memory.phrases import findings_of_text


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("Unasyn 3 g IV", {"ampicillin", "sulbactam"}),
        ("Bactrim DS", {"sulfamethoxazole", "trimethoprim"}),
        ("Sulfameth/Trimethoprim DS", {"sulfamethoxazole", "trimethoprim"}),
        ("TMP-SMX", {"sulfamethoxazole", "trimethoprim"}),
        ("Amoxicillin-Clavulanate Susp.", {"amoxicillin", "clavulanic acid"}),
        ("Aspirin EC", {"aspirin"}),
        ("Percocet", {"acetaminophen", "oxycodone"}),
        ("Plasma-Lyte", {"plasma-lyte"}),
        ("Foozumab", {"foozumab"}),
        ("vasopressors", set()),
    ],
)
def test_a_combination_or_a_brand_is_its_ingredients(name: str, held: set[str]) -> None:
    assert ingredients(name) == held


def test_classes_and_what_a_drug_is_asked_for_as() -> None:
    assert is_drug("Coumadin", "anticoagulants")
    assert is_drug("Unasyn", "ampicillin")
    assert not is_drug("ampicillin", "Unasyn")
    assert is_drug("Trimethoprim-Sulfamethoxazole", "Bactrim")
    assert not is_drug("meropenem", "penicillins")
    assert not is_drug("broad-spectrum antibiotics", "penicillins")
    assert may_hold("broad-spectrum antibiotics", "penicillins"), "piperacillin is one of them"
    assert not may_hold("vasopressors", "penicillins")
    assert drug_groups("Zosyn") >= {"piperacillin", "tazobactam", "penicillins", "antibiotics"}
    assert drug_classes("midazolam")[0] == "benzodiazepines"
    assert main_class("midazolam") == "sedatives"
    assert main_class("heparin") == main_class("Lovenox") == "anticoagulants"
    assert main_class("foozumab") is None
    assert "antibiotics" not in drug_classes("sulfasalazine")
    for name, members in load_drug_classes().items():
        assert members, name
        for member in members - {"penicillin", "insulin", "tetracycline"}:  # their names name their class too
            assert ingredients(member) == {member}, (name, member)


@pytest.mark.parametrize(
    ("drug", "allergen", "truth"),
    [
        ("Unasyn", "Allergy to penicillin (finding)", True),
        ("Augmentin", "amoxicillin", True),
        ("Zosyn", "PCN", True),
        ("broad-spectrum antibiotics", "Penicillins", True),
        ("Bactrim", "Sulfonamides", True),
        ("Bactrim", "trimethoprim", True),
        ("vancomycin", "Vancomycin", True),
        ("metformin", "Metformin HCl", True),
        ("Aspirin EC", "NSAIDs", True),
        ("enoxaparin", "heparin", True),
        ("cephalexin", "amoxicillin", True),
        ("Zosyn", "codeine / penicillin / iodine", True),
        ("foozumab", "Allergy to foozumab (disorder)", True),
        ("ceftriaxone", "penicillin", None),  # the chart does not say which, nor how severe
        ("oxycodone", "codeine", None),
        ("foozumab", "penicillin", None),
        ("metoprolol", "blue stuff", None),
        ("meropenem", "Penicillins", False),
        ("cefazolin", "penicillin", False),
        ("furosemide", "sulfa", False),
        ("fentanyl", "Morphine", False),
        ("aspirin", "NKDA", False),
        ("aspirin", "No known drug allergies", False),
        ("morphine", "Peanuts", False),
        ("vancomycin", "Shellfish allergy", False),
        ("metoprolol", "penicillin", False),
        ("Tylenol PM", "diphenhydramine", True),
        ("Cerebyx", "phenytoin", True),  # its prodrug
        ("Unasyn", "sulbactam", True),
        ("Azulfidine", "sulfa", True),
        ("rifaximin", "rifampin", True),
        ("TNKase", "alteplase", True),
        ("Cleviprex", "eggs", True),
        ("Lamictal", "carbamazepine", None),
        ("Compazine", "Phenergan", None),
        ("Advil Cold", "pseudoephedrine", None),  # more is in it than its brand says
        ("protamine", "fish", None),
        ("Zosyn", "sulbactam", False),
        ("sulbactam", "Unasyn", False),  # an inhibitor that only occurs with another drug is no allergen of the pair
        ("tazobactam", "Zosyn", False),
        ("ampicillin", "Unasyn", True),
        ("propofol", "egg", False),
    ],
)
def test_an_allergy_stands_against_a_drug_or_not_or_is_not_known_to(
    drug: str, allergen: str, truth: bool | None
) -> None:
    assert conflicts(drug, allergen) is truth


@pytest.mark.parametrize(
    "name",
    [
        "Ramelteon", "Ferrous Sulfate", "Guaifenesin ER", "GuaiFENesin-Codeine Phosphate", "Multivitamins W/minerals",
        "FoLIC Acid", "Nicotine Patch", "Chlorhexidine Gluconate 0.12% Oral Rinse", "Midodrine", "Epoetin Alfa",
        "2 ML  -  ONDANSETRON HCL 4 MG/2ML IJ SOLN", "Bag", "sevelamer CARBONATE", "Artificial Tears",
        "Influenza Vaccine Quadrivalent", "Sarna Lotion", "Octreotide Acetate",
    ],
)  # fmt: skip
def test_drugs_of_ordinary_wards_are_known(name: str) -> None:
    assert is_known_drug(name)


@pytest.mark.parametrize(
    ("drug", "allergen", "truth"),
    [
        ("Iron Dextran", "iron", None), ("Influenza Vaccine", "Allergy status to serum and vaccine status", None),
        ("Ferrous Sulfate", "Penicillin", False), ("Opium Tincture", "Morphine", None), ("Bag", "Penicillin", False),
        ("Thiamine", "Multivitamins", None), ("Darbepoetin Alfa", "Epoetin Alfa", None),
        ("Advil Cold", "Penicillin", None),
    ],
)  # fmt: skip
def test_what_is_known_now_says_no_only_across_kinds(drug: str, allergen: str, truth: bool | None) -> None:
    assert conflicts(drug, allergen) is truth


@pytest.mark.parametrize(
    ("text", "drug", "wanted"),
    [
        ("Allergic to codeine. No other allergies.", "codeine", True),
        ("Allergic to codeine. No other allergies.", "hydromorphone", None),
        ("Allergic to codeine. No other allergies.", "ondansetron", False),
        ("Allergies: cefazolin (anaphylaxis), no other known allergies.", "ceftriaxone", None),
    ],
)
def test_no_other_allergies_denies_nothing_of_what_may_cross_react(text: str, drug: str, wanted: Truth) -> None:
    assert findings_of_text(text).allergic_to(drug) is wanted
