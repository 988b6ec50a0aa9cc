"""What must hold for every bank: the guards, the exactness of the scan, the past."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_doubles import key, lesson, origin, patient

from effort import often
from forking import commands, kill, wait_for
from wardround.memory import Bank, BankState, Experience, Recall

SUBJECTS = st.integers(0, 4)
SPLITS = st.sampled_from(["train", "train", "train", "dev", "test"])
VECTORS = st.tuples(*[st.integers(-3, 3)] * 3).filter(any)
ADD = st.tuples(st.just("add"), SUBJECTS, SPLITS, VECTORS, st.sampled_from(["actor", "summariser"]))
CHANGE = st.tuples(st.sampled_from(["revise", "retire", "revert"]), st.integers(0, 30), SUBJECTS, SPLITS)
STEPS = st.lists(st.one_of(ADD, ADD, CHANGE), min_size=1, max_size=25)


@dataclass
class Known:
    """What the test itself remembers of an experience: the bank's slow and simple twin."""

    experience: Experience
    vector: np.ndarray
    order: int
    live: bool = True
    title: str = ""
    subjects: set[int] = field(default_factory=set)
    splits: set[str] = field(default_factory=set)
    past: list[tuple[int, str, bool]] = field(default_factory=list)


class TwinTable:
    """Plays steps on a bank and remembers them."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.known: list[Known] = []

    def play(self, step: tuple) -> None:  # type: ignore[type-arg]
        if step[0] == "add":
            self._add(*step[1:])
        elif self.known:
            self._change(*step)

    def _add(self, subject: int, split: str, vector: tuple[int, ...], kind: str) -> None:
        title = f"t{len(self.known)}"
        made = lesson(self.bank, title, subject, split=split, sample=f"s{len(self.known)}", kind=kind)
        question = key(*vector)
        self.bank.add([made], key=question)
        known = Known(made, question.vector, len(self.known), title=title, subjects={subject}, splits={split})
        known.past.append((self.bank.revision, title, True))
        self.known.append(known)

    def _change(self, what: str, place: int, subject: int, split: str) -> None:
        known = self.known[place % len(self.known)]
        name = known.experience.id
        if what == "revise":
            known.title, known.live = f"r{self.bank.revision}", True
            known.subjects.add(subject)
            known.splits.add(split)
            self.bank.revise(name, title=known.title, by=origin(self.bank, subject, split=split), reason="r")
        elif what == "retire":
            known.live = False
            self.bank.retire(name, reason="r")
        else:
            number, known.title, known.live = known.past[place % len(known.past)]
            self.bank.revert(name, to=number, reason="r")
        known.past.append((self.bank.revision, known.title, known.live))

    def expected(self, vector: np.ndarray, subject: int, kind: str, k: int) -> list[str]:
        """The titles a search must give, by looking at everything."""
        eligible = [
            known
            for known in self.known
            if known.live
            and known.experience.kind == kind
            and known.splits <= {"train"}
            and subject not in known.subjects
        ]
        near = sorted(eligible, key=lambda one: (-round(float(one.vector.astype(float) @ vector), 9), one.order))
        return [one.title for one in near[:k]]


def with_bank(work: Callable[[Bank], None]) -> None:
    with tempfile.TemporaryDirectory() as folder, Bank.open(Path(folder) / "bank.sqlite") as bank:
        work(bank)


def titles(found: Recall) -> list[str]:
    return [match.experience.title for match in found.matches]


@settings(max_examples=often(20, 60), deadline=None)
@given(STEPS, VECTORS, SUBJECTS, st.integers(1, 6), st.sampled_from(["actor", "summariser"]))
def test_a_search_is_exact_and_never_serves_the_same_subject_or_another_split(
    steps: list[tuple],
    vector: tuple[int, ...],
    subject: int,
    k: int,
    kind: str,  # type: ignore[type-arg]
) -> None:
    def work(bank: Bank) -> None:
        twin, question = TwinTable(bank), key(*vector)
        for step in steps:
            twin.play(step)
            found = bank.search(question, kind=kind, for_subject=patient(subject), k=k)  # type: ignore[arg-type]
            assert titles(found) == twin.expected(question.vector.astype(float), subject, kind, k)
        offered = bank.recall(kind=kind, for_subject=patient(subject), limit=99)  # type: ignore[arg-type]
        everything = twin.expected(question.vector.astype(float), subject, kind, 99)
        assert sorted(titles(offered)) == sorted(everything)
        live = [one for one in twin.known if one.live and one.experience.kind == kind]
        own = [one for one in live if one.splits <= {"train"} and subject in one.subjects]
        other = [one for one in live if not one.splits <= {"train"}]
        assert offered.withheld == {"same_subject": len(own), "split": len(other)}

    with_bank(work)


@settings(max_examples=often(15, 40), deadline=None)
@given(STEPS, st.integers(0, 10**6))
def test_every_past_state_can_be_rebuilt(steps: list[tuple], pick: int) -> None:  # type: ignore[type-arg]
    def seen(state: BankState | Bank) -> list[tuple[str, str, bool]]:
        found = state.experiences if isinstance(state, BankState) else state.experiences()
        served = titles(state.search(key(1, 2, 3), kind="actor", for_subject=patient(77), k=99)) if found else []
        return [(one.id, one.title, one.title in served) for one in found]

    def work(bank: Bank) -> None:
        twin = TwinTable(bank)
        states: dict[int, list[tuple[str, str, bool]]] = {}
        moments: dict[int, str] = {}
        for step in steps:
            twin.play(step)
            states[bank.revision] = seen(bank)
            newest = max(known.past[-1][0] for known in twin.known) if twin.known else 0
            last = [known for known in twin.known if known.past[-1][0] == newest]
            if last:
                moments[bank.revision] = bank.history(last[0].experience.id)[-1].at
        number = sorted(states)[pick % len(states)]
        assert seen(bank.at(revision=number)) == states[number]
        if number in moments:
            reached = max(one for one in moments if moments[one] <= moments[number])
            assert seen(bank.at(moment=moments[number])) == states[reached]

    with_bank(work)


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from memory_doubles import key, lesson
from wardround.memory import Bank
bank = Bank.open(Path(sys.argv[1]))
for number in range(10**6):
    some = [lesson(bank, f"{number}-{part}", number, content="x" * 2000) for part in range(3)]
    bank.add(some, key=key(1, number, 2))
    bank.set_graph(qualities={one.id: 0.5 for one in some}, reason="kept")
    print(number, flush=True)
"""


@pytest.mark.parametrize("moment", range(4))
def test_kill_9_loses_at_most_what_was_not_committed(tmp_path: Path, moment: int) -> None:
    path, printed = tmp_path / "bank.sqlite", tmp_path / "printed"
    writer = commands().start_program(WRITER, [str(path), str(Path(__file__).parent)], str(printed))
    wait_for(lambda: printed.exists() and printed.stat().st_size >= 100, writer)
    time.sleep(random.Random(moment).uniform(0, 0.2))
    kill(writer)
    said = printed.read_text().rpartition("\n")[0].splitlines()
    assert len(said) > 20, "the writer did not get going"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with Bank.open(path) as bank:
        count = len(bank)
        assert count in (3 * len(said), 3 * (len(said) + 1))
        assert all(len(one.content) == 2000 for one in bank.experiences())
        assert not any(bank.damage().values())
        known = sum(bank.graph().quality(one.id) == 0.5 for one in bank.experiences())
        assert known in (count, count - 3), "texts were committed before their qualities"
        assert known >= 3 * len(said)
        assert bank.add([lesson(bank, "after", 10**7)], key=key(1, 1, 1)) == 1
