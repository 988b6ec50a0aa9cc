"""What people call the content of CCS categories, and the parts of medical words."""

from __future__ import annotations

from importlib.resources import files
from typing import get_args

import pytest

from wardround.clinical.codes import load_ccs, load_ccs_phrases, load_ccs_words, normalise_label, plain_words
from wardround.clinical.codes.ccs import Kind


def test_every_row_is_sound_sorted_and_there_once() -> None:
    text = (files("wardround.clinical.codes") / "data" / "ccs_phrases.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    keys = [(kind, normalise_label(phrase), int(number)) for kind, phrase, number in rows]
    assert keys == sorted(set(keys))
    assert all(phrase.strip() == phrase != "" for _, phrase, _ in rows)
    for kind in get_args(Kind):
        numbers = {number for one, _, number in keys if one == kind}
        assert numbers == set(load_ccs(kind).categories), "every category has its phrases"
        assert len(load_ccs_phrases(kind)) == sum(one == kind for one, _, _ in keys)


@pytest.mark.parametrize(
    ("code", "phrase"),
    [
        ("G47.33", "obstructive sleep apnoea"),
        ("M31.3", "Wegener's granulomatosis"),
        ("C46.9", "Kaposi's sarcoma"),
        ("J36", "quinsy throat abscess"),
        ("K51.9", "UC"),
        ("O00.1", "tubal pregnancy"),
        ("H71.9", "cholesteatoma"),
        ("R65.21", "septic shock"),
        ("S52.5", "Colles' fracture"),
    ],
)
def test_phrases_are_where_their_code_is(code: str, phrase: str) -> None:
    category = load_ccs("diagnoses").category(code, 10)
    assert category is not None
    assert (phrase, category.label) in load_ccs_phrases("diagnoses")


def test_inclusion_terms_and_phrases_are_among_the_words() -> None:
    words = load_ccs_words("diagnoses")
    assert "Hypersensitivity pneumonitis" in words["Lung disease due to external agents"]
    assert "farmer's lung" in words["Lung disease due to external agents"]
    assert "DHS" in load_ccs_words("procedures")[load_ccs("procedures").categories[146].label]


@pytest.mark.parametrize(
    ("word", "first"),
    [("gastropexy", "stomach"), ("colporrhaphy", "vagina"), ("orchidectomy", "testis"), ("keratoplasty", "cornea")],
)
def test_roots_say_the_site_and_endings_the_act(word: str, first: str) -> None:
    found = plain_words(word).split()
    assert found[0] == first
    assert {"repair", "excision"} & set(found)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("gastroenterostomy", "stomach small intestine bypass opening"),
        ("salpingooophorectomy", "fallopian tube ovary excision resection removal"),
        ("otoplasty", "ear repair"),
    ],
)
def test_several_roots_are_joined_by_vowels(word: str, said: str) -> None:
    assert plain_words(word) == said


@pytest.mark.parametrize(
    "word",
    ["", "ectomy", "bicycle", "anatomy", "gastro", "telegram", "xyzotomy", "nephroxyzpexy", "gastroenterx", "bpexy"],
)
def test_other_words_are_left_alone(word: str) -> None:
    assert plain_words(word) == ""
