"""Texts and vectors are read when they are looked at: what was lost or forgotten in between is said, never served."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from memory_doubles import key, lesson, patient, titles

from wardround.core import UserError
from wardround.memory import Bank, Key, RecallQuestion, SeedSettings
from wardround.memory.keys import KeyVectors
from wardround.memory.rows import Texts
from wardround.memory.upkeep import forget


def filled(path: Path) -> Bank:
    bank = Bank.open(path)
    for number, title in enumerate(("one", "two", "three"), start=1):
        bank.add([lesson(bank, title, number, sample=f"sample-{number}")], key=key(1, number / 10))
    return bank


def test_opening_reads_no_text_and_no_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "bank.sqlite").close()
    read: list[object] = []
    monkeypatch.setattr(Texts, "read", lambda self, entries: read.append(entries))
    monkeypatch.setattr(KeyVectors, "_read", lambda self, last: read.append(last))
    with Bank.open(tmp_path / "bank.sqlite", writable=False) as bank:
        assert (len(bank), bank.revision) == (3, 3)
    assert read == []


@pytest.mark.parametrize("noted", [True, False])
def test_a_recall_that_words_settle_reads_the_vectors_of_its_candidates_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: bool
) -> None:
    """The cosine of (1, 0.2) and (1, 0) is 1 / sqrt(1.04) = 0.980581; a bank of earlier days has no note of lengths."""
    with filled(tmp_path / "bank.sqlite") as bank:
        if not noted:
            bank.file.connection.execute("DELETE FROM setting WHERE name = 'longest_key'")
    read: list[int] = []
    whole = KeyVectors._read
    monkeypatch.setattr(KeyVectors, "_read", lambda self, last: (read.append(last), whole(self, last)))
    asked = RecallQuestion(text="two", key=key(1, 0))
    with Bank.open(tmp_path / "bank.sqlite", writable=False) as bank:
        ask = {"for_subject": patient(9), "kinds": ("actor",), "settings": SeedSettings(k=1)}
        (seed,) = bank.seeds(asked, **ask).seeds
        assert (seed.experience.title, seed.lexical) == ("two", 1.0)
        assert seed.dense == pytest.approx(0.980580676, abs=1e-7)
        assert read == ([] if noted else [3])
        (vague,) = bank.seeds(RecallQuestion(text="unheard", key=key(1, 0.3)), **ask).seeds
        assert (vague.experience.title, read) == ("three", [3])


def test_the_longest_key_is_noted_and_forgotten(tmp_path: Path) -> None:
    with filled(tmp_path / "bank.sqlite") as bank:
        assert bank.file.setting("longest_key") == pytest.approx(1.0)
        long, short = (Key(encoder="hand", vector=np.array(numbers, np.float32)) for numbers in ((3, 4), (0, 2)))
        bank.add([lesson(bank, "long", 4, sample="sample-4")], key=long)
        bank.add([lesson(bank, "short", 5, sample="sample-5")], key=short)
        assert bank.file.setting("longest_key") == 5.0
        forget(bank, "sample-4", reason="asked")
        assert bank.file.setting("longest_key") == 2.0


def test_what_is_served_by_vectors_is_the_same_whenever_they_were_first_compared(tmp_path: Path) -> None:
    """One reader compares vectors before the bank changes, the other only after it."""
    path = tmp_path / "bank.sqlite"
    with filled(path) as bank, Bank.open(path, writable=False) as early, Bank.open(path, writable=False) as late:
        readers = (early, late)

        def found() -> list[list[str]]:
            return [titles(one.search(key(1, 0.3), kind="actor", for_subject=patient(9), k=9)) for one in readers]

        assert titles(early.search(key(1, 0.3), kind="actor", for_subject=patient(9), k=9)) == ["three", "two", "one"]
        assert len(late.recall(kind="actor", for_subject=patient(9), limit=9).experiences) == 3
        bank.retire(bank.experiences()[1].id, reason="gone")
        bank.add([lesson(bank, "four", 4)], key=key(1, 0.4))
        assert found() == [["three", "four", "one"]] * 2
        bank.retire(bank.experiences()[0].id, reason="gone")
        assert found() == [["three", "four"]] * 2


def test_an_experience_without_its_key_is_told_by_name(tmp_path: Path) -> None:
    with filled(tmp_path / "bank.sqlite") as bank:
        second = bank.experiences()[1].id
    with sqlite3.connect(tmp_path / "bank.sqlite") as connection:
        connection.execute("DELETE FROM key WHERE number = 2")
    with Bank.open(tmp_path / "bank.sqlite", writable=False) as bank:
        assert len(bank) == 3
        with pytest.raises(UserError, match=rf"{second}.*has lost its key.*audit"):
            bank.search(key(1, 0), kind="actor", for_subject=patient(9), k=3)
        assert bank.damage()["experiences without their key"] == 1


def test_a_forgotten_key_leaves_the_others_where_they_were(tmp_path: Path) -> None:
    with filled(tmp_path / "bank.sqlite") as bank:
        forget(bank, "sample-2", reason="asked")
        bank.add([lesson(bank, "four", 4)], key=key(1, 0.4))
    with Bank.open(tmp_path / "bank.sqlite", writable=False) as bank:
        found = bank.search(key(1, 0.4), kind="actor", for_subject=patient(9), k=9)
        assert titles(found) == ["four", "three", "one"]


def test_what_another_process_forgot_is_served_no_more(tmp_path: Path) -> None:
    asked = RecallQuestion(text="two", key=key(1, 0.2))
    with filled(tmp_path / "bank.sqlite") as bank, Bank.open(tmp_path / "bank.sqlite", writable=False) as reader:
        before = reader.search(asked.key or key(1), kind="actor", for_subject=patient(9), k=9)
        assert titles(before) == ["two", "three", "one"]
        past = bank.at(revision=3)
        forget(bank, "sample-2", reason="asked")
        after = reader.search(asked.key or key(1), kind="actor", for_subject=patient(9), k=9)
        assert titles(after) == ["three", "one"]
        assert reader.seeds(asked, for_subject=patient(9), kinds=("actor",)).withheld == {"same_subject": 0, "split": 0}
        assert "two" not in [one.title for one in reader.experiences()]
        with pytest.raises(UserError, match=r"forgotten in .* open it again"):
            past.experiences  # noqa: B018
