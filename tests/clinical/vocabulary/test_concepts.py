"""What names stand for, alone and in a text."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from wardround.clinical.protocols import lookup_done_keys
from wardround.clinical.vocabulary import (
    Concept,
    add_concepts,
    concepts,
    concepts_in,
    find_concept,
    is_a,
    is_test_and_drug,
    names_a_drug,
    words_of,
)
from wardround.core import UserError, load_plugins


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("CHF", "problem", "heart failure"),
        ("Congestive Heart Failure", "problem", "heart failure"),
        ("map", "vital", "mean arterial pressure"),
        ("hgb", "lab", "hemoglobin"),
        ("potassium", "lab", "potassium"),
        ("sugar", "lab", "glucose"),
        ("Coumadin", "drug", "warfarin"),
        ("aspirin", "drug", "aspirin"),
        ("pressors", "drug_class", "vasopressors"),
        ("blood cultures", "procedure", "blood culture"),
        ("hemodialysis", "procedure", "hemodialysis"),
        ("ESRD", "problem", "end stage renal disease"),
        ("temperature", "vital", "temperature"),
    ],
)
def test_names_stand_for_concepts(text: str, kind: str, name: str) -> None:
    assert find_concept(text) == Concept(kind, name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("PE shows crackles at the bases", "pulmonary embolism"), ("no acute distress on PE", "pulmonary embolism"),
        ("severe MS by echo", "multiple sclerosis"), ("given MS 4 mg IV", "multiple sclerosis"),
        ("dilated RA on echo", "rheumatoid arthritis"), ("94% RA", "rheumatoid arthritis"),
        ("PD on carbidopa", "peritoneal dialysis"), ("SBP on ceftriaxone", "systolic blood pressure"),
        ("BS clear bilaterally", "glucose"), ("PT consult placed", "pt"), ("CA of breast", "calcium, total"),
        ("AF flat", "atrial fibrillation"), ("RF: smoking", "rheumatoid factor"), ("HD stable", "hemodialysis"),
    ],
)  # fmt: skip
def test_a_short_name_is_not_read_in_the_wrong_sense(text: str, wrong: str) -> None:
    assert wrong not in {one.concept.name for one in concepts_in(text)}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("history of PE", "pulmonary embolism"), ("bilateral PE without strain", "pulmonary embolism"),
        ("MS on interferon", "multiple sclerosis"), ("RA on methotrexate", "rheumatoid arthritis"),
        ("PD catheter exit site clean", "peritoneal dialysis"), ("SBP 85", "systolic blood pressure"),
        ("BS 250", "glucose"), ("PT 14.2", "pt"), ("new AF", "atrial fibrillation"), ("on HD MWF", "hemodialysis"),
    ],
)  # fmt: skip
def test_a_short_name_is_read_where_nothing_beside_it_says_otherwise(text: str, name: str) -> None:
    assert name in {one.concept.name for one in concepts_in(text)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Blood Cultures", ("blood", "culture")), ("biopsies", ("biopsy",)), ("ties", ("tie",)), ("labs", ("lab",)),
        ("gas", ("gas",)), ("mass", ("mass",)), ("D-dimer", ("d", "dimer")), ("(pO2)", ("po2",)), ("", ()),
    ],
)  # fmt: skip
def test_names_are_compared_by_their_words_without_plurals(text: str, words: tuple[str, ...]) -> None:
    assert words_of(text) == words


def test_a_kind_chooses_and_what_no_table_has_is_nothing() -> None:
    assert find_concept("vancomycin") == Concept("drug", "vancomycin")
    assert find_concept("vancomycin", "lab") == Concept("lab", "vancomycin")
    assert find_concept("creatinine rising") is None
    assert find_concept("aspirin-induced asthma") is None
    assert find_concept("vancomycin-resistant enterococcus") is None
    assert find_concept("aspirin level", "drug") is None
    assert find_concept("") is None


def test_one_concept_is_one_of_another() -> None:
    sepsis, shock = Concept("problem", "sepsis"), Concept("problem", "septic shock")
    assert is_a(shock, sepsis)
    assert not is_a(sepsis, shock)
    assert is_a(Concept("problem", "septic shock"), Concept("problem", "infection"))
    assert is_a(Concept("drug", "warfarin"), Concept("drug_class", "anticoagulants"))


def test_a_text_names_its_concepts_and_words_that_only_look_like_one_are_none() -> None:
    text = "58yo with CHF and T2DM on Coumadin, septic shock; Hb 6.8, K 6.1. He had all his meds. It hit as PE was out."
    assert [(one.concept.name, one.text) for one in concepts_in(text)] == [
        ("heart failure", "CHF"),
        ("type 2 diabetes", "T2DM"),
        ("warfarin", "Coumadin"),
        ("septic shock", "septic shock"),
        ("hemoglobin", "Hb"),
        ("potassium", "K"),
        ("pulmonary embolism", "PE"),
    ]
    assert all(text[one.start : one.end] == one.text for one in concepts_in(text))


def test_a_table_of_the_users_own_goes_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concepts, "_USER_ROWS", [])
    table = tmp_path / "own.tsv"
    table.write_text("# ours\nlab\tFactor Xa level\tXa-lvl\t\nproblem\tHeyde syndrome\tHeyde's\tbleeding\n")
    assert add_concepts(table) == 2
    try:
        assert find_concept("xa lvl") == Concept("lab", "Factor Xa level")
        assert is_a(Concept("problem", "Heyde syndrome"), Concept("problem", "bleeding"))
        table.write_text("laboratory\tX\n")
        with pytest.raises(UserError, match=r"line 1: write kind"):
            add_concepts(table)
    finally:
        monkeypatch.undo()
        concepts.forget_tables()


def test_a_users_table_decides_what_a_name_means(monkeypatch: pytest.MonkeyPatch) -> None:
    def meanings() -> list[bool | None]:
        return [names_a_drug("iron"), is_test_and_drug("iron"), names_a_drug("free calcium")]

    monkeypatch.setattr(concepts, "_USER_ROWS", [])
    assert meanings() == [False, True, False]
    add_concepts("drug\tiron sucrose\tiron;free calcium")
    try:
        assert meanings() == [True, False, True]
        assert lookup_done_keys("iron") == {(True, "iron")}
    finally:
        monkeypatch.undo()
        concepts.forget_tables()
    assert meanings() == [False, True, False]
    assert lookup_done_keys("iron") == {(False, "iron")}


def test_a_plug_in_adds_names_and_is_known_by_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concepts, "_USER_ROWS", [])
    row = "lab\\tFactor Xa level\\tXa-lvl"
    plugin = tmp_path / "own_names_of_a_ward.py"
    plugin.write_text(f'from wardround.clinical.vocabulary import add_concepts\n\nadd_concepts("{row}")\n')
    try:
        (loaded,) = load_plugins([plugin])
        assert loaded.sha256 == hashlib.sha256(plugin.read_bytes()).hexdigest()
        assert find_concept("xa lvl") == Concept("lab", "Factor Xa level")
        with pytest.raises(UserError, match="table of concepts, line 1: write kind"):
            add_concepts("laboratory\tX")
        with pytest.raises(UserError, match="cannot be read"):
            add_concepts(tmp_path / "none.tsv")
    finally:
        monkeypatch.undo()
        concepts.forget_tables()
