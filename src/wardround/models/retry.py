"""When to try again, how long to wait, and when an endpoint is to be left alone."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from wardround.core import ProviderError

RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Statuses that may pass by themselves. Every other 3xx, 4xx and 5xx is final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """At most ``attempts`` tries of one request. Waits are uniform between 0 and ``base_seconds`` doubled per try
    (full jitter), capped; a Retry-After is honoured as given. One fault ``same_fault_attempts`` times on one request
    (a 5xx, a timeout, a malformed body) is the end, never a loop; 429 and refused connections have all attempts."""

    attempts: int = 6
    same_fault_attempts: int = 3
    base_seconds: float = 1.0
    cap_seconds: float = 60.0
    connect_seconds: float = 10.0
    attempt_seconds: float = 600.0
    deadline_seconds: float = 1800.0

    def wait_seconds(self, attempt: int, retry_after: float | None) -> float:
        """How long to wait after the given attempt (1, 2, ...)."""
        if retry_after is not None:
            return retry_after + random.uniform(0, self.base_seconds)
        return random.uniform(0, min(self.cap_seconds, self.base_seconds * 2**attempt))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One attempt that gave no usable reply. ``kind`` says when two faults are the same one."""

    kind: str
    message: str
    status: int | None = None
    final: bool = False
    patient: bool = False
    retry_after: float | None = None


class Attempts:
    """The tries of one request: counts faults and says when to give up."""

    def __init__(self, policy: RetryPolicy, where: str) -> None:
        self.count = 0
        self._policy = policy
        self._where = where
        self._kinds: Counter[str] = Counter()
        self._started: float | None = None

    @property
    def remaining_seconds(self) -> float:
        """Time left before the total deadline; the clock starts with the first try."""
        if self._started is None:
            return self._policy.deadline_seconds
        return self._policy.deadline_seconds - self.seconds

    @property
    def seconds(self) -> float:
        """Wall time since the first try."""
        return 0.0 if self._started is None else time.monotonic() - self._started

    def start(self) -> None:
        """Count a try."""
        self.count += 1
        if self._started is None:
            self._started = time.monotonic()

    def wait_after(self, fault: Fault) -> float:
        """Seconds to wait before the next try. Raises ProviderError when there is none."""
        self._kinds[fault.kind] += 1
        if fault.final:
            raise self.error(fault.message, fault.status)
        if not fault.patient and self._kinds[fault.kind] >= self._policy.same_fault_attempts:
            raise self.error(f"{fault.message} ({self._kinds[fault.kind]} times on one request)", fault.status)
        if self.count >= self._policy.attempts:
            raise self.error(f"{fault.message} (gave up after {self.count} attempts)", fault.status)
        wait = self._policy.wait_seconds(self.count, fault.retry_after)
        if wait >= self.remaining_seconds:
            asked = f"; it asks to wait {fault.retry_after:.6g} s" if fault.retry_after is not None else ""
            raise self.error(f"{fault.message}{asked} (deadline of {self._policy.deadline_seconds:g} s)", fault.status)
        return wait

    def error(self, message: str, status: int | None = None) -> ProviderError:
        """The error that ends this request."""
        return ProviderError(f"{self._where}: {message}", status=status, attempts=max(self.count, 1))


class Breaker:
    """Stops a failing endpoint from being hammered: after ``threshold`` failures in a row one request at a time probes
    it and the others wait. An outage longer than ``outage_seconds`` fails them at once instead."""

    def __init__(
        self, *, threshold: int = 8, cool_seconds: float = 5.0, cap_seconds: float = 60.0, outage_seconds: float = 900.0
    ) -> None:
        self._threshold = threshold
        self._first_cool_seconds = self._cool_seconds = cool_seconds
        self._cap_seconds = cap_seconds
        self._outage_seconds = outage_seconds
        self._failures = 0
        self._failing_since = 0.0
        self._next_probe = 0.0
        self._last = ""

    @property
    def is_open(self) -> bool:
        """Whether requests are being held back."""
        return self._failures >= self._threshold

    async def admit(self, attempts: Attempts) -> None:
        """Return when a try may start. Raises ProviderError in a long outage or past the request's deadline."""
        waited = 0.0
        while self.is_open:
            now = time.monotonic()
            if now >= self._next_probe:
                self._next_probe = now + self._cool_seconds
                self._cool_seconds = min(self._cap_seconds, self._cool_seconds * 2)
                return
            if now - self._failing_since >= self._outage_seconds:
                raise attempts.error(f"no usable answer for {now - self._failing_since:.0f} s (last: {self._last})")
            pause = self._next_probe - now + random.uniform(0, 0.1)
            if waited + pause > attempts.remaining_seconds:
                raise attempts.error(f"the endpoint is failing (last: {self._last}) and the deadline is near")
            waited += pause
            await asyncio.sleep(pause)

    def failed(self, message: str) -> None:
        """Count an attempt that the endpoint did not survive."""
        if self._failures == 0:
            self._failing_since = time.monotonic()
        self._failures += 1
        self._last = message
        if self._failures == self._threshold:
            self._next_probe = time.monotonic() + self._cool_seconds

    def answered(self) -> None:
        """The endpoint works again."""
        self._failures = 0
        self._cool_seconds = self._first_cool_seconds


def retry_after_seconds(header: str | None, now: datetime | None = None) -> float | None:
    """Read a Retry-After header, seconds or an HTTP date; None when absent or unreadable, never negative."""
    if not header:
        return None
    try:
        seconds = float(header)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(header)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, OverflowError, TypeError, IndexError):  # whatever the date's parts are, it is no date
        return None
