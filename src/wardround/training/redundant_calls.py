"""Calls that asked again what was answered before and got the same result: nothing is learnt from them but to repeat.

They are left out of a row with their results, as the AgentEHR paper counts them (appendix E: same tool, parameters
alike by more than 0.95). Alike is not the same question, so the result must be the same text, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wardround.scoring.calls import Call, are_similar
from wardround.training.rows import TrainingRow

_KEPT = frozenset({"finish", "think"})
"""They ask the record for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    call: Call
    result: str


def without_redundant_calls(row: TrainingRow) -> tuple[TrainingRow, int]:
    """Return the row without its redundant calls, and how many those were."""
    redundant = _redundant(row.messages)
    if not redundant:
        return row, 0
    messages = tuple(_without(row.messages, redundant))
    return replace(row, messages=messages), len(redundant)


def _redundant(messages: Iterable[Mapping[str, Any]]) -> set[tuple[int, str]]:
    """The redundant calls, by the message that makes them and their id: ids may come again in a later message."""
    waiting: dict[str, tuple[int, Call]] = {}
    answered: list[_Answered] = []
    redundant: set[tuple[int, str]] = set()
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            waiting = {one["id"]: (place, _read(one)) for one in message.get("tool_calls", ())}
        elif message["role"] == "tool" and message["tool_call_id"] in waiting:
            made_at, call = waiting.pop(message["tool_call_id"])
            if call.name in _KEPT:
                continue
            this = _Answered(call=call, result=message["content"] or "")
            if any(_repeats(this, earlier) for earlier in answered):
                redundant.add((made_at, message["tool_call_id"]))
            else:
                answered.append(this)
    return redundant


def _repeats(later: _Answered, earlier: _Answered) -> bool:
    return later.result == earlier.result and are_similar(later.call, earlier.call)


def _read(call: Mapping[str, Any]) -> Call:
    arguments = call["function"]["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    return Call(name=call["function"]["name"], parameters=text)


def _without(messages: Iterable[Mapping[str, Any]], redundant: set[tuple[int, str]]) -> Iterable[Mapping[str, Any]]:
    """The messages without the calls; a reply that made no other call goes with its text."""
    made_at = 0
    for place, message in enumerate(messages):
        if message["role"] == "tool" and (made_at, message["tool_call_id"]) in redundant:
            continue
        calls = message.get("tool_calls")
        if not calls:
            yield message
            continue
        made_at = place
        kept = [call for call in calls if (place, call["id"]) not in redundant]
        if kept:
            yield {**message, "tool_calls": kept}
