"""Trajectories in ATIF 1.8, the agent trajectory format that Harbor and NeMo read: one document per branch.

A branch after a summary repeats what was kept of the history before; those steps say ``is_copied_context``, so nobody
trains on them twice. ``session_id`` is the episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wardround.core import ToolCall
from wardround.log.export import conversations
from wardround.log.rows import Trajectory, Turn

SCHEMA_VERSION = "ATIF-v1.8"


def atif_documents(trajectory: Trajectory, *, version: str) -> Iterator[dict[str, Any]]:
    """Yield the branches of an episode; ``version`` is that of wardround."""
    turns = {turn.ordinal: turn for turn in trajectory.turns}
    told: set[int] = set()
    for branch in conversations(trajectory):
        reply_of = {place: turns[turn] for place, turn in zip(branch["places"], branch["turns"], strict=True)}
        steps = _steps(branch["messages"], reply_of, told)
        told |= set(branch["turns"])
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


def _steps(messages: Sequence[Mapping[str, Any]], reply_of: Mapping[int, Turn], told: set[int]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            result = {"source_call_id": message["tool_call_id"], "content": message["content"] or ""}
            steps[-1].setdefault("observation", {"results": []})["results"].append(result)
            continue
        step = {"step_id": len(steps) + 1, "message": message["content"] or ""}
        if message["role"] == "assistant":
            step |= _agent_step(reply_of.get(place), message, told)
        else:
            step["source"] = message["role"]
        steps.append(step)
    return steps


def _agent_step(turn: Turn | None, message: Mapping[str, Any], told: set[int]) -> dict[str, Any]:
    """A reply of the model; what no turn of this episode wrote was put there, and is context too."""
    step: dict[str, Any] = {"source": "agent"}
    calls = [_call(call) for call in message.get("tool_calls", ())]
    if calls:
        step["tool_calls"] = calls
    if turn is None or turn.ordinal in told:
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
    every = [_metrics(turn) for turn in turns]
    names = {
        "prompt_tokens": "total_prompt_tokens",
        "completion_tokens": "total_completion_tokens",
        "cached_tokens": "total_cached_tokens",
        "cost_usd": "total_cost_usd",
    }
    known = {
        total: sum(one[name] for one in every) for name, total in names.items() if all(name in one for one in every)
    }
    return {"total_steps": steps, **(known if every else {})}
