"""The paper's traversal, played by hand: equation 6, four actions, one shared visited set, the limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_walk import Drawn, anything

from wardround.memory import PathEnd, Traversal, WalkSettings
from wardround.memory.walk import SkipReason


def begun(graph: Drawn, *seeds: str, barred: str = "", **settings: int) -> Traversal:
    def judge(name: str) -> SkipReason | None:
        return "excluded" if name in barred else None

    made = Traversal(graph, judge if barred else anything, WalkSettings(**settings))
    made.start({name: 1.0 - place / 10 for place, name in enumerate(seeds)})
    return made


def here(walking: Traversal) -> PathEnd:
    place = walking.next_place()
    assert place is not None
    return place


def forward(place: PathEnd) -> list[tuple[str, float]]:
    return [(one.experience, round(one.score, 6)) for one in place.forward]


def test_candidates_are_ranked_by_equation_6_and_only_the_best_are_offered() -> None:
    graph = Drawn({"s": {"a": 0.6, "b": 0.4, "c": 0.9}}, {"a": 0.4, "b": 1.0, "c": 0.2})
    assert forward(here(begun(graph, "s"))) == [("b", 0.7), ("c", 0.55), ("a", 0.5)]
    assert forward(here(begun(graph, "s", neighbours=2))) == [("b", 0.7), ("c", 0.55)]
    assert forward(here(begun(graph, "s", barred="b"))) == [("c", 0.55), ("a", 0.5)]


def test_what_conflicts_is_no_way_on() -> None:
    graph = Drawn({"s": {"a": 0.9, "b": 0.5}}, relations={"sa": "conflict", "sb": "boundary"})
    assert forward(here(begun(graph, "s"))) == [("b", 0.5)]


def test_paths_take_turns_and_share_what_was_visited() -> None:
    graph = Drawn({"s": {"x": 0.9, "y": 0.5}, "t": {"x": 0.8}, "x": {"z": 0.7}})
    walking = begun(graph, "s", "t")
    assert (here(walking).seed, here(walking).actions) == ("s", ("COLLECT", "EXPLORE", "STOP"))
    walking.act(here(walking), "COLLECT")
    assert (here(walking).seed, here(walking).collected) == ("t", ("s",))
    walking.act(here(walking), "EXPLORE", "x")
    assert forward(here(walking)) == [("y", 0.5)], "x was visited from the other seed"
    assert here(walking).actions == ("EXPLORE", "STOP"), "s is collected already"
    walking.act(here(walking), "EXPLORE", "y")
    walking.act(here(walking), "COLLECT")
    assert walking.collected == {"s": ("s",), "x": ("t", "x")}
    assert (walking.steps, list(walking.visited)) == (5 - 1, ["s", "t", "x", "y"])


def test_backtracking_goes_to_what_an_earlier_place_of_the_path_had_offered() -> None:
    graph = Drawn({"s": {"a": 0.9, "b": 0.5, "e": 0.1}, "a": {"c": 0.9, "d": 0.2}, "c": {}})
    walking = begun(graph, "s")
    walking.act(here(walking), "EXPLORE", "a")
    walking.act(here(walking), "EXPLORE", "c")
    place = here(walking)
    assert ([one.experience for one in place.backward], place.forward) == (["b", "e", "d"], ())
    walking.act(place, "BACKTRACK", "b")
    assert here(walking).path == ("s", "b")
    assert [one.experience for one in here(walking).backward] == ["e"], "what a offered lies on no way back from b"
    for action, target in (("EXPLORE", "a"), ("BACKTRACK", "c"), ("EXPLORE", "")):
        with pytest.raises(ValueError, match="is not allowed"):
            walking.act(here(walking), action, target)  # type: ignore[arg-type]


def test_it_ends_when_every_path_has_stopped_or_a_limit_is_reached() -> None:
    star = Drawn({"s": {f"n{number}": 0.9 for number in range(5)}})
    walking = begun(star, "s", "t")
    walking.act(here(walking), "STOP")
    walking.act(here(walking), "STOP")
    assert walking.next_place() is None
    printed = begun(star, "s", "t", stop="retrieval")
    printed.act(here(printed), "STOP")
    assert printed.next_place() is None, "as the paper prints it"
    few = begun(star, "s", "t", most_steps=1)
    few.act(here(few), "COLLECT")
    assert few.next_place() is None
    full = begun(star, "s", "t", most_taken=1)
    full.act(here(full), "COLLECT")
    assert full.next_place() is None
    assert begun(star, "s", barred="s").next_place() is None, "a seed that may not be offered is no path"


NODES = "abcdefgh"


@given(
    st.dictionaries(st.sampled_from(NODES), st.dictionaries(st.sampled_from(NODES), st.floats(0, 1)), max_size=8),
    st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 10**6), max_size=80),
    st.sampled_from(["", "a", "bc"]),
)
def test_whatever_is_played_nothing_barred_is_offered_and_no_place_is_offered_twice(
    weights: dict[str, dict[str, float]], seeds: list[str], choices: list[int], barred: str
) -> None:
    graph = Drawn({name: {to: weight for to, weight in out.items() if to != name} for name, out in weights.items()})
    walking = begun(graph, *seeds, barred=barred)
    for choice in choices:
        place = walking.next_place()
        if place is None:
            break
        offered = [one.experience for one in (*place.forward, *place.backward)]
        assert not set(offered) & set(walking.visited)
        assert not {*offered, place.experience} & set(barred)
        action = place.actions[choice % len(place.actions)]
        ways = {"EXPLORE": place.forward, "BACKTRACK": place.backward}.get(action, ())
        walking.act(place, action, ways[choice % len(ways)].experience if ways else "")
    assert walking.steps <= 60
    assert len(walking.collected) <= 10


@pytest.mark.parametrize(("target", "path"), [("b", ("s", "b")), ("d", ("s", "a", "d")), ("f", ("s", "a", "c", "f"))])
def test_backtracking_keeps_the_path_up_to_the_place_that_had_offered_it(target: str, path: tuple[str, ...]) -> None:
    graph = Drawn(
        {"s": {"a": 0.9, "b": 0.5}, "a": {"c": 0.9, "d": 0.2}, "c": {"e": 0.9, "f": 0.1}, "e": {"g": 0.9}, "g": {}}
    )
    walking = begun(graph, "s")
    for name in "aceg":
        walking.act(here(walking), "EXPLORE", name)
    walking.act(here(walking), "BACKTRACK", target)
    assert here(walking).path == path
