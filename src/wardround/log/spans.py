"""Episodes as OpenTelemetry spans: OTLP in JSON, one line an episode, from the finished log.

An episode is a trace: a span of the agent, under it one for every model call and every tool call. The names are those
of the GenAI conventions as they stood in November 2026; they are still marked as in development. Texts are patient data
and left out unless they are asked for; a history is never repeated, each span carries what was new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

from wardround.core import Message
from wardround.log.rows import Trajectory, Turn

_INTERNAL, _CLIENT = 1, 3
"""Kinds of spans: what happens here, and what asks a server."""
_ERROR = 2
_SECOND = 1_000_000_000
_Attributes = Mapping[str, Any]


def spans_document(trajectory: Trajectory, *, version: str, content: bool = False) -> dict[str, Any]:
    """Return a finished episode as one OTLP request; ``version`` is that of wardround, ``content``: with all texts."""
    scope = {"scope": {"name": "wardround", "version": version}, "spans": list(_spans(trajectory, content))}
    resource = {"attributes": _written({"service.name": "wardround", "service.version": version})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _spans(trajectory: Trajectory, content: bool) -> Iterator[dict[str, Any]]:
    trace = _Trace(trajectory.episode)
    facts, outcome = trajectory.facts, trajectory.outcome or {}
    ends = [_nanoseconds(turn.ended) for turn in trajectory.turns if turn.ended]
    began = _nanoseconds(trajectory.entry.started)
    ended = _nanoseconds(trajectory.entry.ended) if trajectory.entry.ended else max(ends, default=began)
    yield trace.span(
        "agent",
        f"invoke_agent {facts.get('agent', '')}".strip(),
        _Lasting(start=began, end=ended),
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": facts.get("agent"),
            "gen_ai.conversation.id": trajectory.episode,
            "gen_ai.request.model": facts.get("model"),
            "wardround.task": facts.get("task"),
            "wardround.sample": facts.get("sample"),
            "wardround.finish": outcome.get("finish"),
            "gen_ai.usage.input_tokens": trajectory.usage.input_tokens,
            "gen_ai.usage.output_tokens": trajectory.usage.output_tokens,
        },
        error=outcome.get("error"),
    )
    known: set[bytes] = set()
    for turn in trajectory.turns:
        yield from _turn_spans(trace, turn, began, known, content)


def _turn_spans(trace: _Trace, turn: Turn, began: int, known: set[bytes], content: bool) -> Iterator[dict[str, Any]]:
    end = _nanoseconds(turn.ended) if turn.ended else began
    said: dict[str, Any] = {}
    if content:
        new = [message for message in turn.prompt if message.digest not in known]
        said = {"gen_ai.input.messages": _messages(new), "gen_ai.output.messages": _messages([turn.reply])}
        known.update(message.digest for message in (*turn.prompt, turn.reply))
    yield trace.span(
        f"turn {turn.ordinal}",
        f"chat {turn.model}",
        _Lasting(start=end - round(turn.seconds * _SECOND), end=end),
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": turn.model,
            "gen_ai.response.model": turn.model,
            "gen_ai.response.finish_reasons": [turn.finish_reason],
            "gen_ai.usage.input_tokens": turn.usage.input_tokens,
            "gen_ai.usage.output_tokens": turn.usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": turn.usage.cached_tokens,
            "wardround.purpose": turn.purpose,
            "wardround.turn": turn.ordinal,
            **said,
        },
        kind=_CLIENT,
    )
    lasted = [round(result.seconds * _SECOND) for result in turn.results]
    for n, (result, done) in enumerate(zip(turn.results, accumulate(lasted), strict=True)):
        texts = {"gen_ai.tool.call.arguments": result.call.arguments, "gen_ai.tool.call.result": result.result_text}
        yield trace.span(
            f"tool {turn.ordinal} {n}",
            f"execute_tool {result.call.name}",
            _Lasting(start=end + done - lasted[n], end=end + done),
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": result.call.name,
                "gen_ai.tool.call.id": result.call.id,
                **(texts if content else {}),
            },
            error="the tool refused the call" if result.is_error else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lasting:
    """When a span began and ended, in nanoseconds of the Unix epoch."""

    start: int
    end: int


class _Trace:
    """Ids of one episode's spans: the same episode always has the same ones."""

    def __init__(self, episode: str) -> None:
        self.episode = episode

    def span(
        self,
        part: str,
        name: str,
        lasting: _Lasting,
        attributes: _Attributes,
        *,
        kind: int = _INTERNAL,
        error: str | None = None,
    ) -> dict[str, Any]:
        """One span; all but the agent's lie under it."""
        return {
            "traceId": self._id("trace", 16),
            "spanId": self._id(part, 8),
            **({} if part == "agent" else {"parentSpanId": self._id("agent", 8)}),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(lasting.start),
            "endTimeUnixNano": str(lasting.end),
            "attributes": _written(attributes),
            "status": {} if error is None else {"code": _ERROR, "message": error},
        }

    def _id(self, part: str, size: int) -> str:
        return hashlib.sha256(f"{self.episode}\n{part}".encode()).digest()[:size].hex()


def _messages(messages: Sequence[Message]) -> str:
    return json.dumps([message.to_wire() for message in messages], ensure_ascii=False)


def _nanoseconds(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000) * 1_000_000


def _written(attributes: _Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
