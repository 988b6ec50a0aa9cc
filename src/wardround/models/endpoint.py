"""One OpenAI-compatible endpoint: its connections, its concurrency limit, its breaker, one attempt at a time."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from wardround.core import ProviderError
from wardround.models.guard import DataUseGuard, is_loopback, parse_endpoint
from wardround.models.retry import RETRIED_STATUSES, Breaker, Fault, RetryPolicy, retry_after_seconds
from wardround.models.wire import error_text

_HINTS = {
    401: "; put a key into an environment variable and name it with --api-key-variable",
    403: "; this key may not use it",
    404: "; check the model's name and the base URL (most servers end in /v1)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an attempt brought back: a body, or the fault."""

    body: bytes = b""
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
        self._api_key = api_key
        self._trust_environment = not is_loopback(url)
        self._tls = _tls_context(url, trust_environment=self._trust_environment)
        self._lines: list[httpx2.AsyncClient] = []
        self._free_lines: list[httpx2.AsyncClient] = []

    async def post(self, path: str, body: bytes, *, seconds: float) -> Answer:
        """Try once, for at most the given time."""
        seconds = min(seconds, self.policy.attempt_seconds)
        try:
            async with asyncio.timeout(seconds), self._line() as line:
                response = await line.post(self.base_url + path, content=body)
        except (TimeoutError, httpx2.TimeoutException) as error:
            waited = "no connection" if isinstance(error, httpx2.ConnectTimeout) else f"no reply within {seconds:g} s"
            return self._failed(Fault(kind="timeout", message=waited))
        except httpx2.ConnectError as error:
            return self._failed(Fault(kind="connect", message=f"cannot connect ({_reason(error)})", patient=True))
        except httpx2.TransportError as error:
            return self._failed(Fault(kind="dropped", message=f"the connection broke ({_reason(error)})"))
        except httpx2.DecodingError as error:
            return self._failed(Fault(kind="malformed", message=f"the reply cannot be decompressed ({_reason(error)})"))
        return self._judge(response)

    async def served_models(self) -> tuple[str, ...] | None:
        """Names of the models it serves, None where it does not say. Raises ProviderError when asking on is no use."""
        try:
            async with asyncio.timeout(self.policy.connect_seconds), self._line() as line:
                response = await line.get(self.base_url + "/models")
        except (TimeoutError, httpx2.TransportError, httpx2.DecodingError) as error:
            raise ProviderError(
                f"cannot reach {self.base_url} ({_reason(error)}); is the server running, and is the URL right?"
            ) from error
        if response.status_code in (401, 403, 502, 503, 504) or response.is_redirect:
            raise ProviderError(f"{self.base_url}: {self._said(response)}", status=response.status_code)
        try:
            listed = response.json()["data"] if response.is_success else None
            return None if listed is None else tuple(str(entry["id"]) for entry in listed)
        except (ValueError, KeyError, TypeError):
            return None

    async def close(self) -> None:
        """Close the connections."""
        for line in self._lines:
            await line.aclose()
        self._lines.clear()
        self._free_lines.clear()

    @asynccontextmanager
    async def _line(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Lend a client that holds one connection. A shared pool walks all its connections for every request, which at
        256 of them costs more than the request. A line that met an error is closed, not lent again."""
        line = self._free_lines.pop() if self._free_lines else self._new_line()
        try:
            yield line
        except BaseException:
            self._lines.remove(line)
            await line.aclose()
            raise
        self._free_lines.append(line)

    def _new_line(self) -> httpx2.AsyncClient:
        headers = {"content-type": "application/json"}
        if self._api_key:
            headers["authorization"] = f"Bearer {self._api_key}"
        seconds = self.policy.attempt_seconds
        line = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(seconds, connect=min(self.policy.connect_seconds, seconds), pool=None),
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=4.0),
            verify=self._tls,
            trust_env=self._trust_environment,
        )
        self._lines.append(line)
        return line

    def _judge(self, response: httpx2.Response) -> Answer:
        status = response.status_code
        if response.is_success:
            self.breaker.answered()
            return Answer(body=response.content)
        fault = Fault(
            kind=f"status {status}",
            message=self._said(response),
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

    def _said(self, response: httpx2.Response) -> str:
        """Status, the server's own words and a hint, in one line and without the key."""
        status = response.status_code
        if response.is_redirect:
            return f"{status} redirects to {response.headers.get('location')}; use that as the base URL"
        try:
            body: Any = json.loads(response.content)
        except ValueError:
            body = response.text
        said = error_text(body)
        if self._api_key:
            said = said.replace(self._api_key, "***")
        return f"{status} {response.reason_phrase}{': ' + said if said else ''}{_HINTS.get(status, '')}"


def _tls_context(url: httpx2.URL, *, trust_environment: bool) -> ssl.SSLContext:
    """The usual certificates for https; for plain http a context that would trust nobody, and loads nothing."""
    if url.scheme == "https":
        return httpx2.create_ssl_context(trust_env=trust_environment)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
