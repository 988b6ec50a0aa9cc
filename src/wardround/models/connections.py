"""The connections of one endpoint: a client each, lent for a request, and closed when anything was left over.

Bytes that came after a reply would be read as the reply to the next request, which may be another episode's. The HTTP
library keeps such bytes and does not say so, so its parser is asked; a connection whose parser is not where it is
looked for counts as unclean, which costs a new connection and no answer.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from wardround.core import Secret
from wardround.models.guard import environment_proxy, is_loopback
from wardround.models.retry import RetryPolicy

_DEPTH = 4
"""Connections hold connections: one through a proxy and a tunnel holds three."""


class Connections:
    """Clients of one base URL. ``secret`` masks the key, and the password of the proxy, in all that comes back.

    Proxies and certificates named in the environment are used for remote endpoints only.
    """

    def __init__(self, url: httpx2.URL, *, api_key: str | None, policy: RetryPolicy) -> None:
        self._key = Secret(api_key) if api_key else None
        self._policy = policy
        self._proxy = environment_proxy(url)
        secrets = [secret for secret in (api_key, self._proxy.password if self._proxy else None) if secret]
        self.secret = Secret(*secrets) if secrets else None
        self._tls = _tls_context(url, trust_environment=not is_loopback(url))
        self._open: list[httpx2.AsyncClient] = []
        self._free: list[httpx2.AsyncClient] = []

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Lend a client that holds one connection. A shared pool walks all its connections for every request, which at
        256 of them costs more than the request. One that met an error, or on which something came after the reply, is
        closed, not lent again."""
        client = self._free.pop() if self._free else self._new()
        try:
            yield client
        except BaseException:
            self._open.remove(client)
            await client.aclose()
            raise
        if is_clean(client):
            self._free.append(client)
        else:
            self._open.remove(client)
            await client.aclose()

    async def close(self) -> None:
        """Close all of them."""
        for client in self._open:
            await client.aclose()
        self._open.clear()
        self._free.clear()

    def _new(self) -> httpx2.AsyncClient:
        headers = {"content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key.reveal()}"
        seconds = self._policy.attempt_seconds
        client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(seconds, connect=min(self._policy.connect_seconds, seconds), pool=None),
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=4.0),
            verify=self._tls,
            trust_env=False,  # the guard and the client must mean the same proxy
            proxy=self._proxy,
        )
        self._open.append(client)
        return client


def _tls_context(url: httpx2.URL, *, trust_environment: bool) -> ssl.SSLContext:
    """The usual certificates for https; for plain http a context that would trust nobody, and loads nothing."""
    if url.scheme == "https":
        return httpx2.create_ssl_context(trust_env=trust_environment)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def is_clean(line: httpx2.AsyncClient) -> bool:
    """Say whether nothing has come after the last reply on a client's connections."""
    pool = getattr(getattr(line, "_transport", None), "_pool", None)
    for transport in getattr(line, "_mounts", {}).values():  # a proxy's
        pool = getattr(transport, "_pool", None) or pool
    connections = getattr(pool, "connections", None)
    return connections is not None and all(map(_has_nothing_left, connections))


def _has_nothing_left(connection: Any) -> bool:
    for _ in range(_DEPTH):
        parser = getattr(connection, "_h11_state", None)
        if parser is not None:
            return not parser.trailing_data[0]
        connection = getattr(connection, "_connection", None)
    return False
