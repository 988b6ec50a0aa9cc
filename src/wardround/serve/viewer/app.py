"""The viewer over HTTP, behind a token."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wardround.core import RecordError, UserError
from wardround.serve.guarded import PAGE_HEADERS, BoundedRequests, html_page, page_door
from wardround.serve.viewer.pages import ViewerPages
from wardround.serve.viewer.run import NotFound, listed, read_query

# The viewer only reads, reports every error in one line, and forbids caching and framing.


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
        return Response(text, media_type="text/csv; charset=utf-8", headers=PAGE_HEADERS)

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
