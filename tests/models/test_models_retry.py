from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.core import ProviderError
from wardround.models import RetryPolicy
from wardround.models.endpoint import Attempts, Breaker, Fault, retry_after_seconds


@given(attempt=st.integers(1, 40))
def test_waits_are_jittered_from_zero_and_capped_at_a_minute(attempt: int) -> None:
    policy = RetryPolicy()
    assert 0 <= policy.wait_seconds(attempt, None) <= min(60.0, 2.0**attempt)
    assert 30 <= policy.wait_seconds(attempt, 30.0) <= 31


def test_jitter_is_full() -> None:
    waits = [RetryPolicy().wait_seconds(10, None) for _ in range(400)]
    assert min(waits) < 6
    assert max(waits) > 54


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("soon", None),
        ("Fri, 20 Nov 2026 12:00:30 GMT", 30.0),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0.0),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after(header: str | None, expected: float | None) -> None:
    assert retry_after_seconds(header, datetime(2026, 11, 20, 12, tzinfo=UTC)) == expected


def test_a_breaker_lets_one_probe_through_and_fails_all_in_a_long_outage() -> None:
    async def main() -> None:
        breaker = Breaker(threshold=2, cool_seconds=0.3, outage_seconds=0.5)
        attempts = Attempts(RetryPolicy(), "here")
        for _ in range(2):
            await breaker.admit(attempts)
            breaker.failed("503")
        admitted = 0

        async def wait() -> None:
            nonlocal admitted
            await breaker.admit(attempts)
            admitted += 1

        waiting = [asyncio.create_task(wait()) for _ in range(5)]
        await asyncio.sleep(0)
        assert admitted == 0
        while not admitted:
            await asyncio.sleep(0.01)
        assert admitted == 1
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        errors = [outcome for outcome in outcomes if outcome is not None]
        assert errors
        assert all(isinstance(error, ProviderError) and "last: 503" in str(error) for error in errors)
        breaker.answered()
        await breaker.admit(attempts)

    asyncio.run(main())


def test_who_waits_for_a_failing_endpoint_is_told_before_the_deadline() -> None:
    """One of five probes after 1 to 1.1 s; the others would wait 2 s in all, of 1.15 s that they have."""

    async def main(cool_seconds: float) -> list[BaseException | None]:
        breaker = Breaker(threshold=1, cool_seconds=cool_seconds)
        breaker.failed("503")
        waiting = [breaker.admit(Attempts(RetryPolicy(deadline_seconds=1.15), "here")) for _ in range(5)]
        return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)

    for cool_seconds, admitted in ((1, 1), (9, 0)):
        outcomes = asyncio.run(main(cool_seconds))
        assert outcomes.count(None) == admitted
        said = {str(outcome) for outcome in outcomes if outcome is not None}
        assert said == {"here: the endpoint is failing (last: 503) and the deadline is near"}


def test_a_long_wait_past_the_deadline_is_refused_up_front() -> None:
    attempts = Attempts(RetryPolicy(deadline_seconds=5), "here")
    attempts.start()
    with pytest.raises(ProviderError, match=r"^here: 429; it asks to wait 9 s \(deadline of 5 s\)$"):
        attempts.wait_after(Fault(kind="status 429", message="429", patient=True, retry_after=9))
