"""The viewer over HTTP, behind a token."""

from __future__ import annotations

import secrets
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wardround.core import RecordError, UserError
from wardround.serve.bounded import BoundedRequests
from wardround.serve.viewer.pages import ViewerPages
from wardround.serve.viewer.run import NotFound, listed, read_query

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


# The viewer over HTTP: it only reads, reports every error in one line, and forbids caching and framing.


_HEADERS = {
    "Cache-Control": "no-store",  # the browser must not store record text
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest is in every page, as in reports
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def viewer_app(pages: ViewerPages, *, token: str | None = None) -> Starlette:
    """Return the application. With a token it requires it from every caller; without one it answers only to loopback
    names, so that a web page cannot reach it under a name of its own."""

    def runs(request: Request) -> Response:
        return html_page(pages.runs_page())

    def run(request: Request) -> Response:
        return html_page(pages.run_page(request.path_params["number"]))

    def samples(request: Request) -> Response:
        number = request.path_params["number"]
        one = pages.run(number)
        query = read_query(one, dict(request.query_params))
        return html_page(pages.samples_page(number, query, listed(one, query)))

    def episode(request: Request) -> Response:
        return html_page(pages.episode_page(request.path_params["number"], _episode(request)))

    def part_of(make: Callable[[int, str, int], str]) -> Callable[[Request], Response]:
        """Return a handler for one of the numbered pages of an episode."""

        def answer(request: Request) -> Response:
            return html_page(make(request.path_params["number"], _episode(request), request.path_params["part"]))

        return answer

    def sides(request: Request) -> Response:
        name, asked = f"{request.path_params['page']}.html", dict(request.query_params)
        return html_page(pages.sides_page(request.path_params["number"], name, asked))

    def bank(request: Request) -> Response:
        return html_page(pages.bank_page(request.path_params["number"], request.path_params.get("part", 1)))

    def experience(request: Request) -> Response:
        return html_page(pages.experience_page(request.path_params["number"], request.path_params["name"]))

    def marks(request: Request) -> Response:
        return html_page(pages.marks_page(request.path_params["number"]))

    def marks_file(request: Request) -> Response:
        text = pages.marks_csv(request.path_params["number"])
        return Response(text, media_type="text/csv; charset=utf-8", headers=_HEADERS)

    def stream(request: Request) -> Response:
        return html_page(pages.live.stream_page(request.path_params["number"], dict(request.query_params)))

    def patient(request: Request) -> Response:
        where, asked = request.path_params, dict(request.query_params)
        return html_page(pages.live.patient_page(where["number"], where["subject"], asked))

    def bundles(request: Request) -> Response:
        where = request.path_params
        return html_page(pages.live.bundles_page(where["number"], where["subject"], where["part"]))

    def wrong(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return html_page(pages.error_page(f"{error.detail}: {request.url.path}"), error.status_code)
        return html_page(pages.error_page(str(error)), 404 if isinstance(error, NotFound) else 500)

    routes = [
        Route("/", runs),
        Route("/index.html", runs),
        Route("/runs/{number:int}/", run),
        Route("/runs/{number:int}/index.html", run),
        Route("/runs/{number:int}/samples.html", samples),
        Route("/runs/{number:int}/marks.html", marks),
        Route("/runs/{number:int}/marks.csv", marks_file),
        Route("/runs/{number:int}/samples/{page}.html", sides),
        Route("/runs/{number:int}/episodes/{page}.turns-{part:int}.html", part_of(pages.turns_page)),
        Route("/runs/{number:int}/episodes/{page}.steps-{part:int}.html", part_of(pages.steps_page)),
        Route("/runs/{number:int}/episodes/{page}.not-yet-known-{part:int}.html", part_of(pages.later_page)),
        Route("/runs/{number:int}/episodes/{page}.record-{part:int}.html", part_of(pages.record_page)),
        Route("/runs/{number:int}/episodes/{page}.html", episode),
        Route("/runs/{number:int}/bank/", bank),
        Route("/runs/{number:int}/bank/index.html", bank),
        Route("/runs/{number:int}/bank/index-{part:int}.html", bank),
        Route("/runs/{number:int}/bank/{name}.html", experience),
        Route("/streams/{number:int}/", stream),
        Route("/streams/{number:int}/index.html", stream),
        Route("/streams/{number:int}/patients/{subject}.bundles-{part:int}.html", bundles),
        Route("/streams/{number:int}/patients/{subject}.html", patient),
    ]
    handlers = dict.fromkeys((HTTPException, UserError, RecordError), wrong)
    return Starlette(
        routes=routes, middleware=[Middleware(BoundedRequests), page_door(token)], exception_handlers=handlers
    )


def _episode(request: Request) -> str:
    return f"episodes/{request.path_params['page']}.html"


def html_page(html: str, status: int = 200) -> Response:
    """Return a page that browsers neither store nor frame."""
    return HTMLResponse(html, status, headers=_HEADERS)
