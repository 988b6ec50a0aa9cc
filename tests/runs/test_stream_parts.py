"""The deciding parts of streams and of reliability, without a run: who is met, what is tried, what it comes to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from wardround.core import LeakError
from wardround.learning.evolving import _batches, _met, _Stream, episode_name
from wardround.learning.validation import _Validating
from wardround.memory.learning import EvolutionSettings
from wardround.runs.settings import EpisodeKey


def key(sample: str, task: str = "t", epoch: int = 0) -> EpisodeKey:
    return EpisodeKey(agent="a", model="m", task=task, sample=sample, epoch=epoch)


def noted(note: str, **detail: Any) -> Any:
    """A note of an episode; what its detail calls ``kind`` is another thing than the note's."""
    return SimpleNamespace(kind=note, detail=detail)


def test_batches_are_of_so_many_and_the_last_of_what_is_left() -> None:
    keys = [key(name) for name in "abcde"]
    assert [[one.sample for one in batch] for batch in _batches(keys, 2)] == [["a", "b"], ["c", "d"], ["e"]]
    assert list(_batches([], 2)) == []


def test_an_episode_met_what_a_graph_showed_it_and_what_coins_held_back() -> None:
    notes = [
        noted("experiences", kind="graph", served=[{"id": "x"}, {"id": "y"}], masked=["z", "x"]),
        noted("other", kind="graph", served=[{"id": "no"}], masked=["no"]),
        noted("experiences", kind="tool", served=[{"id": "no"}], masked=["no"]),
        noted("experiences", kind="graph", served=[{"id": "y"}, {"id": "w"}], retested=["w"]),
    ]
    assert _met(cast(Any, SimpleNamespace(notes=notes))) == (("x", "y", "w"), ("z",), ("w",))
    assert _met(cast(Any, SimpleNamespace(notes=[]))) == ((), (), ())


def test_an_episode_is_named_in_the_bank_by_run_agent_task_and_sample() -> None:
    name = episode_name("run", key("s", epoch=3))
    assert (name.run, name.agent, name.sample, name.epoch) == ("run", "a", "t|s", 3)


class NamingBank:
    """A bank in which revisions have names."""

    def __init__(self, **names: int) -> None:
        self.names = {name.replace("_", "-"): number for name, number in names.items()}

    def snapshots(self) -> dict[str, int]:
        return self.names

    def name_revision(self, name: str, revision: int) -> int:
        return self.names.setdefault(name, revision)


def stream(bank: Any = None, sample: Any = None, **settings: Any) -> _Stream:
    nothing = cast(Any, None)
    labels = SimpleNamespace(labels=lambda task: None)
    worker = SimpleNamespace(samples={"s": sample}, benchmark=labels)
    return _Stream(
        folder=cast(Any, SimpleNamespace(path=SimpleNamespace(name="stream"), provenance="stream:1")),
        settings=cast(Any, SimpleNamespace(memory=SimpleNamespace(evolution=EvolutionSettings(**settings)))),
        bank=bank,
        queue=nothing,
        worker=cast(Any, worker),
        constructing=nothing,
    )


def test_a_snapshot_is_named_where_it_is_due_and_never_takes_anothers_name() -> None:
    one = stream(NamingBank(stream_4=9, stream_5=7), snapshots=(3, 4, 5))
    for updates, revision in ((2, 5), (3, 6), (4, 7), (5, 7)):
        one.result.updates = updates
        one._name_snapshot(revision)
    assert one.result.snapshots == {"stream-3": 6, "stream-4-at-7": 7, "stream-5": 7}


def sample(split: str = "train") -> Any:
    return SimpleNamespace(id="s", split=split, task="guo_los", target=("1",))


def ended(answer: Any, finish: str = "finish", turns: int = 1, **more: Any) -> Any:
    return SimpleNamespace(outcome={"finish": finish, "answer": answer, **more}, turns=[None] * turns, notes=[])


def test_a_broken_episode_teaches_nothing_and_says_why() -> None:
    one = stream(sample=sample())
    assert one._played(key("s"), ended(None, finish="error", error="gone")) is None
    assert one._played(key("s"), ended(["1"], turns=0)) is None
    assert one._played(key("s"), cast(Any, SimpleNamespace(outcome=None, turns=[], notes=[]))) is None
    assert one.result.problems == {"gone": 1, "an episode without a turn": 2}
    with pytest.raises(LeakError, match="is of split 'dev'"):
        stream(sample=sample("dev"))._played(key("s"), ended(["1"]))


def validating() -> _Validating:
    """A validation over six samples of three people; ``subject`` names a person as a bank does."""
    keys = [key(f"s{number}", "own" if number % 2 else "other") for number in range(6)]
    samples = {f"s{number}": SimpleNamespace(person=number // 2) for number in range(6)}
    bank = SimpleNamespace(
        origins=lambda: [("x", "s0", "hash-0", "train"), ("y", "s2", "hash-1", "train")],
        subject_hash=lambda subject: f"hash-{subject.subject_id}",
    )
    store = SimpleNamespace(spec=SimpleNamespace(name="source", people="source"))
    return _Validating(
        folder=cast(Any, SimpleNamespace(settings=SimpleNamespace(run=SimpleNamespace(seed=1)))),
        bank=cast(Any, bank),
        worker=cast(Any, SimpleNamespace(samples=samples, store=store)),
        agent=cast(Any, None),
        keys=keys,
        rollouts=2,
        together=cast(Any, None),
    )


def cases(task: str, applies: Any, rollouts: int = 2) -> list[str]:
    one = validating()
    one.rollouts = rollouts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Validating, "_applies", lambda self, experience, sample: applies(sample.person))
        return [found.sample for found in one._cases(cast(Any, SimpleNamespace(id="x", task=task)))]


def test_an_experience_is_tried_on_other_people_of_its_own_task_where_there_are_any() -> None:
    assert sorted(cases("own", lambda person: True, rollouts=9)) == ["s3", "s5"]
    assert sorted(cases("none of these", lambda person: True, rollouts=9)) == ["s2", "s3", "s4", "s5"]
    assert len(cases("none of these", lambda person: True)) == 2
    assert sorted(cases("none of these", lambda person: person == 2)) == ["s4", "s5"]
    assert cases("own", lambda person: False) == []
    assert cases("none of these", lambda person: True, rollouts=1) == cases("none of these", lambda person: True)[:1]


def test_four_cases_are_looked_at_for_each_that_is_wanted() -> None:
    looked: list[int] = []
    one = validating()
    one.keys = [key(f"s{number}") for number in range(2, 40)]
    one.worker.samples = {f"s{number}": cast(Any, SimpleNamespace(person=number)) for number in range(2, 40)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Validating, "_applies", lambda self, experience, sample: looked.insert(0, sample.person))
        assert list(one._cases(cast(Any, SimpleNamespace(id="x", task="t")))) == []
    assert len(looked) == len(set(looked)) == 8


class GraphBank:
    """Keeps what a settled experience is written with."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def batch(self) -> Any:
        return pytest.MonkeyPatch.context()

    def set_graph(self, **given: Any) -> int:
        self.written.append(given)
        return 1


def settled(quality: str, *scores: tuple[float | None, float | None]) -> tuple[GraphBank, _Validating, list[Any]]:
    """An experience whose pairs came to these scores with it and without it."""
    bank, learnt = GraphBank(), []
    sides = {
        name: value
        for number, pair in enumerate(scores)
        for name, value in zip((f"w{number}", f"o{number}"), pair, strict=True)
    }
    one = validating()
    one.bank = cast(Any, bank)
    one.folder = cast(
        Any,
        SimpleNamespace(
            provenance="run:1",
            settings=SimpleNamespace(memory=SimpleNamespace(evolution=EvolutionSettings(quality=cast(Any, quality)))),
        ),
    )
    one.worker.samples = {
        f"s{n}": cast(Any, SimpleNamespace(id=f"s{n}", task="guo_los", split="train")) for n in range(9)
    }
    pairs = {key(f"s{number}"): (f"w{number}", f"o{number}") for number in range(len(scores))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Validating, "_score", lambda self, logs, name, key: sides[name])
        patch.setattr(
            "wardround.learning.validation.learn", lambda bank, played, said, rule: learnt.append((played, rule))
        )
        one._settle(cast(Any, SimpleNamespace(id="x")), pairs, cast(Any, None))
    return bank, one, learnt


def test_pairs_are_learnt_side_by_side_and_marked_as_done() -> None:
    bank, one, learnt = settled("credit", (1.0, 0.0), (0.25, 0.5))
    assert {(rule.writer, played.masked_shares["x"]) for played, rule in learnt} == {("credit", 0.5)}
    assert [(str(played.name.sample), played.score, played.shown, played.masked) for played, _ in learnt] == [
        ("with|x|t|s0", 1.0, ("x",), ()),
        ("without|x|t|s0", 0.0, (), ("x",)),
        ("with|x|t|s1", 0.25, ("x",), ()),
        ("without|x|t|s1", 0.5, (), ("x",)),
    ]
    first, _ = learnt[0]
    assert (first.name.run, first.name.agent, first.name.epoch) == ("run:1:reliability", "a", 0)
    assert (first.sample, first.task, first.split) == ("s0", "t", "train")
    assert bank.written == [{"reason": "tried in 2 pairs", "episode": "run:1:reliability|done|x"}]
    assert (one.result.tried, one.result.rollouts, one.result.failed) == (1, 2, 0)


def test_the_published_quality_is_of_the_rollouts_with_it_alone() -> None:
    _, one, learnt = settled("eq10", (1.0, 1.0), (0.0, 1.0), (1.0, 0.0))
    assert [(rule.writer, played.score, played.shown) for played, rule in learnt] == [
        ("eq4", 1.0, ("x",)),
        ("eq4", 0.0, ("x",)),
        ("eq4", 1.0, ("x",)),
    ]
    assert (one.result.tried, one.result.rollouts) == (1, 3)
    nothing, other, _ = settled("eq10")
    assert nothing.written == [{"reason": "tried in 0 pairs", "episode": "run:1:reliability|done|x"}]
    assert (other.result.tried, other.result.rollouts) == (0, 0)


@pytest.mark.parametrize("broken", [(None, 1.0), (1.0, None)])
def test_a_rollout_that_broke_off_leaves_it_to_be_tried_again(broken: tuple[float | None, float | None]) -> None:
    bank, one, learnt = settled("credit", (1.0, 0.0), broken)
    assert (bank.written, learnt) == ([], [])
    assert (one.result.tried, one.result.rollouts, one.result.failed) == (0, 0, 1)
