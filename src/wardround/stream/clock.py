"""What the time is for a stream: that of its source's own lines ``clock``, or that of the wall."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from wardround.core import UserError, to_microseconds
from wardround.records.specs.wall_clock import WallClock

ClockKind = Literal["event", "arrival"]
CLOCKS: tuple[ClockKind, ...] = ("event", "arrival")
LIVE_SKEW = timedelta(minutes=15)
"""So far ahead of the wall clock a line may be in live use (ours: clocks of devices are minutes apart)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamClock:
    """``event``: hours end with each patient's own lines and the lines ``clock`` of the source; ``arrival``: with the
    wall clock too. ``skew``: how far ahead of it a line may be, None for any (the default of ``event``)."""

    kind: ClockKind = "event"
    skew: timedelta | None = None
    wall: Callable[[], datetime] = datetime.now

    @classmethod
    def of(cls, kind: ClockKind, skew: timedelta | None, time_zone: str) -> StreamClock:
        """Return the clock that settings ask for. UserError: they ask for none that there is."""
        if kind not in CLOCKS:
            raise UserError(f"clock: must be one of {', '.join(CLOCKS)}, not {kind!r}")
        if skew is not None and skew < timedelta(0):
            raise UserError(f"skew: must be 0 minutes or more, not {skew}")
        zone = WallClock.named(time_zone).zone if kind == "arrival" and time_zone else None
        return cls(
            kind=kind,
            skew=LIVE_SKEW if skew is None and kind == "arrival" else skew,
            wall=lambda: datetime.now(zone).replace(tzinfo=None),
        )

    def now(self) -> int | None:
        """The wall clock's time in microseconds, as records write it; None where it does not count."""
        return to_microseconds(self.wall()) if self.kind == "arrival" else None

    def limit(self, time: int) -> int | None:
        """The last time at which a line may be known while the clock stands at a time; None: any."""
        return None if self.skew is None else time + self.skew // timedelta(microseconds=1)
