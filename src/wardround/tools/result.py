"""What a tool call gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wardround.core import Picture


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
