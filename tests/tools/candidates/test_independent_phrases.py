"""The candidate search on phrases whose author had seen neither the synonym table nor the ranking.

The phrases were committed before anything was measured, so the bar says how the packaged words carry over to what a
physician types who does not know them. A phrase is never changed to fit the search.
"""

from __future__ import annotations

import csv

from phrases import FOLDER, Phrase, hits

from wardround.clinical.codes import load_ccs, normalise_label
from wardround.tools.candidates import CandidateSpace


def read_rows() -> list[dict[str, str]]:
    lines = (FOLDER / "independent_phrases.tsv").read_text(encoding="utf-8").splitlines()
    return list(
        csv.DictReader((line for line in lines if line[0] != "#"), delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
    )


def test_the_table_is_wide_and_has_no_phrase_twice() -> None:
    rows = read_rows()
    assert len({(row["kind"], normalise_label(row["phrase"])) for row in rows}) == len(rows)
    for kind, phrases, categories in (("diagnoses", 150, 110), ("procedures", 90, 60)):
        labels = [row["label"] for row in rows if row["kind"] == kind]
        assert len(labels) >= phrases
        assert len(set(labels)) >= categories


def test_no_phrase_is_its_label() -> None:
    assert [row for row in read_rows() if normalise_label(row["phrase"]) == normalise_label(row["label"])] == []


def test_every_label_is_the_category_of_its_code() -> None:
    for row in read_rows():
        grouper = load_ccs(row["kind"])  # type: ignore[arg-type]
        assert row["label"] in grouper.label_set().labels
        category = grouper.category(row["code"], 10)
        assert category is not None
        assert (category.label, category.inferred) == (row["label"], False), row


def test_hit_rate_on_independent_phrases(ccs_spaces: dict[str, CandidateSpace]) -> None:
    phrases = [Phrase(row["kind"], row["phrase"], row["label"]) for row in read_rows()]
    assert hits(ccs_spaces, phrases, 5) >= 0.80
