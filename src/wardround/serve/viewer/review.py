"""A blinded review round: its pages over HTTP, reviewers' marks and their results."""

from __future__ import annotations

import csv
import hmac
import io
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from itertools import combinations
from math import isnan
from pathlib import Path
from statistics import median
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

from wardround.core import RecordError, UserError, private_file
from wardround.log import Trajectory
from wardround.memory.experience import utc_now
from wardround.reports.episode_card import CardItem, EpisodeCard, question_text
from wardround.reports.report import page_environment
from wardround.reports.summary import contender
from wardround.serve.guarded import BoundedRequests, html_page, page_door
from wardround.serve.viewer.episode import MOST_CITATIONS, interest_of, record_view
from wardround.serve.viewer.run import NotFound, ViewedRun
from wardround.serve.viewer.transcript import CallSection, paged, transcript
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring import EpisodeScore, Interval
from wardround.tasks.scoring.classification import cohen_kappa, fleiss_kappa

# Marks of reviewers in a file of JSON lines beside a run: one line each, appended, never changed.
#
# The first line has a secret of the file, from which the names of items are made: a name does not reveal the episode,
# its contender or its place.


_SCHEMA = 1
LONGEST_COMMENT, LONGEST_NAME = 4_000, 40
QUESTIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "answer": ("Is the answer right?", ("right", "partly", "wrong", "cannot tell")),
    "evidence": ("Do the cited rows support it?", ("support", "partly", "do not support", "cannot tell")),
}
"""The questions on an episode and the allowed answers; the one on evidence only if the answer cites rows."""
UNDECIDED = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewMark:
    """The mark of one reviewer on one item.

    ``evidence`` is empty if the answer cites no rows; ``seconds``: from the first display to the mark, None if the
    viewer was restarted in between. ``at`` is UTC, ISO 8601.
    """

    item: str
    reviewer: str
    answer: str
    evidence: str
    comment: str = ""
    seconds: float | None = None
    at: str = field(default_factory=utc_now)


class MarksFile:
    """One file of marks. UserError: it is in a run's folder, or is not such a file."""

    def __init__(self, path: Path, runs: Sequence[ViewedRun]) -> None:
        for run in runs:
            if path.resolve().is_relative_to(run.folder.path.resolve()):
                raise UserError(f"{path} is in the folder of the run {run.name!r}; choose a file outside it")
        self.path = path
        if not path.exists() or not path.stat().st_size:
            private_file(path)
            self._append({"schema": _SCHEMA, "secret": secrets.token_hex(16)})
        head = self._lines()[0]
        if head.get("schema") != _SCHEMA or "secret" not in head:
            raise UserError(f"{path} is not a file of marks that this wardround can read; name a new file")
        self._secret = bytes.fromhex(head["secret"])

    def item_of(self, run: ViewedRun, episode: str) -> str:
        """Return the name of an episode in this file; the order of names depends on nothing of an episode."""
        name = f"{run.folder.manifest['settings_sha256']}|{episode}".encode()
        return hmac.new(self._secret, name, sha256).hexdigest()[:20]

    def add(self, mark: ReviewMark) -> None:
        """Append a mark: a later one of the same reviewer on the same item replaces an earlier one."""
        self._append(asdict(mark))

    def marks(self) -> dict[tuple[str, str], ReviewMark]:
        """Return the current marks, by item and reviewer."""
        names = {one.name for one in fields(ReviewMark)}
        lines = [{name: value for name, value in line.items() if name in names} for line in self._lines()[1:]]
        return {(one.item, one.reviewer): one for one in (ReviewMark(**line) for line in lines)}

    def _append(self, body: Mapping[str, Any]) -> None:
        """Write one line in one write: several reviewers' viewers may share a file."""
        line = json.dumps(body, ensure_ascii=False) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)

    def _lines(self) -> list[dict[str, Any]]:
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
            return [json.loads(line) for line in lines if line] or [{}]
        except (ValueError, OSError) as error:
            raise UserError(f"{self.path} is not a file of marks: {error}") from error


def questions_of(*, has_citations: bool) -> Mapping[str, tuple[str, Sequence[str]]]:
    """Return the questions on an episode, with or without cited rows."""
    return {name: asked for name, asked in QUESTIONS.items() if has_citations or name != "evidence"}


def read_mark(
    item: str, reviewer: str, given: Mapping[str, str], *, has_citations: bool = True, seconds: float | None = None
) -> ReviewMark:
    """Read the answers of a form. UserError: a question without an answer, or an answer that is not allowed."""
    for name, (question, offered) in questions_of(has_citations=has_citations).items():
        if given.get(name) not in offered:
            raise UserError(f"{question} Choose one of: {', '.join(offered)}")
    comment = given.get("comment", "").replace("\r\n", "\n").strip()
    if len(comment) > LONGEST_COMMENT:
        raise UserError(f"a comment has at most {LONGEST_COMMENT:,} characters, this one has {len(comment):,}")
    return ReviewMark(
        item=item,
        reviewer=read_reviewer(reviewer),
        answer=given["answer"],
        evidence=given["evidence"] if has_citations else "",
        comment=comment,
        seconds=seconds,
    )


def read_reviewer(name: str) -> str:
    """Read a reviewer's name. UserError: it is empty or too long."""
    said = " ".join(name.split())
    if not said or len(said) > LONGEST_NAME:
        raise UserError(f"a reviewer's name has 1 to {LONGEST_NAME} characters")
    return said


# The results of a review round: marks, and the agreement of reviewers with each other and with the scorer.


SCORER = "scorer"
_HEAD = (
    *("episode", "sample", "task", "contender", "score", "scorer"),
    *("reviewer", "answer", "evidence", "comment", "seconds", "at"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedEpisode:
    """An episode with the marks of its reviewers, by name."""

    score: EpisodeScore
    marks: Mapping[str, ReviewMark]

    @property
    def scorer(self) -> str:
        """The mark that the scorer would have given."""
        if self.score.right:
            return "right"
        return "partly" if self.score.value > 0 else "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementRow:
    """The agreement of some reviewers on one question: ``kappa`` is None if it is undefined, and ``missing`` says
    why."""

    question: str
    who: str
    measure: str
    items: int
    same: int
    kappa: Interval | None
    missing: str = ""


def marked_episodes(run: ViewedRun, file: MarksFile) -> list[MarkedEpisode]:
    """Return the marked episodes of a run, by key."""
    by_item: dict[str, dict[str, ReviewMark]] = {}
    for (item, reviewer), mark in sorted(file.marks().items()):
        by_item.setdefault(item, {})[reviewer] = mark
    named = [(score, by_item.get(file.item_of(run, score.episode))) for score in run.scores]
    return [MarkedEpisode(score=score, marks=marks) for score, marks in named if marks]


def agreement_rows(episodes: Sequence[MarkedEpisode], *, seed: int) -> list[AgreementRow]:
    """Return Cohen's kappa of every two reviewers, Fleiss' kappa of three or more on episodes that all marked, and
    Cohen's kappa of every reviewer with the scorer, without answers marked as undecidable."""
    reviewers = sorted({name for episode in episodes for name in episode.marks})
    rows: list[AgreementRow] = []
    for question in QUESTIONS:
        for pair in combinations(reviewers, 2):
            rows.append(_row(question, pair, _said(episodes, question, pair), seed))
        if len(reviewers) > 2:
            rows.append(_row(question, reviewers, _said(episodes, question, reviewers), seed))
    for reviewer in reviewers:
        own = [
            episode for episode in episodes if reviewer in episode.marks and episode.marks[reviewer].answer != UNDECIDED
        ]
        answers = [(one.score.subject_id, (one.marks[reviewer].answer, one.scorer)) for one in own]
        rows.append(_row("answer", (reviewer, SCORER), answers, seed))
    return rows


def _said(
    episodes: Sequence[MarkedEpisode], question: str, reviewers: Sequence[str]
) -> list[tuple[int, tuple[str, ...]]]:
    """Return the marks of some reviewers on episodes that all of them marked, with the episode's subject."""
    both = [
        episode
        for episode in episodes
        if all(name in episode.marks and getattr(episode.marks[name], question) for name in reviewers)
    ]
    return [(one.score.subject_id, tuple(getattr(one.marks[name], question) for name in reviewers)) for one in both]


def _row(
    question: str, reviewers: Sequence[str], marked: Sequence[tuple[int, tuple[str, ...]]], seed: int
) -> AgreementRow:
    subjects, marks = [subject for subject, _ in marked], [answers for _, answers in marked]
    kappa, missing = None, "" if marked else "no episode was marked by all of them"
    if marked:
        pairs = [(answers[0], answers[1]) for answers in marks]
        many = len(reviewers) > 2
        kappa = fleiss_kappa(marks, subjects, seed=seed) if many else cohen_kappa(pairs, subjects, seed=seed)
        if isnan(kappa.estimate):
            kappa, missing = None, "not defined: all marks are equal"
    return AgreementRow(
        question=question,
        who=" and ".join(reviewers),
        measure="Fleiss" if len(reviewers) > 2 else "Cohen",
        items=len(marked),
        same=sum(len(set(answers)) == 1 for answers in marks),
        kappa=kappa,
        missing=missing,
    )


def median_seconds(episodes: Sequence[MarkedEpisode]) -> dict[str, tuple[int, float]]:
    """Return by reviewer how many marks have a time, and their median in seconds."""
    times: dict[str, list[float]] = {}
    for episode in episodes:
        for name, mark in episode.marks.items():
            times.setdefault(name, []).extend([] if mark.seconds is None else [mark.seconds])
    return {name: (len(several), median(several)) for name, several in sorted(times.items()) if several}


def marks_csv(episodes: Sequence[MarkedEpisode]) -> str:
    """Return every mark as a row of CSV. Texts that a spreadsheet would run as a formula get an apostrophe in front."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_HEAD)
    for episode in episodes:
        score = episode.score
        about = (score.episode, score.sample, score.task, contender(score), f"{score.value:.6g}", episode.scorer)
        for mark in episode.marks.values():
            seconds = "" if mark.seconds is None else f"{mark.seconds:g}"
            said = (mark.reviewer, mark.answer, mark.evidence, mark.comment, seconds, mark.at)
            writer.writerow([_plain(cell) for cell in (*about, *said)])
    return out.getvalue()


def _plain(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


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
        """Return the page of one episode with the form. NotFound: no such item or part."""
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
