"""For any query the answer on a chart equals the answer on a store from which everything not yet known was deleted."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wardround.audits import delete_future
from wardround.core import ToolFailure, from_microseconds, to_microseconds
from wardround.records import Chart, Store, ingest
from wardround.tools import Environment, SqlGate, open_toolset

Pair = tuple[Chart, Chart]
SQL_SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def cut_moments(store: Store) -> list[tuple[int, datetime]]:
    """Two subjects in the middle of a stay, where most is pending."""
    found = []
    for subject in store.subjects:
        stays = store.chart(int(subject), datetime(9000, 1, 1)).table("admissions").batch.to_pylist()
        stays = [
            stay for stay in stays if stay["dischtime"] and stay["dischtime"] - stay["admittime"] > timedelta(days=2)
        ]
        if len(stays) > 1:
            stay = stays[len(stays) // 2]
            middle = (to_microseconds(stay["admittime"]) + to_microseconds(stay["dischtime"])) // 2
            found.append((int(subject), from_microseconds(middle).replace(microsecond=0)))
        if len(found) == 2:
            break
    return found


@pytest.fixture(scope="module")
def pairs(synthetic_hospital: Path, synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """Charts of the whole store, each beside the chart of a store without its future."""
    made = []
    for subject, as_of in cut_moments(synthetic_store):
        folder = tmp_path_factory.mktemp("deleted")
        delete_future(synthetic_hospital, folder / "raw", synthetic_store, subject, as_of)
        for dictionary in synthetic_hospital.rglob("d_*"):  # code lists are no one's record; the deletion keeps parts
            shutil.copyfile(dictionary, folder / "raw" / dictionary.relative_to(synthetic_hospital))
        ingest("mimiciv", folder / "raw", folder / "store")
        made.append((synthetic_store.chart(subject, as_of), Store.open(folder / "store").chart(subject, as_of)))
    assert made
    return made


@pytest.fixture(scope="module")
def gates(pairs: list[Pair]) -> list[tuple[SqlGate, SqlGate]]:
    return [(SqlGate(whole), SqlGate(deleted)) for whole, deleted in pairs]


def answer(gate: SqlGate, sql: str) -> Any:
    """What a model gets: columns and rows, or the words of the refusal."""
    try:
        found = gate.query(sql)
    except ToolFailure as failure:
        return str(failure)
    return found.columns, found.rows, found.truncated


LITERALS = st.sampled_from(
    [
        "0",
        "1",
        "50",
        "-1",
        "''",
        "'a'",
        "'%o%'",
        "NULL",
        "datetime('now')",
        "date('now','-3 days')",
        "'2150-01-01'",
        "1e9",
    ]
)
COMPARISONS = st.sampled_from(["=", "<>", "<", ">=", "LIKE", "IS", "IS NOT", "GLOB"])
AGGREGATES = st.sampled_from(
    ["count", "count(DISTINCT ", "min", "max", "sum", "avg", "total", "group_concat", "typeof", "length", "julianday"]
)


@st.composite
def statements(draw: st.DrawFn, chart: Chart) -> str:
    """A SELECT over one or two tables of a chart, plain or nested."""
    names = st.sampled_from(sorted(chart.table_names))
    first, second = draw(names), draw(names)
    columns = st.sampled_from(chart.table(first).columns).map(lambda name: f"a.{name}")
    shown = draw(st.lists(_term(columns), min_size=1, max_size=4))
    source = f'"{first}" a'
    if draw(st.booleans()):
        key = draw(st.sampled_from(["subject_id", "hadm_id", "row_id"]))
        source += f' {draw(st.sampled_from(["JOIN", "LEFT JOIN"]))} "{second}" b ON a.{key} = b.{key}'
    sql = f"SELECT {', '.join(shown)} FROM {source}"
    if draw(st.booleans()):
        sql += f" WHERE {draw(columns)} {draw(COMPARISONS)} {draw(LITERALS)}"
    if draw(st.booleans()):
        sql += f" GROUP BY {draw(columns)}"
    if draw(st.booleans()):
        sql += f" ORDER BY {draw(columns)} DESC, 1"
    if draw(st.booleans()):
        sql += f" LIMIT {draw(st.integers(0, 50))} OFFSET {draw(st.integers(0, 5))}"
    wrapper = draw(
        st.sampled_from(["{}", "SELECT count(*) FROM ({})", "WITH q AS ({}) SELECT * FROM q", "SELECT EXISTS ({})"])
    )
    return wrapper.format(sql)


def _term(columns: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def call(name: str, column: str) -> str:
        return f"{name}{'' if name.endswith(' ') else '('}{column})"

    ranked = columns.map(lambda column: f"row_number() OVER (ORDER BY {column}, a.rowid)")
    return st.one_of(
        columns,
        st.just("*"),
        st.just("count(*)"),
        st.just("max(a.rowid)"),
        st.builds(call, AGGREGATES, columns),
        ranked,
    )


def test_any_statement_answers_as_if_the_future_were_deleted(
    pairs: list[Pair], gates: list[tuple[SqlGate, SqlGate]]
) -> None:
    answered = 0

    @SQL_SETTINGS
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal answered
        number = data.draw(st.integers(0, len(pairs) - 1))
        sql = data.draw(statements(pairs[number][0]))
        whole, deleted = (answer(gate, sql) for gate in gates[number])
        assert whole == deleted
        answered += not isinstance(whole, str)

    check()
    assert answered > 60


def test_every_tool_answers_as_if_the_future_were_deleted(pairs: list[Pair]) -> None:
    for charts in pairs:
        whole, deleted = (Environment(chart, open_toolset("agentehr")) for chart in charts)
        assert whole.call("get_table_names", {}).text == deleted.call("get_table_names", {}).text
        assert whole.call("get_event_counts_by_time", {}).text == deleted.call("get_event_counts_by_time", {}).text
        for table in charts[0].table_names:
            for tool, arguments in (
                ("get_latest_records", {}),
                ("get_records_by_time", {"start_time": "1900-01-01"}),
                ("get_records_by_keyword", {"keyword": "a"}),
                ("get_records_by_value", {"column_name": "subject_id", "value": charts[0].subject_id}),
                ("get_unique_values", {"column_name": charts[0].table(table).columns[-1]}),
            ):
                call = {"table_name": table, **arguments}
                assert whole.call(tool, call).text == deleted.call(tool, call).text, (tool, table)


def test_the_future_is_there_to_be_deleted(synthetic_store: Store, pairs: list[Pair]) -> None:
    """Guards the two tests above against passing on charts that hide nothing."""
    for chart, _ in pairs:
        later = synthetic_store.chart(chart.subject_id, datetime(9000, 1, 1))
        assert later.table("labevents").num_rows > chart.table("labevents").num_rows > 0
