"""Replies that have arrived and belong to no turn yet: their tools still run, or others asked with them still answer.

They are written with the next group, so that a kill does not cost what was answered; the turn takes their place.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass
from typing import Any

from wardround.core import Message, Usage
from wardround.log.rows import AskedRequest, GivenReply

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
    return episode, request.ordinal, digest, json.dumps(body, separators=(",", ":"))


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
