"""Bearer tokens: each opens exactly one session, and nothing else says whose chart a caller sees."""

from __future__ import annotations

import secrets
from hashlib import sha256

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from wardround.core import UserError
from wardround.serve.session import Session

SCOPE = "chart"


class SessionTokens:
    """Sessions by token; also the SDK's token verifier. Bounded: more than ``most`` open sessions are refused."""

    def __init__(self, *, most: int = 1_000) -> None:
        self._sessions: dict[bytes, Session] = {}
        self._most = most

    def issue(self, session: Session, token: str | None = None) -> str:
        """Open a session to whoever holds the token that is returned (made here unless one is given)."""
        if len(self._sessions) >= self._most:
            raise UserError(f"{self._most} sessions are open already; close some or raise the limit")
        token = token or secrets.token_urlsafe(32)
        if len(token) < 16:
            raise UserError("a token needs at least 16 characters")
        if _key(token) in self._sessions:
            raise UserError("the same token was given twice")
        self._sessions[_key(token)] = session
        return token

    def revoke(self, token: str) -> None:
        """Close a token; later calls with it are refused."""
        self._sessions.pop(_key(token), None)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what the SDK needs for a known token, None for any other."""
        session = self._sessions.get(_key(token))
        return None if session is None else AccessToken(token=token, client_id=session.name, scopes=[SCOPE])

    def current(self) -> Session:
        """Return the session of the request being served; PermissionError without a valid token."""
        access = get_access_token()
        session = self._sessions.get(_key(access.token)) if access else None
        if session is None:
            raise PermissionError("no session belongs to this token")
        return session


def _key(token: str) -> bytes:
    """Sessions are kept by the token's hash: a look-up tells nothing of how much of a guess was right."""
    return sha256(token.encode()).digest()
