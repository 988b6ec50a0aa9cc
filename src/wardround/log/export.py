"""Exports as JSON lines, in shapes of our own that carry their version.

``wardround.trajectory/1``: one line per episode, lossless: message tree, turns that point into it, tools, notes.
``wardround.conversation/1``: one line per branch (a root-to-leaf path) with the tools offered, to train or read on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import Any, TextIO

from wardround.core import content_hash
from wardround.log.path import PromptPath
from wardround.log.rows import Trajectory, Turn

TRAJECTORY_SCHEMA = "wardround.trajectory/1"
CONVERSATION_SCHEMA = "wardround.conversation/1"


def write_trajectories(trajectories: Iterable[Trajectory], file: TextIO) -> int:
    """Write one line per episode; return how many."""
    return _write((episode_line(trajectory) for trajectory in trajectories), file)


def write_conversations(trajectories: Iterable[Trajectory], file: TextIO) -> int:
    """Write one line per branch; return how many."""
    return _write((line for trajectory in trajectories for line in conversations(trajectory)), file)


def conversations(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """Yield an episode's branches, by their last turn. A reply that a later prompt continues is no end of a branch.

    ``places`` says, for each of ``turns``, which of the messages is its reply.
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
