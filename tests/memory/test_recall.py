"""Seed recall: words, vectors and entities each find their own, words lead, the guards hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from memory_doubles import key, lesson, patient

from wardround.core import UserError
from wardround.memory import Bank, Entity, RecallQuestion, SeedRecall, SeedSettings
from wardround.memory.words import index_all, rarest_terms, terms_of


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    with Bank.open(tmp_path / "bank.sqlite") as opened:
        yield opened  # type: ignore[misc]


def put(
    bank: Bank, title: str, subject: int, vector: tuple[float, ...], names: tuple[str, ...] = (), **more: object
) -> str:
    entities = tuple(Entity(name=name, role="condition") for name in names)
    made = lesson(bank, title, subject, kind=more.pop("kind", "indication"), entities=entities, **more)  # type: ignore[arg-type]
    bank.add([made], key=key(*vector))
    return made.id


def asked(bank: Bank, text: str, *, by: int = 99, **more: object) -> SeedRecall:
    settings = more.pop("settings", SeedSettings())
    return bank.seeds(RecallQuestion(text=text, **more), for_subject=patient(by), settings=settings)  # type: ignore[arg-type]


def found(recall: SeedRecall) -> list[str]:
    return [one.title for one in recall.experiences]


def test_each_way_finds_what_the_others_do_not(bank: Bank) -> None:
    put(bank, "lactate in shock", 1, (0, 0, 1))
    put(bank, "nearby vector", 2, (1, 0.1, 0))
    put(bank, "named entity", 3, (0, 0, 1), names=("Septic Shock", "fever"))
    put(bank, "unrelated", 4, (0, 0, 1))
    recall = asked(bank, "rising lactates with septic shock?", key=key(1, 0, 0))
    assert set(found(recall)[:3]) == {"lactate in shock", "nearby vector", "named entity"}
    by_title = {seed.experience.title: seed for seed in recall.seeds}
    assert by_title["lactate in shock"].lexical == 1.0
    assert by_title["nearby vector"].dense == pytest.approx(1 / 1.01**0.5)
    assert by_title["named entity"].entity == 1.0
    assert recall.entities == ("septic shock",)
    assert set(recall.terms) == {"lactate", "shock"}
    assert "words 1.00" in by_title["lactate in shock"].why()
    assert recall.facts()["served"][0]["id"] == recall.experiences[0].id  # type: ignore[index]


def test_vectors_do_not_drown_words_and_ties_go_by_age(bank: Bank) -> None:
    for number in range(8):
        put(bank, f"near {number}", number, (1, 0))
    put(bank, "hyperkalaemia", 50, (0, 1))
    recall = asked(bank, "hyperkalaemia", key=key(1, 0))
    assert found(recall) == ["hyperkalaemia", "near 0", "near 1", "near 2", "near 3"]
    assert recall.seeds[0].score == 1.0
    assert recall.seeds[1].score == SeedSettings().dense


def test_without_a_vector_or_without_words_the_rest_still_answers(bank: Bank) -> None:
    assert asked(bank, "sepsis").seeds == ()
    put(bank, "sepsis", 1, (1, 0))
    assert found(asked(bank, "Sepsis!")) == ["sepsis"]
    assert asked(bank, "Sepsis!").seeds[0].dense is None
    assert found(asked(bank, "", key=key(1, 0))) == ["sepsis"]
    assert asked(bank, "of the").seeds == ()
    with pytest.raises(UserError, match="'hand'"):
        asked(bank, "sepsis", key=key(1, 0, encoder="other"))


def test_guards_hold_in_every_way_and_are_counted(bank: Bank) -> None:
    for title, subject, split in (("mine", 1, "train"), ("tested", 2, "test"), ("other", 3, "train")):
        put(bank, f"{title} sepsis", subject, (1, 0), names=("sepsis",), split=split)
    put(bank, "sepsis of another kind", 4, (1, 0), names=(), kind="contraindication")
    lessons = lesson(bank, "sepsis lesson", 5)
    bank.add([lessons], key=key(1, 0))
    retired = put(bank, "retired sepsis", 6, (1, 0), names=("sepsis",))
    bank.retire(retired, reason="wrong")
    recall = asked(bank, "sepsis", by=1, key=key(1, 0))
    assert set(found(recall)) == {"other sepsis", "sepsis of another kind"}
    assert recall.withheld == {"same_subject": 1, "split": 1}
    one = bank.seeds(RecallQuestion(text="sepsis"), for_subject=patient(9), kinds=("actor",))
    assert found(one) == ["sepsis lesson"]
    assert found(bank.seeds(RecallQuestion(text="sepsis"), for_subject=patient(9), task="procedures")) == []


def test_a_revised_text_is_found_by_its_new_words_only(bank: Bank) -> None:
    name = put(bank, "potassium", 1, (1, 0), content="check potassium")
    bank.revise(name, title="sodium", content="check sodium", condition="hyponatraemia", reason="mistaken")
    assert asked(bank, "potassium").seeds == ()
    assert found(asked(bank, "sodium")) == ["sodium"]
    assert found(asked(bank, "hyponatraemia")) == ["sodium"]
    bank.revert(name, to=1, reason="right at first")
    assert found(asked(bank, "potassium")) == ["potassium"]


def test_aliases_lead_to_the_same_seeds(bank: Bank) -> None:
    put(bank, "heart", 1, (1, 0), names=("myocardial infarction",), condition="chest pain")
    assert asked(bank, "prior MI").seeds == ()
    bank.add_alias("MI", of="myocardial infarction", reason="same")
    assert found(asked(bank, "prior MI")) == ["heart"]
    assert found(asked(bank, "nothing here", entities=("MI",))) == ["heart"]


def test_another_writers_commit_is_seen_at_once(bank: Bank) -> None:
    put(bank, "sepsis", 1, (1, 0))
    with Bank.open(bank.path, writable=False) as reader:
        assert found(asked(reader, "sepsis", key=key(1, 0))) == ["sepsis"]
        name = put(bank, "late sepsis", 2, (1, 0), names=("shock",))
        assert set(found(asked(reader, "sepsis", key=key(1, 0)))) == {"sepsis", "late sepsis"}
        bank.retire(name, reason="wrong")
        assert found(asked(reader, "sepsis", key=key(1, 0))) == ["sepsis"]
        assert found(asked(reader, "shock")) == []


def test_the_index_kept_up_is_the_index_made_again(bank: Bank) -> None:
    source = random.Random(0)
    words = [f"word{number}" for number in range(30)]
    with bank.batch():
        for number in range(60):
            put(bank, " ".join(source.choices(words, k=4)), number, (1, number), exclusions=(source.choice(words),))
    bank.revise(bank.experiences()[3].id, content="word1 again", reason="r")
    before = [asked(bank, word, settings=SeedSettings(k=60, pool=60)) for word in words]
    counts = bank._file.rows("SELECT * FROM term ORDER BY term")
    with bank.batch():
        index_all(bank._file.connection)
    assert bank._file.rows("SELECT * FROM term ORDER BY term") == counts
    assert [asked(bank, word, settings=SeedSettings(k=60, pool=60)) for word in words] == before
    assert any(recall.seeds for recall in before)


def test_only_the_rarest_words_are_looked_up(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    with bank.batch():
        for number in range(20):
            put(bank, f"common {'rare' if number == 7 else 'frequent' if number % 2 else ''}", number, (1, 0))
    assert rarest_terms(bank._file.connection, "common rare frequent absent") == ("rare", "frequent", "common")
    monkeypatch.setattr("wardround.memory.words.MOST_DOCUMENTS", 11)
    assert rarest_terms(bank._file.connection, "common rare frequent") == ("rare", "frequent")
    assert rarest_terms(bank._file.connection, "common") == ("common",), "never none"
    monkeypatch.setattr("wardround.memory.words.MOST_TERMS", 1)
    assert rarest_terms(bank._file.connection, "common rare frequent") == ("rare",)


def test_words_meet_in_one_form() -> None:
    assert terms_of("Biopsies, doses and TESTS of 12.5 mg; diagnosis, virus, mass") == [
        *("biopsy", "dose", "test", "12x5", "mg", "diagnosis", "virus", "mass")
    ]


def test_a_question_cannot_speak_to_the_index(bank: Bank) -> None:
    put(bank, "sepsis", 1, (1, 0))
    for text in ('sepsis" OR "x', "NEAR(sepsis)", "tokens:sepsis", "sepsis*", "-sepsis AND", "'; DROP TABLE words"):
        assert found(asked(bank, text)) == (["sepsis"] if "sepsis" in text else [])
