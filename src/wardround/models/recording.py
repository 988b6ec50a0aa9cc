"""Recorded replies: from an episode's log back to what a model said."""

from __future__ import annotations

from typing import cast, get_args

from wardround.log import LogReader, Turn
from wardround.models.protocol import FinishReason, Reply


def recorded_replies(reader: LogReader, episode: str) -> list[tuple[str, Reply]]:
    """Return an episode's replies in order, each with the digest of the request it answered.

    An episode that was never begun has none.
    """
    if not reader.has(episode):
        return []
    return [(turn.request_digest, reply_of(turn)) for turn in reader.trajectory(episode).turns]


def reply_of(turn: Turn) -> Reply:
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
