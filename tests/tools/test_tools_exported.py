"""The room's public face, and that no input of a model can crash it."""

from __future__ import annotations

import types
from contextlib import suppress
from typing import Any

from fake_chart import small_chart
from hypothesis import given, settings
from hypothesis import strategies as st

import wardround.tools
from effort import often
from wardround.clinical.codes import LabelSet
from wardround.core import ToolFailure
from wardround.tools import Environment, EnvironmentOptions, SqlGate, default_toolset
from wardround.tools.candidates import CandidateSpace

SPACE = CandidateSpace(name="names", labels=LabelSet(name="names", labels=("Acute renal failure", "Hypertension")))
ENVIRONMENT = Environment(
    small_chart(30),
    default_toolset(evidence=True),
    EnvironmentOptions(candidates={"names": SPACE}, max_result_tokens=300),
)
GATE = SqlGate(small_chart(30))  # type: ignore[arg-type]

NAMES = st.sampled_from((*default_toolset(evidence=True).names, "load_ehr", "nonsense"))
WORDS = st.sampled_from(
    ["labevents", "radiology", "names", "poe", "label", "charttime", "2150-05-30", "7", "%", "", "SELECT * FROM poe"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "table_name",
        "column_name",
        "value",
        "keyword",
        "keywords",
        "query",
        "start_time",
        "end_time",
        "sql_query",
        "response",
        "evidence",
        "cursor",
        "subject_id",
        "extra",
    ]
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4) | st.text() | VALUES
FRAGMENTS = st.sampled_from(
    [
        "SELECT",
        "*",
        "FROM",
        "labevents",
        "radiology",
        "a",
        "b",
        "WHERE",
        "(",
        ")",
        ",",
        "label",
        "count(*)",
        "'",
        '"',
        "--",
        "/*",
        "*/",
        "WITH",
        "AS",
        "UNION",
        "JOIN",
        "ON",
        "=",
        "1",
        "x'00'",
        "CAST",
        "text",
        "||",
        "[",
        "]",
        "`",
        ";",
        "?",
        "\x00",
    ]
)


def test_all_names_exactly_what_is_public() -> None:
    public = {
        name
        for name, value in vars(wardround.tools).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(wardround.tools.__all__)


@settings(max_examples=often(100, 300), deadline=None)
@given(NAMES, ARGUMENTS)
def test_no_call_raises_and_every_result_is_text_within_bounds(name: str, arguments: Any) -> None:
    result = ENVIRONMENT.call(name, arguments)
    assert result.text.strip()
    assert len(result.text) < 8_000
    result.text.encode()


@settings(max_examples=often(100, 300), deadline=None)
@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=25).map(" ".join) | st.text().map("SELECT ".__add__))
def test_no_statement_raises_anything_but_a_failure(sql: str) -> None:
    with suppress(ToolFailure):
        assert len(GATE.query(sql).rows) <= GATE.limits.rows
