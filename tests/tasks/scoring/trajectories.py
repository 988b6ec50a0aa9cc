"""Hand-made trajectories for the taxonomy's tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from wardround.core import Message, ToolCall, Usage
from wardround.log import EpisodeEntry, Note, ToolRecord, Trajectory, Turn

TOOLS = tuple(
    {"type": "function", "function": {"name": name, "parameters": {"properties": properties, "required": required}}}
    for name, properties, required in (
        ("get_records_by_value", {"table_name": {}, "column_name": {}, "value": {}}, ["table_name"]),
        ("get_candidates_by_keyword", {"table_name": {}, "keyword": {}}, ["table_name", "keyword"]),
        ("think", {"response": {}}, ["response"]),
        ("finish", {"response": {}, "evidence": {}}, ["response"]),
    )
)


def call(name: str, arguments: str | None = None, **values: Any) -> tuple[str, str]:
    """A call by name and either raw argument text or values."""
    return name, json.dumps(values) if arguments is None else arguments


def new_trial(number: int, *, acts: int) -> Note:
    """What Reflexion notes when a further trial begins."""
    return Note(n=number, kind="trial", detail={"trial": number, "turn": acts, "acts": acts})


def trajectory(
    turns: Sequence[Sequence[tuple[str, str]] | str],
    *,
    answer: Sequence[str] | None = None,
    finish: str = "finish",
    refused: Sequence[int] = (),
    answered: bool = True,
    facts: dict[str, Any] | None = None,
    cost: float | None = None,
    citations: Sequence[dict[str, Any]] = (),
    purposes: Sequence[str] | None = None,
) -> Trajectory:
    """Build an episode: each turn is its calls, or its text. ``refused`` turns have error results."""
    purposes = purposes or ["act"] * len(turns)
    built = [
        _turn(index, turn, purpose, error=index in refused, answered=answered, cost=cost)
        for index, (turn, purpose) in enumerate(zip(turns, purposes, strict=True))
    ]
    outcome = {"answer": None if answer is None else list(answer), "finish": finish, "citations": list(citations)}
    entry = EpisodeEntry(
        key="e", facts=facts or {}, state="finished", outcome=outcome, started="", ended="", turns=len(built)
    )
    return Trajectory(entry=entry, turns=tuple(built), notes=())


def _turn(
    index: int,
    content: Sequence[tuple[str, str]] | str,
    purpose: str,
    *,
    error: bool,
    answered: bool,
    cost: float | None,
) -> Turn:
    calls: tuple[ToolCall, ...] = ()
    if not isinstance(content, str):
        calls = tuple(ToolCall(id=f"{index}-{n}", name=name, arguments=text) for n, (name, text) in enumerate(content))
    results = tuple(ToolRecord(call=one, result_text="", is_error=error, seconds=0.5) for one in calls)
    return Turn(
        ordinal=index,
        purpose=purpose,
        prompt=(),
        reply=Message(role="assistant", content=content if isinstance(content, str) else None, tool_calls=calls),
        prompt_hash="",
        reply_hash="",
        request_digest="",
        model="m",
        identity="m",
        finish_reason="stop",
        usage=Usage(input_tokens=100, output_tokens=10, cached_tokens=40),
        unreported=(),
        cost=cost,
        seconds=2.0,
        attempts=1,
        prompt_bytes=0,
        prefix_bytes=0,
        tools=TOOLS,
        results=results if answered else (),
    )
