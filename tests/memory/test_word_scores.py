"""Our own BM25 out of the places of words is FTS5's, to the last bit, whatever was written, revised and taken away."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from memory_doubles import lesson, patient

from wardround.memory import Bank, PinnedBank, RecallQuestion
from wardround.memory.words import WordScores, _numbers_in, rarest_terms

_FTS5 = "SELECT rowid, -bm25(words, 0.6) FROM words WHERE words MATCH ? AND rowid <= ? ORDER BY bm25(words, 0.6), rowid"
WORDS = [f"word{letter}" for letter in "abcdefghi"]
"""No digits: a number is a word of its own."""


def by_fts5(connection: sqlite3.Connection, terms: list[str], upto: int) -> list[tuple[int, float]]:
    return connection.execute(_FTS5, (" OR ".join(f'"{term}"' for term in terms), upto)).fetchall()


def compare(connection: sqlite3.Connection, scores: WordScores, source: random.Random) -> int:
    """Return how many texts matched."""
    matched = 0
    last = connection.execute("SELECT max(number) FROM revision").fetchone()[0]
    for upto in (2**40, last // 2, 0):
        terms = [
            *source.sample(WORDS, k=source.choice((1, 3, 6))),
            *source.choices(["absent"], k=source.choice((0, 1))),
        ]
        expected = by_fts5(connection, terms, min(upto, last))
        assert scores.matching(terms, min(upto, last)) == expected
        matched += len(expected)
        for most in (0, 1, 4, len(expected), len(expected) + 1):
            assert scores.matching(terms, min(upto, last), most=most) == expected[:most]
    return matched


def change(bank: Bank, source: random.Random, number: int) -> None:
    text = " ".join(source.choices(WORDS, weights=[2**place for place in range(9)], k=source.choice((1, 5, 300))))
    bank.add([lesson(bank, text, number % 5, sample=str(number), kind="indication")])
    names = [one.id for one in bank.experiences()]
    if number % 3 == 2:
        bank.revise(source.choice(names), content=" ".join(source.choices(WORDS, k=4)), reason="changed")
    if number % 5 == 4:
        bank.retire(source.choice(names), reason="gone")


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_fts5(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    with Bank.open(tmp_path / "bank.sqlite") as bank, Bank.open(tmp_path / "bank.sqlite", writable=False) as reader:
        scores, followed = WordScores(bank.file.connection), WordScores(reader.file.connection)
        matched = 0
        for number in range(25):
            change(bank, source, number)
            matched += compare(bank.file.connection, scores, source)
            compare(reader.file.connection, followed, source)
        with bank.batch():
            for number in range(25, 30):
                change(bank, source, number)
            compare(bank.file.connection, scores, source)


def test_a_pinned_bank_scores_by_its_own_index(tmp_path: Path) -> None:
    source = random.Random(7)
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        for number in range(12):
            change(bank, source, number)
        pinned = PinnedBank.open(tmp_path / "bank.sqlite")
        question = RecallQuestion(text=" ".join(WORDS[:4]))
        before = pinned.seeds(question, for_subject=patient(99))
        for number in range(12, 24):
            change(bank, source, number)
        assert pinned.seeds(question, for_subject=patient(99)) == before
        assert bank.seeds(question, for_subject=patient(99)).seeds != before.seeds
        compare(pinned._file.connection, pinned._state().words, source)
        pinned.close()


def test_the_only_text_of_a_bank_scores_as_fts5_says(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "worda wordb worda", 1, kind="indication")])
        ((number, score),) = by_fts5(bank.file.connection, ["worda"], 9)
        assert WordScores(bank.file.connection).matching(["worda"], 9) == [(number, score)]
        assert score > 0


def test_an_index_without_texts_matches_nothing(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        assert WordScores(bank.file.connection).matching(["sepsis"], 9) == []
        bank.add([lesson(bank, "sepsis", 1)])
        bank.retire(bank.experiences()[0].id, reason="gone")
        assert WordScores(bank.file.connection).matching(["sepsis"], 9) == []
        assert rarest_terms(bank.file.connection, "sepsis") == ()


def test_numbers_of_seven_bits_a_byte() -> None:
    assert _numbers_in(bytes([0, 127, 0x81, 0, 0x83, 0xFF, 0x7F])).tolist() == [0, 127, 128, 65535]
    assert _numbers_in(b"").tolist() == []
