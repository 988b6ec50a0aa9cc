"""A blinded review round over HTTP."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from wardround.core import RecordError, UserError
from wardround.log import Trajectory
from wardround.reports.episode_card import CardItem, EpisodeCard, question_text
from wardround.reports.report import page_environment
from wardround.serve.bounded import BoundedRequests
from wardround.serve.viewer.app import html_page, page_door
from wardround.serve.viewer.episode import MOST_CITATIONS, interest_of, record_view
from wardround.serve.viewer.review.marks import MarksFile, ReviewMark, questions_of, read_mark, read_reviewer
from wardround.serve.viewer.run import NotFound, ViewedRun
from wardround.serve.viewer.transcript import CallSection, paged, transcript
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring import EpisodeScore

# What a reviewer sees of an episode: the question, the answer, its citations, the record, the rows that were read.
#
# Hidden: the contender, the score, the target, tokens, time, cost, and the result of citation checks.


_SHOWN = ("call", "result")
_LISTED, _LONGEST_QUESTION = 100, 6_000


class ReviewPages:
    """The pages of a review round, with items in an order that depends on nothing of an episode.

    Stays are left out: they have no single answer to mark. The first display of an item to a reviewer is kept in
    memory: after a restart time is measured from the next display.
    """

    def __init__(self, runs: Sequence[ViewedRun], marks: MarksFile) -> None:
        self.marks = marks
        named = {
            marks.item_of(run, score.episode): (run, score)
            for run in runs
            for score in run.scores
            if score.steps is None
        }
        self.items: Mapping[str, tuple[ViewedRun, EpisodeScore]] = dict(sorted(named.items()))
        self._shown: dict[tuple[str, str], float] = {}
        self._templates = page_environment("wardround.serve.viewer", styles=("style.css", "viewer.css"))

    def round_page(self, reviewer: str | None) -> str:
        """Return the first page: the reviewer, and the marks so far if the reviewer is known."""
        own = {} if reviewer is None else self._own(reviewer)
        listed = [(item, own[item]) for item in self.items if item in own][:_LISTED]
        following = None if reviewer is None else self.following(reviewer)
        return self._render("round.html.jinja", reviewer=reviewer, own=own, listed=listed, following=following)

    def item_page(self, item: str, reviewer: str, *, token: str, part: int = 1, problem: str | None = None) -> str:
        """Return the page of one episode with the form. NotThere: no such item or part."""
        if item not in self.items:
            raise NotFound(f"no item {item!r} in this round")
        run, score = self.items[item]
        trajectory = run.trajectory(score.episode)
        interest = interest_of(trajectory)
        pages = paged(_looked_at(trajectory))
        if not 1 <= part <= len(pages):
            raise NotFound(f"the item has {len(pages)} pages, not {part}")
        citations = _citations(trajectory)
        record, own = record_view(run, score, interest), self._own(reviewer)
        self._shown.setdefault((item, reviewer), monotonic())
        return self._render(
            "item.html.jinja",
            **record,
            card=_unmarked_card(run, score, record),
            question=_question(trajectory),
            citations=[
                {"answer": citation["answer"], "row_id": citation["row_id"]} for citation in citations[:MOST_CITATIONS]
            ],
            marked=len(own),
            page=pages[part - 1],
            parts=len(pages),
            part=part,
            item=item,
            reviewer=reviewer,
            mark=own.get(item),
            questions=questions_of(has_citations=bool(citations)),
            token=token,
            problem=problem,
        )

    def add(self, item: str, reviewer: str, given: Mapping[str, str]) -> None:
        """Store a mark. UserError: the form is incomplete; NotFound: no such item."""
        if item not in self.items:
            raise NotFound(f"no item {item!r} in this round")
        run, score = self.items[item]
        has_citations = bool(_citations(run.trajectory(score.episode)))
        since = self._shown.get((item, reviewer))
        seconds = None if since is None else round(monotonic() - since, 1)
        self.marks.add(read_mark(item, reviewer, given, has_citations=has_citations, seconds=seconds))
        self._shown.pop((item, reviewer), None)

    def following(self, reviewer: str) -> str | None:
        """Return the first item that a reviewer has not marked; None if all are marked."""
        own = self._own(reviewer)
        return next((item for item in self.items if item not in own), None)

    def error_page(self, message: str) -> str:
        """Return the page of an error, in one line."""
        return self._render("error.html.jinja", message=message)

    def _own(self, reviewer: str) -> dict[str, ReviewMark]:
        return {item: mark for (item, name), mark in self.marks.marks().items() if name == reviewer}

    def _render(self, template: str, **parts: Any) -> str:
        return self._templates.get_template(template).render(total=len(self.items), **parts)


def _looked_at(trajectory: Trajectory) -> list[CallSection]:
    """Return the calls of the agent and their results, without its texts, whose style would reveal the method."""
    acts = [one for one in transcript(trajectory) if one.turn is not None and one.turn.purpose == "act"]
    kept = [replace(act, blocks=tuple(block for block in act.blocks if block.kind in _SHOWN)) for act in acts]
    return [one for one in kept if one.blocks]


def _citations(trajectory: Trajectory) -> Sequence[Mapping[str, Any]]:
    """Return the rows that the answer cites."""
    found: Sequence[Mapping[str, Any]] = (trajectory.outcome or {}).get("citations", ())
    return found


def _unmarked_card(run: ViewedRun, score: EpisodeScore, record: Mapping[str, Any]) -> EpisodeCard:
    """Return the card of an episode without what happened: the answer is neither right nor wrong."""
    sample, task = run.samples[score.sample], get_task(score.task)
    meanings, labels = task.answer.for_sample(sample.facts).class_names, run.labels[score.task]
    official = [(text, (labels.resolve(text) if labels is not None else None) or text) for text in score.answer or ()]
    return EpisodeCard(
        question=question_text(task, sample),
        patient=record["patient"],
        missing=record["missing"] or "",
        answer=tuple(CardItem(text=text, meaning=meanings.get(name, ""), state="judged") for text, name in official),
        happened=(),
        verdict="",
    )


def _question(trajectory: Trajectory) -> str:
    """Return the first user message that an agent was sent."""
    for turn in trajectory.turns:
        for message in turn.prompt:
            if message.role == "user":
                return (message.content or "")[:_LONGEST_QUESTION]
    return ""


# A review round over HTTP: a form for each item, and nothing else, so that no address reveals the contender.


_LONGEST_BODY = 64_000


def review_app(pages: ReviewPages, *, token: str | None = None) -> Starlette:
    """Return the application; ``token`` as for the viewer. A form has a secret of this process, so that a page of
    another origin cannot send one."""
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
            pages.add(name, reviewer, given)
        except NotFound:
            raise
        except UserError as error:
            problem = str(error)
            return html_page(pages.item_page(name, reviewer, token=form_token, problem=problem), 400)
        following = pages.following(reviewer)
        where = "/" if following is None else f"/items/{following}.html"
        return RedirectResponse(f"{where}?{urlencode({'reviewer': reviewer})}", 303)

    def wrong(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return html_page(pages.error_page(f"{error.detail}: {request.url.path}"), error.status_code)
        return html_page(pages.error_page(str(error)), 404 if isinstance(error, NotFound) else 400)

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
    """Read the filled fields of a small form. HTTPException 413: it is too long, 400: it is not a form."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_BODY:
            raise HTTPException(413)
    try:
        fields = parse_qs(body.decode(), max_num_fields=20)
    except ValueError:
        raise HTTPException(400) from None
    return {name: values[-1] for name, values in fields.items()}
