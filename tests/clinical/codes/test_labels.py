"""Normalised labels and label sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.clinical.codes import LabelSet, distinct_labels, normalise_label
from wardround.core import UserError


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Parkinson`s disease", "PARKINSON’S  DISEASE"),
        ("non\u2013Hodgkin lymphoma", "Non-Hodgkin Lymphoma"),
        ("\u00a0Gout\t", "gout"),
        ("ﬁbrillation", "Fibrillation"),
        ("zero\u200bwidth", "zerowidth"),
        ("Straße", "STRASSE"),
        ("“quoted”", '"quoted"'),
    ],
)
def test_spellings_that_compare_equal(text: str, same: str) -> None:
    assert normalise_label(text) == normalise_label(same)


def test_commas_and_other_words_still_differ() -> None:
    assert normalise_label("Cancer; other") != normalise_label("Cancer other")


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise_label(text)
    assert normalise_label(once) == once
    assert once == once.strip()


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_text_takes_the_same_road_as_any_other(text: str) -> None:
    """The short cut for ASCII gives what the long way gives for the same text beside a non-ASCII word."""
    assert f"é {normalise_label(text)}".strip() == normalise_label(f"é {text}")


def test_resolve_knows_labels_and_aliases() -> None:
    labels = LabelSet(
        name="x", labels=("Heart failure", "Gout"), aliases={"CHF": "Heart failure", "gout": "Heart failure"}
    )
    assert labels.resolve(" chf ") == "Heart failure"
    assert labels.resolve("GOUT") == "Gout"
    assert labels.resolve("sepsis") is None
    assert "heart  FAILURE" in labels
    assert len(labels) == 2


def test_an_alias_that_two_labels_claim_resolves_to_neither() -> None:
    labels = LabelSet(name="x", labels=("A", "B"), aliases={"same": "A", "Same": "B"})
    assert labels.resolve("same") is None


def test_saved_and_loaded_is_equal(tmp_path: Path) -> None:
    labels = LabelSet(name="x", labels=("Sjögren", "B"), aliases={"b.": "B"})
    labels.save(tmp_path / "x.json")
    assert LabelSet.load(tmp_path / "x.json") == labels


def test_another_schema_is_refused() -> None:
    with pytest.raises(UserError, match="build it again"):
        LabelSet.from_json({"schema": 2, "name": "x", "labels": [], "aliases": {}})


def test_distinct_labels_keep_one_spelling_each() -> None:
    assert distinct_labels(["pH", "PH", " Sodium ", "Sodium", "", "  "]) == ("PH", "Sodium")
