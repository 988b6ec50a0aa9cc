"""Limits on a caller's request: its size and its time, so that no request fills the memory or blocks the server.

A body is read only when the application reads it, so a caller with an invalid token is refused before.
"""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
