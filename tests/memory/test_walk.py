"""The walk: equation 6 by hand, one visited set, both limits, and what may not be taken is not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.core import UserError
from wardround.memory import Edge, WalkSettings, may_be_served, walk
from wardround.memory.walk import SkipReason, Walk


@dataclass
class Drawn:
    """A graph drawn by hand."""

    weights: dict[str, dict[str, float]]
    qualities: dict[str, float] = field(default_factory=dict)
    relations: dict[str, str] = field(default_factory=dict)

    def quality(self, experience: str) -> float | None:
        return self.qualities.get(experience)

    def edges(self, experience: str) -> tuple[Edge, ...]:
        return tuple(
            Edge(
                source=experience,
                target=target,
                weight=weight,
                relation=self.relations.get(experience + target, "related"),  # type: ignore[arg-type]
            )
            for target, weight in self.weights.get(experience, {}).items()
        )


def anything(name: str) -> SkipReason | None:
    return None


def names(found: Walk) -> list[str]:
    return [one.experience for one in found.accepted]


def test_a_path_is_worth_what_its_steps_are_by_equation_6() -> None:
    graph = Drawn({"s": {"a": 0.6, "b": 0.4}, "a": {"c": 0.8}, "b": {"c": 1.0}}, {"a": 0.4, "b": 1.0, "c": 0.2})
    found = walk(graph, {"s": 0.9}, judge=anything)
    # s 0.9; s>a 0.9*(0.6+0.4)/2 = 0.45; s>b 0.9*0.7 = 0.63; s>b>c 0.63*0.6 = 0.378 beats s>a>c 0.45*0.5 = 0.225
    assert [(one.experience, one.path, pytest.approx(one.score)) for one in found.accepted] == [
        ("s", ("s",), 0.9),
        ("b", ("s", "b"), 0.63),
        ("a", ("s", "a"), 0.45),
        ("c", ("s", "b", "c"), 0.378),
    ]
    assert found.accepted[3].steps == pytest.approx((0.7, 0.6))
    assert found.accepted[3].why() == "from s > b (0.70) > c (0.60); path 0.378, quality 0.20"
    assert "recalled" in found.accepted[0].why()
    assert found.accepted[0].quality == 0.5, "nothing is known of it"
    assert found.steps == 4


def test_seeds_share_what_was_visited_and_go_on_from_the_best_path() -> None:
    graph = Drawn({"s": {"t": 1.0}, "t": {"s": 1.0, "x": 0.9}}, {"t": 1.0, "s": 1.0, "x": 0.9})
    found = walk(graph, {"s": 0.5, "t": 0.8}, judge=anything)
    assert [(one.experience, one.path) for one in found.accepted] == [
        ("t", ("t",)),
        ("s", ("t", "s")),
        ("x", ("t", "x")),
    ]
    assert walk(graph, {"t": 0.8, "s": 0.5}, judge=anything) == found, "the order of the seeds decides nothing"


def test_what_is_barred_is_neither_taken_nor_walked_through() -> None:
    graph = Drawn({"s": {"x": 1.0, "y": 0.5}, "x": {"z": 1.0}}, dict.fromkeys("sxyz", 1.0))
    found = walk(graph, {"s": 1.0}, judge=lambda name: "excluded" if name == "x" else None)
    assert names(found) == ["s", "y"]
    assert [(one.experience, one.reason) for one in found.skipped] == [("x", "excluded")]
    assert names(walk(graph, {"s": 1.0}, judge=may_be_served(frozenset("sx")))) == ["s", "x"]


@pytest.mark.parametrize("way", ["st", "ts"])
def test_of_a_conflict_only_the_better_side_is_taken_and_the_other_is_named(way: str) -> None:
    graph = Drawn({way[0]: {way[1]: 1.0}}, relations={way: "conflict"})
    found = walk(graph, {"s": 0.9, "t": 0.8}, judge=anything)
    assert names(found) == ["s"]
    assert [(one.experience, one.reason, one.because) for one in found.skipped] == [("t", "conflict", "s")]
    alone = walk(Drawn({"s": {"t": 1.0}}, relations={"st": "conflict"}), {"s": 0.9}, judge=anything)
    assert (names(alone), alone.skipped) == (["s"], ())


def test_boundaries_are_walked_and_marked() -> None:
    found = walk(Drawn({"s": {"t": 1.0}}, relations={"st": "boundary"}), {"s": 0.9}, judge=anything)
    assert names(found) == ["s", "t"]
    assert found.accepted[0].boundaries == ("t",)


def test_the_limits_hold_and_what_they_cut_is_said() -> None:
    star = Drawn({"s": {f"n{number}": number / 10 for number in range(1, 10)}}, {})
    found = walk(star, {"s": 1.0}, judge=anything)
    assert names(found) == ["s", "n9", "n8", "n7", "n6", "n5"], "five neighbours"
    few = walk(star, {"s": 1.0}, judge=anything, settings=WalkSettings(most_steps=3))
    assert (names(few), few.steps) == (["s", "n9", "n8"], 3)
    assert {one.reason for one in few.skipped} == {"steps"}
    full = walk(star, {"s": 1.0}, judge=anything, settings=WalkSettings(most_taken=2))
    assert (names(full), {one.reason for one in full.skipped}) == (["s", "n9"], {"room"})
    weak = walk(star, {"s": 1.0}, judge=anything, settings=WalkSettings(least=0.65))
    assert names(weak) == ["s", "n9", "n8"]
    assert {one.experience: one.reason for one in weak.skipped} == dict.fromkeys(("n7", "n6", "n5"), "below")
    for wrong in ({"neighbours": 0}, {"most_steps": 0}, {"most_taken": 0}):
        with pytest.raises(UserError, match="at least 1"):
            WalkSettings(**wrong)


NODES = st.sampled_from("abcdefgh")
LINKS = st.lists(
    st.tuples(NODES, NODES, st.sampled_from([0.3, 0.6, 1.0]), st.sampled_from(["related", "boundary", "conflict"])),
    max_size=40,
)


@given(LINKS, st.dictionaries(NODES, st.sampled_from([0.2, 0.5, 1.0]), min_size=1), st.frozensets(NODES))
def test_any_walk_takes_no_barred_one_no_conflict_and_nothing_twice(
    links: list[tuple[str, str, float, str]], seeds: dict[str, float], barred: frozenset[str]
) -> None:
    graph = Drawn({})
    for source, target, weight, relation in links:
        if source != target:
            graph.weights.setdefault(source, {})[target] = weight
            graph.relations[source + target] = relation
    found = walk(graph, seeds, judge=lambda name: "excluded" if name in barred else None)
    taken = names(found)
    assert len(set(taken)) == len(taken)
    assert not barred & set(taken)
    assert not any(graph.relations.get(one + other) == "conflict" for one in taken for other in taken)
    assert found.steps <= 60
    assert [one.score for one in found.accepted] == sorted((one.score for one in found.accepted), reverse=True)
    for one in found.accepted:
        assert one.path[0] in seeds
        assert all(target in graph.weights[source] for source, target in zip(one.path, one.path[1:], strict=False))
        assert not set(one.path) & barred
