"""Texts and vectors are read when they are looked at: what was lost or forgotten in between is said, never served."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from memory_doubles import key, lesson, patient, titles

from wardround.core import UserError
from wardround.memory import Bank, RecallQuestion
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
