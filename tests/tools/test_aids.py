"""What a session does for a language model: short pages, the task's candidate table, an answer that is checked once."""

from __future__ import annotations

from datetime import datetime
from statistics import median

import numpy as np
import pytest
from fake_chart import FakeChart, FakeTable

from wardround.clinical.codes import LabelSet
from wardround.core import ToolCall, UserError
from wardround.models.offline.conversation import read_result
from wardround.records.rules.language import Column, Combined, MedianDelay
from wardround.tools import Aids, Environment, EnvironmentOptions, open_toolset
from wardround.tools.candidate_tools import worth_a_look
from wardround.tools.candidates import CandidateSpace, LabelMatch
from wardround.tools.render import repeated
from wardround.tools.table_view import TableView

HOURS = [datetime(2150, 5, 30, 8), datetime(2150, 5, 30, 8), datetime(2150, 5, 30, 9)] * 40
HOURS.sort()


def laboratory() -> FakeChart:
    """120 results: two thirds share their time; one has a number that its text does not say."""
    count = len(HOURS)
    filed = Combined(name="first", parts=(Column(name="storetime"), MedianDelay(start="charttime", end="storetime")))
    table = FakeTable(
        "labevents",
        {
            "charttime": ("time", HOURS),
            "label": ("text", ["Creatinine", "Potassium", "Sodium"] * 40),
            "value": ("text", ["1.0", "<4", "140"] * 40),
            "valueuom": ("text", ["mg/dL", "mEq/L", "mEq/L"] * 40),
            "storetime": ("time", [hour.replace(minute=30 + index % 3) for index, hour in enumerate(HOURS)]),
            "specimen_id": ("int", [80_000_000 + index // 3 for index in range(count)]),
            "itemid": ("int", [50912, 50971, 50983] * 40),
            "valuenum": ("float", [1.0, 4.0, 140.0] * 40),
            "priority": ("text", ["ROUTINE", "STAT", "STAT"] * 40),
            "comments": ("text", [None] * count),
        },
        time="charttime",
        keys=[540_148_201_000 + index * 7_654_321 for index in range(count)],
        default_columns=("charttime", "label", "value", "valueuom", "storetime"),
        value="valuenum",
        text="value",
    )
    object.__setattr__(table.spec, "event_time", Column(name="charttime"))
    object.__setattr__(table.spec, "available_at", filed)
    return FakeChart([table, FakeTable("hcpcsevents", {"code": ("text", [])})])


def candidates() -> dict[str, CandidateSpace]:
    tests = LabelSet(name="tests", labels=("Creatinine", "Creatinine, Urine", "Potassium", "Sodium"))
    units = LabelSet(name="units", labels=("Medicine", "Surgery"))
    return {name: CandidateSpace(name=name, labels=labels) for name, labels in (("labs", tests), ("units", units))}


def test_a_short_page_leaves_out_what_says_nothing_new() -> None:
    page = Environment(laboratory()).call("get_records_by_time", {"table_name": "labevents"})
    caption, folded, header, first, second = page.text.splitlines()[:5]
    assert folded == 'left out: storetime, specimen_id, itemid, priority; " is the time above'
    assert header == "row_id | charttime | label | value | valueuom | valuenum where it is not value"
    assert first == "labevents:540148201000 | 2150-05-30 08:00:00 | Creatinine | 1.0 | mg/dL | "
    assert second == 'labevents:540155855321 | " | Potassium | <4 | mEq/L | 4'
    assert "120 rows" in caption


@pytest.mark.parametrize(
    ("number", "text", "says_nothing_new"),
    [
        (4.0, "4", True),
        (4.0, " 4.00 ", True),
        (4.0, "<4", False),
        (4.0, "04", False),  # a code, not a number
        (4.0, None, False),
        (4.0, "high", False),
        (None, "4", True),
        (None, None, True),
        (-0.5, "-.5", True),
    ],
)
def test_a_number_is_shown_where_its_text_does_not_say_it(
    number: float | None, text: str | None, says_nothing_new: bool
) -> None:
    """Beside two other rows, so that a value's place among distinct values is not its row."""
    columns = {"valuenum": ("float", [7.0, number, 7.0]), "value": ("text", ["7", text, "8"])}
    view = TableView(FakeTable("labevents", columns))  # type: ignore[arg-type]
    found = repeated(view.column("valuenum"), view.column("value"), np.array([1, 2, 0], dtype=np.int32))
    assert found.tolist() == [says_nothing_new, False, True]


def test_a_short_page_holds_more_rows() -> None:
    shown = {
        name: Environment(laboratory(), options=EnvironmentOptions(aids=aids))
        .call("get_records_by_time", {"table_name": "labevents"})
        .rows_shown
        for name, aids in (("plain", Aids.none()), ("short", Aids()))
    }
    assert shown["plain"] is not None
    assert shown["short"] is not None
    assert shown["short"] >= 2 * shown["plain"]


def test_pages_together_are_all_rows_and_the_time_stands_first_on_each() -> None:
    environment = Environment(laboratory())
    page = environment.call("get_records_by_time", {"table_name": "labevents"})
    rows = list(page.row_ids)
    while page.cursor:
        page = environment.call("get_next_page", {"cursor": page.cursor})
        rows += page.row_ids
        assert page.text.splitlines()[3].split(" | ")[1].startswith("2150-05-30")
    assert len(rows) == len(set(rows)) == 120


def test_a_column_that_was_asked_for_is_shown() -> None:
    environment = Environment(laboratory())
    one = environment.call(
        "get_records_by_value", {"table_name": "labevents", "column_name": "itemid", "value": "50971"}
    )
    assert "itemid=50971" in one.text
    stat = environment.call("get_records_by_keyword", {"table_name": "labevents", "keyword": "stat"})
    assert "priority=STAT" in stat.text
    assert "priority" not in stat.text.partition("left out: ")[2].partition("\n")[0]


def test_the_offline_policy_reads_the_time_above() -> None:
    page = Environment(laboratory()).call("get_records_by_time", {"table_name": "labevents"})
    rows = read_result(ToolCall(id="1", name="get_records_by_time", arguments="{}"), page.text).rows
    assert len(rows) == page.rows_shown
    assert [row["charttime"] for row in rows] == [f"{hour:%Y-%m-%d %H:%M:%S}" for hour in HOURS[: len(rows)]]


def test_tables_are_listed_with_their_columns_and_the_usual_delay_is_said() -> None:
    environment = Environment(laboratory(), options=EnvironmentOptions(candidates=candidates(), answer_space="labs"))
    names = environment.call("get_table_names", {}).text
    assert "labevents | 120 | charttime, label, value, valueuom, storetime, valuenum (+4)" in names
    assert names.endswith("empty: hcpcsevents")
    assert "units" not in names
    said = environment.call("get_table_description", {"table_name": "labevents"}).text
    minutes = median(30 + index % 3 for index in range(120))
    assert f"usual delay: a row is filed {minutes:.0f} minutes after its time (median of the 120 rows here)" in said
    plain = Environment(
        laboratory(), options=EnvironmentOptions(candidates=candidates(), answer_space="labs", aids=Aids.none())
    )
    assert "units" in plain.call("get_table_names", {}).text
    assert "usual delay" not in plain.call("get_table_description", {"table_name": "labevents"}).text


def test_finish_refuses_once_what_is_no_candidate() -> None:
    environment = Environment(laboratory(), options=EnvironmentOptions(candidates=candidates(), answer_space="labs"))
    refused = environment.call("finish", {"response": ["creatinin", "POTASSIUM"]})
    assert refused.is_error
    assert refused.answer is None
    assert "1 of 2 names are not in 'labs'" in refused.text
    assert "'creatinin': 'Creatinine', 'Creatinine, Urine'" in refused.text
    assert "POTASSIUM" not in refused.text
    again = environment.call("finish", {"response": ["creatinin", "POTASSIUM"]})
    assert again.answer == ("creatinin", "POTASSIUM")


@pytest.mark.parametrize("response", [["Creatinine", "potassium"], []])
def test_finish_takes_at_once_what_is_a_candidate(response: list[str]) -> None:
    environment = Environment(laboratory(), options=EnvironmentOptions(candidates=candidates(), answer_space="labs"))
    assert environment.call("finish", {"response": response}).answer == tuple(response)


def test_finish_takes_anything_where_it_is_the_last_call_or_the_aid_is_off() -> None:
    last = Environment(laboratory(), options=EnvironmentOptions(candidates=candidates(), answer_space="labs"))
    last.accept_any_answer()
    off = Environment(
        laboratory(), options=EnvironmentOptions(candidates=candidates(), answer_space="labs", aids=Aids.none())
    )
    unbound = Environment(laboratory(), options=EnvironmentOptions(candidates=candidates()))
    for environment in (last, off, unbound):
        assert environment.call("finish", {"response": ["lytes"]}).answer == ("lytes",)


def test_aids_are_named() -> None:
    assert Aids.named(["all"]) == Aids()
    assert Aids.named(["none"]) == Aids.none()
    assert Aids.named(["short_pages", "answer_check"]).names == ("answer_check", "short_pages")
    with pytest.raises(UserError, match="Did you mean 'short_pages'"):
        Aids.named(["short_page"])
    with pytest.raises(UserError, match="some by name"):
        Aids.named(["none", "short_pages"])


def searched(environment: Environment, tool: str, **arguments: object) -> list[str]:
    result = environment.call(tool, {"table_name": "labs", **arguments})
    assert not result.is_error, result.text
    return [line.split(" | ")[0] for line in result.text.splitlines()[2:]]


@pytest.mark.parametrize("argument", ["query", "keyword", "keywords"])
@pytest.mark.parametrize(
    "tool",
    ["get_candidates_by_keyword", "get_candidates_by_fuzzy_matching", "get_candidates_by_semantic_similarity"],
)
def test_the_words_to_look_for_are_called_alike_and_other_names_are_taken(tool: str, argument: str) -> None:
    environment = Environment(laboratory(), open_toolset("agentehr"), EnvironmentOptions(candidates=candidates()))
    schema = next(schema for schema in environment.schemas if schema.name == tool)
    assert list(schema.parameters["properties"]) == ["table_name", "query"]
    assert searched(environment, tool, **{argument: "sodium"})[0] == "Sodium"


def test_what_nothing_matches_is_no_row() -> None:
    environment = Environment(laboratory(), open_toolset("agentehr"), EnvironmentOptions(candidates=candidates()))
    asked = {"table_name": "labs", "query": ["qqq", "zzz"]}
    result = environment.call("get_candidates_by_keyword", asked)
    assert (result.rows_total, result.rows_shown, result.cursor) == (0, 0, None)
    assert "0 rows, no match for 'qqq', 'zzz'" in result.text


def test_after_a_clear_hit_nothing_else_is_listed() -> None:
    tool = "get_candidates_by_semantic_similarity"
    short = Environment(laboratory(), open_toolset("agentehr"), EnvironmentOptions(candidates=candidates()))
    plain = Environment(
        laboratory(), open_toolset("agentehr"), EnvironmentOptions(candidates=candidates(), aids=Aids.none())
    )
    assert searched(short, tool, query="Creatinine") == ["Creatinine"]
    assert searched(plain, tool, query="Creatinine")[:2] == ["Creatinine", "Creatinine, Urine"]
    assert searched(short, "get_candidates_by_keyword", query="Creatinine") == ["Creatinine", "Creatinine, Urine"]


def test_five_are_near_and_five_more_contain_the_text_and_the_rest_is_counted() -> None:
    labels = tuple(f"marker {letter}" for letter in "abcdefghijkl")
    options = EnvironmentOptions(
        candidates={"labs": CandidateSpace(name="labs", labels=LabelSet(name="x", labels=labels))}
    )
    environment = Environment(laboratory(), open_toolset("agentehr", more=["get_candidates"]), options)
    result = environment.call("get_candidates", {"table_name": "labs", "query": "mark"})
    lines = result.text.splitlines()[2:]
    assert (result.rows_total, sum(" | " in line for line in lines)) == (10, 5), "the near ones say how near"
    assert "2 more contain 'mark'" in result.text


@pytest.mark.parametrize(
    ("shares", "shown"),
    [((0.8, 0.3, 0.2, 0.19), 3), ((0.95, 0.83, 0.6), 2), ((1.0, 0.79), 1), ((0.2, 0.1), 2), ((), 0)],
)
def test_what_is_far_from_the_best_candidate_is_left_out(shares: tuple[float, ...], shown: int) -> None:
    found = [LabelMatch(label=f"label {share}", similarity=share, why="spelling") for share in shares]
    assert worth_a_look(found) == found[:shown]
