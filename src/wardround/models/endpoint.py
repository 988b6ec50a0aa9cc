"""One OpenAI-compatible endpoint: connections, retries, breaker, and what went wrong."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx2

from wardround.core import ProviderError, Secret, printable
from wardround.models.guard import DataUseGuard, environment_proxy, parse_endpoint, tls_context
from wardround.models.line import HttpLine

FILTER_CODES = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
"""Codes of a content filter that refused a prompt (Azure: status 400, ``code: content_filter``); the received text
begins with the code where a body has one of them."""

# When to try again, how long to wait, and when an endpoint is to be left alone.


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
        """Return the seconds to wait after the given attempt (1, 2, ...)."""
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
            retry_hint = f"; it asks to wait {fault.retry_after:.6g} s" if fault.retry_after is not None else ""
            raise self.error(
                f"{fault.message}{retry_hint} (deadline of {self._policy.deadline_seconds:g} s)", fault.status
            )
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
        """Whether requests are delayed."""
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


# The connections of one endpoint: each is lent for a request, and closed when anything was left over.
#
# Bytes that came after a reply would be read as the reply to the next request, which may be another episode's.


class Connections:
    """Connections to one base URL. ``secret`` masks the key, and the password of the proxy, in all that comes back.

    Proxies and certificates named in the environment are used for remote endpoints only.
    """

    def __init__(self, url: httpx2.URL, *, api_key: str | None, policy: RetryPolicy) -> None:
        self._url = url
        self._key = Secret(api_key) if api_key else None
        self._policy = policy
        self._proxy = environment_proxy(url)
        secrets = [secret for secret in (api_key, self._proxy.password if self._proxy else None) if secret]
        self.secret = Secret(*secrets) if secrets else None
        self._tls = tls_context(url)
        self._free: list[HttpLine] = []

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[HttpLine]:
        """Lend a connection. One that met an error is closed, not lent again."""
        line = self._free.pop() if self._free else self._new()
        try:
            yield line
        except BaseException:
            line.disconnect()
            raise
        self._free.append(line)

    async def close(self) -> None:
        """Close all of them."""
        for line in self._free:
            line.disconnect()
        self._free.clear()

    def _new(self) -> HttpLine:
        headers = {"user-agent": "wardround", "content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key.reveal()}"
        seconds = min(self._policy.connect_seconds, self._policy.attempt_seconds)
        return HttpLine(self._url, headers=headers, tls=self._tls, proxy=self._proxy, connect_seconds=seconds)


# One OpenAI-compatible endpoint: its concurrency limit, its breaker, one attempt at a time, and what it sends.
#
# Responses are parsed safely: bounded bytes, one JSON value, texts in one masked and printable line. Nothing an
# endpoint writes goes any other way, so that no bytes of it can end a run, fill the memory, print the key or command a
# terminal.


MOST_BODY_BYTES = 16 * 2**20
"""Of a reply, decompressed. Room for the log-probabilities of a long reply or the vectors of a batch of texts."""
MOST_VALUES = 1_000_000
"""JSON values in a body: an empty list of three bytes takes 64 bytes of memory."""
_ERROR_BYTES = 64 * 2**10
_LINE_CHARACTERS = 300


class MalformedReply(ValueError):
    """The endpoint answered 200 with a body that is no valid reply."""


async def read_body(response: httpx2.Response, secret: Secret | None) -> bytes:
    """Read a body as it streams in. MalformedReply: a good one is over its bound; of an error its start is enough."""
    encoding = response.headers.get("content-encoding", "")
    if "," in encoding:
        raise MalformedReply("the reply is compressed more than once")
    most = MOST_BODY_BYTES if response.is_success else _ERROR_BYTES
    parts: list[bytes] = []
    size = 0
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    async for part in response.aiter_bytes() if encoding else response.stream:
        parts.append(part)
        size += len(part)
        if size > most:
            break
    if size > most and response.is_success:
        raise MalformedReply(f"the reply is longer than {most:,} bytes")
    body = b"".join(parts)
    return body if secret is None else secret.masked_bytes(body)


def read_json(body: bytes, secret: Secret | None) -> Any:
    """Read a body's value. MalformedReply: it is not JSON, or more than any reply needs."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise MalformedReply(f"the reply holds more than {MOST_VALUES:,} values")
    try:
        value = json.loads(body)
        return value if secret is None else secret.masked_value(value)
    except RecursionError:
        raise MalformedReply("the reply is nested too deep") from None
    except ValueError as error:
        raise MalformedReply(f"the reply is not JSON ({one_line(str(error), secret)})") from None


def one_line(text: str, secret: Secret | None = None) -> str:
    """Return a text that came from outside as one line: masked first, then printable, then cut."""
    text = text if secret is None else secret.masked(text)
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LINE_CHARACTERS else text[: _LINE_CHARACTERS - 3] + "..."


def error_text(data: Any, secret: Secret | None = None) -> str:
    """Return the message of an error body in one line; empty without one."""
    if isinstance(data, dict):
        error = data.get("error", data.get("detail", data.get("message")))
        data = _worded(error) if isinstance(error, dict) else error
    if data is None:
        return ""
    try:
        return one_line(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False), secret)
    except RecursionError:
        return "(nested too deep to show)"


def _worded(error: dict[str, Any]) -> Any:
    """The message of an error; after the code, where that says that a content filter refused the prompt."""
    message = error.get("message", error)
    code = error.get("code")
    return f"{code}: {message}" if code in FILTER_CODES and isinstance(message, str) else message


def error_body_text(body: bytes, secret: Secret | None) -> str:
    """Return the message of an error body (JSON, or text in any encoding) in one line."""
    try:
        return error_text(read_json(body, secret), secret)
    except MalformedReply:
        return one_line(body.decode("utf-8", "replace"), secret)


Read = TypeVar("Read")
_MOST_MODELS = 10_000
_HINTS = {
    401: "; put a key into an environment variable and name it with --api-key-variable",
    403: "; this key may not use it",
    404: "; check the model's name and the base URL (most servers end in /v1)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The result of an attempt: the JSON value of its body, or the fault."""

    data: Any = None
    fault: Fault | None = None


class Endpoint:
    """A base URL that the guard allows. Several models may share one endpoint, its limit and its breaker.

    Redirects are never followed (they could lead where the guard does not allow); proxies and certificates named in the
    environment are used for remote endpoints only, so that loopback traffic stays on this machine.
    """

    def __init__(
        self,
        base_url: str,
        *,
        guard: DataUseGuard,
        api_key: str | None = None,
        policy: RetryPolicy | None = None,
        max_concurrent: int = 64,
    ) -> None:
        guard.check(base_url)
        url = parse_endpoint(base_url)
        self.base_url = str(url).rstrip("/")
        self.policy = policy or RetryPolicy()
        self.breaker = Breaker()
        self.slots = asyncio.Semaphore(max_concurrent)
        self._connections = Connections(url, api_key=api_key, policy=self.policy)
        self._secret = self._connections.secret

    async def ask(
        self,
        path: str,
        body: bytes,
        *,
        attempts: Attempts,
        read: Callable[[Any], Read],
        instead: Callable[[Fault], bytes | None] = lambda fault: None,
    ) -> Read:
        """Post, and post again where that may help; return what ``read`` makes of the reply's JSON value.

        ``read`` raises MalformedReply; ``instead`` may answer a fault with another body to send at once. Raises
        ProviderError with one clear line.
        """
        while True:
            await self.breaker.admit(attempts)
            async with self.slots:
                attempts.start()
                answer = await self.post(path, body, seconds=attempts.remaining_seconds)
            fault = answer.fault
            if fault is None:
                try:
                    return read(answer.data)
                except MalformedReply as error:
                    fault = Fault(kind="malformed", message=one_line(str(error), self._secret))
            other = instead(fault)
            if other is None:
                await asyncio.sleep(attempts.wait_after(fault))
            else:
                body = other

    async def post(self, path: str, body: bytes, *, seconds: float) -> AttemptResult:
        """Try once, for at most the given time from the first byte sent to the last one received."""
        seconds = min(seconds, self.policy.attempt_seconds)
        try:
            async with asyncio.timeout(seconds):
                response, received = await self._exchange("POST", path, body)
            return self._judge(response, received)
        except (TimeoutError, httpx2.TimeoutException) as error:
            waited = "no connection" if isinstance(error, httpx2.ConnectTimeout) else f"no reply within {seconds:g} s"
            return self._failed(Fault(kind="timeout", message=waited))
        except httpx2.ConnectError as error:
            return self._failed(Fault(kind="connect", message=f"cannot connect ({self._reason(error)})", patient=True))
        except httpx2.DecodingError as error:
            message = f"the reply cannot be decompressed ({self._reason(error)})"
            return self._failed(Fault(kind="malformed", message=message))
        except httpx2.TransportError as error:
            return self._failed(Fault(kind="dropped", message=f"the connection broke ({self._reason(error)})"))
        except MalformedReply as error:
            return self._failed(Fault(kind="malformed", message=str(error)))

    async def served_models(self) -> tuple[str, ...] | None:
        """Names of the models it serves, None where it does not say. Raises ProviderError when asking on is no use."""
        try:
            async with asyncio.timeout(self.policy.connect_seconds):
                response, received = await self._exchange("GET", "/models", b"")
        except MalformedReply:
            return None
        except (TimeoutError, httpx2.TransportError, httpx2.DecodingError) as error:
            raise ProviderError(
                f"cannot reach {self.base_url} ({self._reason(error)}); is the server running, and is the URL right?"
            ) from None
        if response.status_code in (401, 403, 502, 503, 504) or response.is_redirect:
            raise ProviderError(
                f"{self.base_url}: {self._status_text(response, received)}", status=response.status_code
            )
        if not response.is_success:
            return None
        try:
            listed = read_json(received, self._secret)["data"][:_MOST_MODELS]
            return tuple(one_line(str(entry["id"]), self._secret) for entry in listed)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    async def _exchange(self, method: str, path: str, body: bytes) -> tuple[httpx2.Response, bytes]:
        """Send a request and read what comes back. The only place that meets an endpoint's bytes: whatever the library
        makes of them, it is the endpoint's fault, not the run's end."""
        async with self._connections.lend() as line:
            try:
                response = await line.send(method, path, body)
                try:
                    return response, await read_body(response, self._secret)
                finally:
                    await response.aclose()
            except (httpx2.TransportError, httpx2.DecodingError, MalformedReply):
                raise
            except Exception as error:
                raise httpx2.RemoteProtocolError(f"{type(error).__name__}: {error}") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    def _judge(self, response: httpx2.Response, received: bytes) -> AttemptResult:
        status = response.status_code
        if response.is_success:
            self.breaker.answered()
            return AttemptResult(data=read_json(received, self._secret))
        fault = Fault(
            kind=f"status {status}",
            message=self._status_text(response, received),
            status=status,
            final=status not in RETRIED_STATUSES,
            patient=status < 500,
            retry_after=retry_after_seconds(response.headers.get("retry-after")),
        )
        if status >= 500:
            return self._failed(fault)
        self.breaker.answered()
        return AttemptResult(fault=fault)

    def _failed(self, fault: Fault) -> AttemptResult:
        self.breaker.failed(fault.message)
        return AttemptResult(fault=fault)

    def _status_text(self, response: httpx2.Response, received: bytes) -> str:
        """Status, the server's own words and a hint, in one line and without the key."""
        status = response.status_code
        if response.is_redirect:
            where = one_line(response.headers.get("location", ""), self._secret)
            return f"{status} redirects to {where}; use that as the base URL"
        words = error_body_text(received, self._secret)
        reason = one_line(response.reason_phrase, self._secret)
        return f"{status} {reason}{': ' + words if words else ''}{_HINTS.get(status, '')}"

    def _reason(self, error: BaseException) -> str:
        return one_line(str(error), self._secret) or type(error).__name__
