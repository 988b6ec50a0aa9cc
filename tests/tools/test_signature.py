"""A tool is a typed function: what its signature makes of it, what is handed in, and which functions are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from fake_chart import small_chart

from wardround.core import ToolFailure, UserError
from wardround.tools import Environment, Page, Range, Session, Toolset, default_toolset, tool
from wardround.tools.arguments import read_arguments
from wardround.tools.signature import schema_of

Weight = Annotated[float, Range(0.5, 400), "Weight in kg."]


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
        (list[Any], {"type": "array"}),
        (dict[str, float], {"type": "object"}),
        (Literal["low", "high"], {"type": "string", "enum": ["low", "high"]}),
        (str | None, {"type": ["string", "null"]}),
        (list[str] | str, {"type": ["array", "string"], "items": {"type": "string"}}),
        (Annotated[int, "a number"], {"type": "integer"}),
    ],
)
def test_types_as_json_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


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
    assert read_arguments(body_mass_index, {"weight": 70}, subject_id=1) == {"weight": 70, "height": 170}
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
