"""What a candidate space finds, by every rung of the ladder, and that it survives being saved."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wardround.clinical.codes import LabelSet, normalise_label
from wardround.core import UserError
from wardround.tools.candidates import CandidateSpace, LabelMatch
from wardround.tools.candidates.words import WordIndex


@pytest.fixture(scope="module")
def units() -> CandidateSpace:
    labels = LabelSet(
        name="units",
        labels=(
            "Medical Intensive Care Unit (MICU)",
            "Medicine",
            "Coronary Care Unit (CCU)",
            "PACU",
            "Portable (chest)",
        ),
        aliases={"Med": "Medicine"},
    )
    return CandidateSpace(name="units", labels=labels, descriptions={"PACU": ("recovery after anaesthesia",)})


def labels_of(matches: list[LabelMatch]) -> list[str]:
    return [match.label for match in matches]


def test_every_label_finds_itself_first(ccs_spaces: dict[str, CandidateSpace]) -> None:
    for space in ccs_spaces.values():
        for label in space.labels.labels:
            assert space.by_keyword(label)[0].label == label
            assert space.by_fuzzy(label, 1)[0].label == label
            assert space.by_meaning(label, 1)[0].label == label


def test_keywords_are_literal_text(units: CandidateSpace) -> None:
    assert labels_of(units.by_keyword("portable (")) == ["Portable (chest)"]
    assert labels_of(units.by_keyword("(ccu)")) == ["Coronary Care Unit (CCU)"]
    assert units.by_keyword(".*") == []
    assert units.by_keyword("") == []
    assert units.by_keyword("\n") == []


def test_keyword_finds_aliases_and_each_label_once(units: CandidateSpace) -> None:
    found = units.by_keyword("MED")
    assert labels_of(found) == ["Medicine", "Medical Intensive Care Unit (MICU)"]
    assert "med" in found[0].why


def test_keyword_puts_whole_words_first() -> None:
    space = CandidateSpace(name="x", labels=LabelSet(name="x", labels=("Kappa", "Vitamin K and others", "Milk")))
    assert labels_of(space.by_keyword("k")) == ["Vitamin K and others", "Milk", "Kappa"]


def test_keyword_limit_and_matches_across_names() -> None:
    space = CandidateSpace(name="x", labels=LabelSet(name="x", labels=("a b", "b a", "c")))
    assert len(space.by_keyword("a", 1)) == 1
    assert space.by_keyword("b b") == []


@pytest.mark.parametrize(
    ("typed", "label"),
    [
        ("hypertnsion esential", "Essential hypertension"),
        ("astma", "Asthma"),
        ("apendicitis", "Appendicitis and other appendiceal conditions"),
        ("parkinsons disease", "Parkinson`s disease"),
    ],
)
def test_fuzzy_forgives_spelling(ccs_spaces: dict[str, CandidateSpace], typed: str, label: str) -> None:
    assert label in labels_of(ccs_spaces["diagnoses"].by_fuzzy(typed, 3))


@pytest.mark.parametrize("typed", ["heart atack", "kidny stones", "pnumonia", "high colesterol"])
def test_meaning_forgives_spelling_too(ccs_spaces: dict[str, CandidateSpace], typed: str) -> None:
    right = {
        "heart atack": "Acute myocardial infarction",
        "kidny stones": "Calculus of urinary tract",
        "pnumonia": "Pneumonia (except that caused by tuberculosis or sexually transmitted disease)",
        "high colesterol": "Disorders of lipid metabolism",
    }
    assert right[typed] in labels_of(ccs_spaces["diagnoses"].by_meaning(typed, 5))


def test_meaning_says_why(ccs_spaces: dict[str, CandidateSpace], units: CandidateSpace) -> None:
    match = ccs_spaces["diagnoses"].by_meaning("HTN", 1)[0]
    assert "hypertension" in match.label.casefold()
    assert match.why == "known as 'htn'"
    assert "hypertension" in ccs_spaces["diagnoses"].by_meaning("HTN for years", 1)[0].why
    assert labels_of(units.by_meaning("recovery", 1)) == ["PACU"]
    assert labels_of(units.by_meaning("MICU", 1)) == ["Medical Intensive Care Unit (MICU)"]


def test_a_reading_that_no_description_shares_is_dropped() -> None:
    """ "ED" is erectile dysfunction in one space and the emergency department in another."""
    departments = CandidateSpace(name="x", labels=LabelSet(name="x", labels=("Emergency Department", "Medicine")))
    assert departments.by_meaning("ED", 1)[0].label == "Emergency Department"


def test_several_queries_give_one_list_with_the_limit_for_each(ccs_spaces: dict[str, CandidateSpace]) -> None:
    space = ccs_spaces["diagnoses"]
    found = space.by_fuzzy(["asthma", "gout", "asthma"], 2)
    assert {"Asthma", "Gout and other crystal arthropathies"} <= set(labels_of(found))
    assert len(found) == len(set(labels_of(found))) <= 4
    assert [match.similarity for match in found] == sorted((match.similarity for match in found), reverse=True)
    assert space.by_meaning([], 2) == []


@given(st.text(max_size=40))
def test_no_query_breaks_a_search(text: str) -> None:
    space = CandidateSpace(
        name="x", labels=LabelSet(name="x", labels=("Gout", "Heart failure"), aliases={"CHF": "Gout"})
    )
    for search in (space.by_keyword, space.by_fuzzy, space.by_meaning):
        found = search(text)
        assert set(labels_of(found)) <= set(space.labels.labels)
        assert len(found) == len(set(labels_of(found)))
        assert all(0 <= match.similarity <= 1 for match in found)
    wanted = normalise_label(text)
    held = {"gout": "Gout", "heart failure": "Heart failure", "chf": "Gout"}
    expected = {label for name, label in held.items() if wanted and wanted in name}
    assert set(labels_of(space.by_keyword(text))) == expected


def test_an_empty_space_finds_nothing(tmp_path: Path) -> None:
    empty = CandidateSpace(name="x", labels=LabelSet(name="x", labels=()))
    empty.save(tmp_path / "x.space")
    for space in (empty, CandidateSpace.load(tmp_path / "x.space")):
        assert space.by_keyword("a") == space.by_fuzzy("a") == space.by_meaning("a") == []


def test_saved_and_loaded_finds_the_same(ccs_spaces: dict[str, CandidateSpace], tmp_path: Path) -> None:
    space = ccs_spaces["procedures"]
    space.save(tmp_path / "a.space")
    loaded = CandidateSpace.load(tmp_path / "a.space")
    assert (loaded.name, loaded.labels) == (space.name, space.labels)
    for text in ("CABG", "feeding tube", "colonoscopyy", "put on the vent", "xyzzy"):
        assert loaded.by_meaning(text, 10) == space.by_meaning(text, 10)
        assert loaded.by_fuzzy(text, 10) == space.by_fuzzy(text, 10)
        assert loaded.by_keyword(text) == space.by_keyword(text)
    loaded.save(tmp_path / "b.space")
    assert (tmp_path / "a.space").read_bytes() == (tmp_path / "b.space").read_bytes()


def test_a_space_without_a_group_is_kept_as_what_it_does_not_share(tmp_path: Path) -> None:
    """With the same labels it is its uses alone, in the file and in memory; with others it has an index of its own."""
    labels = LabelSet(name="x", labels=tuple(f"name {number} of many" for number in range(500)))
    fewer = LabelSet(name="x", labels=labels.labels[:400])
    space = CandidateSpace(name="x", labels=labels).with_uses({"name 7 of many": 3})
    other = space.with_uses({"name 9 of many": 5})
    sizes = []
    for place, without in enumerate(({}, {0: other}, {0: other, 1: CandidateSpace(name="x", labels=fewer)})):
        space.beside(without).save(tmp_path / f"{place}.space")
        sizes.append((tmp_path / f"{place}.space").stat().st_size)
        loaded = CandidateSpace.load(tmp_path / f"{place}.space")
        assert {group: one.labels for group, one in loaded.without.items()} == {g: o.labels for g, o in without.items()}
        for group, one in without.items():
            assert loaded.without[group].by_meaning("name 9", 5) == one.by_meaning("name 9", 5)
            assert (loaded.without[group].index is loaded.index) == (group == 0)
    assert sizes[1] - sizes[0] < 5 * 500, "four bytes a label"
    assert sizes[2] - sizes[1] > 10_000


def test_files_that_are_something_else_are_refused(units: CandidateSpace, tmp_path: Path) -> None:
    path = tmp_path / "x.space"
    with pytest.raises(UserError, match="cannot read"):
        CandidateSpace.load(path)
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(UserError, match="build it again"):
        CandidateSpace.load(path)
    units.save(path)
    whole = path.read_bytes()
    for length in (25, 200, len(whole) - 200):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match="build it again"):
            CandidateSpace.load(path)


class Letters:
    """A tiny real encoder: counts of letters, scaled to length one."""

    name = "letters"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.array(
            [[text.casefold().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        )
        return (counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)).astype(np.float32)


def test_an_encoder_joins_the_fusion() -> None:
    labels = LabelSet(name="x", labels=("listen", "zebra", "quokka"))
    space = CandidateSpace(name="x", labels=labels)
    assert space.by_meaning("silent zz", 1) == [] or space.by_meaning("silent", 1)[0].label != "listen"
    found = space.with_encoder(Letters()).by_meaning("silent", 1)
    assert found[0].label == "listen"
    assert "letters" in found[0].why


def test_what_an_encoder_finds_nearest_comes_before_what_shares_a_word() -> None:
    """The one has all letters of the query; the other one of its two words, and thirty are nearer to it by letters."""
    near = [f"listen thing {first}{second}" for first in "silent" for second in "night"]
    labels = LabelSet(name="x", labels=("silent zzzzzzzzzzzz", "listen thing", *near))
    space = CandidateSpace(name="x", labels=labels)
    assert space.by_meaning("silent night", 1)[0].label == "silent zzzzzzzzzzzz"
    assert space.with_encoder(Letters()).by_meaning("silent night", 1)[0].label == "listen thing"


def test_labels_that_spaces_share_are_encoded_once() -> None:
    class CountedOutcomes(Letters):
        def __init__(self) -> None:
            self.asked: list[tuple[str, ...]] = []

        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            self.asked.append(tuple(texts))
            return super().encode(texts)

    labels = LabelSet(name="x", labels=("listen", "zebra", "quokka"))
    other = LabelSet(name="x", labels=("listen", "zebra"))
    space = CandidateSpace(name="x", labels=labels)
    whole = space.beside({0: space.with_uses({"zebra": 1}), 1: CandidateSpace(name="x", labels=other)})
    counted = CountedOutcomes()
    encoded = whole.with_encoder(counted)
    assert counted.asked == [labels.labels, other.labels]
    assert encoded.without[0].by_meaning("silent", 1)[0].label == "listen"
    assert encoded.without[1].by_meaning("silent", 1)[0].label == "listen"


def test_threads_share_a_space(ccs_spaces: dict[str, CandidateSpace]) -> None:
    space = ccs_spaces["diagnoses"]
    texts = ["chf", "kidney stones", "asthmaa", "broken hip"] * 5
    alone = [space.by_meaning(text) for text in texts]
    together: list[list[list[LabelMatch]]] = [[] for _ in range(4)]

    def work(place: int) -> None:
        together[place] = [space.by_meaning(text) for text in texts]

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [alone] * 4


@pytest.mark.parametrize(
    ("text", "found"), [("sodiun", [1]), ("hexokinases", []), ("hexokinas2", []), ("hexokinase2", [0])]
)
def test_a_word_with_a_number_is_never_taken_for_a_misspelling(text: str, found: list[int]) -> None:
    index = WordIndex.build([(0, "hexokinase2"), (1, "sodium")], 2)
    assert [label for label, _ in index.best_labels(text, 2)] == found
