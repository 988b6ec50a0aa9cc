"""Signed calls of CDS Hooks: checks of JWTs, keys of clients, trusted systems."""

from __future__ import annotations

import asyncio
import heapq
import json
import math
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import httpx2
import jwt
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wardround.core import UserError, check_settings, read_toml, setting, strict
from wardround.models import DataUseGuard
from wardround.models.endpoint import MalformedReply, read_body, read_json
from wardround.models.guard import environment_proxy, is_loopback, parse_endpoint, tls_context
from wardround.serve.cds.services import SERVICES
from wardround.serve.guarded import PrivateLines

# Settings of the trusted systems, each identified by its signed JWTs: in a file, as flags, or in Python.
#
# CDS Hooks 2.0, "Trusting CDS Clients": the client (``iss``) and its keys are agreed on beforehand.


Algorithm = Literal["ES384", "RS384", "ES256", "RS256", "ES512", "RS512"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSettings:
    """Clients and how their JWTs are checked. ``clients`` maps a client's ``iss`` to its keys."""

    clients: dict[str, str] = setting(
        dict,
        "who may call: the iss of a client's JWTs, and its public keys: a JWK Set, in a file or at a URL (its jku)",
        flag="--client",
    )
    base_url: str | None = setting(
        None,
        "address that clients call, as the aud of their JWTs begins (default: where it listens)",
        unit="URL",
        flag="--base-url",
    )
    algorithms: tuple[Algorithm, ...] = setting(
        ("ES384", "RS384"),
        "what JWTs may be signed with",
        source="CDS Hooks 2.0, JWT Signing Algorithm",
        flag="--algorithms",
    )
    longest_seconds: float = setting(
        3600.0, "for how long a JWT may be valid", unit="s", above=0, most=86_400, flag="--longest-seconds"
    )
    skew_seconds: float = setting(
        30.0, "how far a client's clock may be off", unit="s", least=0, most=300, flag="--skew-seconds"
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.algorithms:
            raise UserError("algorithms: name at least one, such as ES384")
        if self.base_url is not None:
            parse_endpoint(self.base_url)
        for issuer, keys in self.clients.items():
            if not issuer or not keys:
                raise UserError("clients: each has an iss and where its keys are")


def read_trust(path: Path) -> dict[str, Any]:
    """Read a file of these settings. Paths of key files are relative to it."""
    body = read_toml(path)
    read = strict(TrustSettings, body, str(path))
    clients = {issuer: keys if is_url(keys) else str(path.parent / keys) for issuer, keys in read.clients.items()}
    return body | {"clients": clients}


def trust_of(file: Mapping[str, Any], given: Mapping[str, Any]) -> TrustSettings:
    """Return the settings of a file, overridden by those that were given."""
    clients = {**file.get("clients", {}), **given.get("clients", {})}
    return strict(TrustSettings, {**file, **given, "clients": clients}, "the clients")


def is_url(keys: str) -> bool:
    """Return whether keys are at a URL, not in a file."""
    return keys.startswith(("http://", "https://"))


# The public keys of a client: a JWK Set (RFC 7517) from a file or a URL that was configured beforehand.
#
# An address in a JWT is never fetched. Only public keys are read, of a kind that the settings allow.


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
    """The keys of one client. ``jku``: their URL, None for a file. Keys are dropped if they cannot be read again."""

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
        """Return a key; keys are read again if it is unknown or too old. None: there is no such key."""
        if (name, algorithm) not in self._keys or self._age() >= KEPT_SECONDS:
            async with self._lock:
                if self._age() >= ASK_AGAIN_SECONDS:
                    try:
                        self._keys = keys_of(await self._read(), self._algorithms)
                    except (UserError, OSError, ValueError, httpx2.HTTPError, TimeoutError):
                        self._keys = {}
                    self._tried = self._clock()
        return self._keys.get((name, algorithm))

    @property
    def are_there(self) -> bool:
        """Whether any key could be read."""
        return bool(self._keys)

    def _age(self) -> float:
        return float("inf") if self._tried is None else self._clock() - self._tried


def keys_of_clients(settings: TrustSettings, guard: DataUseGuard) -> dict[str, ClientKeys]:
    """Return the keys of each client by its ``iss``. UserError: a file without keys, or an address that is not
    allowed."""
    return {
        issuer: _at_url(keys, settings, guard) if is_url(keys) else _in_file(Path(keys), settings)
        for issuer, keys in settings.clients.items()
    }


def keys_of(body: Any, algorithms: Sequence[str]) -> Keys:
    """Return the keys of a JWK Set that sign with one of ``algorithms``. UserError: there are none, or private ones."""
    listed = body.get("keys") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise UserError("not a JWK Set (an object with a list of keys)")
    if any(_PRIVATE & one.keys() for one in listed):
        raise UserError("contains a private or shared key: give only the public keys")
    found: dict[tuple[str, str], jwt.PyJWK] = {}
    for one in listed:
        for algorithm in algorithms:
            for key in _usable(one, algorithm):
                found.setdefault((one["kid"], algorithm), key)
    if not found:
        raise UserError(f"has no key with a kid that signs with {' or '.join(algorithms)}")
    return found


def _usable(one: Mapping[str, Any], algorithm: str) -> Iterator[jwt.PyJWK]:
    """Return a key for an algorithm, if its kind, curve and length are right."""
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
        raise UserError(f"the keys at {address!r}: anybody on the way could exchange them; give an https URL")

    tls = tls_context(url)

    async def read() -> Any:
        return await _fetch(url, tls)

    return ClientKeys(read, algorithms=settings.algorithms, jku=address)


async def _fetch(url: httpx2.URL, tls: ssl.SSLContext) -> Any:
    """Read a JWK Set from its address; no redirect is followed."""
    client = httpx2.AsyncClient(
        verify=tls,
        trust_env=False,  # the guard and the client must use the same proxy
        proxy=environment_proxy(url),
        follow_redirects=False,
    )
    async with asyncio.timeout(_FETCH_SECONDS), client, client.stream("GET", url) as response:
        if response.status_code != 200:
            raise MalformedReply(f"status {response.status_code}")
        return read_json(await read_body(response, None), None)


# Checks the JWT of a call: signed by a trusted client, for this address, not expired, and used only once.
#
# CDS Hooks 2.0, "Trusting CDS Clients"; RFC 7519. The reason of a refusal is in the access log, not in the answer.


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
    """A call whose JWT is not accepted; ``reason`` is a word or two, never the caller's text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SeenTokens:
    """The JWTs that were used, until they expire.

    At most ``most``: with more, calls are refused until some have expired. ``path``: a file that keeps them over a
    restart (mode 0600; hashes and times only).
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
            path.unlink(missing_ok=True)  # written anew, without those that are over
            self._lines = PrivateLines(path)
            self._lines.write(_line(until, key) for until, key in self._ends)

    def take(self, issuer: str, name: str, until: float) -> None:
        """Record a JWT by its issuer and ``jti``. RefusedCall: it was used before, or there are too many."""
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


def _line(until: float, key: bytes) -> Mapping[str, Any]:
    return {"until": until, "token": key.hex()}


def _kept(path: Path) -> Iterator[tuple[float, bytes]]:
    """Return the content of a file; an incomplete line (the server was stopped) is ignored."""
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            body = json.loads(line)
            yield float(body["until"]), bytes.fromhex(body["token"])
        except (ValueError, KeyError, TypeError):
            continue


class SignedCalls:
    """Identifies callers by their JWT.

    ``base_url``: the start of all addresses. ``seen``: JWTs used before, also with an earlier server. JWTs issued
    before ``started`` are refused.
    """

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
        """Return the ``iss`` of the signer of a call to an address. RefusedCall: the JWT is not accepted."""
        header, issuer = _claimed(token)
        key = await self._key(header, issuer)
        address = f"{self._base}{path}"
        try:
            claims = jwt.decode(
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
        self._check_once(claims, address, issuer)
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

    def _check_once(self, claims: Mapping[str, Any], address: str, issuer: str) -> None:
        """Check what the library does not: one audience, a short life, an unused ``jti``."""
        if claims["aud"] not in (address, [address]):
            raise RefusedCall("audience")
        if not isinstance(claims["jti"], str) or not 0 < len(claims["jti"]) <= 1_000:
            raise RefusedCall("claim missing")
        issued, ends = int(claims["iat"]), int(claims["exp"])  # whole seconds: float() fails for larger numbers
        if not issued <= ends <= issued + self._settings.longest_seconds:
            raise RefusedCall("valid for too long")
        if issued < self._started:
            raise RefusedCall("from before the server started")
        self._seen.take(issuer, claims["jti"], ends + self._settings.skew_seconds)


def _claimed(token: str) -> tuple[Mapping[str, Any], str]:
    """Return the unverified content of a JWT. RefusedCall: it is not a JWT."""
    if not token:
        raise RefusedCall("no JWT")
    if len(token) > MOST_CHARACTERS:
        raise RefusedCall("malformed")
    try:
        decoded = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise RefusedCall("malformed") from None
    issuer = decoded["payload"].get("iss")
    if not isinstance(issuer, str):
        raise RefusedCall("claim missing")
    return decoded["header"], issuer


# Accepts calls signed by a trusted client, and logs the caller; every other call is answered with the same 401.


_ASKING = {"WWW-Authenticate": 'Bearer realm="wardround", error="invalid_token"', "Cache-Control": "no-store"}
_SAID = {"error": "a JWT is required: signed by a trusted client for this address, and not used before"}


class CallLog:
    """JSON lines: when, who, which service, and why a call was refused. No token and no text of the caller.

    At most one refusal per second is written, so that refused callers cannot fill the disk; ``unsaid`` counts those in
    between.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._lines = PrivateLines(path)
        self._clock = clock
        self._last = float("-inf")
        self._unsaid = 0

    def answered(self, who: str, service: str) -> None:
        """Log an accepted call."""
        self._write({"who": who, "service": service})

    def refused(self, reason: str, service: str) -> None:
        """Log a refused call, or count it."""
        if self._clock() - self._last < 1.0:
            self._unsaid += 1
            return
        self._write({"refused": reason, "service": service, "unsaid": self._unsaid})
        self._last, self._unsaid = self._clock(), 0

    def _write(self, entry: Mapping[str, object]) -> None:
        self._lines.write([{"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}])


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCallers:
    """Which callers are accepted, and the log."""

    calls: SignedCalls
    log: CallLog

    @classmethod
    def of(cls, settings: TrustSettings, guard: DataUseGuard, *, base_url: str, log: Path) -> SignedCallers:
        """Build it from settings. UserError: keys that cannot be read or may not be fetched."""
        keys = keys_of_clients(settings, guard)
        seen = SeenTokens(path=log.with_name(f"{log.stem}-seen.jsonl"))
        return cls(calls=SignedCalls(settings, keys, base_url=base_url, seen=seen), log=CallLog(log))


class SignedDoor:
    """Requires a JWT for every request, also for discovery and feedback."""

    def __init__(self, app: ASGIApp, *, callers: SignedCallers) -> None:
        self._app = app
        self._calls, self._log = callers.calls, callers.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a call of a trusted client; answer 401 to all others."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        service = _service(scope["path"])
        scheme, _, token = HTTPConnection(scope).headers.get("authorization", "").partition(" ")
        try:
            who = await self._calls.caller(token.strip() if scheme.lower() == "bearer" else "", scope["path"])
        except RefusedCall as refused:
            self._log.refused(refused.reason, service)
            await JSONResponse(_SAID, 401, headers=_ASKING)(scope, receive, send)
            return
        self._log.answered(who, service)
        await self._app(scope, receive, send)


def _service(path: str) -> str:
    """Return the service of a call, by one of our names."""
    parts = path.strip("/").split("/")
    if parts == ["cds-services"]:
        return "discovery"
    known = parts[1] if len(parts) > 1 and parts[1] in SERVICES else "unknown"
    return f"{known}/feedback" if parts[-1] == "feedback" else known
