"""Queries in the words of the dictionaries."""

from __future__ import annotations

import pytest

from wardround.tools.candidates.words import PhraseTable

TABLE = PhraseTable.build(
    {
        "ca": ("malignant neoplasm", "calcium"),
        "heart attack": ("myocardial infarction",),
        "heart": ("cardiac",),
        "c diff": ("clostridium difficile",),
        "x-ray": ("radiograph",),
    }
)


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("prostate CA", ["prostate malignant neoplasm", "prostate calcium"]),
        ("Heart Attack, old", ["myocardial infarction old"]),
        ("heart block", ["cardiac block"]),
        ("C. diff colitis", ["clostridium difficile colitis"]),
        ("c-diff", ["clostridium difficile"]),
        ("X-ray", ["radiograph"]),
        ("hart atack", ["myocardial infarction"]),
        ("heart attacj", ["cardiac attacj"]),
        ("gout", []),
        ("", []),
    ],
)
def test_readings(text: str, readings: list[str]) -> None:
    assert TABLE.readings(text) == readings
