"""The time-rule language: what it reads, what it refuses, what it computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.core import UserError
from wardround.records.rules.language import ALWAYS_TIME, NO_TIME, Rule, Times, evaluate, parse_rule, shared_parts


@dataclass
class Rows:
    """A frame over plain lists; None is null."""

    columns: dict[str, list[int | None]]
    known_times: dict[tuple[str, str], list[int | None]] = field(default_factory=dict)
    references: dict[tuple[str, str, str], list[int | None]] = field(default_factory=dict)
    delay: int | None = None
    texts: dict[str, list[str]] = field(default_factory=dict)
    owners: list[int] = field(default_factory=list)
    stays: tuple[list[int], list[int | None], list[int | None]] = ([], [], [])
    shared: dict[Rule, Times | None] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def times(self, column: str) -> Times:
        return _times(self.columns[column])

    def known(self, key: str, table: str) -> Times:
        return _times(self.known_times[key, table])

    def reference(self, key: str, table: str, column: str) -> Times:
        return _times(self.references[key, table, column])

    def late_cell(self, key: str, table: str, column: str) -> Times:
        return _times(self.references[key, table, f"late {column}"])

    def there(self, key: str, table: str, rule: Rule) -> Times:
        raise NotImplementedError

    def among(self, which: str, table: str, key: str, rule: Rule) -> Times:
        raise NotImplementedError

    def holds(self, column: str, values: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.array([text in values for text in self.texts[column]])

    def subjects(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(self.owners, dtype=np.int64)

    def spans(self, table: str, start: Rule, end: Rule) -> tuple[np.ndarray[Any, Any], Times, Times]:
        owners, starts, ends = self.stays
        return np.array(owners, np.int64), _times(starts), _times(ends)

    def names_after(self, column: str, starts: tuple[str, ...]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        which = [
            next((n for n, start in enumerate(starts) if text.startswith(start)), -1) for text in self.texts[column]
        ]
        names = [ord(text[len(starts[n])]) if n >= 0 else -1 for n, text in zip(which, self.texts[column], strict=True)]
        return np.array(which, np.int64), np.array(names, np.int64)

    def lag(self, setting: str) -> int:
        return {"coding_lag": 100}[setting]

    def median_delay(self, start: str, end: str) -> Times:
        return _times([self.delay] * self.num_rows)


def _times(values: list[int | None]) -> Times:
    return np.array([NO_TIME if value is None else value for value in values], dtype=np.int64)


def value(text: str, rows: Rows) -> list[int | None]:
    return [None if time == NO_TIME else int(time) for time in evaluate(parse_rule(text), rows)]


ROWS = Rows(
    columns={"a": [1, None, 5, None], "b": [2, 2, None, None]},
    known_times={("stay_id", "stays"): [9, None, 1, 1]},
    references={
        ("hadm_id", "admissions", "dischtime"): [7, 7, None, 7],
        ("poe_id", "poe", "late status"): [8, None, 8, 8],
    },
    delay=10,
    texts={"kind": ["Consult Status", "b", "c", "c"]},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [1, None, 5, None]),
        ("max(a, b)", [2, None, None, None]),
        ("min(a, b)", [1, None, None, None]),
        ("first(a, b)", [1, 2, 5, None]),
        ("first(min(a, b), b, a)", [1, 2, 5, None]),
        ("last(a, b)", [2, 2, 5, None]),
        ("given(a, b, never)", [2, None, None, None]),
        ("given(b, always, a)", [ALWAYS_TIME, ALWAYS_TIME, 5, None]),
        ("until(a, b)", [1, None, None, None]),
        ("until(b, shift(a, 1))", [2, None, None, None]),
        ("never", [None] * 4),
        ("always", [ALWAYS_TIME] * 4),
        ("known(stay_id, stays)", [9, None, 1, 1]),
        ("max(a, known(stay_id, stays))", [9, None, 5, None]),
        ("lag(ref(hadm_id, admissions, dischtime), coding_lag)", [107, 107, None, 107]),
        ("lag(always, coding_lag)", [ALWAYS_TIME] * 4),
        ("first(b, median_delay(a, b))", [2, 2, 15, None]),
        ("shift(a, 1)", [60_000_001, None, 60_000_005, None]),
        ("shift(shift(a, -2), 2)", [1, None, 5, None]),
        ("end_of_day(a)", [86_399_000_000, None, 86_399_000_000, None]),
        ("end_of_day(always)", [ALWAYS_TIME] * 4),
        ("cell(poe_id, poe, status)", [8, None, 8, 8]),
        ("when(kind, 'Consult Status', 'c', a, b)", [1, 2, 5, None]),
    ],
)
def test_rules_compute(text: str, expected: list[int | None]) -> None:
    assert value(text, ROWS) == expected


def test_no_pair_of_times_means_no_median() -> None:
    assert value("median_delay(a, b)", Rows(columns={"a": [1], "b": [None]})) == [None]


def test_a_part_of_several_rules_is_evaluated_once_and_each_rule_stays_what_it_is() -> None:
    class CountingRows(Rows):
        def known(self, key: str, table: str) -> Times:
            calls.append(key)
            return super().known(key, table)

    calls: list[str] = []
    texts = ("max(a, known(stay_id, stays))", "first(a, known(stay_id, stays))", "dated(a, b)")
    rules = [parse_rule(text) for text in texts]
    known = parse_rule("known(stay_id, stays)")
    assert shared_parts(rules) == {known}
    frame = CountingRows(columns=ROWS.columns, known_times=ROWS.known_times, shared={known: None})
    found = [[None if time == NO_TIME else int(time) for time in evaluate(rule, frame)] for rule in rules]
    assert found[:2] == [[9, None, 5, None], [1, None, 5, 1]]
    assert found[2] == [1, 2, 5, None]
    assert calls == ["stay_id"]


def test_a_rule_prints_as_it_was_written() -> None:
    text = "first(storetime, median_delay(charttime, storetime), lag(ref(hadm_id, admissions, dischtime), coding_lag))"
    assert str(parse_rule(text)) == text
    assert parse_rule(text.replace(" ", "")) == parse_rule(text)
    text = "when(kind, 'a b', 'c', shift(end_of_day(a), -1), cell(poe_id, poe, status))"
    assert str(parse_rule(text)) == text
    text = "given(until(a, b), at(c, d, last(e, f)), latest(g, h, earliest(i, j, k)))"
    assert str(parse_rule(text)) == text
    text = "around(stays, dated(a, b), known(c, d), given(e, always, never))"
    assert str(parse_rule(text)) == text


def test_parts_of_a_rule_are_told_apart_by_whose_rows_they_read() -> None:
    here, there = parse_rule("dated(a, b)"), parse_rule("known(c, d)")
    around = parse_rule(f"around(stays, {here}, {here}, {there})")
    assert (around.parts, around.parts_elsewhere) == ((here,), (here, there))
    inside = parse_rule(f"at(c, d, {here})")
    assert (inside.parts, inside.parts_elsewhere) == ((), (here,))
    assert parse_rule("lag(a, coding_lag)").parts == (parse_rule("a"),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("newest(a, b)", "unknown function 'newest'; known are .*first"),
        ("latest(a, b)", "latest takes a table, its key and a rule"),
        ("earliest(max(a), b, c)", "earliest takes a table, its key and a rule"),
        ("at(a, b)", "at takes a key, a table and a rule"),
        ("given(a, b)", "given takes three rules"),
        ("until(a)", "until takes two rules"),
        ("max(a, b", r"a '\)' is missing"),
        ("max(", r"a '\)' is missing"),
        ("max(a b)", r"expected ',' or '\)', found 'b'"),
        ("max(a) b", "expected the end after"),
        ("known(a)", "known takes 2 plain names"),
        ("known(max(a), b)", "known takes 2 plain names"),
        ("ref(a, b)", "ref takes 3 plain names"),
        ("lag(a)", "lag takes a rule and the name of a setting"),
        ("shift(a, b)", "shift takes a rule and a whole number of minutes"),
        ("end_of_day(a, b)", "end_of_day takes one rule"),
        ("when(kind, a, b)", "when takes a column, quoted values and two rules"),
        ("when(kind, 'a', b)", "when takes a column, quoted values and two rules"),
        ("cell(a, b)", "cell takes 3 plain names"),
        ("following(a, code)", "following takes a rule, a column and quoted values"),
        ("following(a, code, '!A')", "following takes a rule, a column and quoted values"),
        ("closed(a, code, 'A')", "closed takes a rule, a column and two quoted beginnings"),
        ("a + b", "cannot read"),
        (",", "expected a name"),
    ],
)
def test_bad_rules_say_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        parse_rule(text)


def test_following_is_the_subject_s_next_marked_row() -> None:
    rows = Rows(
        columns={"t": [1, 5, 5, 9, None, 2, 7, 20]},
        texts={"code": ["p", "out", "p", "p", "p", "p", "p", "out"]},
        owners=[1, 1, 1, 1, 1, 2, 2, 3],
    )
    assert value("following(t, code, 'out')", rows) == [5, 5, 5, None, None, None, None, 20]
    assert value("following(shift(t, 0), code, 'out', 'p')", rows) == [1, 5, 5, 9, None, 2, 7, 20]
    assert value("following(t, code, 'no such')", rows) == [None] * 8


def test_following_stops_at_a_barrier() -> None:
    rows = Rows(
        columns={"t": [1, 3, 4, 6, 6, 7, 9, 12]},
        texts={"code": ["p", "out", "p", "in", "out", "p", "in", "out"]},
        owners=[1] * 8,
    )
    assert value("following(t, code, 'out', '!in')", rows) == [3, 3, 6, 6, 6, None, 12, 12], "out before in at 6"
    starts = Rows(columns={"t": [9, 9, 9, 12, 8]}, texts={"code": ["p", "in", "in", "out", "p"]}, owners=[1] * 5)
    assert value("following(t, code, 'out', '!in')", starts) == [12, 12, 12, 12, None], "what begins with it is in it"
    shown = "following(t, code, 'out', '!in')"
    assert str(parse_rule(shown)) == shown


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([(1, "+a"), (4, "-a")], {0: 4}),
        ([(1, "+a"), (4, "-b")], {0: None}),
        ([(1, "+a"), (4, "-a"), (4, "+a"), (9, "-a")], {0: 4, 2: 9}),
        ([(1, "+a"), (2, "+a"), (3, "-a"), (8, "-a")], {0: 8, 1: 8}),
        ([(1, "+a"), (2, "+b"), (3, "-b"), (8, "-a")], {0: 8, 1: 3}),
        ([(1, "-a"), (2, "+a"), (3, "-a")], {1: 3}),
        ([(5, "+a"), (5, "-a")], {0: 5}),
        ([(5, "+a"), (5, "+a"), (5, "-a"), (7, "-a")], {0: 7, 1: 7}),
        ([(5, "+a")], {0: None}),
    ],
    ids=[
        "own",
        "other name",
        "one after the other",
        "two at once",
        "two names",
        "orphan end",
        "moment",
        "one of two",
        "open",
    ],
)
def test_what_was_begun_is_closed_when_all_of_its_name_has_ended(
    codes: list[tuple[int, str]], expected: dict[int, int | None]
) -> None:
    """A second subject's rows, and rows of other codes, end nothing."""
    rows = Rows(
        columns={"t": [*(time for time, _ in codes), 2, 2]},
        texts={"code": [*(code for _, code in codes), "-a", "a"]},
        owners=[*(1 for _ in codes), 2, 1],
    )
    assert value("closed(t, code, '+', '-')", rows) == [
        *(expected.get(place) for place in range(len(codes))),
        None,
        None,
    ]
    assert str(parse_rule("closed(t, code, '+', '-')")) == "closed(t, code, '+', '-')"


EVENTS = st.tuples(st.integers(1, 2), st.integers(0, 6), st.sampled_from(["+a", "-a", "+b", "-b", "x"]))


@given(st.lists(EVENTS, min_size=1, max_size=25))
def test_closed_agrees_with_counting_moment_by_moment(drawn: list[tuple[int, int, str]]) -> None:
    rows = Rows(
        columns={"t": [time for _, time, _ in drawn]},
        texts={"code": [code for _, _, code in drawn]},
        owners=[owner for owner, _, _ in drawn],
    )
    expected = []
    for owner, time, code in drawn:
        same = [(t, c[0]) for o, t, c in drawn if o == owner and c[1:] == code[1:]]
        running, answer = 0, None
        for moment in range(7) if code[0] == "+" else ():
            begun, ended = same.count((moment, "+")), same.count((moment, "-"))
            if answer is None and moment > time and ended and ended >= running:
                answer = moment
            running = max(running + begun - ended, 0)
            if moment == time and not running:
                answer = moment
        expected.append(answer)
    assert value("closed(t, code, '+', '-')", rows) == expected


@given(st.lists(st.tuples(st.integers(1, 3), st.none() | st.integers(0, 9), st.booleans()), min_size=1, max_size=30))
def test_following_agrees_with_a_search_row_by_row(drawn: list[tuple[int, int | None, bool]]) -> None:
    rows = Rows(
        columns={"t": [time for _, time, _ in drawn]},
        texts={"code": ["out" if out else "p" for _, _, out in drawn]},
        owners=[owner for owner, _, _ in drawn],
    )
    expected = [
        None
        if time is None
        else min((t for o, t, out in drawn if out and o == owner and t is not None and t >= time), default=None)
        for owner, time, _ in drawn
    ]
    assert value("following(t, code, 'out')", rows) == expected


AROUND = st.tuples(st.integers(1, 2), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))


@given(st.lists(st.tuples(st.integers(1, 3), st.none() | st.integers(0, 9)), min_size=1), st.lists(AROUND))
def test_around_agrees_with_a_search_row_by_row(
    drawn: list[tuple[int, int | None]], stays: list[tuple[int, int | None, int | None]]
) -> None:
    rows = Rows(
        columns={"t": [time for _, time in drawn]},
        owners=[owner for owner, _ in drawn],
        stays=([owner for owner, _, _ in stays], [start for _, start, _ in stays], [end for _, _, end in stays]),
    )
    expected = []
    for owner, time in drawn:
        begun = [end for who, start, end in stays if who == owner and start is not None and start <= (time or 0)]
        open_or_no_time = time is None or None in begun
        expected.append(None if open_or_no_time else max([time, *begun]))  # type: ignore[type-var, list-item]
    assert value("around(stays, t, a, b)", rows) == expected
