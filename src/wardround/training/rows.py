"""One row to train on: a branch of an episode as chat messages with native tool calls, and which replies are learnt.

A reply is learnt once: where a later branch repeats it (a summary took the place of the history after it), its weight
there is 0, as is that of every assistant message that no model wrote in this episode.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wardround.core import Picture
from wardround.log import Trajectory, conversations

ALL_PURPOSES: tuple[str, ...] = ()
PICTURES = "pictures"
"""The folder beside exported rows in which the pictures of their messages lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """A conversation. ``messages`` are of the chat-completions shape, but for the arguments of a call, which are an
    object where the model wrote one; an assistant's message has ``weight`` 1 where it is learnt and 0 where not.

    ``tools`` are the schemas that were offered. ``about`` says where the row comes from: episode, branch, agent, model,
    task, sample, subject, and what its use is bound to.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    about: Mapping[str, Any]

    @property
    def learnt(self) -> int:
        """How many of its messages are learnt."""
        return sum(message.get("weight", 0) for message in self.messages)

    @property
    def has_pictures(self) -> bool:
        """Whether a message shows a picture."""
        return any(message.get("pictures") for message in self.messages)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"messages": list(self.messages), "tools": list(self.tools), "about": dict(self.about)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TrainingRow:
        """Read what :meth:`to_json` wrote."""
        return cls(messages=tuple(body["messages"]), tools=tuple(body["tools"]), about=dict(body["about"]))


def training_rows(trajectory: Trajectory, *, purposes: Collection[str] = ALL_PURPOSES) -> Iterator[TrainingRow]:
    """Yield the branches of an episode that hold a reply not learnt from an earlier one.

    ``purposes``: only replies to calls of these purposes (``act``, ``summarise``, ...) are learnt; all where empty.
    """
    purpose_of = {turn.ordinal: turn.purpose for turn in trajectory.turns}
    learnt: set[int] = set()
    for branch in conversations(trajectory):
        turn_at = dict(zip(branch["places"], branch["turns"], strict=True))
        wanted = {place for place, turn in turn_at.items() if not purposes or purpose_of[turn] in purposes}
        new = {place for place in wanted if turn_at[place] not in learnt}
        if not new:
            continue
        learnt.update(turn_at[place] for place in new)
        yield TrainingRow(
            messages=tuple(_message(body, place, new) for place, body in enumerate(branch["messages"])),
            tools=tuple(branch["tools"]),
            about=_about(branch),
        )


def _about(branch: Mapping[str, Any]) -> dict[str, Any]:
    facts = branch["facts"]
    names = ("agent", "task", "sample", "epoch", "subject_id")
    return {
        "episode": branch["episode"],
        "branch": branch["branch"],
        "purpose": branch["purpose"],
        "model": branch["model"],
        **{name: facts[name] for name in names if name in facts},
    }


def _message(body: Mapping[str, Any], place: int, learnt: Collection[int]) -> dict[str, Any]:
    message = {name: value for name, value in body.items() if name != "tool_calls"}
    if body.get("tool_calls"):
        message["tool_calls"] = [_call(call) for call in body["tool_calls"]]
    if body.get("pictures"):
        message["pictures"] = [_picture(picture) for picture in body["pictures"]]
    if body["role"] == "assistant":
        message["weight"] = int(place in learnt)
    return message


def _picture(body: Mapping[str, Any]) -> dict[str, Any]:
    """A reference, with the file that holds the bytes, from the folder of the rows."""
    return {**body, "file": f"{PICTURES}/{Picture.from_wire(body).file_name}"}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Templates render arguments that are an object; broken JSON stays the text that it is."""
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        arguments = function["arguments"]
    if not isinstance(arguments, dict):
        arguments = function["arguments"]
    return {"id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": arguments}}
