"""How a stream is followed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from wardround.stream.clock import ClockKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    """``lines_per_commit``: at most; ``partition`` of ``partitions``: the subjects whose number's hash falls on it.
    ``once``: end when all that is there is read; ``finish``: then close what is open, too. ``seconds_per_commit``: at
    least so long from one commit to the next, so that lines that come singly share one. ``entries_in_memory``: events
    of open bundles, and entries of states (about half a kilobyte each); what is more lies in the ledger. ``time_zone``:
    where the patients are, for times that say how far they are from UTC (None: a store's zone), and for the wall clock.
    ``clock``: what ends hours beside each patient's own lines, the source's lines ``clock`` (``event``) or the wall
    clock (``arrival``); ``skew``: how far ahead of that clock a line may be (None: 15 minutes with ``arrival``)."""

    lines_per_commit: int = 1_000
    partition: int = 0
    partitions: int = 1
    once: bool = False
    finish: bool = False
    clock: ClockKind = "event"
    skew: timedelta | None = None
    time_zone: str | None = None
    seconds_per_commit: float = 0.025
    entries_in_memory: int = 1_000_000
