"""What the pages of one episode show: its record as of then, its course, its transcript page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wardround.core import UserError
from wardround.log import Trajectory
from wardround.runs.pages import episode_parts
from wardround.runs.timeline import timeline
from wardround.scoring import EpisodeScore
from wardround.serve.viewer.course import WIDTH as COURSE_WIDTH
from wardround.serve.viewer.course import draw_course
from wardround.serve.viewer.documents import draw_documents
from wardround.serve.viewer.experiences import serving_of
from wardround.serve.viewer.paging import TranscriptPage, labels, places
from wardround.serve.viewer.standing import StandingRecord, document_tables, standing_record
from wardround.serve.viewer.timeline import HEIGHT, WIDTH, Interest, draw_timeline
from wardround.serve.viewer.viewed_run import NotThere, ViewedRun, sample_page

MOST_CITATIONS = 100
STEPS = 24
"""Steps of a stay on one page."""


def interest_of(trajectory: Trajectory) -> Interest:
    """Return the rows that an episode was shown and those that its answer cites, numbered as in the citation table."""
    citations: Sequence[Mapping[str, Any]] = (trajectory.outcome or {}).get("citations", ())
    cited: dict[str, int] = {}
    for number, one in enumerate(citations[:MOST_CITATIONS], start=1):
        cited.setdefault(one["row_id"], number)
    return Interest(read=rows_read(trajectory), cited=cited)


def rows_read(trajectory: Trajectory) -> frozenset[str]:
    """Return the ids of every row that an episode was shown."""
    return frozenset(row for turn in trajectory.turns for record in turn.results for row in record.row_ids)


def record_view(run: ViewedRun, score: EpisodeScore, interest: Interest) -> dict[str, Any]:
    """Return the record as of the prediction time by the clock of knowledge, drawn, or why there is none: a store that
    was moved leaves the rest of the page as it is."""
    record, missing = _record(run, score, interest)
    drawing = None if record is None or not record.events else draw_timeline(record, interest)
    documents = None
    if record is not None and drawing is not None:
        images = document_tables(run.store.spec)[1]
        documents = draw_documents(record.documents, images, drawing.first, drawing.end, interest)
    drawn = {} if drawing is None else dict(drawing.drawn)
    drawn |= {one.row_id: one.cite for one in (documents.shown if documents else ()) if one.cite is not None}
    return {
        "sample": run.samples[score.sample],
        "policy": str(run.folder.manifest["policy"]),
        "drawing": drawing,
        "documents": documents,
        "missing": missing,
        "rows_told": {} if record is None else record.rows,
        "drawn": drawn,
        "read": len(interest.read),
        "size": (WIDTH, HEIGHT),
    }


def _record(run: ViewedRun, score: EpisodeScore, interest: Interest) -> tuple[StandingRecord | None, str | None]:
    sample = run.samples[score.sample]
    try:
        record = standing_record(sample.chart(run.store), frozenset(interest.cited))
    except UserError as error:
        return None, str(error)
    return record, record.missing


def episode_view(run: ViewedRun, page: str) -> dict[str, Any]:
    """Return what the first page of an episode shows. NotThere: there is none."""
    score = run.score(page)
    sample, trajectory = run.samples[score.sample], run.trajectory(score.episode)
    interest = interest_of(trajectory)
    policy = str(run.folder.manifest["policy"])
    parts = episode_parts(score, sample, trajectory, run.labels[score.task], policy)
    return {
        **parts,
        **record_view(run, score, interest),
        **transcript_view(run, page, 1),
        "citations": parts["citations"][:MOST_CITATIONS],
        "citations_left_out": max(0, len(parts["citations"]) - MOST_CITATIONS),
        "others": len(run.by_sample[sample_page(score.sample)]) - 1,
        "sample_page": sample_page(score.sample),
        "serving": serving_of(trajectory.notes, bank_title(run)),
        "bank_there": not isinstance(bank_or_reason(run), str | None),
        "course": draw_course(trajectory.turns, run.settings.budget_tokens),
        "course_width": COURSE_WIDTH,
    }


def transcript_view(run: ViewedRun, page: str, number: int) -> dict[str, Any]:
    """Return what one page of an episode's transcript shows, from 1. NotThere: there is none of that number."""
    score = run.score(page)
    trajectory = run.trajectory(score.episode)
    pages = run.turns(score.episode)
    if not 1 <= number <= len(pages):
        raise NotThere(f"the episode has {len(pages)} pages of turns, not {number}")
    stem = episode_stem(page)
    files = [f"{stem}.html", *(f"{stem}.turns-{n}.html" for n in range(2, len(pages) + 1))]
    shown = pages[number - 1]
    return {
        "result": score,
        "page": shown,
        "number": number,
        "pager": [*zip(labels(pages), files, strict=True)],
        "turn_pages": {anchor: files[place - 1] for anchor, place in places(pages).items()},
        "stem": stem,
        "cited": {one["row_id"] for one in (trajectory.outcome or {}).get("citations", ())},
        "has_pictures": _has_pictures(shown),
    }


def _has_pictures(page: TranscriptPage) -> bool:
    return any(block.pictures for section in page.sections for block in section.blocks)


def page_counts(run: ViewedRun, page: str) -> tuple[int, int]:
    """Return how many pages of turns and of steps an episode has."""
    score = run.score(page)
    trajectory = run.trajectory(score.episode)
    steps = len(timeline(trajectory, run.samples[score.sample]))
    return len(run.turns(score.episode)), -(-steps // STEPS)


def episode_stem(page: str) -> str:
    """The name of an episode's pages without ending, relative to one another."""
    return page.removeprefix("episodes/").removesuffix(".html")


def bank_or_reason(run: ViewedRun) -> Any:
    """Return the bank of a run, None where it had none, or why it cannot be shown."""
    try:
        return run.bank
    except UserError as error:
        return str(error)


def bank_title(run: ViewedRun) -> Any:
    """Return what names an experience by its id; nothing where the bank is not there."""
    bank = bank_or_reason(run)
    return (lambda name: None) if bank is None or isinstance(bank, str) else bank.title
