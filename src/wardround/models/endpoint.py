"""One OpenAI-compatible endpoint: its concurrency limit, its breaker, one attempt at a time, and what it sends.

What comes back is taken in safely: bounded bytes, one JSON value, texts in one masked and printable line. Nothing an
endpoint writes goes any other way, so that no bytes of it can end a run, fill the memory, print the key or command a
terminal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2

from wardround.core import ProviderError, Secret, printable
from wardround.models.connections import Connections
from wardround.models.guard import DataUseGuard, parse_endpoint
from wardround.models.retry import RETRIED_STATUSES, Attempts, Breaker, Fault, RetryPolicy, retry_after_seconds
from wardround.models.withheld import FILTER_CODES

MOST_BODY_BYTES = 16 * 2**20
"""Of a reply, decompressed. Room for the log-probabilities of a long reply or the vectors of a batch of texts."""
MOST_VALUES = 1_000_000
"""JSON values in a body: an empty list of three bytes takes 64 bytes of memory."""
_ERROR_BYTES = 64 * 2**10
_LINE_CHARACTERS = 300


class MalformedReply(ValueError):
    """The endpoint said 200 and then nothing that reads as what was asked for."""


async def read_body(response: httpx2.Response, secret: Secret | None) -> bytes:
    """Read a body as it streams in. MalformedReply: a good one is over its bound; of an error its start is enough."""
    if "," in response.headers.get("content-encoding", ""):
        raise MalformedReply("the reply is compressed more than once")
    most = MOST_BODY_BYTES if response.is_success else _ERROR_BYTES
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
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
    """What an error body says, in one line; empty when it says nothing."""
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


def said(body: bytes, secret: Secret | None) -> str:
    """What the body of an error says, JSON or text in any encoding, in one line."""
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
    """What an attempt brought back: the JSON value of its body, or the fault."""

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
            raise ProviderError(f"{self.base_url}: {self._said(response, received)}", status=response.status_code)
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
                request = line.build_request(method, self.base_url + path, content=body)
                response = await line.send(request, stream=True)
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
            message=self._said(response, received),
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

    def _said(self, response: httpx2.Response, received: bytes) -> str:
        """Status, the server's own words and a hint, in one line and without the key."""
        status = response.status_code
        if response.is_redirect:
            where = one_line(response.headers.get("location", ""), self._secret)
            return f"{status} redirects to {where}; use that as the base URL"
        words = said(received, self._secret)
        reason = one_line(response.reason_phrase, self._secret)
        return f"{status} {reason}{': ' + words if words else ''}{_HINTS.get(status, '')}"

    def _reason(self, error: BaseException) -> str:
        return one_line(str(error), self._secret) or type(error).__name__
