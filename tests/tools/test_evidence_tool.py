"""``retrieve_evidence``: what it shows is on the chart, fits the budget and can be read to its end."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from fake_chart import FakeChart, FakeTable, small_chart

from wardround.core import estimate_tokens
from wardround.records import Store
from wardround.tools import Environment, EnvironmentOptions, ToolResult, default_toolset
from wardround.tools.retrieval import LexicalEncoder, RetrievalSettings


def environment(chart: Any, **settings: Any) -> Environment:
    return Environment(chart, default_toolset(evidence=True), EnvironmentOptions(**settings))


def ask(tools: Environment, query: str, **arguments: Any) -> ToolResult:
    return tools.call("retrieve_evidence", {"query": query, **arguments})


def to_the_end(tools: Environment, result: ToolResult) -> list[ToolResult]:
    pages = [result]
    while pages[-1].cursor:
        pages.append(tools.call("get_next_page", {"cursor": pages[-1].cursor}))
    return pages


def diagnoses(names: list[str]) -> FakeTable:
    start = datetime(2140, 1, 1)
    return FakeTable(
        "diagnoses",
        {
            "time": ("time", [start + timedelta(days=number) for number in range(len(names))]),
            "code": ("text", [name[:8] for name in names]),
            "title": ("text", names),
        },
        time="time",
        code="code",
        label="title",
        kind="diagnosis",
    )


def test_it_is_offered_only_when_switched_on() -> None:
    assert "retrieve_evidence" not in default_toolset().names
    tools = default_toolset(evidence=True)
    assert tools.names[-3:] == default_toolset().names[-3:]
    assert tools.without(["retrieval"]).names == default_toolset().names
    assert ask(Environment(small_chart()), "anything").is_error


def test_rows_come_with_ids_and_the_statement_asked_for_is_among_them() -> None:
    names = ["Essential hypertension"] * 60 + ["Malignant neoplasm of pancreas"] + ["Atrial fibrillation"] * 139
    tools = environment(FakeChart([diagnoses(names)]))
    result = ask(tools, "neoplasm of the pancreas", limit=1)
    assert "diagnoses:61 | [2140-03-01 00:00:00] diagnosis - Malignant neoplasm of pancreas" in result.text
    assert result.text.startswith(
        "evidence for 'neoplasm of the pancreas': 0 indicators, 1 passage of 100 of the chart's"
    )
    assert "diagnoses:61" in result.row_ids
    assert "diagnoses:61" in tools.read_row_ids
    assert result.table == "diagnoses"
    assert re.search(r"Essential hypertension \(59 more of the same in this passage\)", result.text)


def test_a_passage_is_read_whole_by_its_cursor() -> None:
    names = [f"Condition number {number}" for number in range(200)]
    ranked = RetrievalSettings(spread="none")
    tools = environment(FakeChart([diagnoses(names)]), max_result_tokens=600, retrieval=ranked)
    result = ask(tools, "condition number 130", limit=2)
    cursors = re.findall(r"all: cursor=(\w+)", result.text)
    assert len(cursors) == 2
    for cursor, rows in zip(cursors, (range(96, 196), range(191, 201)), strict=True):
        pages = to_the_end(tools, tools.call("get_next_page", {"cursor": cursor}))
        assert len(pages) > 2 or len(rows) == 10
        assert [row for page in pages for row in page.row_ids] == [f"diagnoses:{row}" for row in rows]


def test_numbers_are_shown_as_latest_values_with_row_ids() -> None:
    labs = FakeTable(
        "labs",
        {
            "time": ("time", [datetime(2150, 5, 1 + number) for number in range(12)]),
            "label": ("text", ["Potassium", "Sodium"] * 6),
            "value": ("float", [number / 2 for number in range(12)]),
            "unit": ("text", ["mEq/L"] * 12),
        },
        time="time",
        code="label",
        label="label",
        value="value",
        unit="unit",
    )
    result = ask(environment(FakeChart([labs])), "potassium")
    shown = ", ".join(
        f"{number} at 2150-05-{2 * number + 1:02} 00:00:00 [labs:{2 * number + 1}]" for number in range(1, 6)
    )
    heading = "latest values of the nearest indicators, oldest first:"
    assert result.text.splitlines()[1:3] == [heading, f"Potassium (mEq/L): {shown} (1 older not shown)"]
    assert {f"labs:{number}" for number in (3, 5, 7, 9, 11)} <= set(result.row_ids)


@pytest.mark.parametrize("budget", [200, 500, 2000])
def test_every_page_fits_the_budget_and_all_is_shown_in_the_end(budget: int) -> None:
    names = [f"Condition {number} " + "with a long explanation " * (number % 40) for number in range(300)]
    tools = environment(FakeChart([diagnoses(names), *small_chart(90)._tables.values()]), max_result_tokens=budget)
    pages = to_the_end(tools, ask(tools, "condition with an explanation"))
    assert all(estimate_tokens(page.text) <= max(budget, 400) for page in pages)
    shown = [row for page in pages for row in page.row_ids]
    assert pages[0].rows_total == len(set(shown))
    lines = [line for page in pages for line in page.text.splitlines()[1:]]
    assert sum(line.startswith("passage ") for line in lines) == 5  # 394 rows without a number are 5 chunks


@pytest.mark.parametrize(
    "chart",
    [
        FakeChart([]),
        FakeChart([diagnoses([])]),
        FakeChart([diagnoses(["Sepsis"])]),
        FakeChart([FakeTable("notes", {"text": ("text", ["x" * 50_000, "\x00\x1b[31m\n] | row_id"])}, text="text")]),
        FakeChart(
            [
                FakeTable(
                    "labs",
                    {"value": ("float", [1.0, np.inf, None, -1e300]), "unit": ("text", [None] * 4)},
                    value="value",
                )
            ]
        ),
    ],
)
def test_charts_of_every_kind_give_an_answer(chart: FakeChart) -> None:
    for query in ("sepsis", "!!", "x" * 5000, "\u202eevil\n\n"):
        result = ask(environment(chart), query)
        assert not result.is_error
        assert len(result.text) < 8_000
    assert ask(environment(chart), "  \n").is_error


def test_the_same_question_has_the_same_answer_whoever_asks() -> None:
    names = [f"Condition {number % 17}" for number in range(400)]
    chart = FakeChart([diagnoses(names)])
    one, other = environment(chart), environment(chart, encoder=LexicalEncoder())
    assert ask(one, "condition 3") == ask(other, "condition 3")
    by_time = environment(chart, retrieval=RetrievalSettings(alpha=0.0, final=1))
    assert "1 passage of" in ask(by_time, "condition 3").text


def test_nothing_later_than_the_chart_s_time_is_found(synthetic_store: Store) -> None:
    subject = int(synthetic_store.subjects[5])
    times = synthetic_store.chart(subject, datetime(2300, 1, 1)).event_columns().time
    as_of = datetime(1970, 1, 1) + timedelta(microseconds=int(times[len(times) // 3]))
    chart = synthetic_store.chart(subject, as_of)
    tools = environment(chart)
    on_chart = {event.row_id for event in chart.events()}
    for query in ("kidney injury", "discharge diagnosis", "antibiotic given"):
        for page in to_the_end(tools, ask(tools, query)):
            assert set(page.row_ids) <= on_chart
            shown = re.findall(r"(?:\[| at )(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", page.text)
            assert all(datetime.fromisoformat(time) <= as_of for time in shown)


def test_the_ends_of_a_range_belong_to_it() -> None:
    tools = environment(small_chart(40))
    for limit, said in ((0, None), (-1, "must be at least 0, got -1"), (20, None), (21, "must be at most 20, got 21")):
        result = ask(tools, "glucose", limit=limit)
        assert not result.is_error, "the limit is optional"
        assert ("Note: " in result.text) is (said is not None), result.text
        assert said is None or said in result.text
