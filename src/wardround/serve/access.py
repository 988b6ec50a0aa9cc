"""Bearer tokens: each opens exactly one session, and nothing else says whose chart a caller sees."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from hashlib import sha256

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from wardround.core import UserError
from wardround.serve.session import ServedSession

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
