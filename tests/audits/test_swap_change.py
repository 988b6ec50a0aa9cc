"""Another future for one row, cell by cell. The moment is 2150-01-02 00:00 and later times lie twice as far away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from wardround.audits.swap.change import Future, RepeatedRows, SeenValues
from wardround.audits.swap.knowledge import CellRule, Clockwork, KnowledgeRule, Repeat, read_clock
from wardround.audits.swap.raw_records import Resource, TableRow

NOW = datetime(2150, 1, 2)
PAST, LATER = "2150-01-01 10:00:00", "2150-01-02 05:00:00"
MOVED = "2150-01-02 10:00:00"  # 5 hours after the moment are 10
LEFT_OUT, TWICE, CHANGED = 6, 3, 2  # crc32 of the number, by 5, is 0, 1, and neither


def clocks(*words: str) -> tuple[Any, ...]:
    return tuple(read_clock(each) for each in words)


def cell(*paths: str, known: str, **settings: Any) -> CellRule:
    return CellRule(paths=paths, known=clocks(known), **settings)


def rule(*row: str, **settings: Any) -> KnowledgeRule:
    return KnowledgeRule(**{"where": {}, "row": clocks(*row)} | settings)


def future(*others: dict[str, str], **settings: Any) -> Future:
    seen = SeenValues()
    for other in others:
        seen.note(TableRow(other))
    return Future(**{"as_of": NOW, "work": Clockwork(), "stretch": 2.0, "subject": "person", "seen": seen} | settings)


def rows(one: Future, row: dict[str, str], by: KnowledgeRule, number: int) -> list[dict[str, str]]:
    before = dict(row)
    found = one.rows(TableRow(row), by, number)
    assert row == before  # what is given is not touched
    return [record.cells for record in found if isinstance(record, TableRow)]


def test_what_was_known_stays_as_it_was() -> None:
    row = {"person": "1", "time": PAST, "value": "5"}
    for number in (0, 1, 2, 3):
        assert rows(future(), row, rule("time"), number) == [row]


def test_at_the_moment_itself_a_row_is_known() -> None:
    row = {"person": "1", "time": "2150-01-02 00:00:00", "value": "5"}
    assert rows(future(), row, rule("time"), CHANGED) == [row]
    row["time"] = "2150-01-02 00:00:01"
    assert rows(future(), row, rule("time"), CHANGED) == [
        {"person": "1", "time": "2150-01-02 00:00:02", "value": "11"}  # 2 * 5 + 1
    ]


@pytest.mark.parametrize(("number", "count"), [(LEFT_OUT, 0), (CHANGED, 1), (TWICE, 2)])
def test_a_row_of_the_future_is_left_out_changed_or_there_twice(number: int, count: int) -> None:
    row = {"person": "1", "id": "70", "time": LATER, "value": "5", "other": "2150-01-01", "text": "so"}
    after = {"person": "1", "time": MOVED, "value": "11", "other": "2150-01-01", "text": "so (otherwise)"}
    ids = ["70", "71"]  # the second has a number of its own
    found = rows(future(), row, rule("time", key=("id",)), number)
    assert [each["id"] for each in found] == ids[:count]
    assert [{name: text for name, text in each.items() if name != "id"} for each in found] == [after] * count


@pytest.mark.parametrize("number", [LEFT_OUT, TWICE, CHANGED])
def test_rows_whose_number_is_known_are_kept_one_by_one(number: int) -> None:
    row = {"person": "1", "time": LATER, "value": "0.5"}
    assert rows(future(), row, rule("time", keep_rows=True), number) == [{"person": "1", "time": MOVED, "value": "2"}]


@pytest.mark.parametrize("number", [LEFT_OUT, TWICE, CHANGED])
def test_an_outcome_of_the_future_does_not_happen(number: int) -> None:
    assert rows(future(), {"person": "1", "time": LATER}, rule("time", outcome=True), number) == []


def test_a_row_that_never_had_a_time_is_of_the_future() -> None:
    assert rows(future(), {"person": "1", "time": "", "value": "5"}, rule("time"), CHANGED) == [
        {"person": "1", "time": "", "value": "11"}
    ]


def test_a_row_that_waited_for_another_one_moves_past_the_moment() -> None:
    row = {"person": "1", "time": PAST, "value": "5"}
    late = "2150-01-04 04:00:00"  # 26 hours, stretched
    assert rows(future(), row, rule("never"), CHANGED) == [{"person": "1", "time": late, "value": "11"}]
    row |= {"end": LATER}
    assert rows(future(), row, rule("never"), CHANGED) == [  # one that has a later time keeps its past
        {"person": "1", "time": PAST, "value": "11", "end": MOVED}
    ]


def test_links_the_subject_and_its_own_numbers_stay() -> None:
    row = {"person": "1", "id": "7", "stay": "9", "time": LATER}
    assert rows(future(), row, rule("time", links=frozenset({"stay"}), key=("id",)), CHANGED) == [row | {"time": MOVED}]


def test_a_late_cell_reads_as_the_column_does_elsewhere() -> None:
    others = [{"value": text} for text in ("a", "b", "c")]
    known = rule("time", cells=(cell("value", known="end"),))
    row = {"person": "1", "time": PAST, "end": LATER, "value": "a"}
    # 2 * 7919 + 5 letters is 15,843 = 3 * 5281: the first, which it is already, so the last
    assert rows(future(*others), row, known, 2) == [row | {"value": "c"}]
    assert rows(future(*others), row | {"value": "b"}, known, 2) == [row | {"value": "a"}]
    assert rows(future(*others), row | {"end": PAST}, known, 2) == [row | {"end": PAST}]
    assert rows(future(*others), row | {"end": "2150-01-02 00:00:00"}, known, 2)[0]["value"] == "a"
    assert rows(future(*others), row | {"end": ""}, known, 2)[0]["value"] == "c"


def test_every_third_row_has_its_late_times_emptied_where_it_stays_late() -> None:
    by = rule("time", cells=(cell("end", "value", known="end"),))
    row = {"person": "1", "time": PAST, "end": LATER, "value": "5"}
    assert rows(future(), row, by, 3) == [row | {"end": "", "value": "11"}]
    assert rows(future(), row, by, 4) == [row | {"end": MOVED, "value": "11"}]


def test_a_time_is_not_emptied_where_its_row_would_be_another_one() -> None:
    by = rule("earlier(time, end)", cells=(cell("time", known="end"),))
    row = {"person": "1", "time": PAST, "end": LATER}
    assert rows(future(), row, by, 3) == [row | {"time": "2150-01-04 04:00:00"}]
    late = rule("time", cells=(cell("end", known="end | time"),))  # without an end it would have been known at once
    row = {"person": "1", "time": PAST, "end": LATER}
    assert rows(future(), row, late, 3) == [row | {"end": MOVED}]


def test_a_cell_becomes_one_of_the_words_it_may() -> None:
    by = rule("time", cells=(cell("place", known="end", to=("ward", "home", "hospice")),))
    row = {"person": "1", "time": PAST, "end": LATER, "place": "ward"}
    assert [rows(future(), row, by, number)[0]["place"] for number in (1, 2, 4, 5)] == [
        "hospice",
        "home",
        "home",
        "hospice",
    ]
    only = rule("time", cells=(cell("place", known="end", to=("ward",)),))
    assert rows(future(), row, only, 2)[0]["place"] == ""


def test_only_named_values_are_late_where_some_are_named() -> None:
    by = rule("time", cells=(cell("state", known="end", values=("stopped",)),))
    row = {"person": "1", "time": PAST, "end": LATER}
    assert rows(future(), row | {"state": "stopped"}, by, 2)[0]["state"] == "stopped (otherwise)"
    assert rows(future(), row | {"state": "begun"}, by, 2)[0]["state"] == "begun"


def test_every_other_empty_cell_is_filled_as_others_are() -> None:
    others = [{"value": "a", "due": "2150-03-01 00:00:00"}, {"value": "b", "due": ""}]
    by = rule("time", cells=(cell("value", "due", "never_filled", known="end"),))
    row = {"person": "1", "time": PAST, "end": LATER, "value": "", "due": "", "never_filled": ""}
    assert rows(future(*others), row, by, 2) == [row | {"value": "a", "due": "2150-01-04 04:00:00"}]
    assert rows(future(*others), row, by, 5) == [row]
    to = rule("time", cells=(cell("value", known="end", to=("x", "y", "z")),))
    assert rows(future(*others), row, to, 4)[0]["value"] == "y"
    links = rule("time", cells=(cell("value", known="end"),), links=frozenset({"value"}))
    assert rows(future(*others), row, links, 2)[0]["value"] == ""


def test_a_late_link_is_taken_away() -> None:
    by = rule("time", cells=(cell("stay", known="end"),), links=frozenset({"stay"}))
    row = {"person": "1", "time": PAST, "end": LATER, "stay": "9"}
    assert rows(future(), row, by, 2) == [row | {"stay": ""}]


EXCHANGE = rule(
    "time",
    cells=(cell("state", "died_at", known="end"),),
    exchange={"state": ("dead", "alive"), "died_at": ("end",)},
)


@pytest.mark.parametrize("number", [2, 3])
def test_who_dies_lives_and_who_lives_dies(number: int) -> None:
    row = {"person": "1", "time": PAST, "end": LATER}
    died, alive = (row | {"state": "dead", "died_at": LATER}), (row | {"state": "alive", "died_at": ""})
    assert rows(future(), died, EXCHANGE, number) == [row | {"state": "alive", "died_at": ""}]
    assert rows(future(), alive, EXCHANGE, number) == [row | {"state": "dead", "died_at": LATER}]
    assert rows(future(), row | {"state": "", "died_at": LATER}, EXCHANGE, number)[0]["state"] == "alive"
    known = row | {"state": "dead", "died_at": PAST, "end": PAST}
    assert rows(future(), known, EXCHANGE, number) == [known]


def test_a_death_that_now_happens_is_later_than_the_moment() -> None:
    row = {"person": "1", "time": PAST, "end": "", "died_at": ""}
    some_time = "2150-01-04 10:00:00"  # 29 hours, stretched
    for word in ("later", "end", "time"):
        by = rule("time", cells=(cell("died_at", known="never"),), exchange={"died_at": (word,)})
        assert rows(future(), row, by, 2)[0]["died_at"] == some_time
    by = rule("time", cells=(cell("died_at", known="never"),), exchange={"died_at": ("end",)})
    assert rows(future({"died_at": "2150-05-05"}), row | {"end": LATER}, by, 2)[0]["died_at"] == "2150-01-03"


def test_of_an_exchange_only_late_cells_change() -> None:
    by = rule("time", cells=(cell("state", known="time"),), exchange={"state": ("dead", "alive"), "other": ("a", "b")})
    row = {"person": "1", "time": PAST, "state": "dead", "other": "a"}
    assert rows(future(), row, by, 2) == [row]


def test_a_death_is_born_after_another_s() -> None:
    template = TableRow({"person": "1", "died": "2149-01-01", "at": "2149-01-01 10:00:00", "cause": "x"})
    made = future().born(template, rule("died"), "2")
    assert isinstance(made, TableRow)
    assert made.cells == {"person": "2", "died": "2150-01-05", "at": "2150-01-04 04:00:00", "cause": "x"}
    assert template.cells["person"] == "1"


def test_minutes_count_from_the_row_s_zero_and_are_rounded_up() -> None:
    work = Clockwork(minutes_of="stay", zeros={"7": datetime(2150, 1, 1, 23, 0, 30)})
    row = {"person": "1", "stay": "7", "laboffset": "100", "time": LATER}
    by = rule("laboffset", links=frozenset({"stay"}))
    # 100 minutes are 40.5 minutes past the moment, stretched 81: 140.5 after zero
    assert rows(future(work=work), row, by, CHANGED) == [row | {"laboffset": "141", "time": MOVED}]


def test_parts_of_lists_with_times_of_their_own() -> None:
    parts = [
        {"at": LATER, "text": "a"},
        {"at": LATER, "text": "b"},
        {"at": PAST, "text": "c", "due": LATER},
        {"text": "d"},
    ]
    body = {"time": PAST, "notes": parts}
    (found,) = future().rows(Resource(body), rule("time", items={"notes": clocks("at")}), 2)
    assert isinstance(found, Resource)
    assert found.body["notes"] == [  # every other one goes, a known one has its later times moved
        {"at": MOVED, "text": "a (otherwise)"},
        {"at": PAST, "text": "c", "due": MOVED},
        {"text": "d"},
    ]


@pytest.mark.parametrize("number", [LEFT_OUT, TWICE, CHANGED])
def test_in_files_that_end_at_the_moment_nothing_has_come_after_it(number: int) -> None:
    late = cell("end", "outcome", known="end")
    state = cell("state", known="end", values=("stopped",), to=("stopped", "begun"))
    by = rule("time", cells=(late, state))
    row = {"person": "1", "time": PAST, "end": LATER, "outcome": "well", "state": "stopped", "value": "5"}
    cut = row | {"end": "", "outcome": "", "state": "begun"}
    assert rows(future({"outcome": "dead"}, cut=True), row, by, number) == [cut]
    over = row | {"end": "2150-01-02 00:00:00"}
    assert rows(future(cut=True), over, by, number) == [over], "what ended at the moment was known"
    assert rows(future(cut=True), row | {"time": LATER}, by, number) == []
    parts = [{"at": LATER, "text": "a"}, {"at": PAST, "text": "b"}, {"text": "c"}]
    listed = rule("time", items={"notes": clocks("at")})
    (found,) = future(cut=True).rows(Resource({"time": PAST, "notes": parts}), listed, number)
    assert isinstance(found, Resource)
    assert found.body["notes"] == parts[1:]


def test_a_text_that_decides_the_rule_and_is_the_only_one_stays() -> None:
    row = {"person": "1", "time": LATER, "kind": "death"}
    by = KnowledgeRule(where={"kind": ("death",)}, row=clocks("time"))
    assert rows(future(), row, by, CHANGED)[0]["kind"] == "death"
    assert rows(future({"kind": "death"}, {"kind": "birth"}), row, by, CHANGED)[0]["kind"] == "birth"


@pytest.mark.parametrize(
    ("text", "after"), [("3", "7"), ("-3", "-5"), ("1.5", "4"), ("2e3", "4001"), ("3 mg", "3 mg (otherwise)")]
)
def test_a_number_becomes_another_number(text: str, after: str) -> None:
    assert rows(future(), {"person": "1", "time": LATER, "value": text}, rule("time"), CHANGED)[0]["value"] == after


def test_of_prose_the_old_sections_stay() -> None:
    old, new = "word " * 60, "text " * 60
    prose = f"History of Illness:\n{old}\n\nHospital Course: begun\n{new}"
    by = rule("time", keep_sections=("history of illness",))
    row = {"person": "1", "time": LATER, "text": prose}
    expected = f"History of Illness:\n{old}\n\nHospital Course: begun\n{new} (otherwise)"
    assert rows(future(), row, by, CHANGED)[0]["text"] == expected
    assert rows(future(), row | {"text": "x" * 400}, by, CHANGED)[0]["text"] == "x" * 400 + " (otherwise)"
    assert rows(future(), row, rule("time"), CHANGED)[0]["text"] == f"{prose} (otherwise)"


@pytest.mark.parametrize(
    ("key", "other"), [("5", "6"), ("-5", "-4"), ("0", "1"), ("a-5", "a-6"), ("a-099", "a-100"), ("a", "a-1")]
)
def test_the_second_of_two_has_a_key_of_its_own(key: str, other: str) -> None:
    first, second = rows(future(), {"person": "1", "id": key, "time": LATER}, rule("time", key=("id",)), TWICE)
    assert (first["id"], second["id"]) == (key, other)


def test_what_a_column_holds_is_noted_up_to_48_short_texts_without_times() -> None:
    seen = SeenValues()
    for n in range(60):
        seen.note(TableRow({"n": f"v{n}", "time": PAST, "long": "x" * 400, "short": "x" * 399, "empty": ""}))
    assert seen.noted == 60
    assert seen.words("n") == tuple(f"v{n}" for n in range(48))
    assert seen.words("short") == ("x" * 399,)
    assert seen.words("time") == seen.words("long") == seen.words("empty") == seen.words("absent") == ()


def test_of_rows_whose_number_is_a_result_there_is_one_or_two() -> None:
    by = rule("time", key=("id",), repeat=Repeat(group=("group",), known=clocks("end")))

    def each(groups: Sequence[str], **cells: str) -> list[str]:
        made = [TableRow({"id": f"{n}", "group": g, "time": PAST, "end": LATER} | cells) for n, g in enumerate(groups)]
        repeated = RepeatedRows(by, future())
        return [record.texts("id")[0] for row in made for record in repeated.of(row)]

    assert each(["a", "a", "b", "b", "b", ""]) == ["0", "2", "5", "6"]  # the third group has two
    assert each(["a", "a"], end=PAST) == ["0", "1"]
    assert each(["a", "a"], end="2150-01-02 00:00:00") == ["0", "1"]
    assert each(["a", "a"], end="") == ["0"]
    assert each(["a", "a"], time=LATER) == ["0", "1"]
    assert each(["a", "a"], time="") == ["0", "1"]
    assert each(["a", "a"], time="2150-01-02 00:00:00") == ["0"]


def test_the_moment_is_that_of_the_subject() -> None:
    one = future()
    one.as_of = NOW - timedelta(days=2)
    assert rows(one, {"person": "1", "time": PAST, "value": "5"}, rule("time"), CHANGED)[0]["value"] == "11"
