"""A review round over HTTP: a form for each item. It serves nothing else, so that no address tells who played."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from wardround.core import RecordError, UserError
from wardround.serve.bounded import BoundedRequests
from wardround.serve.viewer.app import html_page
from wardround.serve.viewer.door import page_door
from wardround.serve.viewer.review.blinded import ReviewPages
from wardround.serve.viewer.review.marks import read_mark, read_reviewer
from wardround.serve.viewer.viewed_run import NotThere

_LONGEST_BODY = 64_000


def review_app(pages: ReviewPages, *, token: str | None = None) -> Starlette:
    """Return the application; ``token`` as for the viewer. A form carries a secret of this process: no page of
    another origin can send one."""
    form_token = secrets.token_urlsafe(24)

    def first(request: Request) -> Response:
        name = request.query_params.get("reviewer", "")
        return html_page(pages.round_page(read_reviewer(name) if name else None))

    def item(request: Request) -> Response:
        part = request.query_params.get("part", "1")
        reviewer, number = _reviewer(request), int(part) if part.isdecimal() else 0
        return html_page(pages.item_page(request.path_params["item"], reviewer, token=form_token, part=number))

    async def mark(request: Request) -> Response:
        given = await _form(request)
        if not secrets.compare_digest(given.get("token", "").encode("utf-8", "replace"), form_token.encode()):
            return html_page(pages.error_page("the form is of another session of the viewer: open the page again"), 403)
        return await run_in_threadpool(_mark, request, given)

    def _mark(request: Request, given: dict[str, str]) -> Response:
        name, reviewer = request.path_params["item"], _reviewer(request)
        try:
            told = read_mark(name, reviewer, given)
        except UserError as error:
            problem = str(error)
            return html_page(pages.item_page(name, reviewer, token=form_token, problem=problem), 400)
        if name not in pages.items:
            raise NotThere(f"no item {name!r} in this round")
        pages.marks.add(told)
        following = pages.following(reviewer)
        where = "/" if following is None else f"/items/{following}.html"
        return RedirectResponse(f"{where}?{urlencode({'reviewer': reviewer})}", 303)

    def wrong(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return html_page(pages.error_page(f"{error.detail}: {request.url.path}"), error.status_code)
        return html_page(pages.error_page(str(error)), 404 if isinstance(error, NotThere) else 400)

    routes = [
        Route("/", first),
        Route("/items/{item}.html", item, methods=["GET"]),
        Route("/items/{item}.html", mark, methods=["POST"]),
    ]
    handlers = dict.fromkeys((HTTPException, UserError, RecordError), wrong)
    return Starlette(
        routes=routes, middleware=[Middleware(BoundedRequests), page_door(token)], exception_handlers=handlers
    )


def _reviewer(request: Request) -> str:
    return read_reviewer(request.query_params.get("reviewer", ""))


async def _form(request: Request) -> dict[str, str]:
    """Read a small form. HTTPException 413: it is too long, 400: it is none."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_BODY:
            raise HTTPException(413)
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise HTTPException(400) from None
    return {name: values[-1] for name, values in fields.items()}
