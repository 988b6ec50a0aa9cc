"""Checks the JWT of a call: signed by a client that is trusted, for this very address, in time, and only once.

CDS Hooks 2.0, "Trusting CDS Clients"; RFC 7519. Why a call is refused is for the access log, not for the caller.
"""

from __future__ import annotations

import heapq
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt

from wardround.serve.cds.client_keys import ClientKeys
from wardround.serve.cds.trust import TrustSettings
from wardround.serve.private_lines import PrivateLines

MOST_CHARACTERS = 8_000
"""Of a JWT; with a certificate chain in its header one has some 5,000."""
_REQUIRED = ["iss", "aud", "exp", "iat", "jti"]
_REASONS: Mapping[type[Exception], str] = {
    jwt.InvalidSignatureError: "signature",
    jwt.ExpiredSignatureError: "expired",
    jwt.ImmatureSignatureError: "issued in the future",
    jwt.InvalidAudienceError: "audience",
    jwt.MissingRequiredClaimError: "claim missing",
}


class RefusedCall(Exception):
    """A call whose JWT does not open; ``reason`` is a word or two, none of them the caller's."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SeenTokens:
    """The JWTs that opened once, until they end. At most ``most``: with more, none opens until some have ended.

    ``path``: the file that keeps them over a restart (0600; hashes and times alone).
    """

    def __init__(
        self, *, most: int = 250_000, clock: Callable[[], float] = time.time, path: Path | None = None
    ) -> None:
        self._most = most
        self._clock = clock
        self._names: set[bytes] = set()
        self._ends: list[tuple[float, bytes]] = []
        self._path = path
        self._lines: PrivateLines | None = None
        if path is not None:
            self._ends = sorted((until, key) for until, key in _kept(path) if until >= clock())
            self._names = {key for _, key in self._ends}
            self._write_whole(path)

    def take(self, issuer: str, name: str, until: float) -> None:
        """Note a JWT by its issuer and ``jti``. RefusedCall: it was there before, or there is no room."""
        while self._ends and self._ends[0][0] < self._clock():
            self._names.discard(heapq.heappop(self._ends)[1])
        key = sha256(f"{len(issuer)}:{issuer}{name}".encode("utf-8", "replace")).digest()
        if key in self._names:
            raise RefusedCall("replayed")
        if len(self._names) >= self._most:
            raise RefusedCall("too many calls")
        self._names.add(key)
        heapq.heappush(self._ends, (until, key))
        if self._lines is not None:
            self._lines.write([_line(until, key)])

    def _write_whole(self, path: Path) -> None:
        """Write what is kept, in place of what the file held."""
        path.unlink(missing_ok=True)
        self._lines = PrivateLines(path)
        self._lines.write(_line(until, key) for until, key in self._ends)


def _line(until: float, key: bytes) -> Mapping[str, Any]:
    return {"until": until, "token": key.hex()}


def _kept(path: Path) -> Iterator[tuple[float, bytes]]:
    """What a file keeps; a line that was cut off by the end of a server is none."""
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            body = json.loads(line)
            yield float(body["until"]), bytes.fromhex(body["token"])
        except (ValueError, KeyError, TypeError):
            continue


class SignedCalls:
    """Who calls, by a JWT. ``base_url`` is what addresses begin with. ``seen``: the JWTs that opened already, also on a
    server that ran before; beside it, a JWT from before ``started`` opens nothing."""

    def __init__(
        self,
        settings: TrustSettings,
        keys: Mapping[str, ClientKeys],
        *,
        base_url: str,
        seen: SeenTokens | None = None,
        started: float | None = None,
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._base = (settings.base_url or base_url).rstrip("/")
        self._seen = seen or SeenTokens()
        self._started = math.floor(time.time() if started is None else started)

    async def caller(self, token: str, path: str) -> str:
        """Return the ``iss`` of whoever signed this call of an address. RefusedCall: it does not open."""
        header, issuer = _claimed(token)
        key = await self._key(header, issuer)
        address = f"{self._base}{path}"
        try:
            told = jwt.decode(
                token,
                key,
                algorithms=list(self._settings.algorithms),
                audience=address,
                issuer=issuer,
                leeway=self._settings.skew_seconds,
                options={"require": _REQUIRED},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise RefusedCall(_REASONS.get(type(error), "malformed")) from None
        self._check_once(told, address, issuer)
        return issuer

    async def _key(self, header: Mapping[str, Any], issuer: str) -> jwt.PyJWK:
        if issuer not in self._keys:
            raise RefusedCall("unknown client")
        if header.get("alg") not in self._settings.algorithms:
            raise RefusedCall("algorithm")
        keys, jku = self._keys[issuer], header.get("jku")
        if jku is not None and keys.jku is not None and jku != keys.jku:
            raise RefusedCall("jku")
        if not isinstance(header.get("kid"), str):
            raise RefusedCall("unknown key")
        key = await keys.find(header["kid"], header["alg"])
        if key is None:
            raise RefusedCall("unknown key" if keys.are_there else "keys cannot be read")
        return key

    def _check_once(self, told: Mapping[str, Any], address: str, issuer: str) -> None:
        """What a library does not ask: an audience of one, a life that is short, a name that is new."""
        if told["aud"] not in (address, [address]):
            raise RefusedCall("audience")
        if not isinstance(told["jti"], str) or not 0 < len(told["jti"]) <= 1_000:
            raise RefusedCall("claim missing")
        issued, ends = int(told["iat"]), int(told["exp"])  # whole seconds: of a larger number float() makes an error
        if not issued <= ends <= issued + self._settings.longest_seconds:
            raise RefusedCall("valid for too long")
        if issued < self._started:
            raise RefusedCall("from before the server started")
        self._seen.take(issuer, told["jti"], ends + self._settings.skew_seconds)


def _claimed(token: str) -> tuple[Mapping[str, Any], str]:
    """What a JWT says of itself, before anything is believed. RefusedCall: it is none."""
    if not token:
        raise RefusedCall("no JWT")
    if len(token) > MOST_CHARACTERS:
        raise RefusedCall("malformed")
    try:
        told = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise RefusedCall("malformed") from None
    issuer = told["payload"].get("iss")
    if not isinstance(issuer, str):
        raise RefusedCall("claim missing")
    return told["header"], issuer
