"""The four ways in which an episode ends without an answer (AgentEHR, appendix E)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from wardround.log import Played, PlayedCall

FINISH = "finish"
_CALL_IN_TEXT = re.compile(
    r"<tool_call|<function|\"arguments\"\s*:|\[TOOL_CALLS\]|```tool_code|\b(?:finish|get_\w+)\s*[({]"
)


class NoPrediction(StrEnum):
    """Why there is no answer."""

    TOOL_PARSING = "tool_parsing_failure"
    FORMAT_SUBMERSION = "format_submersion"
    EMPTY_ANSWER = "answer_induced_failure"
    INCOMPLETE = "incomplete_termination"


def no_prediction_mode(trajectory: Played) -> NoPrediction | None:
    """Return why an episode has no answer, or None when it has one.

    *Tool parsing*: a call written as text, or ``finish`` with arguments that cannot be read. *Format submersion*:
    ``finish`` was called with something from which no answer could be taken, or a method that is offered no tools wrote
    a text without one. *Answer induced*: ``finish`` with nothing.
    *Incomplete*: ``finish`` was never called (a limit, an endpoint's error, plain text).
    """
    if any(str(label).strip() for label in (trajectory.outcome or {}).get("answer") or ()):
        return None
    turns = [turn for turn in trajectory.turns if turn.purpose == "act"]
    finishes = [call for turn in turns for call in turn.reply.tool_calls if call.name == FINISH]
    if finishes:
        return _of_finish(finishes[-1])
    text = turns[-1].reply.content if turns and not turns[-1].reply.tool_calls else None
    if text and not any(turn.tools for turn in turns):
        return NoPrediction.FORMAT_SUBMERSION
    return NoPrediction.TOOL_PARSING if text and _CALL_IN_TEXT.search(text) else NoPrediction.INCOMPLETE


def _of_finish(call: PlayedCall) -> NoPrediction:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return NoPrediction.TOOL_PARSING
    response = arguments.get("response") if isinstance(arguments, Mapping) else arguments
    if _is_empty(response):
        return NoPrediction.EMPTY_ANSWER
    return NoPrediction.TOOL_PARSING if _CALL_IN_TEXT.search(str(response)) else NoPrediction.FORMAT_SUBMERSION


def _is_empty(response: Any) -> bool:
    if isinstance(response, list):
        return all(_is_empty(one) for one in response)
    return (
        response is None
        or response == {}
        or (isinstance(response, str) and response.strip() in ("", "[]", "null", "None"))
    )
