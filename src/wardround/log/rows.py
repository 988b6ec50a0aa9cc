"""Rows of a log as data, and replies kept before their turn is complete."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from wardround.core import Message, Picture, ToolCall, ToolSchema, Usage

# The rows of a log as data, and what the log asks of a request and a reply (it does not know the models room).


EpisodeState = Literal["open", "finished"]
USAGE_FIELDS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
"""The fields of Usage, in the order of the turn table's columns; ``unreported`` names some of them."""


class AskedRequest(Protocol):
    """A model request as the log needs it; ``wardround.models.Request`` is one."""

    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def tools(self) -> Sequence[ToolSchema]: ...
    @property
    def settings(self) -> Any: ...
    @property
    def ordinal(self) -> int: ...
    def digest(self, identity: str, *, path: bytes | None = None) -> str: ...


class GivenReply(Protocol):
    """A model reply as the log needs it; ``wardround.models.Reply`` is one."""

    @property
    def message(self) -> Message: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def attempts(self) -> int: ...
    @property
    def cost(self) -> float | None: ...
    @property
    def token_logprobs(self) -> tuple[float, ...] | None: ...
    @property
    def unreported(self) -> tuple[str, ...]: ...
    @property
    def identity(self) -> str: ...
    @property
    def reasoning(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """One tool call and its result. ``row_ids`` are the record rows whose content is in ``result_text``.

    ``pictures`` are those that the model was shown with it.
    """

    call: ToolCall
    result_text: str
    is_error: bool = False
    seconds: float = 0.0
    table: str | None = None
    rows_total: int | None = None
    rows_shown: int | None = None
    row_ids: tuple[str, ...] = ()
    cursor: str | None = None
    pictures: tuple[Picture, ...] = ()

    @property
    def message(self) -> Message:
        """The result as later prompts carry it."""
        text, call = self.result_text, self.call.id
        return Message(role="tool", content=text, tool_call_id=call, pictures=self.pictures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A decision or event of an episode outside its messages. ``n`` counts from 0 within the episode."""

    n: int
    kind: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One model call and its tool results, as read back.

    ``prompt_hash`` and ``reply_hash`` name nodes of the message tree. ``prefix_bytes`` of ``prompt_bytes`` repeat the
    previous prompt of the same purpose from its start (what a served model's prefix cache can reuse).
    """

    ordinal: int
    purpose: str
    prompt: tuple[Message, ...]
    reply: Message
    prompt_hash: str
    reply_hash: str
    request_digest: str
    model: str
    identity: str
    finish_reason: str
    usage: Usage
    unreported: tuple[str, ...]
    cost: float | None
    seconds: float
    attempts: int
    prompt_bytes: int
    prefix_bytes: int
    tools: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    reasoning: str | None = None
    token_logprobs: tuple[float, ...] | None = None
    ended: str = ""
    results: tuple[ToolRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEntry:
    """The row of an episode. ``outcome`` is None while it is open; ``started`` and ``ended`` are UTC, ISO 8601."""

    key: str
    facts: Mapping[str, Any]
    state: EpisodeState
    outcome: Mapping[str, Any] | None
    started: str
    ended: str | None
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEpisode:
    """An episode as read back: its row and its notes."""

    entry: EpisodeEntry
    notes: tuple[Note, ...]

    @property
    def episode(self) -> str:
        """The episode's key."""
        return self.entry.key

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts of the episode from its start."""
        return self.entry.facts

    @property
    def outcome(self) -> Mapping[str, Any] | None:
        """The outcome; None while the episode is open."""
        return self.entry.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory(RecordedEpisode):
    """All that is recorded of one episode, turns in the order of their ordinals."""

    turns: tuple[Turn, ...]

    @property
    def usage(self) -> Usage:
        """Tokens of all turns (unreported ones count as 0)."""
        return sum((turn.usage for turn in self.turns), start=Usage())


# Replies that have arrived and belong to no turn yet: their tools still run, or others asked with them still answer.
#
# They are written with the next group, so that a kill does not cost what was answered; the turn takes their place.


TABLE = """
CREATE TABLE kept (
    episode TEXT NOT NULL, ordinal INTEGER NOT NULL, request_digest TEXT NOT NULL, reply TEXT NOT NULL,
    PRIMARY KEY (episode, ordinal)
) WITHOUT ROWID
"""
_PLAIN = ("finish_reason", "model", "seconds", "attempts", "cost", "token_logprobs", "unreported", "identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReply:
    """A reply without its turn, as read back; its fields are those of a :class:`~wardround.log.Turn`."""

    ordinal: int
    request_digest: str
    reply: Message
    usage: Usage
    finish_reason: str
    model: str
    seconds: float
    attempts: int
    cost: float | None
    token_logprobs: tuple[float, ...] | None
    unreported: tuple[str, ...]
    identity: str
    reasoning: str | None


def row_of(episode: str, request: AskedRequest, reply: GivenReply) -> tuple[str, int, str, str]:
    """Return the row of a reply. It walks the whole prompt, so it is made only when it is written."""
    body = {name: getattr(reply, name) for name in _PLAIN}
    body |= {"message": reply.message.to_wire(), "usage": asdict(reply.usage), "reasoning": reply.reasoning}
    digest = request.digest(reply.identity or reply.model)
    return episode, request.ordinal, digest, json.dumps(body)


def read_kept(connection: sqlite3.Connection, episode: str) -> tuple[KeptReply, ...]:
    """Return an episode's replies that have no turn, by ordinal."""
    rows = connection.execute(
        "SELECT ordinal, request_digest, reply FROM kept WHERE episode = ? AND NOT EXISTS (SELECT 1 FROM turn "
        "WHERE turn.episode = kept.episode AND turn.ordinal = kept.ordinal) ORDER BY ordinal",
        (episode,),
    )
    return tuple(_reply(ordinal, digest, json.loads(body)) for ordinal, digest, body in rows)


def _reply(ordinal: int, digest: str, body: dict[str, Any]) -> KeptReply:
    logprobs = body.pop("token_logprobs")
    return KeptReply(
        ordinal=ordinal,
        request_digest=digest,
        reply=Message.from_wire(body.pop("message")),
        usage=Usage(**body.pop("usage")),
        token_logprobs=None if logprobs is None else tuple(logprobs),
        unreported=tuple(body.pop("unreported")),
        **body,
    )
