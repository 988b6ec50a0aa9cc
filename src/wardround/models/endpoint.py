"""One OpenAI-compatible endpoint: its connections, its concurrency limit, its breaker, one attempt at a time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2

from wardround.core import ProviderError, Secret
from wardround.models.guard import DataUseGuard, environment_proxy, is_loopback, parse_endpoint
from wardround.models.left_over import is_clean
from wardround.models.received import MalformedReply, one_line, read_body, read_json, said
from wardround.models.retry import RETRIED_STATUSES, Attempts, Breaker, Fault, RetryPolicy, retry_after_seconds

Read = TypeVar("Read")
_MOST_MODELS = 10_000
_HINTS = {
    401: "; put a key into an environment variable and name it with --api-key-variable",
    403: "; this key may not use it",
    404: "; check the model's name and the base URL (most servers end in /v1)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
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
        self._key = Secret(api_key) if api_key else None
        self._proxy = environment_proxy(url)
        self._secret = _masks(api_key, self._proxy)
        self._tls = _tls_context(url, trust_environment=not is_loopback(url))
        self._lines: list[httpx2.AsyncClient] = []
        self._free_lines: list[httpx2.AsyncClient] = []

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

    async def post(self, path: str, body: bytes, *, seconds: float) -> Answer:
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
        async with self._line() as line:
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
        for line in self._lines:
            await line.aclose()
        self._lines.clear()
        self._free_lines.clear()

    @asynccontextmanager
    async def _line(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Lend a client that holds one connection. A shared pool walks all its connections for every request, which at
        256 of them costs more than the request. A line that met an error, or on which something came after the reply,
        is closed, not lent again."""
        line = self._free_lines.pop() if self._free_lines else self._new_line()
        try:
            yield line
        except BaseException:
            self._lines.remove(line)
            await line.aclose()
            raise
        if is_clean(line):
            self._free_lines.append(line)
        else:
            self._lines.remove(line)
            await line.aclose()

    def _new_line(self) -> httpx2.AsyncClient:
        headers = {"content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key.reveal()}"
        seconds = self.policy.attempt_seconds
        line = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(seconds, connect=min(self.policy.connect_seconds, seconds), pool=None),
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=4.0),
            verify=self._tls,
            trust_env=False,  # the guard and the line must mean the same proxy
            proxy=self._proxy,
        )
        self._lines.append(line)
        return line

    def _judge(self, response: httpx2.Response, received: bytes) -> Answer:
        status = response.status_code
        if response.is_success:
            self.breaker.answered()
            return Answer(data=read_json(received, self._secret))
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
        return Answer(fault=fault)

    def _failed(self, fault: Fault) -> Answer:
        self.breaker.failed(fault.message)
        return Answer(fault=fault)

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


def _masks(api_key: str | None, proxy: httpx2.URL | None) -> Secret | None:
    """What is masked in all that comes back: the key, and the password of the proxy, which may answer itself."""
    secrets = [secret for secret in (api_key, proxy.password if proxy else None) if secret]
    return Secret(*secrets) if secrets else None


def _tls_context(url: httpx2.URL, *, trust_environment: bool) -> ssl.SSLContext:
    """The usual certificates for https; for plain http a context that would trust nobody, and loads nothing."""
    if url.scheme == "https":
        return httpx2.create_ssl_context(trust_env=trust_environment)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
