"""CDS Hooks 2.0 over HTTP, and the feedback file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wardround.core import UserError
from wardround.serve.cds.services import SERVICES, CardShelf, FeedbackRequest, MalformedRequest, discovery, read_body
from wardround.serve.cds.signing import SignedCallers, SignedDoor
from wardround.serve.guarded import BoundedRequests, PrivateLines, page_door

# Feedback of users on cards: one JSON line each, appended to a file beside the run.


class FeedbackFile:
    """A file of feedback on the cards of one shelf. UserError: it is in the run's folder."""

    def __init__(self, path: Path, run: Path, shelf: CardShelf) -> None:
        if path.resolve().is_relative_to(run.resolve()):
            raise UserError(f"{path} is in the run's folder; choose a file outside it")
        self._lines = PrivateLines(path)
        self._run = shelf.run
        self._cards = shelf.names()

    def store(self, service: str, body: bytes) -> int:
        """Append the feedback of a request; return the number of cards. MalformedRequest: nothing was stored."""
        feedback = read_body(FeedbackRequest, body).feedback
        if any(one.card not in self._cards for one in feedback):
            raise MalformedRequest("card: it is not one of this run's cards")
        head = {"received": datetime.now(UTC).isoformat(timespec="milliseconds"), "run": self._run, "service": service}
        self._lines.write(head | one.model_dump(mode="json", by_alias=True, exclude_unset=True) for one in feedback)
        return len(feedback)


# CDS Hooks 2.0 over HTTP: discovery, services, feedback. Bodies are JSON; every error is one line.


_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def cds_app(
    shelf: CardShelf,
    feedback: FeedbackFile,
    *,
    token: str | None = None,
    signed: SignedCallers | None = None,
    origins: Sequence[str] = (),
) -> Starlette:
    """Return the application.

    It requires a token, or a call that is ``signed``; without either it answers only to loopback names. ``origins``:
    the only web pages from which a browser may call it.
    """

    async def services(request: Request) -> Response:
        return _json(discovery())

    async def call(request: Request) -> Response:
        name = _service(request)
        return _json(shelf.answer(SERVICES[name], await _body(request)))

    async def said(request: Request) -> Response:
        name = _service(request)
        return _json({"stored": feedback.store(name, await _body(request))})

    routes = [
        Route("/cds-services", services),
        Route("/cds-services/{service}", call, methods=["POST"]),
        Route("/cds-services/{service}/feedback", said, methods=["POST"]),
    ]
    named = Middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type"],
    )
    handlers = {HTTPException: _wrong, MalformedRequest: _wrong}
    door = page_door(token) if signed is None else Middleware(SignedDoor, callers=signed)
    return Starlette(routes=routes, middleware=[Middleware(BoundedRequests), named, door], exception_handlers=handlers)


def _service(request: Request) -> str:
    name = str(request.path_params["service"])
    if name not in SERVICES:
        raise HTTPException(404, "no such service; GET /cds-services lists them")
    return name


async def _body(request: Request) -> bytes:
    """Return the body. HTTPException: it is not declared as JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body must be application/json")
    return await request.body()


def _wrong(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _json({"error": error.detail}, error.status_code)
    return _json({"error": str(error)}, 400)


def _json(body: object, status: int = 200) -> Response:
    return JSONResponse(body, status, headers=_HEADERS)
