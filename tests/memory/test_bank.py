"""The bank: what is added comes back, what is changed can be undone, what is wrong is named."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from memory_doubles import key, lesson, origin, patient, titles

from forking import commands
from wardround.core import LeakError, UserError, register_seals
from wardround.memory import Bank, Experience, Key, PinnedBank


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "bank.sqlite"


def test_an_experience_comes_back_as_it_was(path: Path) -> None:
    with Bank.open(path) as bank:
        provenance = origin(bank, 1, run="r", episode="e", model="m", prompts={"memory/actor": "abc"})
        made = Experience(
            kind="tool",
            title="Ask narrowly",
            description="",
            content="Give a time range. \ud800",
            task="labevents",
            provenance=provenance,
            score=0.5,
            tool="run_sql_query",
            facts={"judged": "success"},
        )
        assert bank.add([made], key=key(1, 0)) == 1
    with Bank.open(path, writable=False) as bank:
        (found,) = bank.experiences()
        assert found == replace(made, content="Give a time range. ?")
        assert Experience.from_json(found.to_json()) == found
        assert bank.encoder == "hand"


def test_the_subject_is_recognised_and_its_number_is_not_in_the_file(path: Path, tmp_path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "one", 10004321)], key=key(1, 0))
        here = bank.subject_hash(patient(10004321))
    with Bank.open(tmp_path / "other.sqlite") as other:
        assert other.subject_hash(patient(10004321)) != here
    with Bank.open(path) as bank:
        assert bank.subject_hash(patient(10004321)) == here
        assert bank.subject_hash(patient(10004322)) != here
    files = [file.read_bytes() for file in path.parent.iterdir()]
    assert all(b"10004321" not in content for content in files if b"sample-10004321" not in content)


def test_adding_twice_adds_once(path: Path) -> None:
    """A killed evolution starts again; its experiences are the same ones."""
    with Bank.open(path) as bank:
        some = [lesson(bank, "one", 1), lesson(bank, "two", 1)]
        assert bank.add(some, key=key(1, 0)) == 2
        again = [replace(one, provenance=replace(one.provenance, created="2199")) for one in some]
        assert bank.add([*again, lesson(bank, "three", 1)], key=key(1, 0)) == 1
        assert [one.title for one in bank.experiences()] == ["one", "two", "three"]


def test_one_key_serves_all_that_an_episode_taught_and_k_counts_episodes(path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "a", 1), lesson(bank, "b", 1), lesson(bank, "s", 1, kind="summariser")], key=key(1, 0))
        bank.add([lesson(bank, "c", 2)], key=key(0.9, 0.1))
        bank.add([lesson(bank, "d", 3, task="procedures")], key=key(1, 0.01))
        bank.add([lesson(bank, "e", 4)], key=key(0, 1))
        first = bank.search(key(1, 0), kind="actor", task="diagnoses", for_subject=patient(9))
        assert titles(first) == ["a", "b"]
        assert first.matches[0].similarity == pytest.approx(1.0)
        two = bank.search(key(1, 0), kind="actor", task="diagnoses", for_subject=patient(9), k=2)
        assert titles(two) == ["a", "b", "c"]
        assert titles(bank.search(key(1, 0), kind="summariser", for_subject=patient(9), k=9)) == ["s"]
        assert titles(bank.search(key(1, 0), kind="actor", for_subject=patient(9), k=2)) == ["a", "b", "d"]
        near = bank.search(key(1, 0), kind="actor", for_subject=patient(9), k=9, least_similarity=0.5)
        assert titles(near) == ["a", "b", "d", "c"]
        assert titles(bank.search(key(1, 0), kind="reasoning", for_subject=patient(9))) == []


def test_guards_count_what_they_keep_back(path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "mine", 1)], key=key(1, 0))
        bank.add([lesson(bank, "tested", 2, split="test"), lesson(bank, "dev", 3, split="dev")], key=key(1, 0))
        bank.add([lesson(bank, "served", 4)], key=key(0, 1))
        found = bank.search(key(1, 0), kind="actor", for_subject=patient(1))
        assert titles(found) == ["served"]
        assert found.withheld == {"same_subject": 1, "split": 2}
        assert found.facts()["withheld"] == {"same_subject": 1, "split": 2}
        offered = bank.recall(kind="actor", for_subject=patient(1), limit=9)
        assert titles(offered) == ["served"]
        assert offered.withheld == {"same_subject": 1, "split": 2}
        for splits in (("train", "dev"), ("test",)):
            with pytest.raises(LeakError, match="served from"):
                bank.search(key(1, 0), kind="actor", for_subject=patient(1), allowed_splits=splits)
        assert titles(bank.search(key(1, 0), kind="actor", for_subject=patient(9), allowed_splits=())) == []


def test_who_teaches_a_change_is_kept_from_it_too(path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "one", 1), lesson(bank, "two", 1)], key=key(1, 0))
        one = bank.experiences()[0].id
        bank.revise(one, content="Do it otherwise", by=origin(bank, 2), reason="seen again")
        assert titles(bank.search(key(1, 0), kind="actor", for_subject=patient(2))) == ["two"]
        assert titles(bank.search(key(1, 0), kind="actor", for_subject=patient(1))) == []
        assert titles(bank.search(key(1, 0), kind="actor", for_subject=patient(3))) == ["one", "two"]
        bank.revise(one, content="Do it", by=origin(bank, 4, split="test"), reason="learnt where it may not")
        assert titles(bank.search(key(1, 0), kind="actor", for_subject=patient(3))) == ["two"]


def test_history_revert_and_the_past(path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "one", 1)], key=key(1, 0))
        one = bank.experiences()[0].id
        before = bank.revision
        bank.revise(one, title="better", score=0.9, reason="more seen")
        bank.retire(one, reason="misleading")
        assert len(bank) == 0
        assert titles(bank.search(key(1, 0), kind="actor", for_subject=patient(9))) == []
        past = bank.at(revision=before)
        assert titles(past.search(key(1, 0), kind="actor", for_subject=patient(9))) == ["one"]
        assert titles(past.search(key(1, 0), kind="actor", for_subject=patient(1))) == []
        assert [step.title for step in bank.history(one)] == ["one", "better", "better"]
        moment = bank.history(one)[1].at
        assert [found.title for found in bank.at(moment=moment).experiences] == ["better"]
        bank.revert(one, to=before, reason="the update was bad")
        (restored,) = bank.experiences()
        assert (restored.title, restored.score) == ("one", None)
        assert [step.reason for step in bank.history(one)][-1] == "the update was bad"
        assert bank.at(revision=0).experiences == ()
        with pytest.raises(UserError, match="did not exist"):
            bank.revert(one, to=0, reason="")
        with pytest.raises(UserError, match="no experience 'x'"):
            bank.retire("x", reason="")
        with pytest.raises(UserError, match="either"):
            bank.at()


def test_revisions_cannot_be_changed_even_by_hand(path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "one", 1)], key=key(1, 0))
    connection = sqlite3.connect(path)
    register_seals(connection)
    for statement in ("UPDATE revision SET content = 'x'", "DELETE FROM revision"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_feedback_is_kept_and_changes_nothing(path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "one", 1)], key=key(1, 0))
        one, revision = bank.experiences()[0].id, bank.revision
        bank.add_feedback(one, "served", value=0.7, detail={"episode": "e"})
        bank.add_feedback(one, "score")
        first, second = bank.feedback(one)
        assert (first.kind, first.value, first.detail) == ("served", 0.7, {"episode": "e"})
        assert second.value is None
        assert bank.revision == revision
        with pytest.raises(UserError, match="no experience"):
            bank.add_feedback("x", "served")


def test_recall_without_a_key_takes_the_best_then_the_newest_of_a_tool(path: Path) -> None:
    with Bank.open(path) as bank:
        for number, (tool, score) in enumerate((("sql", 0.2), ("sql", 0.9), ("time", 1.0), ("sql", 0.2))):
            bank.add([lesson(bank, f"t{number}", number, kind="tool", tool=tool, score=score)])
        found = bank.recall(kind="tool", tool="sql", for_subject=patient(9), limit=2)
        assert titles(found) == ["t1", "t3"]
        assert found.matches[0].similarity is None
        assert bank.encoder is None


def test_a_batch_is_all_or_nothing(path: Path) -> None:
    with Bank.open(path) as bank:
        with suppress(RuntimeError), bank.batch():
            bank.add([lesson(bank, "one", 1)], key=key(1, 0))
            assert len(bank) == 1
            raise RuntimeError("half way")
        assert len(bank) == 0
        assert bank.encoder is None
        with bank.batch():
            bank.add([lesson(bank, "one", 1)], key=key(1, 0))
            bank.add([lesson(bank, "two", 2)], key=key(1, 0))
        assert len(bank) == 2


def test_a_question_of_another_encoder_is_refused(path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "one", 1)], key=key(1, 0))
        with pytest.raises(UserError, match=r"'hand'.*'other'"):
            bank.search(key(1, 0, encoder="other"), kind="actor", for_subject=patient(9))
        with pytest.raises(UserError, match="'hand'"):
            bank.search(key(1, 0, 0), kind="actor", for_subject=patient(9))
        for wrong in (key(1, 0, encoder="other"), key(1, 0, 0)):
            with pytest.raises(UserError, match="'hand'"):
                bank.add([lesson(bank, "two", 2)], key=wrong)
        assert len(bank) == 1


def test_ties_are_broken_by_age_wherever_the_vectors_stand(path: Path) -> None:
    random = np.random.default_rng(0)
    same = random.standard_normal(384)
    with Bank.open(path) as bank:
        with bank.batch():
            for number in range(150):
                vector = same if number % 3 == 0 else random.standard_normal(384)
                bank.add([lesson(bank, f"t{number}", number)], key=key(*vector))
        for k in (1, 5, 40):
            found = bank.search(key(*same), kind="actor", for_subject=patient(999), k=k)
            assert titles(found) == [f"t{3 * number}" for number in range(k)]


def test_a_large_bank_is_searched_exactly_too(path: Path) -> None:
    """Beyond the processor's cache another product is used; it must find the same."""
    random = np.random.default_rng(1)
    vectors = random.standard_normal((2100, 2000)).astype(np.float32)
    vectors[[7, 700, 2000]] = vectors[3]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with Bank.open(path) as bank:
        with bank.batch():
            for number, vector in enumerate(vectors):
                bank.add([lesson(bank, f"t{number}", number)], key=Key(encoder="hand", vector=vector))
        question = vectors[3] + 0.01 * vectors[50]
        found = bank.search(Key(encoder="hand", vector=question), kind="actor", for_subject=patient(7), k=20)
        expected = sorted(range(2100), key=lambda row: (-round(float(vectors[row].astype(float) @ question), 9), row))
        assert titles(found) == [f"t{row}" for row in expected if row != 7][:20]


def test_other_processes_read_while_one_writes(path: Path) -> None:
    with Bank.open(path) as bank, Bank.open(path, writable=False) as reader:
        for number in range(5):
            bank.add([lesson(bank, f"t{number}", number)], key=key(1, number))
            assert len(reader) == number + 1
        assert titles(reader.search(key(1, 0), kind="actor", for_subject=patient(9))) == ["t0"]
        with pytest.raises(UserError, match="reading only"):
            reader.retire(bank.experiences()[0].id, reason="")


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from memory_doubles import key, lesson
from wardround.memory import Bank
with Bank.open(Path(sys.argv[1])) as bank:
    for number in range(40):
        bank.add([lesson(bank, f"w{sys.argv[3]}-{number}", 100 * int(sys.argv[3]) + number)], key=key(1, number))
"""


def test_several_processes_may_write_even_into_a_bank_that_is_being_made(path: Path) -> None:
    folder = str(Path(__file__).parent)
    started = [commands().start_program(WRITER, [str(path), folder, str(number)]) for number in range(3)]
    assert [commands().status(process) for process in started] == [0, 0, 0]
    with Bank.open(path, writable=False) as bank:
        assert len(bank) == 120
        assert bank.revision == 120


def test_a_closed_bank_is_one_file_though_a_reader_closes_last(path: Path, tmp_path: Path) -> None:
    """Who copies that file alone, copies the bank."""
    Bank.open(path).close()
    with PinnedBank.open(path):
        with Bank.open(path) as bank:
            bank.add([lesson(bank, "one", 1)], key=key(1, 0))
        copy = tmp_path / "copy.sqlite"
        copy.write_bytes(path.read_bytes())
        with Bank.open(copy, writable=False) as copied:
            assert [one.title for one in copied.experiences()] == ["one"]


def test_files_that_are_no_bank_are_named(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("plain text, long enough not to be taken for an empty file " * 20)
    foreign = tmp_path / "foreign.sqlite"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE schema (version INTEGER, application TEXT)")
    connection.execute("INSERT INTO schema VALUES (1, 'wardround')")
    connection.commit()
    connection.close()
    for writable in (True, False):
        with pytest.raises(UserError, match="not a bank"):
            Bank.open(text, writable=writable)
        with pytest.raises(UserError, match="not a bank"):
            Bank.open(foreign, writable=writable)
    with pytest.raises(UserError, match=r"no bank at .*evolve"):
        Bank.open(tmp_path / "absent", writable=False)
    with pytest.raises(UserError, match="cannot write"):
        Bank.open(text / "below.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_can_be_read(path: Path) -> None:
    with Bank.open(path) as bank:
        bank.add([lesson(bank, "one", 1)], key=key(1, 0))
    path.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with Bank.open(path, writable=False) as bank:
            assert len(bank) == 1
    finally:
        path.parent.chmod(stat.S_IRWXU)


def test_experiences_that_say_nothing_are_refused(path: Path) -> None:
    with Bank.open(path) as bank:
        for wrong in ({"title": " "}, {"content": ""}, {"kind": "tool"}, {"tool": "sql"}, {"kind": "other"}):
            with pytest.raises(ValueError, match=r"experience"):
                lesson(bank, **{"title": "t", "subject": 1, **wrong})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finite"):
        key(float("nan"), 1.0)


def test_what_evaluated_patients_had_a_hand_in_is_served_to_nobody(tmp_path: Path) -> None:
    """Another benchmark may test on patients that this bank's own benchmark trained on."""
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "one", 1)], key=key(1, 0))
        bank.add([lesson(bank, "two", 2)], key=key(0.9, 0.1))
        bank.add([lesson(bank, "revised", 3)], key=key(0.8, 0.2))
        named = {one.title: one.id for one in bank.experiences()}
        bank.revise(named["revised"], content="More", by=origin(bank, 1), reason="r")
        state = bank.at(revision=bank.revision)
        assert state.evaluate_on([patient(1), patient(9)]) == 2
        found = state.search(key(1, 0), kind="actor", for_subject=patient(7), k=9)
        assert titles(found) == ["two"]
        assert found.withheld == {"same_subject": 0, "split": 0, "evaluated": 2}
        recalled = state.recall(kind="actor", for_subject=patient(2), limit=9)
        assert titles(recalled) == []
        assert recalled.withheld == {"same_subject": 1, "split": 0, "evaluated": 2}
