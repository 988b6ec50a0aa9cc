"""How often the right label is among the first candidates, on phrases that were not used for tuning."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from phrases import hits, read_phrases

from wardround.clinical.codes import load_abbreviations, load_ccs, normalise_label
from wardround.tools.candidates import CandidateSpace


def test_the_heldout_table_is_sound() -> None:
    phrases = read_phrases("heldout_phrases.tsv")
    assert len(phrases) >= 200
    assert len({(phrase.kind, normalise_label(phrase.text)) for phrase in phrases}) == len(phrases)
    for phrase in phrases:
        assert load_ccs(phrase.kind).label_set().resolve(phrase.label) == phrase.label  # type: ignore[arg-type]


def test_tuning_phrases_are_others() -> None:
    heldout = {normalise_label(phrase.text) for phrase in read_phrases("heldout_phrases.tsv")}
    assert not heldout & {normalise_label(phrase.text) for phrase in read_phrases("dev_phrases.tsv")}


@pytest.mark.parametrize(("depth", "least"), [(1, 0.80), (5, 0.94), (10, 0.95)])
def test_hit_rate(ccs_spaces: dict[str, CandidateSpace], depth: int, least: float) -> None:
    assert hits(ccs_spaces, read_phrases("heldout_phrases.tsv"), depth) >= least


def test_hit_rate_without_phrases_that_the_table_has_word_for_word(ccs_spaces: dict[str, CandidateSpace]) -> None:
    """The table's author knew the held-out phrases, so the honest bar is on those that are no row of the table."""
    table = load_abbreviations()
    phrases = [one for one in read_phrases("heldout_phrases.tsv") if normalise_label(one.text) not in table]
    assert len(phrases) >= 200
    assert hits(ccs_spaces, phrases, 5) >= 0.90


def test_real_diagnosis_paths_of_another_source(ccs_spaces: dict[str, CandidateSpace], shared_data: Path) -> None:
    """eICU's diagnosis paths with their ICD codes, written by others for another purpose (202 distinct ones)."""
    diagnoses = load_ccs("diagnoses")
    wanted: dict[str, set[str]] = {}
    with gzip.open(shared_data / "eicu-crd-demo-mini" / "diagnosis.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            codes = [code.strip() for code in (row["icd9code"] or "").split(",")]
            found = [diagnoses.category(code, version) for code in codes for version in (9, 10)]
            labels = {category.label for category in found if category and not category.inferred}
            if labels:
                wanted.setdefault(" ".join(row["diagnosisstring"].split("|")[-2:]), set()).update(labels)
    right = sum(
        bool(labels & {match.label for match in ccs_spaces["diagnoses"].by_meaning(text, 5)})
        for text, labels in wanted.items()
    )
    assert len(wanted) > 150
    assert right / len(wanted) >= 0.85
