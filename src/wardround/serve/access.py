"""Access: bearer tokens that open one session each, and where a server may listen."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from wardround.core import Sensitivity, UserError
from wardround.models.guard import is_loopback
from wardround.serve.session import ServedSession

# Bearer tokens: each opens exactly one session, and nothing else says whose chart a caller sees.


SCOPE = "chart"
TOKEN_SECONDS = 12 * 3600.0


class SessionTokens:
    """Sessions by token; also the SDK's token verifier. Bounded: more than ``most`` open sessions are refused, and a
    token opens nothing ``seconds`` after it was issued, however the wall clock is set meanwhile."""

    def __init__(
        self, *, most: int = 1_000, seconds: float = TOKEN_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions: dict[bytes, tuple[ServedSession, float]] = {}
        self._most = most
        self._seconds = seconds
        self._clock = clock

    def issue(self, session: ServedSession, token: str | None = None) -> str:
        """Open a session to whoever holds the token that is returned (made here unless one is given)."""
        for key in [key for key in self._sessions if self._open(key) is None]:
            del self._sessions[key]
        if len(self._sessions) >= self._most:
            raise UserError(f"{self._most} sessions are open already; close some or raise the limit")
        token = token or secrets.token_urlsafe(32)
        if len(token) < 16:
            raise UserError("a token needs at least 16 characters")
        if _key(token) in self._sessions:
            raise UserError("the same token was given twice")
        self._sessions[_key(token)] = (session, self._clock() + self._seconds)
        return token

    def revoke(self, token: str) -> None:
        """Close a token; later calls with it are refused."""
        self._sessions.pop(_key(token), None)

    def is_open(self, token: str) -> bool:
        """Whether a token still opens a session."""
        return self._open(_key(token)) is not None

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what the SDK needs for a known token, None for any other."""
        found = self._open(_key(token))
        if found is None:
            return None
        return AccessToken(token=token, client_id=found[0].name, scopes=[SCOPE])  # its end is ours to know

    def current(self) -> ServedSession:
        """Return the session of the request being served; PermissionError without a valid token."""
        access = get_access_token()
        found = self._open(_key(access.token)) if access else None
        if found is None:
            raise PermissionError("no session belongs to this token, or it has expired")
        return found[0]

    def _open(self, key: bytes) -> tuple[ServedSession, float] | None:
        """Return a session and when its token ends; None of an unknown or an expired one."""
        found = self._sessions.get(key)
        return None if found is None or found[1] <= self._clock() else found


def _key(token: str) -> bytes:
    """Sessions are kept by the token's hash: a look-up tells nothing of how much of a guess was right."""
    return sha256(token.encode()).digest()


# Where a server may listen: record text and tokens leave this machine encrypted, or because somebody says so.


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Address, and how it is protected: a certificate with its key, or ``plain_http`` where that is said aloud."""

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    key: Path | None = None
    plain_http: bool = False

    @property
    def scheme(self) -> str:
        """``https`` where there is a certificate."""
        return "http" if self.certificate is None else "https"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"{self.origin}/mcp"

    @property
    def tls_options(self) -> dict[str, Any]:
        """What uvicorn is told of it."""
        return {} if self.certificate is None else {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}

    def check(self, sensitivity: Sensitivity) -> None:
        """Raise UserError where credentialed records would go over a network for all to read."""
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise UserError(f"{str(file)!r}: no such file; give a certificate and its key in PEM form")
        if sensitivity != "credentialed" or self.scheme == "https" or self.plain_http:
            return
        if not is_loopback(httpx2.URL(self.url)):
            raise UserError(
                f"charts of credentialed records are not served to {self.host} over plain HTTP, which every machine in "
                f"between can read; give --tls-certificate FILE --tls-key FILE, or say --plain-http if something else "
                f"encrypts (a tunnel, a reverse proxy)"
            )
