"""Lets in calls that a trusted client signed, and notes who called; all others hear the same 401."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wardround.models import DataUseGuard
from wardround.serve.cds.client_keys import keys_of_clients
from wardround.serve.cds.services import SERVICES
from wardround.serve.cds.signed_calls import RefusedCall, SeenTokens, SignedCalls
from wardround.serve.cds.trust import TrustSettings
from wardround.serve.private_lines import PrivateLines

_ASKING = {"WWW-Authenticate": 'Bearer realm="wardround", error="invalid_token"', "Cache-Control": "no-store"}
_SAID = {"error": "a JWT is needed that a trusted client signed for this address, and that was not used before"}


class CallLog:
    """JSON lines: when, who, which service, and why a call was refused. No token and nothing that a caller wrote.

    Of refusals one line a second: whoever is not let in does not fill the disk; ``unsaid`` counts the others before it.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._lines = PrivateLines(path)
        self._clock = clock
        self._last = float("-inf")
        self._unsaid = 0

    def answered(self, who: str, service: str) -> None:
        """Note a call by a client that was let in."""
        self._write({"who": who, "service": service})

    def refused(self, reason: str, service: str) -> None:
        """Note a call that was not let in, or count it."""
        if self._clock() - self._last < 1.0:
            self._unsaid += 1
            return
        self._write({"refused": reason, "service": service, "unsaid": self._unsaid})
        self._last, self._unsaid = self._clock(), 0

    def _write(self, told: Mapping[str, object]) -> None:
        self._lines.write([{"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **told}])


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCallers:
    """Whose calls are let in, and where it is noted."""

    calls: SignedCalls
    log: CallLog

    @classmethod
    def of(cls, settings: TrustSettings, guard: DataUseGuard, *, base_url: str, log: Path) -> SignedCallers:
        """Make what lets in the clients of the settings. UserError: keys that cannot be read or may not be fetched."""
        keys = keys_of_clients(settings, guard)
        seen = SeenTokens(path=log.with_name(f"{log.stem}-seen.jsonl"))
        return cls(calls=SignedCalls(settings, keys, base_url=base_url, seen=seen), log=CallLog(log))


class SignedDoor:
    """Asks every request for its JWT, discovery and feedback too."""

    def __init__(self, app: ASGIApp, *, callers: SignedCallers) -> None:
        self._app = app
        self._calls, self._log = callers.calls, callers.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a call of a client that is trusted; answer 401 to all else."""
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
    """The service that is called, by a name of ours."""
    parts = path.strip("/").split("/")
    if parts == ["cds-services"]:
        return "discovery"
    known = parts[1] if len(parts) > 1 and parts[1] in SERVICES else "unknown"
    return f"{known}/feedback" if parts[-1] == "feedback" else known
