"""What a tool is, and what a call returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import escape

from wardround.core import Picture, ToolSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call gave. ``text`` is what the model reads, ``pictures`` what it sees beside it.

    ``row_ids`` are the record rows whose content is in the text (grounding checks citations against them);
    ``table`` is the record table they are of (SQL may name several, joined by ", "); ``rows_shown`` of ``rows_total``
    says what a limit cut; ``cursor`` fetches the next page, None at the end.
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


# What a tool is: a name, a schema for the model, and the function behind it.


Category = Literal["inner", "record", "table", "candidate", "knowledge", "web", "image", "retrieval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool; ``signature.tool`` makes it of a typed function.

    ``function`` takes the session, the page and the validated arguments as keywords and returns a ToolResult; it raises
    ToolFailure for what the model should read and mend. ``reads_only`` calls may run side by side; those of a tool that
    keeps a state, or asks a model of its own, may not. ``other_names`` are names that an argument is also taken under.
    ``needs`` is what has to be at hand for it (an ability of image tools): where it is not, the tool is listed and not
    offered."""

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
        """What the model is told."""
        return ToolSchema(name=self.name, description=self.description, parameters=self.parameters)
