"""Exports of episodes: JSON lines, ATIF 1.8, OpenTelemetry spans."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from itertools import accumulate
from typing import Any, TextIO

from wardround.core import Message, ToolCall, content_hash
from wardround.log.rows import Trajectory, Turn
from wardround.log.writer import PromptPath

# Exports as JSON lines, in our own formats with a version.
#
# ``wardround.trajectory/1``: one line per episode, lossless: message tree, turns that point into it, tools, notes.
# ``wardround.conversation/1``: one line per branch (a root-to-leaf path) with the tools offered, to train or read on.


TRAJECTORY_SCHEMA = "wardround.trajectory/1"
CONVERSATION_SCHEMA = "wardround.conversation/1"


def write_trajectories(trajectories: Iterable[Trajectory], file: TextIO) -> int:
    """Write one line per episode; return how many."""
    return _write((episode_line(trajectory) for trajectory in trajectories), file)


def write_conversations(trajectories: Iterable[Trajectory], file: TextIO) -> int:
    """Write one line per branch; return how many."""
    return _write((line for trajectory in trajectories for line in conversations(trajectory)), file)


def conversations(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """Yield an episode's branches by their last turn; a reply that a later prompt continues ends no branch.

    ``places``: for each of ``turns``, the index of its reply in the messages.
    """
    paths = {turn.reply_hash: _nodes(turn) for turn in trajectory.turns}
    continued = {node for nodes in paths.values() for node in nodes[:-1]}
    ends = {turn.reply_hash: turn for turn in trajectory.turns if turn.reply_hash not in continued}
    for branch, (end, leaf) in enumerate(ends.items()):
        on_branch = [turn for turn in trajectory.turns if turn.reply_hash in paths[end]]
        yield {
            "schema": CONVERSATION_SCHEMA,
            "episode": trajectory.episode,
            "branch": branch,
            "purpose": leaf.purpose,
            "turns": [turn.ordinal for turn in on_branch],
            "places": [len(paths[turn.reply_hash]) - 1 for turn in on_branch],
            "facts": trajectory.facts,
            "outcome": trajectory.outcome,
            "model": leaf.model,
            "messages": [message.to_wire() for message in (*leaf.prompt, leaf.reply)],
            "tools": list(leaf.tools),
        }


def _nodes(turn: Turn) -> tuple[str, ...]:
    """The tree nodes from the root to a turn's reply."""
    path = PromptPath()
    path.follow((*turn.prompt, turn.reply))
    return tuple(node.hex() for node in path.hashes)


def episode_line(trajectory: Trajectory) -> dict[str, Any]:
    """Return an episode whole, as a JSON-ready dict."""
    messages: dict[str, dict[str, Any]] = {}
    for turn in trajectory.turns:
        parent: str | None = None
        for node, message in zip(_nodes(turn), (*turn.prompt, turn.reply), strict=True):
            messages.setdefault(node, {"id": node, "parent": parent, **message.to_wire()})
            parent = node
    tools = list({content_hash(turn.tools): turn.tools for turn in trajectory.turns}.values())
    return {
        "schema": TRAJECTORY_SCHEMA,
        "episode": trajectory.episode,
        "state": trajectory.entry.state,
        "started": trajectory.entry.started,
        "ended": trajectory.entry.ended,
        "facts": trajectory.facts,
        "outcome": trajectory.outcome,
        "messages": list(messages.values()),
        "tools": tools,
        "turns": [_turn(turn, tools.index(turn.tools)) for turn in trajectory.turns],
        "notes": [asdict(note) for note in trajectory.notes],
    }


def _turn(turn: Turn, tools: int) -> dict[str, Any]:
    left_out = ("prompt", "reply", "prompt_hash", "reply_hash", "tools", "usage", "unreported", "results")
    plain = {field.name: getattr(turn, field.name) for field in fields(turn) if field.name not in left_out}
    usage = {name: None if name in turn.unreported else value for name, value in asdict(turn.usage).items()}
    links = {"prompt": turn.prompt_hash or None, "reply": turn.reply_hash, "tools": tools}
    return {**links, **plain, "usage": usage, "results": [asdict(result) for result in turn.results]}


def _write(lines: Iterable[dict[str, Any]], file: TextIO) -> int:
    return sum(bool(file.write(json.dumps(line, ensure_ascii=False) + "\n")) for line in lines)


# Trajectories in ATIF 1.8, the agent trajectory format that Harbor and NeMo read: one document per branch.
#
# A branch after a summary repeats what was kept of the history before; those steps say ``is_copied_context``, so nobody
# trains on them twice. ``session_id`` is the episode.


SCHEMA_VERSION = "ATIF-v1.8"


def atif_documents(trajectory: Trajectory, *, version: str) -> Iterator[dict[str, Any]]:
    """Yield the branches of an episode; ``version`` is that of wardround."""
    turns = {turn.ordinal: turn for turn in trajectory.turns}
    exported_turns: set[int] = set()
    for branch in conversations(trajectory):
        reply_of = {place: turns[turn] for place, turn in zip(branch["places"], branch["turns"], strict=True)}
        steps = _steps(branch["messages"], reply_of, exported_turns)
        exported_turns |= set(branch["turns"])
        yield {
            "schema_version": SCHEMA_VERSION,
            "session_id": trajectory.episode,
            "trajectory_id": f"{trajectory.episode}#{branch['branch']}",
            "agent": {
                "name": str(trajectory.facts.get("agent", "wardround")),
                "version": version,
                "model_name": branch["model"],
                "tool_definitions": branch["tools"],
            },
            "steps": steps,
            "final_metrics": _totals(reply_of.values(), len(steps)),
            "extra": {"facts": dict(trajectory.facts), "outcome": trajectory.outcome, "purpose": branch["purpose"]},
        }


def _steps(
    messages: Sequence[Mapping[str, Any]], reply_of: Mapping[int, Turn], exported_turns: set[int]
) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            result = {"source_call_id": message["tool_call_id"], "content": message["content"] or ""}
            steps[-1].setdefault("observation", {"results": []})["results"].append(result)
            continue
        step = {"step_id": len(steps) + 1, "message": message["content"] or ""}
        if message["role"] == "assistant":
            step |= _agent_step(reply_of.get(index), message, exported_turns)
        else:
            step["source"] = message["role"]
        steps.append(step)
    return steps


def _agent_step(turn: Turn | None, message: Mapping[str, Any], exported_turns: set[int]) -> dict[str, Any]:
    """Return a reply of the model; a reply without a turn in this episode counts as context."""
    step: dict[str, Any] = {"source": "agent"}
    calls = [_call(call) for call in message.get("tool_calls", ())]
    if calls:
        step["tool_calls"] = calls
    if turn is None or turn.ordinal in exported_turns:
        return step | {"is_copied_context": True}
    step |= {"model_name": turn.model, "llm_call_count": 1, "metrics": _metrics(turn)}
    if turn.reasoning:
        step["reasoning_content"] = turn.reasoning
    return step


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = ToolCall(id=call["id"], **call["function"])
    arguments = function.as_object("unreadable")
    return {"tool_call_id": function.id, "function_name": function.name, "arguments": arguments}


def _metrics(turn: Turn) -> dict[str, Any]:
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "cached_tokens": "cached_tokens"}
    counted = {ours: getattr(turn.usage, of) for ours, of in names.items() if of not in turn.unreported}
    paid = {} if turn.cost is None else {"cost_usd": turn.cost}
    return counted | paid


def _totals(turns: Any, steps: int) -> dict[str, Any]:
    metrics = [_metrics(turn) for turn in turns]
    names = {
        "prompt_tokens": "total_prompt_tokens",
        "completion_tokens": "total_completion_tokens",
        "cached_tokens": "total_cached_tokens",
        "cost_usd": "total_cost_usd",
    }
    totals = {
        total: sum(one[name] for one in metrics) for name, total in names.items() if all(name in one for one in metrics)
    }
    return {"total_steps": steps, **(totals if metrics else {})}


# Episodes as OpenTelemetry spans: OTLP in JSON, one line an episode, from the finished log.
#
# An episode is a trace: a span of the agent, under it one for every model call and every tool call. The names are those
# of the GenAI conventions as they stood in November 2026; they are still marked as in development. Texts are patient
# data and left out unless they are asked for; a history is never repeated, each span carries what was new.


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
    sent_digests: set[bytes] = set()
    for turn in trajectory.turns:
        yield from _turn_spans(trace, turn, began, sent_digests, content)


def _turn_spans(
    trace: _Trace, turn: Turn, began: int, sent_digests: set[bytes], content: bool
) -> Iterator[dict[str, Any]]:
    end = _nanoseconds(turn.ended) if turn.ended else began
    texts_of_turn: dict[str, Any] = {}
    if content:
        new = [message for message in turn.prompt if message.digest not in sent_digests]
        texts_of_turn = {"gen_ai.input.messages": _messages(new), "gen_ai.output.messages": _messages([turn.reply])}
        sent_digests.update(message.digest for message in (*turn.prompt, turn.reply))
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
            **texts_of_turn,
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
    """Start and end of a span, in nanoseconds of the Unix epoch."""

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
