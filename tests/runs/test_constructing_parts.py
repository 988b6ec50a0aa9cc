"""What a construction records and counts, step by step, with everything around it made of paper."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wardround.core import ProviderError, silent
from wardround.learning import constructing
from wardround.learning.cases import CaseAsking
from wardround.learning.constructing import Constructing, ConstructionSettings
from wardround.memory.construction import LinkSettings

MOST = LinkSettings().most_calls


class Recorder:
    """What was begun, and how it was finished."""

    def __init__(self, name: str, facts: Any) -> None:
        self.name, self.facts, self.finished = name, facts, None
        self.note = self.keep = None

    def finish(self, outcome: Any) -> None:
        self.finished = outcome


class PaperLog:
    def __init__(self) -> None:
        self.begun: list[Recorder] = []
        self.flushed = 0

    def begin(self, name: str, facts: Any) -> Recorder:
        self.begun.append(Recorder(name, facts))
        return self.begun[-1]

    def flush(self) -> None:
        self.flushed += 1


class PaperBank:
    """Holds experiences and what was said of them."""

    def __init__(self, *held: Any) -> None:
        self.held = list(held)
        self.said: list[tuple[str, str, Any, str]] = []
        self.graph: list[Any] = []
        self.asked: list[int] = []

    def holds(self, name: str) -> bool:
        return any(one.id == name for one in self.held)

    def related(self, experience: Any, *, limit: int) -> list[Any]:
        self.asked.append(limit)
        return self.held

    def add(self, some: list[Any], *, key: Any, reason: str) -> int:
        self.held += [one for one in some if one.id != "withheld"]
        return sum(one.id != "withheld" for one in some)

    def experiences(self) -> list[Any]:
        return self.held

    def feedback(self, name: str) -> list[Any]:
        return [SimpleNamespace(kind=kind, value=value) for who, kind, value, _ in self.said if who == name]

    def add_feedback(self, name: str, kind: str, *, value: float, episode: str) -> None:
        self.said.append((name, kind, value, episode))

    def batch(self) -> Any:
        return pytest.MonkeyPatch.context()

    def set_graph(self, *, edges: Any, reason: str) -> None:
        self.graph.append((tuple(edges), reason))


def experience(name: str, *, says: str = "", calls: int | None = None, polar: bool = True, model: str = "m") -> Any:
    facts: dict[str, Any] = {"names_answer": says == "answer"} | ({} if calls is None else {"structure_calls": calls})
    return SimpleNamespace(
        id=name,
        kind="indication",
        condition="c",
        content=says or name,
        polar=polar,
        facts=facts,
        provenance=SimpleNamespace(model=model),
    )


def begun(bank: PaperBank, *, rules: bool = True, epochs: int = 2, models: Any = None) -> Constructing:
    run = SimpleNamespace(epochs=epochs)
    case = SimpleNamespace(attempts=[1, 2, 3], successes=[1])
    return Constructing(
        folder=cast(Any, SimpleNamespace(settings=SimpleNamespace(run=run, memory=SimpleNamespace(reflection=None)))),
        settings=ConstructionSettings(rules=rules),
        cases=cast(Any, SimpleNamespace(case=lambda group: case)),
        bank=cast(Any, bank),
        encoder=cast(Any, None),
        asking=CaseAsking(
            folder=cast(Any, None), models=models or {}, earlier=cast(Any, None), log=cast(Any, PaperLog())
        ),
    )


@pytest.fixture(autouse=True)
def paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules draw what the test says, two say the same that have one content, and keys are none."""
    monkeypatch.setattr(constructing, "text_key", lambda encoder, text: text)
    monkeypatch.setattr(constructing, "says_the_same", lambda one, other: one.content == other.content)
    monkeypatch.setattr(constructing, "NameIndex", lambda bank: "names")
    monkeypatch.setattr(constructing, "Comparing", lambda bank: SimpleNamespace(revision=7))


def group(*epochs: int) -> Any:
    return [SimpleNamespace(key=f"a|m|t|s|{epoch}") for epoch in epochs]


@pytest.mark.parametrize(
    ("epochs", "name"), [((0, 1), "draw|a|m|t|s"), ((1,), "draw|a|m|t|s|1"), ((0, 1, 2), "draw|a|m|t|s")]
)
def test_a_case_is_drawn_from_once_under_its_name(
    epochs: tuple[int, ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [experience("x", says="answer"), experience("y")]
    monkeypatch.setattr(constructing, "draw_by_rules", lambda case: iter(drawn))
    one = begun(PaperBank())
    assert asyncio.run(one._draw(group(*epochs))) == drawn
    (recorder,) = cast(Any, one.asking.log).begun
    assert (recorder.name, recorder.finished) == (name, {"ids": ["x", "y"]})
    assert recorder.facts == {"sample": "s", "attempts": [f"a|m|t|s|{epoch}" for epoch in epochs]}
    found = one.result
    assert (found.cases, found.attempts, found.successes, found.naming_answers) == (1, 3, 1, 1)
    assert found.drawn == {"indication": 2}


@pytest.mark.parametrize(
    ("rules", "model", "by_rules"),
    [(True, "m", True), (True, "offline", True), (False, "m", False), (False, "offline", True)],
)
def test_who_draws_by_rules_is_said_or_is_the_offline_policy(rules: bool, model: str, by_rules: bool) -> None:
    assert begun(PaperBank(), rules=rules).by_rules(model) is by_rules


def test_what_a_bank_holds_or_says_already_is_not_added() -> None:
    bank = PaperBank(experience("held"), experience("other", says="same"))
    one = begun(bank)
    one._waiting = []
    for name, says in (("held", ""), ("new", ""), ("twin", "same"), ("withheld", "")):
        one._add(experience(name, says=says))
    assert [each.id for each in bank.held] == ["held", "other", "new"]
    assert (one.result.added, one.result.duplicates, [each.id for each in one._waiting]) == (1, 1, ["new"])
    assert bank.asked == [10, 10, 10], "the nearest ten are compared, of what is not there"
    one._waiting = None
    one._add(experience("later"))
    assert (one.result.added, one._waiting) == (2, None)


def linking(
    one: Constructing, monkeypatch: pytest.MonkeyPatch, *, edges: int = 1, asks: int = 3, fails: str = ""
) -> list[Any]:
    """Have names and edges cost so many calls each; returns the budgets that were given."""
    budgets: list[tuple[str, str, int, Any]] = []

    async def names(bank: Any, index: Any, experience: Any, *, asker: Any, budget: Any) -> int:
        budgets.append(("name", experience.id, budget.left, asker))
        if fails == f"name {experience.id}":
            raise ProviderError("gone")
        budget.calls = asks
        return 2

    async def pairs(bank: Any, experience: Any, *, comparing: Any, asker: Any, settings: Any, budget: Any) -> Any:
        budgets.append(("link", experience.id, budget.left, asker))
        if fails == f"link {experience.id}":
            raise ProviderError("gone")
        budget.calls = asks
        return [SimpleNamespace(relation="related")] * edges

    monkeypatch.setattr(constructing, "normalise_names", names)
    monkeypatch.setattr(constructing, "edges_of", pairs)
    monkeypatch.setattr(constructing, "AskingBudget", lambda *, left: SimpleNamespace(left=left, calls=0, refused=0))
    asyncio.run(one._link_all(silent))
    return budgets


def test_names_come_first_then_pairs_each_once_within_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = PaperBank(experience("x", calls=4), experience("y", calls=MOST + 5), experience("z", polar=False))
    one = begun(bank)
    budgets = linking(one, monkeypatch)
    assert budgets == [
        ("name", "x", MOST - 4, None),
        ("name", "y", 0, None),
        ("link", "x", MOST - 7, None),
        ("link", "y", 0, None),
    ]
    assert bank.said == [
        ("x", "named", 3.0, "name|x"),
        ("y", "named", 3.0, "name|y"),
        ("x", "linked", 1.0, "link|x"),
        ("y", "linked", 1.0, "link|y"),
    ]
    assert [reason for _, reason in bank.graph] == ["linked x, frequencies of 7", "linked y, frequencies of 7"]
    found = one.result
    assert (found.aliases, found.linked, found.edges, found.failed) == (4, 2, {"related": 2}, 0)
    assert (found.graph_calls, found.most_graph_calls) == (4 + 3 + 3 + MOST + 5 + 3 + 3, MOST + 11)
    log = cast(Any, one.asking.log)
    assert [recorder.facts for recorder in log.begun] == [{"experience": name} for name in "xyxy"]
    assert log.begun[0].finished == {"aliases": 2, "calls": 3, "refused": 0}
    assert log.begun[2].finished == {"edges": 1, "calls": 3, "refused": 0}
    assert log.flushed == 4, "before what rests on it is written"
    assert linking(one, monkeypatch) == [], "nothing waits any more"


def test_what_is_named_is_not_named_again_and_what_is_linked_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = PaperBank(experience("x", calls=4), experience("y"), experience("z"))
    bank.said = [("x", "named", 2.0, ""), ("y", "linked", 0.0, ""), ("z", "named", None, "")]
    budgets = linking(begun(bank), monkeypatch, edges=0)
    assert budgets == [("link", "x", MOST - 6, None), ("link", "z", MOST, None)]
    assert bank.graph == [], "without an edge the graph is as it was"


@pytest.mark.parametrize(("fails", "done"), [("name x", ["y"]), ("link x", ["y"])])
def test_what_an_endpoint_broke_off_is_counted_and_tried_again(
    fails: str, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = PaperBank(experience("x"), experience("y"))
    one = begun(bank)
    linking(one, monkeypatch, fails=fails)
    assert [name for name, kind, _, _ in bank.said if kind == "linked"] == done
    assert (one.result.failed, one.result.problems, one.result.linked) == (1, {"gone": 1}, 1)
    assert {"error": "gone"} in [recorder.finished for recorder in cast(Any, one.asking.log).begun]


def test_the_model_that_drew_an_experience_judges_it_where_it_can_be_asked() -> None:
    recorder = cast(Any, None)
    one = begun(PaperBank(), rules=False, models={"m": None, "offline": None})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CaseAsking, "asker", lambda self, name, model, recorder: f"{name} by {model}")
        found = [
            one._linking_asker("link", experience("x", model=model), recorder) for model in ("m", "offline", "gone")
        ]
    assert found == ["link by m", None, None]
