"""Going back, withdrawing, looking for damage; and the command that does it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from memory_doubles import key, lesson, origin, patient, served_hash

from wardround.cli.main import main
from wardround.core import UserError
from wardround.memory import Bank, Edge, RecallQuestion, SeenIn, audit_bank, undo, withdraw


def filled(path: Path) -> tuple[str, str, str]:
    with Bank.open(path) as bank:
        rows = (SeenIn(step=2, rows=("labevents:5",)),)
        for number, title in enumerate(("alpha", "beta", "gamma")):
            made = lesson(bank, title, number, kind="indication", evidence=rows if title == "beta" else ())
            bank.add([made], key=key(1, number))
        a, b, c = (one.id for one in bank.experiences())
        bank.set_graph(qualities={a: 0.6}, edges=[Edge(source=a, target=b, weight=0.5)], reason="built")
    return a, b, c


def test_undo_serves_again_what_was_served(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    a, b, c = filled(path)
    with Bank.open(path) as bank:
        to, before = bank.revision, served_hash(bank)
        bank.revise(a, content="worse", exclusions=("x",), reason="bad batch")
        bank.retire(b, reason="bad batch")
        bank.add([lesson(bank, "delta", 7)], key=key(0, 1))
        moved = [Edge(source=a, target=b, weight=0.9), Edge(source=c, target=a, weight=0.4)]
        bank.set_graph(qualities={a: 0.1, c: 0.9}, edges=moved, reason="bad batch")
        done = undo(bank, to=to, reason="it was bad")
        assert (done.reverted, done.retired, done.qualities, done.edges) == (2, 1, 2, 2)
        assert served_hash(bank) == before
        assert bank.graph().edges(a) == (Edge(source=a, target=b, weight=0.5),)
        assert bank.graph().edges(c) == ()
        assert (bank.graph().quality(a), bank.graph().quality(c)) == (0.6, None)
        assert [step.reason for step in bank.history(a)][-1] == "it was bad"
        with pytest.raises(UserError, match="revision 999"):
            undo(bank, to=999, reason="")


def test_what_is_withdrawn_is_served_no_more_by_anyone_it_reached(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    a, b, c = filled(path)
    with Bank.open(path) as bank:
        bank.revise(c, content="more", by=origin(bank, 0, sample="sample-0"), reason="taught")
        assert withdraw(bank, "labevents:5", reason="amended").experiences == (b,)
        assert set(withdraw(bank, "sample-0", reason="case withdrawn").experiences) == {a, c}
        assert bank.experiences() == ()
        assert bank.seeds(RecallQuestion(text="alpha beta gamma", key=key(1, 0)), for_subject=patient(9)).seeds == ()
        assert withdraw(bank, a, reason="again").experiences == ()
        with pytest.raises(UserError, match="nothing in"):
            withdraw(bank, "labevents:6", reason="")


def test_an_audit_counts_and_finds_damage(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    filled(path)
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "same", 8, sample=f"s{n}") for n in range(3)], key=key(0, 1))
        bank.add([lesson(bank, "tested", 9, split="test")], key=key(0, 1))
        found = audit_bank(bank)
        assert (found.live, found.retired, found.duplicates, found.never_served) == (7, 0, 2, 1)
        assert found.sound
        bank._file.connection.execute("DELETE FROM key WHERE number = 1")
        bank._file.connection.execute("DELETE FROM words_docsize WHERE id = 2")
    with Bank.open(path, writable=False) as bank:
        wrong = {name: count for name, count in bank.damage().items() if count}
        found = audit_bank(bank)
    assert not found.sound
    assert (found.live, found.retired, found.duplicates, found.never_served, found.kinds) == (0, 0, 0, 0, {})
    assert wrong == {"experiences without their key": 1, "texts missing in the index": 1}


def test_the_command_shows_and_takes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bank.sqlite"
    a, b, c = filled(path)

    def said(*words: str) -> str:
        assert main(["memory", words[0], str(path), *words[1:]]) == 0
        return capsys.readouterr().out

    assert all(name in said("list") for name in (a, b, c))
    assert "and 2 older ones" in said("list", "--limit", "1")
    shown = said("show", a[:8])
    assert "when: Condition of alpha" in shown
    assert f"related to {b}: 0.500 (entity unjudged" in shown
    assert "quality: 0.600" in shown
    assert "seen at step 2: labevents:5" in said("why", b)
    assert "3 experiences (3 indication), 0 retired" in said("audit")
    assert "1 experiences are no longer served" in said("withdraw", "labevents:5")
    assert "retired: not served" in said("show", b)
    assert "1 experiences reverted" in said("undo", "--to", "4")
    assert "retired" not in said("show", b)
    for words in (("show", "zz"), ("show", ""), ("withdraw", "nothing"), ("undo", "--to", "99")):
        assert main(["memory", words[0], str(path), *words[1:]]) == 2
    assert main(["memory", "list", str(tmp_path / "absent")]) == 2
    assert "no bank at" in capsys.readouterr().err
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM key")
    connection.commit()
    connection.close()
    assert main(["memory", "audit", str(path)]) == 1
    assert "wrong: 3 experiences without their key" in capsys.readouterr().out


def test_a_flipped_bit_in_a_bank_passes_no_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "all" / "bank.sqlite"
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "Give fluids early", 1)], key=key(1, 0))
    assert main(["audit", "files", str(path.parent)]) == 0
    whole = path.read_bytes()
    for said in (b"Give fluids", b"early"):
        place = whole.index(said)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert main(["audit", "files", str(path.parent)]) == 1
        assert "rows of revision that are not as they were written" in capsys.readouterr().out
