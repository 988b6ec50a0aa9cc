"""Withdrawal: nothing that came of a source is served any more, whatever the bank had made of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from memory_doubles import key, lesson, origin, patient

from effort import often
from wardround.core import UserError
from wardround.memory import Bank, Edge, Entity, Experience, RecallQuestion, SeenIn, withdraw
from wardround.memory.credit import EpisodeName
from wardround.memory.learning import EvolutionSettings, PlayedEpisode, learn
from wardround.memory.words import terms_of

WORDS = ("sepsis", "fluids", "lactate", "culture", "shock", "fever", "gout", "anuria")
PER_BANK = 8


@dataclass
class HeldFor:
    """What the test remembers of an experience."""

    experience: Experience
    samples: set[str]
    rows: set[str]
    content: str


@dataclass
class TwinTable:
    """A bank, and a plain account of where everything in it came from."""

    bank: Bank
    source: Random
    held: dict[str, HeldFor] = field(default_factory=dict)
    linked: set[tuple[str, str]] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def fill(self) -> None:
        with self.bank.batch():
            for number in range(10):
                self._add(number)
            for _ in range(8):
                self._link()
            for name in self.source.sample(sorted(self.held), 2):
                self._revise(name)
            first, second, third = self.source.sample(range(10), 3)
            self._alias(f"name {first}", f"name {second}")
            if self.source.random() < 0.5:
                self._alias(f"name {third}", f"name {second}")

    def _sample(self) -> str:
        return f"sample-{self.source.randrange(8)}"

    def _add(self, number: int) -> None:
        sample, row = self._sample(), f"labevents:{self.source.randrange(12)}"
        text = " ".join(self.source.sample(WORDS, 3))
        made = lesson(
            self.bank,
            f"{text} {number}",
            number,
            sample=sample,
            kind=self.source.choice(["indication", "contraindication"]),
            entities=(Entity(name=f"name {number}", role="condition"),),
            evidence=(SeenIn(step=1, rows=(row,)),),
        )
        self.bank.add([made], key=key(1, number))
        self.held[made.id] = HeldFor(made, {sample}, {row}, made.content)

    def _link(self) -> None:
        one, other = self.source.sample(sorted(self.held), 2)
        self.linked.add((one, other))
        self.bank.set_graph(edges=[Edge(source=one, target=other, weight=0.5)], reason="linked")

    def _revise(self, name: str) -> None:
        sample = self._sample()
        self.held[name].samples.add(sample)
        self.held[name].content = f"revised by {sample}"
        self.bank.revise(name, content=self.held[name].content, by=origin(self.bank, 90, sample=sample), reason="r")

    def _alias(self, name: str, of: str) -> None:
        self.bank.add_alias(name, of=of, reason="same")
        self.names[name] = of

    def withdraw(self) -> str:
        """Withdraw something that has a hand in the bank, and forget it in the account."""
        one = self.source.choice([held for name, held in self.held.items() if name not in self.gone])
        source = self.source.choice([one.experience.id, self.source.choice(sorted(one.samples)), *one.rows])
        withdraw(self.bank, source, reason="amended")
        self.gone |= {
            held.experience.id
            for held in self.held.values()
            if source == held.experience.id or source in held.samples or source in held.rows
        }
        said = {
            entity.name
            for name, held in self.held.items()
            if name not in self.gone
            for entity in held.experience.entities
        }
        self.names = {name: of for name, of in self.names.items() if name in said and of in said}
        return source

    def stale(self) -> list[str]:
        """Everything that still shows something withdrawn."""
        bank, live = self.bank, set(self.held) - self.gone
        graph = bank.graph()
        found = []
        if {one.id: one.content for one in bank.experiences()} != {name: self.held[name].content for name in live}:
            found.append("texts")
        for word in WORDS:
            served = bank.seeds(RecallQuestion(text=word, key=key(1, 1)), for_subject=patient(99))
            found += [f"recall of {word}" for one in served.experiences if one.id not in live]
        for name in sorted(self.held):
            expected = {other for one, other in self.linked if one == name and {one, other} <= live}
            if {edge.target for edge in graph.edges(name)} != expected:
                found.append(f"edges of {name}")
        counts: Counter[str] = Counter()
        for one in bank.experiences():
            texts = (one.title, one.description, one.content, one.condition, *one.exclusions)
            counts.update(set(terms_of("\n".join(texts))))
        if dict(bank.file.rows("SELECT term, documents FROM term")) != counts:
            found.append("words counted")
        found += [
            f"name {name}"
            for name in map("name {}".format, range(10))
            if graph.entity(name) != self.names.get(name, name)
        ]
        return found


def test_of_generated_withdrawals_none_leaves_anything_stale(tmp_path: Path) -> None:
    withdrawals = often(48, 10_000)
    for number in range(withdrawals // PER_BANK):
        with Bank.open(tmp_path / f"{number}.sqlite") as bank:
            twin = TwinTable(bank, Random(number))
            twin.fill()
            assert twin.stale() == [], "before"
            for _ in range(PER_BANK):
                if len(twin.gone) == len(twin.held):
                    break
                source = twin.withdraw()
                assert twin.stale() == [], source
        for file in tmp_path.glob(f"{number}.sqlite*"):
            file.unlink()


def test_what_a_withdrawal_changed_is_told_and_kept_in_the_history(tmp_path: Path) -> None:
    said = EvolutionSettings(quality="eq10", delta_baseline="none")
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        a, b = (lesson(bank, title, number, kind="indication") for number, title in enumerate(("a", "b")))
        bank.add([a, b])
        bank.set_graph(qualities={b.id: 0.5}, edges=[Edge(source=a.id, target=b.id, weight=0.5)], reason="built")
        for sample, score in (("sample-x", 1.0), ("sample-y", 0.0), ("sample-z", 1.0)):
            name = EpisodeName(run="r", agent="a", sample=sample, epoch=1)
            learn(
                bank, PlayedEpisode(name=name, sample=sample, task="t", split="train", score=score, shown=[b.id]), said
            )
        done: Any = withdraw(bank, "sample-x", reason="wrong chart")
        assert (done.experiences, done.qualities, done.edges) == ((), 1, 0)
        assert [value for _, value in bank.quality_history(b.id)] == [0.5, 0.6, 0.5, 0.6, 0.5]
        with pytest.raises(UserError, match="sample 'sample-x' was withdrawn"):
            bank.revise(b.id, content="more", by=origin(bank, 9, sample="sample-x"), reason="taught")
        assert bank.add([lesson(bank, "c", 9, sample="sample-x")]) == 0
        done = withdraw(bank, a.id, reason="wrong")
        assert (done.experiences, done.edges) == ((a.id,), 1)
        assert bank.graph().edges(a.id) == ()
        assert bank.history(a.id)[-1].reason == "wrong"
