"""How a block is made smaller, on a counter of letters: what stays, what is said of the rest, and who shares what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.agents.evidence import Evidence, Fitted, _fitting, _latest, _whole, best_first, fit
from wardround.agents.loop.calls import Observation
from wardround.agents.loop.context import (
    COLLAPSED,
    Block,
    History,
    _call_text,
    _common_start,
    _fair_shares,
    _one_line,
    collapse,
    collapsed_text,
    cut,
    cut_notice,
    cut_text,
    digest_line,
    digest_text,
    rows_of,
)
from wardround.core import Message, ToolCall
from wardround.tools import ToolResult
from wardround.tools.retrieval import IndicatorTrajectory, Passage


class Letters:
    def count(self, text: str) -> int:
        return len(text)


LETTERS = Letters()


def seen(
    text: str = "x", arguments: str = '{"a": 1}', name: str = "get", key: str = "c1", **result: object
) -> Observation:
    call = ToolCall(id=key, name=name, arguments=arguments)
    return Observation(call=call, result=ToolResult(text=text, **result), seconds=0.0)  # type: ignore[arg-type]


def turn_of(*observations: Observation, said: str | None = None, turn: int = 3) -> Block:
    calls = tuple(one.call for one in observations)
    messages = [Message(role="assistant", content=said, tool_calls=calls)]
    messages += [Message(role="tool", content=one.result.text, tool_call_id=one.call.id) for one in observations]
    return Block(number=0, turn=turn, kind="turn", messages=tuple(messages), observations=observations)


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (seen("12345"), "5 characters"),
        (seen("x" * 1_200), "1,200 characters"),
        (seen(rows_total=1204, rows_shown=40), "40 of 1,204 rows"),
        (seen(rows_total=7), "7 of 7 rows"),
        (seen(rows_total=7, rows_shown=0), "0 of 7 rows"),
        (seen(is_error=True, rows_total=7), "an error"),
    ],
)
def test_what_a_call_gave_in_a_few_words(observation: Observation, words: str) -> None:
    assert rows_of(observation) == words


def test_a_stub_says_what_it_was_and_how_to_have_it_again() -> None:
    plain = collapsed_text(seen(rows_total=7))
    assert plain == f"{COLLAPSED} get gave 7 of 7 rows. Repeat the call to read them again."
    onward = collapsed_text(seen(rows_total=90, rows_shown=40, table="labs", cursor="c9"))
    assert onward == (
        f"{COLLAPSED} get on labs gave 40 of 90 rows. Repeat the call to read them again; cursor=c9 goes on after them."
    )


def test_only_observations_longer_than_their_stub_collapse() -> None:
    stub = len(collapsed_text(seen("y" * 99)))
    block = turn_of(seen("y" * stub, key="a"), seen("y" * (stub + 1), key="b"), said="z" * 500)
    spoken, same, small = collapse(block, block.messages)
    assert (spoken, same) == block.messages[:2]
    assert (small.content, small.tool_call_id) == (collapsed_text(block.observations[1]), "b")


def test_a_text_that_fits_is_left_alone_and_one_that_does_not_keeps_whole_lines() -> None:
    text = "\n".join(f"line {n:03}" for n in range(100))
    assert cut_text(text, LETTERS, len(text)) is text
    found = cut_text(text, LETTERS, len(text) - 1)
    head, _, notice = found.rpartition("\n")
    left = head.count("\n") + 1
    assert text.startswith(f"{head}\n")
    assert notice == f"[cut for room: {left:,} of 100 lines are left; repeat the call with a narrower range]"
    assert len(found) <= len(text) - 1
    assert left > 80
    other = cut_text(text, LETTERS, 300, notice=cut_notice)
    assert other.endswith(" of 100 lines are left]")
    assert len(other) <= 300


def test_one_long_line_is_cut_inside_it_and_counts_as_one() -> None:
    found = cut_text("a\n" + "b" * 999, LETTERS, 400)
    assert found.startswith("a\nbbb")
    assert "2 of 2 lines are left" in found
    assert len(found) <= 400


def test_where_nothing_fits_the_notice_alone_is_left() -> None:
    assert cut_text("a" * 99, LETTERS, 0) == "[cut for room: repeat the call with a narrower range]"
    assert cut_text("a\n" * 99, LETTERS, 0, notice=cut_notice) == "[cut for room: 0 of 100 lines are left]"


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 50), max_size=6), st.integers(-5, 200))
def test_shares_are_fair(sizes: dict[int, int], limit: int) -> None:
    shares = _fair_shares(sizes, limit)
    assert shares.keys() == sizes.keys()
    assert sum(shares.values()) <= max(limit, 0)
    assert all(0 <= shares[one] <= size for one, size in sizes.items())
    short = [one for one, size in sizes.items() if shares[one] < size]
    if sum(sizes.values()) <= limit:
        assert not short
    assert max((shares[one] for one in short), default=0) - min((shares[one] for one in short), default=0) <= 1
    assert all(shares[one] >= shares[other] - 1 for one in short for other in shares)


def test_the_longest_observations_are_cut_to_what_the_others_leave() -> None:
    block = turn_of(seen("s" * 50, key="a"), seen("l" * 900, key="b"), said="w" * 400)
    spoken, small, large = cut(block.messages, LETTERS, 450)
    assert (spoken, small) == block.messages[:2]
    assert 300 < len(large.content or "") <= 400


def test_a_line_of_the_digest_says_what_was_said_and_asked_and_what_came() -> None:
    block = turn_of(seen(rows_total=7), seen("abc", name="sql", arguments="[", key="c2"), said=" I  look.\n")
    assert digest_line(block) == "turn 3: said 'I look.'; get(a=1) -> 7 of 7 rows; sql(?) -> 3 characters"
    assert digest_line(turn_of(said=None)) == "turn 3: (nothing)"
    aside = Block(number=1, turn=4, kind="aside", messages=(Message(role="user", content="r"),))
    assert digest_line(aside) == "turn 4: (a reminder)"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"a": 1, "b": "x y"}', "get(a=1, b=x y)"),
        ("{}", "get()"),
        ("[1]", "get(?)"),
        ("{", "get(?)"),
        ('{"a": "' + "y" * 200 + '"}', "get(a=" + "y" * 135 + "...)"),
    ],
)
def test_a_call_in_one_line(arguments: str, text: str) -> None:
    assert _call_text(ToolCall(id="c", name="get", arguments=arguments)) == text


@pytest.mark.parametrize(
    ("text", "line"), [("a \n b", "a b"), ("x" * 10, "x" * 10), ("x" * 11, "x" * 7 + "..."), (" " * 50 + "x", "")]
)
def test_a_text_as_one_line(text: str, line: str) -> None:
    assert _one_line(text, 10) == line


def test_the_digest_counts_the_oldest_turns_and_lists_the_others() -> None:
    counted = [turn_of(seen(table="labs"), seen(key="b", name="sql"), turn=1), turn_of(seen(table="labs"), turn=4)]
    text = digest_text(["turn 5: x"], counted)
    assert "turns 1 to 4, in numbers only: get labs x 2, sql x 1" in text
    assert text.rstrip().endswith("turn 5: x")
    assert "in numbers only" not in digest_text(["turn 5: x"], [])
    many = [turn_of(*(seen(key=str(n), name=f"tool{n:02}") for n in range(14)))]
    assert digest_text([], many).count(" x 1") == 12


def test_how_much_of_a_prompt_is_the_start_of_the_one_before() -> None:
    a, b, c = (Message(role="user", content=text) for text in "abc")
    pairs = (([a, b], [a, b, c]), ([a, b, c], [a, b]), ([a, c], [a, b]), ([a], []))
    assert [_common_start(*pair) for pair in pairs] == [2, 2, 1, 0]


def test_blocks_are_numbered_and_withdrawn_for_good() -> None:
    history = History([Message(role="user", content="q")])
    first = history.add(Message(role="user", content="a"), turn=1, kind="turn")
    pinned = history.add(Message(role="user", content="b"), turn=1, kind="pinned")
    assert (first.number, pinned.number, history.revision) == (0, 1, 0)
    history.withdraw([0])
    assert (list(history.visible()), history.turns, history.revision) == ([pinned], [first], 1)
    assert list(history.visible(2)) == []


def passage(name: str, *lines: str, score: float = 0.0, first: int = 0) -> Passage:
    rows = tuple(range(first, first + len(lines)))
    return Passage(id=name, lines=lines, rows=rows, start=None, end=None, score=score)


def trajectory(name: str, text: str) -> IndicatorTrajectory:
    return IndicatorTrajectory(name=name, unit=None, values=((None, 1.0),), rows=(0,), total=1, value_texts=(text,))


def test_passages_fit_whole_until_one_does_not_whose_latest_events_stay() -> None:
    one, other = passage("a", "xx", "yy"), passage("b", "11", "22", "33", "44", first=10)
    assert _fitting([one, other], LETTERS, 6 + 12) == ([one, other], 0)
    kept, cut_ones = _fitting([one, other], LETTERS, 6 + 11)
    assert (kept[0], kept[1].lines, kept[1].rows, cut_ones) == (one, ("22", "33", "44"), (11, 12, 13), 1)
    assert _fitting([one, other], LETTERS, 6 + 8) == ([one], 0)
    assert _fitting([one], LETTERS, 5) == ([], 0)


def test_an_event_is_counted_for_the_first_passage_that_has_it() -> None:
    one, other = passage("a", "xx", "yy"), passage("b", "yy", "zz", first=1)
    kept, _ = _fitting([one, other], LETTERS, 6 + 3)
    assert [part.lines for part in kept] == [("xx", "yy"), ("zz",)]
    again, _ = _fitting([one, one], LETTERS, 6)
    assert [part.rows for part in again] == [(0, 1), ()]


@pytest.mark.parametrize(
    ("lines", "room", "kept"),
    [
        (("111", "222", "333"), 12, 3),
        (("111", "222", "333"), 11, None),
        (("11", "22", "33", "44"), 11, 3),
        (("11", "22", "33", "44"), 9, 3),
        (("11", "22", "33", "44"), 8, None),
        (("11", "22"), 99, None),
    ],
)
def test_the_latest_events_of_a_passage_are_three_at_least(lines: tuple[str, ...], room: int, kept: int | None) -> None:
    found = _latest(passage("a", *lines), LETTERS, room)
    assert (None if found is None else found.lines) == (None if kept is None else lines[-kept:])


def test_trajectories_fit_whole_in_their_order() -> None:
    some = [trajectory("a", "1"), trajectory("b", "2" * 50), trajectory("c", "3")]
    sizes = [len(one.text) + 1 for one in some]
    assert _whole(some, LETTERS, sum(sizes)) == (tuple(some), sum(sizes))
    assert _whole(some, LETTERS, sum(sizes) - 1) == (tuple(some[:2]), sum(sizes[:2]))
    assert _whole(some, LETTERS, sizes[0]) == (tuple(some[:1]), sizes[0])
    assert _whole(some, LETTERS, sizes[0] - 1) == ((), 0)


def test_evidence_is_best_first_and_joined_by_turns() -> None:
    a, b, c = (passage(name, name, score=score, first=place) for place, (name, score) in enumerate(
        (("a", 0.1), ("b", 0.9), ("c", 0.5))
    ))  # fmt: skip
    assert best_first([a, b, c]) == (b, c, a)
    one = Evidence(passages=(a, b), trajectories=(trajectory("x", "1"),), queries=("q", "r"))
    both = one.joined(Evidence(passages=(c,), trajectories=(trajectory("x", "2"),), queries=("r", "s")))
    assert both.passages == (a, c, b)
    assert [each.value_texts for each in both.trajectories] == [("2",)]
    assert both.queries == ("q", "r", "s")
    assert (one.events, both.events) == (2, 3)


def test_nothing_fits_into_no_room_and_everything_is_counted() -> None:
    whole = Evidence(passages=(passage("a", "1", "2"),), trajectories=(trajectory("x", "1"),))
    found = fit(whole, LETTERS, 0)
    assert found == Fitted(
        text="",
        facts={
            "indicators": 0,
            "indicators_left_out": 1,
            "passages": 0,
            "passages_cut": 0,
            "passages_left_out": 1,
            "events": 0,
            "events_left_out": 2,
            "limit": 0,
            "tokens": 0,
        },
    )
    roomy = fit(whole, LETTERS, 5_000, tools=True)
    assert (roomy.facts["events"], roomy.facts["indicators"], roomy.facts["tokens"]) == (2, 1, len(roomy.text))
    assert roomy.text != fit(whole, LETTERS, 5_000).text
