"""A bank from which a source was taken out is the bank that never saw it: every quality, weight and piece of evidence,
to the last bit, whatever was learnt, set, withdrawn, forgotten and undone in between, under every setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_doubles import lesson

from effort import often
from wardround.core import UserError
from wardround.memory import Bank, Edge, SeenIn, export_bank, forget, import_bank, undo, withdraw
from wardround.memory.credit import EpisodeName
from wardround.memory.learning import EvolutionSettings, PlayedEpisode, learn
from wardround.memory.outcomes import LearningRule
from wardround.memory.upkeep import is_known

SAMPLES = ["s0", "s1", "s2", "s3"]
NAMES = [f"x{number}" for number in range(6)]
MADE_BY = {name: SAMPLES[number % 3] for number, name in enumerate(NAMES)}
ROWS = {name: f"labevents:{number}" for number, name in enumerate(NAMES)}
EDGES = [("x0", "x1"), ("x1", "x2"), ("x2", "x0"), ("x3", "x4"), ("x4", "x0"), ("x5", "x1")]

several = st.lists(st.sampled_from(NAMES), max_size=4, unique=True)
scores = st.sampled_from([0.0, 0.25, 1.0])
learnt = st.tuples(st.just("learn"), st.sampled_from(SAMPLES), st.sampled_from("ab"), scores, several, several)
tried = st.tuples(st.just("try"), st.sampled_from(SAMPLES), st.sampled_from(NAMES), scores)
rated = st.tuples(st.just("rate"), st.sampled_from(NAMES), st.sampled_from([0.02, 0.5, 0.99]))
linked = st.tuples(st.just("link"), st.sampled_from(EDGES), st.sampled_from([0.01, 0.4, 0.98]))
caused = st.tuples(st.just("cause"), st.sampled_from(EDGES), st.sampled_from(SAMPLES))
taken = st.tuples(
    st.sampled_from(["withdraw", "forget"]), st.sampled_from([*SAMPLES, "x0", "x4", "labevents:1", "labevents:5"])
)
steps = st.lists(st.one_of(learnt, learnt, learnt, tried, rated, linked, caused, taken), min_size=4, max_size=16)
rules = st.builds(
    EvolutionSettings,
    quality=st.sampled_from(["eq10", "credit"]),
    weight_reading=st.sampled_from(["prior", "compounding"]),
    delta_baseline=st.sampled_from(["none", "mean"]),
    quality_rate=st.sampled_from([0.1, 0.9]),
    weight_rate=st.sampled_from([0.05, 0.9]),
    half_life=st.sampled_from([2.0, 60.0]),
)


@contextmanager
def bank_of(names: list[str]) -> Iterator[Bank]:
    with TemporaryDirectory() as folder, Bank.open(Path(folder) / "bank.sqlite") as bank:
        bank.adopt_subject_key(b"k" * 32)
        with bank.batch():
            for number, name in enumerate(NAMES):
                if name in names:
                    rows = (SeenIn(step=1, rows=(ROWS[name],)),)
                    bank.add(
                        [lesson(bank, name, number, sample=MADE_BY[name], kind="indication", evidence=rows, id=name)]
                    )
        yield bank


def came_of(source: str) -> set[str]:
    return {name for name in NAMES if source in (name, MADE_BY[name], ROWS[name])}


def do(bank: Bank, number: int, step: tuple[Any, ...], said: EvolutionSettings, names: list[str]) -> str:
    """Take one step, with none but some experiences; returns what it took out of the bank, if anything."""
    kind, *rest = step
    there = {one.id for one in bank.experiences()} & set(names)
    if kind in ("learn", "try"):
        sample, task, score, shown, masked = rest if kind == "learn" else (rest[0], "a", rest[2], [rest[1]], [])
        played = PlayedEpisode(
            name=EpisodeName(run="run", agent="a", sample=sample, epoch=number),
            sample=sample,
            task=task,
            split="train",
            score=score,
            shown=[name for name in shown if name in there],
            masked=[name for name in masked if name in there and name not in shown],
            masked_shares=dict.fromkeys(masked[:1], 0.95),
        )
        learn(bank, played, said, rule=LearningRule(writer="eq4") if kind == "try" else None)
    elif kind == "rate" and rest[0] in there:
        bank.set_graph(qualities={rest[0]: rest[1]}, reason="rated")
    elif kind in ("link", "cause") and set(rest[0]) <= there:
        (source, target), given = rest
        weight, sample = (given, "") if kind == "link" else (0.6, given)
        bank.set_graph(edges=[Edge(source=source, target=target, weight=weight)], reason=kind, sample=sample)
    elif kind in ("withdraw", "forget"):
        if is_known(bank, rest[0]) or came_by_row(bank, rest[0]):
            (withdraw if kind == "withdraw" else forget)(bank, rest[0], reason="asked for")
            return str(rest[0])
        with pytest.raises(UserError, match="came of"):
            (withdraw if kind == "withdraw" else forget)(bank, rest[0], reason="asked for")
    return ""


def came_by_row(bank: Bank, row: str) -> bool:
    return any(row in one.rows for one in bank.at(revision=bank.revision).every_experience)


def state_of(bank: Bank) -> tuple[Any, ...]:
    return bank.graph().facts(), sorted((one.id, one.content) for one in bank.experiences())


@given(steps=steps, said=rules)
@settings(max_examples=often(40, 2_000), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_a_bank_without_a_source_is_the_bank_that_never_saw_it(
    steps: list[tuple[Any, ...]], said: EvolutionSettings
) -> None:
    with bank_of(NAMES) as bank:
        out = [source for number, step in enumerate(steps) if (source := do(bank, number, step, said, NAMES))]
        kept = [name for name in NAMES if not any(name in came_of(source) for source in out)]
        with bank_of(kept) as never:
            for number, step in enumerate(steps):
                is_of_it = step[0] in ("withdraw", "forget") or (step[0] in ("learn", "try") and step[1] in out)
                if not is_of_it and not (step[0] == "cause" and step[2] in out):
                    do(never, number, step, said, kept)
            assert state_of(bank) == state_of(never)
        with TemporaryDirectory() as folder, bank_of([]) as other:
            export_bank(bank, Path(folder) / "bank.jsonl")
            import_bank(other, Path(folder) / "bank.jsonl")
            assert state_of(other) == state_of(bank)


@pytest.mark.parametrize("quality", ["eq10", "credit"])
def test_going_back_brings_back_what_was_withdrawn_since_and_a_second_going_back_undoes_the_first(quality: Any) -> None:
    said = EvolutionSettings(quality=quality)
    with bank_of(NAMES) as bank:
        do(bank, 0, ("link", ("x0", "x1"), 0.4), said, NAMES)
        do(bank, 1, ("learn", "s3", "a", 1.0, ["x0", "x1"], ["x2"]), said, NAMES)
        first, at_first = bank.revision, state_of(bank)
        withdraw(bank, "s3", reason="wrong")
        do(bank, 2, ("learn", "s3", "a", 0.0, ["x0", "x1"], []), said, NAMES)
        do(bank, 3, ("learn", "s2", "a", 1.0, ["x1", "x0"], []), said, NAMES)
        second, at_second = bank.revision, state_of(bank)
        undo(bank, to=first, reason="back")
        assert state_of(bank) == at_first
        do(bank, 4, ("learn", "s3", "a", 0.0, ["x0", "x1"], []), said, NAMES)
        assert state_of(bank) != at_first, "it may be learnt from again"
        undo(bank, to=second, reason="forth")
        assert state_of(bank) == at_second
        assert bank.graph(revision=first).facts() == at_first[0]
