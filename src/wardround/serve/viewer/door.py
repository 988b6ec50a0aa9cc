"""A token before every page: as the password that a browser asks for (any user name), or as a bearer token."""

from __future__ import annotations

import secrets
from base64 import b64decode
from hashlib import sha256

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wardround.core import UserError

_SHORTEST = 16
_LOOPBACK_NAMES = ("localhost", "127.0.0.1")


class TokenDoor:
    """Lets nobody in without the token. UserError: it is too short to be one."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        must_be_token(token)
        self._app = app
        self._digest = _digest(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what carries the token; answer 401 to all else."""
        if scope["type"] == "lifespan" or self._opens(HTTPConnection(scope).headers.get("authorization", "")):
            await self._app(scope, receive, send)
            return
        asking = {"WWW-Authenticate": 'Basic realm="wardround", charset="UTF-8"'}
        await PlainTextResponse("the token is needed, as password or bearer\n", 401, asking)(scope, receive, send)

    def _opens(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        token = _password(given) if scheme.lower() == "basic" else given if scheme.lower() == "bearer" else ""
        return secrets.compare_digest(_digest(token), self._digest)


def page_door(token: str | None) -> Middleware:
    """What stands before every page: a token, or without one only loopback names."""
    if token is None:
        return Middleware(TrustedHostMiddleware, allowed_hosts=list(_LOOPBACK_NAMES), www_redirect=False)
    return Middleware(TokenDoor, token=token)


def must_be_token(token: str) -> None:
    """Raise UserError where a token is too short to keep anybody out."""
    if len(token) < _SHORTEST:
        raise UserError(f"a token needs at least {_SHORTEST} characters")


def _password(given: str) -> str:
    try:
        return b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:  # neither Base64 nor UTF-8: no password
        return ""


def _digest(token: str) -> bytes:
    """Digests of one length are compared: the time tells nothing of the token."""
    return sha256(token.encode()).digest()
