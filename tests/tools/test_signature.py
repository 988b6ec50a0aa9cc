"""A tool is a typed function: what its signature makes of it, what is handed in, and which functions are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import pytest
from fake_chart import small_chart

from wardround.core import ToolFailure, UserError
from wardround.tools import Environment, Page, Range, Session, Toolset, default_toolset, tool
from wardround.tools.definition import read_arguments, schema_of

Weight = Annotated[float, Range(0.5, 400), "Weight in kg."]


class Pair(TypedDict):
    name: str
    rows: list[int]


@tool("record", name="body-mass-index", other_names={"cm": "height"})
def body_mass_index(
    *, weight: Weight, height: Annotated[int, Range(least=30), "Height in cm."] = 170, note: str | None = None
) -> str:
    """Weight by the square
    of height."""
    return f"{weight / (height / 100) ** 2:.1f}{note or ''}"


@tool("record")
def rows_of(session: Session, page: Page, *, table_name: str) -> str:
    """How many rows a table has, and where this page starts."""
    return f"{session.view(table_name).num_rows} from {page.offset}, {page.tokens} tokens"


@tool("inner", reads_only=False)
def last(page: Page, session: Session) -> str:
    """Handed in by type, in any order."""
    return f"{type(page).__name__} {session.chart.subject_id}"


def test_the_schema_is_the_signature_and_the_description_the_docstring() -> None:
    assert body_mass_index.name == "body-mass-index"
    assert body_mass_index.description == "Weight by the square of height."
    assert body_mass_index.reads_only
    assert not last.reads_only
    assert body_mass_index.parameters == {
        "type": "object",
        "properties": {
            "weight": {"type": "number", "minimum": 0.5, "maximum": 400, "description": "Weight in kg."},
            "height": {"type": "integer", "minimum": 30, "default": 170, "description": "Height in cm."},
            "note": {"type": "string"},
        },
        "required": ["weight"],
    }
    assert last.parameters == {"type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (
            list[Pair],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "rows": {"type": "array", "items": {"type": "integer"}}},
                    "required": ["name", "rows"],
                    "additionalProperties": False,
                },
            },
        ),
        (Literal["low", "high"], {"type": "string", "enum": ["low", "high"]}),
        (str | None, {"type": ["string", "null"]}),
        (list[str] | str, {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
        (Annotated[int, "a number"], {"type": "integer"}),
    ],
)
def test_types_as_json_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


@tool("record")
def of_pairs(*, pairs: list[Pair], other: list[str] | int | None = None) -> str:
    """Show what is given."""
    return f"{pairs} {other}"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"pairs": [{"name": "a", "rows": [1]}]}, "[{'name': 'a', 'rows': [1]}] None"),
        ({"pairs": {"name": "a", "rows": [1]}}, "[{'name': 'a', 'rows': [1]}] None"),
        ({"pairs": {"a": [1], "b": [2]}}, "[{'name': 'a', 'rows': [1]}, {'name': 'b', 'rows': [2]}] None"),
        ({"pairs": [], "other": "x"}, "[] ['x']"),
        ({"pairs": [], "other": 3}, "[] 3"),
    ],
)
def test_slips_in_lists_of_objects_are_mended(arguments: dict[str, Any], shown: str) -> None:
    environment = Environment(small_chart(400), Toolset((of_pairs,)))
    assert environment.call("of_pairs", arguments).text == shown


@tool("inner")
def exact(*, count: int, share: Annotated[float, Range(0, 1)] = 0.5) -> str:
    """Shows what it was handed."""
    return f"{count} {share}"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"count": "9007199254740993"}', "9007199254740993 0.5"),  # 2^53 + 1, which no float holds
        ('{"count": " -12 "}', "-12 0.5"),
        ('{"count": "4.0", "share": "1e-1"}', "4 0.1"),
    ],
)
def test_numbers_in_texts_are_the_numbers_that_they_name(arguments: str, shown: str) -> None:
    environment = Environment(small_chart(), Toolset((exact,)))
    assert environment.call("exact", arguments).text == shown


@pytest.mark.parametrize("share", ["NaN", "Infinity", "-Infinity", '"nan"', '"inf"', "1e999"])
def test_what_is_no_finite_number_is_left_out_with_a_note_although_it_breaks_no_bound(share: str) -> None:
    """NaN is neither below the least nor above the greatest."""
    result = Environment(small_chart(), Toolset((exact,))).call("exact", f'{{"count": 1, "share": {share}}}')
    assert result.text.startswith("1 0.5\nNote: exact: 'share' must be number, got ")


def test_an_optional_argument_that_cannot_be_read_costs_a_note() -> None:
    environment = Environment(small_chart(400), Toolset((body_mass_index,)))
    result = environment.call("body-mass-index", {"weight": 81, "height": "tall"})
    assert not result.is_error
    assert result.text.splitlines() == [
        "28.0",
        "Note: body-mass-index: 'height' must be integer, got a string: 'tall'. The call was made without it.",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"weight": 81, "height": [1', "28.0"),
        ('{"weight": 81, "height": 180} and so on', "25.0"),
        (' { "weight" : 81 , note}', "28.0"),
    ],
)
def test_required_arguments_that_stand_whole_before_a_mistake_are_taken(text: str, shown: str) -> None:
    result = Environment(small_chart(400), Toolset((body_mass_index,))).call("body-mass-index", text)
    assert (result.is_error, result.text.splitlines()[0]) == (False, shown)
    assert "not valid JSON behind" in result.text
    assert "left out" in result.text


@pytest.mark.parametrize(
    "text", ['{"weight": 81', '{"height": 180, "weight": 8', '{"height": 180, x}', "{", '{"weight" 81}']
)
def test_arguments_that_break_before_a_required_one_is_whole_are_refused(text: str) -> None:
    result = Environment(small_chart(400), Toolset((body_mass_index,))).call("body-mass-index", text)
    assert result.is_error
    assert "not valid JSON" in result.text


def test_a_tool_of_one_s_own_is_called_like_ours() -> None:
    chart = small_chart(400)
    environment = Environment(chart, default_toolset() + Toolset((body_mass_index, rows_of, last)))
    assert environment.call("body-mass-index", {"weight": "81", "cm": 180}).text == "25.0"
    assert environment.call("body-mass-index", {"weight": 81, "height": 180, "note": "!"}).text == "25.0!"
    table = chart.table_names[0]
    assert (
        environment.call("rows_of", {"table_name": table}).text == f"{chart.table(table).num_rows} from 0, 2000 tokens"
    )
    assert environment.call("last", {}).text == f"Page {chart.subject_id}"
    low = environment.call("body-mass-index", {"weight": 0.4})
    assert low.is_error
    assert "'weight' must be at least 0.5, got 0.4" in low.text


def test_arguments_left_out_take_the_default_of_the_signature() -> None:
    assert read_arguments(body_mass_index, {"weight": 70}, subject_id=1) == ({"weight": 70, "height": 170}, ())
    with pytest.raises(ToolFailure, match="needs the argument 'weight' \\(number\\)"):
        read_arguments(body_mass_index, {}, subject_id=1)


def test_functions_without_a_schema_are_refused_when_they_are_defined() -> None:
    def silent(*, text: str) -> str:
        return text

    def untyped(*, text) -> str:  # type: ignore[no-untyped-def]
        """No type."""
        return str(text)

    def strange(*, text: set[str]) -> str:
        """No schema."""
        return str(text)

    def before(text: str) -> str:
        """Before the star."""
        return text

    with pytest.raises(UserError, match="silent needs a docstring"):
        tool("record")(silent)
    with pytest.raises(UserError, match="untyped: argument 'text' has no schema"):
        tool("record")(untyped)
    with pytest.raises(UserError, match=r"strange: argument 'text' has no schema: set\[str\] is none of str"):
        tool("record")(strange)
    with pytest.raises(UserError, match="before: argument 'text' has no schema: write the model's arguments behind a"):
        tool("record")(before)
