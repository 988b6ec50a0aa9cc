"""What seed recall leaves out because it cannot matter: with and without, the same seeds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory_doubles import key, lesson, patient

from wardround.memory import Bank, Entity, GraphReader, Key, RecallQuestion, SeedRecall, SeedSettings
from wardround.memory.recall import FusedCandidates
from wardround.memory.state import BankState

WORDS = [f"word{number}" for number in range(12)]


def filled(path: Path, seed: int, size: int = 40) -> Bank:
    source = random.Random(seed)
    bank = Bank.open(path / f"bank-{seed}.sqlite")
    with bank.batch():
        for number in range(size):
            text = " ".join(source.choices(WORDS, k=source.choice((1, 3, 8))))
            names = tuple(Entity(name=name, role="condition") for name in source.sample(WORDS, k=2))
            made = lesson(bank, text, number % 9, sample=str(number), kind="indication", entities=names)
            bank.add([made], key=key(*(source.gauss(0, 1) for _ in range(4))))
    return bank


def asked(bank: Bank, text: str, settings: SeedSettings, by: int = 0) -> SeedRecall:
    question = RecallQuestion(text=text, key=key(*(hash_of(text, place) for place in range(4))))
    return bank.seeds(question, for_subject=patient(by), settings=settings)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each scan of the vectors from here on."""
    scans: list[int] = []
    nearest = BankState.nearest

    def scan(*of: Any, **more: Any) -> list[tuple[int, float]]:
        scans.append(1)
        return nearest(*of, **more)

    monkeypatch.setattr(BankState, "nearest", scan)
    return scans


def hash_of(text: str, place: int) -> float:
    return random.Random(f"{text}/{place}").gauss(0, 1)


@pytest.mark.parametrize("seed", range(4))
def test_without_the_scan_of_vectors_the_same_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    source = random.Random(seed)
    scans = counted(monkeypatch)
    with filled(tmp_path, seed) as bank:
        texts = [" ".join(source.sample(WORDS, k=source.choice((1, 2, 5)))) for _ in range(12)]
        every = [
            (text, SeedSettings(k=k, dense=dense, pool=8))
            for text in texts
            for k, dense in ((1, 0.05), (5, 0.05), (5, 0.6), (8, 0.05), (3, 0.0), (12, 1.0))
        ]
        pruned = [asked(bank, *one) for one in every]
        needed = len(scans)
        monkeypatch.setattr(FusedCandidates, "settled", lambda self, most: False)
        assert [asked(bank, *one) for one in every] == pruned
        assert len(scans) - needed == len(every)
    assert 0 < needed < len(every), "some questions need the scan and some do not"


def test_a_long_vector_may_still_come_first(tmp_path: Path) -> None:
    """The bound goes by the lengths the bank holds, not by a promise that they are 1."""
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "word", 1, kind="indication")], key=key(0, 1))
        far = Key(encoder="hand", vector=np.array([400.0, 0.0], np.float32))
        bank.add([lesson(bank, "another", 2, kind="indication")], key=far)
        settings = SeedSettings(k=1)
        found = bank.seeds(RecallQuestion(text="word", key=key(1, 0)), for_subject=patient(9), settings=settings)
        assert [one.title for one in found.experiences] == ["another"]
        assert found.seeds[0].score == pytest.approx(400 * settings.dense)


def test_many_that_are_withheld_do_not_hide_what_is_served(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        with bank.batch():
            for number in range(30):
                bank.add([lesson(bank, "sepsis", 1, sample=str(number), kind="indication")])
            bank.add([lesson(bank, "sepsis and much else besides", 2, kind="indication")])
        settings = SeedSettings(pool=5)
        found = bank.seeds(RecallQuestion(text="sepsis"), for_subject=patient(1), settings=settings)
        assert [one.title for one in found.experiences] == ["sepsis and much else besides"]


def test_mentions_of_many_names_are_those_of_each(tmp_path: Path) -> None:
    with filled(tmp_path, 5) as bank:
        bank.add_alias("one", of="word1", reason="same")
        bank.add_alias("word3", of="word2", reason="same")
        for one in bank.experiences()[:9]:
            bank.retire(one.id, reason="measured")
        live = {one.id for one in bank.experiences()}
        graph = GraphReader(bank.file.connection, bank.revision)
        names = graph.entities([*WORDS, "one", "WORD4", "unknown"])
        assert names == [graph.entity(name) for name in [*WORDS, "one", "WORD4", "unknown"]]
        assert (names[12], names[3]) == ("word1", "word2")
        for most in (0, 2, 5, 8, 100):
            each = {name: graph.mentions(name, known=live.__contains__, most=most) for name in names}
            assert graph.mentions_of(names, is_live=live.__contains__, live=len(live), most=most) == each
            assert {None} < {*each.values()} or most > 8


def test_a_bank_without_experiences_mentions_nothing(tmp_path: Path) -> None:
    """The first that is linked is compared with none."""
    with Bank.open(tmp_path / "empty.sqlite") as bank:
        assert bank.graph().mentions_of(["lactate"], is_live=bool, live=0, most=100) == {"lactate": ()}
