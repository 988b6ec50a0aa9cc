"""The public keys of a client: a JWK Set (RFC 7517) from a file or a URL that was named beforehand.

No address that a JWT names is ever asked. What is read is public keys only, of a kind that the settings allow.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import jwt

from wardround.core import UserError
from wardround.models import DataUseGuard
from wardround.models.endpoint import MalformedReply, read_body, read_json
from wardround.models.guard import environment_proxy, is_loopback, parse_endpoint
from wardround.serve.cds.trust import TrustSettings, is_url

KEPT_SECONDS = 3600.0
"""Keys are read again after so long: one that its owner took away is not trusted for longer."""
ASK_AGAIN_SECONDS = 60.0
"""Nor are they read more often than this, whatever keys callers name."""
_FETCH_SECONDS = 10.0
_PRIVATE = frozenset(("d", "p", "q", "dp", "dq", "qi", "k"))
_KINDS = {"ES": "EC", "RS": "RSA"}
Keys = Mapping[tuple[str, str], jwt.PyJWK]
"""By the name of a key (``kid``) and what it signs with."""


class ClientKeys:
    """The keys of one client. ``jku`` is where they are, None of a file. Those that cannot be read again are gone."""

    def __init__(
        self,
        read: Callable[[], Awaitable[Any]],
        *,
        algorithms: Sequence[str],
        jku: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.jku = jku
        self._read = read
        self._algorithms = algorithms
        self._clock = clock
        self._lock = asyncio.Lock()
        self._keys: Keys = {}
        self._tried: float | None = None

    async def find(self, name: str, algorithm: str) -> jwt.PyJWK | None:
        """Return a key, read again if it is not known or too old. None: there is no such key."""
        if (name, algorithm) not in self._keys or self._age() >= KEPT_SECONDS:
            async with self._lock:
                if self._age() >= ASK_AGAIN_SECONDS:
                    await self._read_again()
        return self._keys.get((name, algorithm))

    @property
    def are_there(self) -> bool:
        """Whether any could be read."""
        return bool(self._keys)

    async def _read_again(self) -> None:
        try:
            self._keys = keys_of(await self._read(), self._algorithms)
        except (UserError, OSError, ValueError, httpx2.HTTPError, TimeoutError):
            self._keys = {}
        self._tried = self._clock()

    def _age(self) -> float:
        return float("inf") if self._tried is None else self._clock() - self._tried


def keys_of_clients(settings: TrustSettings, guard: DataUseGuard) -> dict[str, ClientKeys]:
    """Return the keys of each client by its ``iss``. UserError: a file without keys, or an address not permitted."""
    return {
        issuer: _at_url(keys, settings, guard) if is_url(keys) else _in_file(Path(keys), settings)
        for issuer, keys in settings.clients.items()
    }


def keys_of(told: Any, algorithms: Sequence[str]) -> Keys:
    """Return the keys of a JWK Set that sign with one of ``algorithms``. UserError: there are none, or private ones."""
    listed = told.get("keys") if isinstance(told, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise UserError("is no JWK Set: an object with a list of keys")
    if any(_PRIVATE & one.keys() for one in listed):
        raise UserError("holds a private or shared key: give the public keys alone")
    found: dict[tuple[str, str], jwt.PyJWK] = {}
    for one in listed:
        for algorithm in algorithms:
            for key in _usable(one, algorithm):
                found.setdefault((one["kid"], algorithm), key)
    if not found:
        raise UserError(f"has no key with a kid that signs with {' or '.join(algorithms)}")
    return found


def _usable(one: Mapping[str, Any], algorithm: str) -> Iterator[jwt.PyJWK]:
    """A key for an algorithm, where it is of its kind, curve and length."""
    said = one.get("alg", algorithm) == algorithm and one.get("use", "sig") == "sig"
    if not said or not isinstance(one.get("kid"), str) or one.get("kty") != _KINDS[algorithm[:2]]:
        return
    try:
        key = jwt.PyJWK(dict(one), algorithm)
        key.Algorithm.prepare_key(key.key)
    except (jwt.PyJWTError, ValueError, TypeError):
        return
    if key.Algorithm.check_key_length(key.key) is None:
        yield key


def _in_file(path: Path, settings: TrustSettings) -> ClientKeys:
    async def read() -> Any:
        return _read_file(path)

    try:
        keys_of(_read_file(path), settings.algorithms)
    except (UserError, ValueError) as error:
        raise UserError(f"the keys in {str(path)!r}: {error}") from None
    return ClientKeys(read, algorithms=settings.algorithms)


def _read_file(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"they cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UserError("they are not JSON") from None


def _at_url(address: str, settings: TrustSettings, guard: DataUseGuard) -> ClientKeys:
    guard.check(address)
    url = parse_endpoint(address)
    if url.scheme != "https" and not is_loopback(url):
        raise UserError(f"the keys at {address!r}: who can change them can sign; give an https URL")

    async def read() -> Any:
        return await _fetch(url)

    return ClientKeys(read, algorithms=settings.algorithms, jku=address)


async def _fetch(url: httpx2.URL) -> Any:
    """Read a JWK Set from its address; no redirect is followed."""
    client = httpx2.AsyncClient(
        verify=httpx2.create_ssl_context(trust_env=not is_loopback(url)),
        trust_env=False,  # the guard and the client must mean the same proxy
        proxy=environment_proxy(url),
        follow_redirects=False,
    )
    async with asyncio.timeout(_FETCH_SECONDS), client, client.stream("GET", url) as response:
        if response.status_code != 200:
            raise MalformedReply(f"status {response.status_code}")
        return read_json(await read_body(response, None), None)
