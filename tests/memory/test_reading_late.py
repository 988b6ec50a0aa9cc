"""Texts and vectors are read when they are looked at: what was lost or forgotten in between is said, never served."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from memory_doubles import key, lesson, origin, patient, titles

from wardround.core import UserError
from wardround.memory import Bank, Entity, Key, PinnedBank, RecallQuestion, SeedSettings
from wardround.memory.entries import EntryReader, Texts
from wardround.memory.keys import KeyVectors
from wardround.memory.upkeep import forget


def filled(path: Path) -> Bank:
    bank = Bank.open(path)
    for number, title in enumerate(("one", "two", "three"), start=1):
        bank.add([lesson(bank, title, number, sample=f"sample-{number}")], key=key(1, number / 10))
    return bank


def test_opening_reads_no_entry_no_text_and_no_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "bank.sqlite").close()
    read: list[object] = []
    monkeypatch.setattr(Texts, "read", lambda self, entries: read.append(entries))
    monkeypatch.setattr(KeyVectors, "_read", lambda self, last: read.append(last))
    monkeypatch.setattr(EntryReader, "_kept", lambda self, row: read.append(row))
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


BROKEN = {
    "entry": "UPDATE entry SET splits = splits WHERE number = 2",
    "revision": "UPDATE revision SET title = title WHERE number = 2",
    "experience": "UPDATE experience SET facts = facts WHERE key = 2",
    "key": "UPDATE key SET text_hash = text_hash WHERE number = 2",
}


@pytest.mark.parametrize("table", BROKEN)
def test_a_row_that_is_not_as_it_was_written_is_not_served(tmp_path: Path, table: str) -> None:
    """Its checksum is made wrong: to a reader that is the same as a bit that flipped in the row."""
    filled(tmp_path / "bank.sqlite").close()
    with sqlite3.connect(tmp_path / "bank.sqlite") as connection:
        connection.create_function("row_seal", -1, lambda *values: 7, deterministic=True)
        (guard,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'revision_stays'").fetchone()
        connection.execute("DROP TRIGGER revision_stays")
        connection.execute(BROKEN[table])
        connection.execute(guard)
    asked = RecallQuestion(text="two", key=key(1, 0.2))
    with Bank.open(tmp_path / "bank.sqlite", writable=False) as bank:
        with pytest.raises(UserError, match=rf"damaged: a row of its table {table} .*`wardround memory audit`"):
            bank.seeds(asked, for_subject=patient(9), kinds=("actor",))
        wrong = {name: count for name, count in bank.damage().items() if count}
        assert wrong == {f"rows of {table} that are not as they were written": 1}


def test_an_entry_that_does_not_follow_from_the_revisions_is_found(tmp_path: Path) -> None:
    """Here the checksum is right and what the row says is wrong: a program's fault, not a disk's."""
    with filled(tmp_path / "bank.sqlite") as bank:
        bank.revise(bank.experiences()[0].id, title="one again", reason="changed")
        assert not any(bank.damage().values())
        bank.file.connection.execute("UPDATE entry SET until = 3 WHERE number = 1")
        bank.file.connection.execute("DELETE FROM entry WHERE number = 2")
        bank.file.connection.execute("UPDATE entry SET subjects = '[]' WHERE number = 3")
        wrong = {name: count for name, count in bank.damage().items() if count}
        assert wrong == {"entries that do not follow from the revisions": 3}


@pytest.mark.parametrize("most_followed", [0, 2, 5_000])
def test_a_reader_that_is_far_behind_answers_as_one_that_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_followed: int
) -> None:
    monkeypatch.setattr("wardround.memory.state._MOST_FOLLOWED", most_followed)
    with filled(tmp_path / "bank.sqlite") as bank, Bank.open(bank.path, writable=False) as reader:
        one, two, three = (experience.id for experience in reader.experiences())
        assert titles(reader.search(key(1, 0), kind="actor", for_subject=patient(3), k=9)) == ["one", "two"]
        with bank.batch():
            bank.retire(one, reason="gone")
            bank.revise(two, title="two again", by=origin(bank, 8, split="dev"), reason="taught by another split")
            bank.revise(three, title="three again", by=origin(bank, 9), reason="taught by another patient")
            bank.add([lesson(bank, "four", 4)], key=key(1, 0.4))
        assert (len(reader), reader.revision) == (3, 7)
        for asking, shown, own in ((9, ["four"], 1), (3, ["four"], 1), (4, ["three again"], 1), (5, None, 0)):
            found = reader.search(key(1, 0), kind="actor", for_subject=patient(asking), k=9)
            assert titles(found) == (["three again", "four"] if shown is None else shown)
            assert found.withheld == {"same_subject": own, "split": 1}
        assert titles(bank.at(revision=3).search(key(1, 0), kind="actor", for_subject=patient(9), k=9)) == [
            "one",
            "two",
            "three",
        ]


def test_what_later_experiences_mention_tells_nothing_as_of_an_earlier_revision(tmp_path: Path) -> None:
    """Of three experiences two mention lactate, one fever: ln(4 / 3) + 1 = 1.287682, ln(4 / 2) + 1 = 1.693147."""

    def put(number: int, *names: str) -> str:
        entities = tuple(Entity(name=name, role="condition") for name in names)
        made = lesson(bank, f"t{number}", number, sample=f"s{number}", kind="indication", entities=entities)
        bank.add([made])
        return made.id

    asked = RecallQuestion(text="", entities=("lactate", "fever"))
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        one, _, _ = put(1, "lactate"), put(2, "lactate", "fever"), put(3, "pain")
        pinned = PinnedBank.open(bank.path)
        before = pinned.seeds(asked, for_subject=patient(9))
        assert [(seed.experience.title, seed.entity) for seed in before.seeds] == [
            ("t2", 1.0),
            ("t1", pytest.approx(1.287682 / (1.287682 + 1.693147), abs=1e-6)),
        ]
        bank.retire(one, reason="gone")
        for number in range(4, 8):
            put(number, "lactate")
        late = PinnedBank.open(bank.path, revision=3)
        for reader in (pinned, late):
            assert reader.seeds(asked, for_subject=patient(9)) == before
        now = [seed.experience.title for seed in bank.seeds(asked, for_subject=patient(9)).seeds]
        assert now == ["t2", "t4", "t5", "t6", "t7"]
