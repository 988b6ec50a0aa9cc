"""A plug-in with the tools that the official MCP suite calls, so that it sees how our server serves any tool.

wardround serve mcp --plugin conformance/fixture_tools.py --tool test_simple_text ...
"""

from __future__ import annotations

import base64

from wardround.core import Picture, ToolFailure
from wardround.tools import TOOLS, Page, Session, Tool, ToolResult, tool

_ONE_RED_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
_LINE = {"type": "string"}
_ADDRESS = {"$anchor": "addressDef", "type": "object", "properties": {"street": _LINE, "city": _LINE}}
_CONTACT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": _ADDRESS},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool("inner")
def test_simple_text() -> str:
    """Answers with a line of text."""
    return "This is a simple text response for testing."


@tool("inner")
def test_image_content() -> ToolResult:
    """Answers with a picture of one pixel."""
    picture = Picture.of(_ONE_RED_PIXEL, media_type="image/png", width=1, height=1, title="one red pixel")
    return ToolResult(text="One red pixel.", pictures=(picture,))


@tool("inner")
def test_error_handling() -> str:
    """Always fails."""
    raise ToolFailure("This tool intentionally returns an error for testing")


def _contact(session: Session, page: Page, **arguments: object) -> ToolResult:
    return ToolResult(text=f"{len(arguments)} arguments")


json_schema_2020_12_tool = Tool(
    name="json_schema_2020_12_tool",
    category="inner",
    description="Takes a contact by phone or by mail.",
    parameters=_CONTACT,
    function=_contact,
)

FIXTURES = (test_simple_text, test_image_content, test_error_handling, json_schema_2020_12_tool)
for _fixture in FIXTURES:
    TOOLS.add(_fixture.name, _fixture)
