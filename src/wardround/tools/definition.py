"""Define a tool, and the result of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import escape

from wardround.core import Picture, ToolSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call. The model reads ``text`` and sees ``pictures``.

    ``row_ids`` are the record rows whose content is in the text (grounding checks citations against them);
    ``table`` is the record table they are of (SQL may name several, joined by ", "); ``rows_shown`` of ``rows_total``
    show what a limit cut; ``cursor`` fetches the next page, None at the end.
    ``answer`` and ``evidence`` are set only by ``finish``.
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False
    table: str | None = None
    row_ids: tuple[str, ...] = ()
    rows_total: int | None = None
    rows_shown: int | None = None
    cursor: str | None = None
    answer: tuple[str, ...] | None = None
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


# A tool: a name, a schema for the model, and its function.


Category = Literal["inner", "record", "table", "candidate", "knowledge", "web", "image", "retrieval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool; ``signature.tool`` makes it of a typed function.

    ``function`` takes the session, the page and the validated arguments as keywords and returns a ToolResult. It raises
    ToolFailure with a message that helps the model to correct its call. ``reads_only`` calls may run in parallel; calls
    of a tool with a state or a model of its own may not. ``other_names`` are accepted aliases of arguments. ``needs``
    is a required ability (of image tools): without it, the tool is listed and not offered.
    """

    name: str
    category: Category
    description: str
    parameters: Mapping[str, Any]
    function: Callable[..., ToolResult]
    reads_only: bool = True
    other_names: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""

    @property
    def schema(self) -> ToolSchema:
        """The schema that the model reads."""
        return ToolSchema(name=self.name, description=self.description, parameters=self.parameters)
