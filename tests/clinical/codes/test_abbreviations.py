"""Our table of abbreviations and lay words."""

from __future__ import annotations

import pytest

from wardround.clinical.codes import load_abbreviations, normalise_label


def test_keys_are_normalised_and_every_row_says_something() -> None:
    table = load_abbreviations()
    assert len(table) > 1_500
    for phrase, meanings in table.items():
        assert phrase == normalise_label(phrase)
        assert meanings
        assert all(meaning == " ".join(meaning.split()) for meaning in meanings)
        assert len(set(meanings)) == len(meanings)


@pytest.mark.parametrize(
    ("phrase", "meaning"),
    [
        ("htn", "hypertension"),
        ("sugar diabetes", "diabetes"),
        ("cbc", "hematocrit"),
        ("bcx", "blood culture"),
        ("micu", "medical intensive care unit"),
        ("zosyn", "piperacillin"),
        ("ca", "malignant"),
        ("ca", "calcium"),
    ],
)
def test_what_phrases_stand_for(phrase: str, meaning: str) -> None:
    assert any(meaning in one for one in load_abbreviations()[phrase])


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        load_abbreviations()["x"] = ("y",)  # type: ignore[index]
