"""What protects a server of ours: limits on requests, a token at the door, private logs of who read what."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from base64 import b64decode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wardround.core import UserError, format_time, private_file, private_folder
from wardround.tools import Environment

# Limits on a caller's request: its size and its time, so that no request fills the memory or blocks the server.
#
# A body is read only when the application reads it, so a caller with an invalid token is refused before.


MOST_BYTES = 1_000_000
MOST_SECONDS = 30.0
LONGEST_ADDRESS = 4_000
"""Characters, including the query: fewer than the digits that Python refuses to convert to a number."""


class _Refused(Exception):
    """Ends an application whose caller has already received an error."""


class BoundedRequests:
    """Answers 413 to a body of more than ``most_bytes``, 408 to one that is incomplete after ``seconds``, and 414 to an
    address that is too long."""

    def __init__(self, app: ASGIApp, *, most_bytes: int = MOST_BYTES, seconds: float = MOST_SECONDS) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request; its body is checked while it arrives."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if len(scope["path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            error = f"the address is longer than {LONGEST_ADDRESS:,} characters"
            await JSONResponse({"error": error}, 414)(scope, receive, send)
            return
        body = _Body(scope, receive, send, most_bytes=self._most_bytes, seconds=self._seconds)
        try:
            await self._app(scope, body.receive, body.send)
        except Exception:
            if not body.is_over:
                raise


class _Body:
    """One request: the part of its body received so far, and whether an error was sent."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, most_bytes: int, seconds: float) -> None:
        self.is_over = False
        self._scope, self._receive, self._send = scope, receive, send
        self._most_bytes, self._left = most_bytes, most_bytes
        self._seconds = seconds
        self._ends: float | None = None
        self._is_whole = False
        self._is_answered = False

    async def receive(self) -> Message:
        """Return the next part. Raises after an error was sent, or if the caller disconnects before the body is
        complete."""
        if self._is_whole:
            return await self._receive()
        message = await self._part()
        if message["type"] == "http.disconnect":
            self._over()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            await self._refuse(413, f"the body is longer than {self._most_bytes:,} bytes")
        self._is_whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Pass on a response, unless an error was sent."""
        if not self.is_over:
            self._is_answered = True
            await self._send(message)

    async def _part(self) -> Message:
        now = asyncio.get_running_loop().time()
        self._ends = self._ends or now + self._seconds
        try:
            async with asyncio.timeout_at(self._ends):
                return await self._receive()
        except TimeoutError:
            return await self._refuse(408, f"the body was not complete after {self._seconds:g} s")

    async def _refuse(self, status: int, text: str) -> Message:
        if not self._is_answered:
            closing = {"Connection": "close"}
            await JSONResponse({"error": text}, status, headers=closing)(self._scope, self._receive, self._send)
        return self._over()

    def _over(self) -> Message:
        self.is_over = True
        raise _Refused


# Every page requires a token: as the password in the browser's dialog (any user name), or as a bearer token.


_SHORTEST = 16
_LOOPBACK_NAMES = ("localhost", "127.0.0.1")


class TokenDoor:
    """Refuses requests without the token. UserError: it is too short."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        must_be_token(token)
        self._app = app
        self._digest = _digest(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests with the token; answer 401 to all others."""
        if scope["type"] == "lifespan" or self._opens(HTTPConnection(scope).headers.get("authorization", "")):
            await self._app(scope, receive, send)
            return
        asking = {"WWW-Authenticate": 'Basic realm="wardround", charset="UTF-8"'}
        await PlainTextResponse("a token is required, as password or bearer token\n", 401, asking)(scope, receive, send)

    def _opens(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        token = _password(given) if scheme.lower() == "basic" else given if scheme.lower() == "bearer" else ""
        return secrets.compare_digest(_digest(token), self._digest)


def page_door(token: str | None) -> Middleware:
    """Return the check for every page: a token, or without one only loopback names."""
    if token is None:
        return Middleware(TrustedHostMiddleware, allowed_hosts=list(_LOOPBACK_NAMES), www_redirect=False)
    return Middleware(TokenDoor, token=token)


def must_be_token(token: str) -> None:
    """Raise UserError if a token is too short to protect anything."""
    if len(token) < _SHORTEST:
        raise UserError(f"a token needs at least {_SHORTEST} characters")


def _password(given: str) -> str:
    try:
        return b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:  # neither Base64 nor UTF-8: no password
        return ""


def _digest(token: str) -> bytes:
    """Return a digest: comparing digests of one length reveals nothing about the token."""
    return sha256(token.encode()).digest()


# Pages that browsers neither store nor frame.


PAGE_HEADERS = {
    "Cache-Control": "no-store",  # the browser must not store record text
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest is in every page, as in reports
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def html_page(html: str, status: int = 200) -> Response:
    """Return a page that browsers neither store nor frame."""
    return HTMLResponse(html, status, headers=PAGE_HEADERS)


# JSON lines in a private file. Each line is appended in one write, so that several servers may share a file.


class PrivateLines:
    """A file to which lines are only appended."""

    def __init__(self, path: Path) -> None:
        private_folder(path.parent)
        private_file(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Append a line for each body, all in one write."""
        lines = "".join(json.dumps(body, ensure_ascii=False) + "\n" for body in bodies)
        os.write(self._file, lines.encode("utf-8", "replace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


# The access log: who called which tool on which chart, and when. Never a value, an argument or a result.


class AccessLog:
    """JSON lines, each appended in one write, so that several servers may share a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = PrivateLines(path)

    def write(self, *, who: str, environment: Environment, tool: str, is_error: bool) -> None:
        """Log one call. A tool that does not exist is logged as ``unknown``: its name is the caller's text."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "who": who,
            "subject_id": environment.chart.subject_id,
            "as_of": format_time(environment.chart.as_of),
            "tool": tool if tool in environment.toolset.names else "unknown",
            "is_error": is_error,
        }
        self._lines.write([line])

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
