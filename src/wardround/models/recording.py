"""Recorded replies: from an episode's log back to what a model said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, get_args

from wardround.log import KeptReply, LogReader, Turn
from wardround.models.protocol import FinishReason, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A reply that was recorded: which of its episode's calls it answered, and the digest of the request."""

    ordinal: int
    digest: str
    reply: Reply


def recorded_replies(reader: LogReader, episode: str) -> list[Recorded]:
    """Return an episode's replies in order, those without a turn too. An episode that was never begun has none."""
    if not reader.has(episode):
        return []
    found: list[Turn | KeptReply] = [*reader.trajectory(episode).turns, *reader.kept(episode)]
    found.sort(key=lambda one: one.ordinal)
    return [Recorded(ordinal=one.ordinal, digest=one.request_digest, reply=reply_of(one)) for one in found]


def reply_of(turn: Turn | KeptReply) -> Reply:
    """The reply as its model gave it, with its own time, attempts and cost."""
    reason = turn.finish_reason if turn.finish_reason in get_args(FinishReason) else "other"
    return Reply(
        message=turn.reply,
        usage=turn.usage,
        finish_reason=cast(FinishReason, reason),
        model=turn.model,
        seconds=turn.seconds,
        attempts=turn.attempts,
        cost=turn.cost,
        token_logprobs=turn.token_logprobs,
        unreported=turn.unreported,
        identity=turn.identity,
        reasoning=turn.reasoning,
    )
