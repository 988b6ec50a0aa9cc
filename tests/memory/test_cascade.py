"""Withdrawal: nothing that came of a source is served any more, whatever the bank had made of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from memory_doubles import key, lesson, origin, patient

from effort import often
from wardround.memory import Bank, Edge, Entity, Experience, RecallQuestion, SeenIn, forget, withdraw
from wardround.memory.words import terms_of

WORDS = ("sepsis", "fluids", "lactate", "culture", "shock", "fever", "gout", "anuria")
PER_BANK = 8


@dataclass
class Held:
    """What the test remembers of an experience."""

    experience: Experience
    samples: set[str]
    rows: set[str]
    content: str


@dataclass
class Twin:
    """A bank, and a plain account of where everything in it came from."""

    bank: Bank
    source: Random
    held: dict[str, Held] = field(default_factory=dict)
    quality: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    weight: dict[tuple[str, str], list[tuple[str, float]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def fill(self) -> None:
        with self.bank.batch():
            for number in range(10):
                self._add(number)
            for _ in range(8):
                self._link()
            for _ in range(12):
                self._move()
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
        self.held[made.id] = Held(made, {sample}, {row}, made.content)
        self.quality[made.id] = [("", 0.5)]
        self.bank.set_graph(qualities={made.id: 0.5}, reason="rated")

    def _link(self) -> None:
        one, other = self.source.sample(sorted(self.held), 2)
        self.weight[one, other] = [("", 0.5)]
        self.bank.set_graph(edges=[Edge(source=one, target=other, weight=0.5)], reason="linked")

    def _move(self) -> None:
        sample, delta = self._sample(), self.source.choice([-0.02, 0.03])
        used = self.source.sample(sorted(self.held), 3)
        pairs = [pair for pair in self.weight if set(pair) <= set(used)]
        for name in used:
            self.quality[name].append((sample, delta))
        for pair in pairs:
            self.weight[pair].append((sample, delta))
        graph = self.bank.graph()
        edges = [
            Edge(source=one, target=other, weight=next(e.weight for e in graph.edges(one) if e.target == other) + delta)
            for one, other in pairs
        ]
        qualities = {name: (graph.quality(name) or 0.0) + delta for name in used}
        self.bank.set_graph(qualities=qualities, edges=edges, reason="moved", sample=sample)

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
        for moves in (*self.quality.values(), *self.weight.values()):
            moves[:] = [move for move in moves if move[0] != source]
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
            expected = {
                other: values for (one, other), values in self.weight.items() if one == name and {one, other} <= live
            }
            weights = {edge.target: edge.weight for edge in graph.edges(name)}
            if weights != {other: pytest.approx(_total(values)) for other, values in expected.items()}:
                found.append(f"edges of {name}")
            if name in live and graph.quality(name) != pytest.approx(_total(self.quality[name])):
                found.append(f"quality of {name}")
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


def _total(moves: list[tuple[str, float]]) -> float:
    return sum(delta for _, delta in moves)


def test_of_generated_withdrawals_none_leaves_anything_stale(tmp_path: Path) -> None:
    withdrawals = often(48, 10_000)
    for number in range(withdrawals // PER_BANK):
        with Bank.open(tmp_path / f"{number}.sqlite") as bank:
            twin = Twin(bank, Random(number))
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
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        a, b = (lesson(bank, title, number, kind="indication") for number, title in enumerate(("a", "b")))
        bank.add([a, b])
        bank.set_graph(qualities={b.id: 0.5}, edges=[Edge(source=a.id, target=b.id, weight=0.5)], reason="built")
        bank.set_graph(qualities={b.id: 0.8}, reason="it helped", sample="sample-x")
        bank.set_graph(qualities={b.id: 0.7}, reason="it did not", sample="sample-y")
        done: Any = withdraw(bank, "sample-x", reason="wrong chart")
        assert (done.experiences, done.qualities, done.edges) == ((), 1, 0)
        assert bank.graph().quality(b.id) == pytest.approx(0.4), "0.5 without the 0.3 that it gave"
        assert [value for _, value in bank.quality_history(b.id)] == [0.5, 0.8, 0.7, pytest.approx(0.4)]
        done = withdraw(bank, "sample-y", reason="wrong too")
        assert bank.graph().quality(b.id) == pytest.approx(0.5), "what put x right counts for nothing either"
        bank.set_graph(qualities={b.id: 0.9}, reason="validated: set, not moved")
        bank.set_graph(qualities={b.id: 0.95}, reason="it helped", sample="sample-z")
        withdraw(bank, "sample-x", reason="again")
        assert bank.graph().quality(b.id) == pytest.approx(0.95)
        withdraw(bank, "sample-z", reason="wrong")
        assert bank.graph().quality(b.id) == pytest.approx(0.9)
        done = withdraw(bank, a.id, reason="wrong")
        assert (done.experiences, done.edges) == ((a.id,), 1)
        assert bank.graph().edges(a.id) == ()
        assert bank.history(a.id)[-1].reason == "wrong"


def test_what_is_left_after_forgetting_can_be_withdrawn_too(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        a, b = (lesson(bank, title, number, kind="indication") for number, title in enumerate(("a", "b")))
        bank.add([a, b])
        edge = Edge(source=a.id, target=b.id, weight=0.4)
        bank.set_graph(qualities={b.id: 0.5}, edges=[edge], reason="built")
        for sample, moved in (("sample-x", 0.2), ("sample-y", 0.1), ("sample-x", 0.1)):
            quality = (bank.graph().quality(b.id) or 0.0) + moved
            weight = bank.graph().edges(a.id)[0].weight + moved
            bank.set_graph(qualities={b.id: quality}, edges=[replace(edge, weight=weight)], reason="m", sample=sample)
        forget(bank, "sample-x", reason="asked for")
        assert [value for _, value in bank.quality_history(b.id)] == [0.5, pytest.approx(0.6)]
        assert bank.graph().edges(a.id)[0].weight == pytest.approx(0.5)
        withdraw(bank, "sample-y", reason="wrong")
        assert bank.graph().quality(b.id) == pytest.approx(0.5)
        assert bank.graph().edges(a.id)[0].weight == pytest.approx(0.4)
