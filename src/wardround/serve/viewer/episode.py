"""The viewer's pages of an episode: record, model calls, turns, and the steps of a stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from wardround.core import UserError, parse_time
from wardround.log import Trajectory, Turn
from wardround.records import Chart
from wardround.reports.episode_card import facts_of, question_text
from wardround.reports.report import episode_parts
from wardround.reports.standing import StandingRecord, document_tables, standing_record
from wardround.reports.stay_pages import StayHour, rule_texts, stay_hours, stay_state, timeline
from wardround.serve.viewer.patient import state_sections
from wardround.serve.viewer.record import HEIGHT, WIDTH, AsOfTimeline, Interest, draw_documents, draw_timeline
from wardround.serve.viewer.record_lists import LISTED_ROLES, record_lists, when_empty
from wardround.serve.viewer.run import NotFound, ViewedRun, sample_page
from wardround.serve.viewer.transcript import labels, places, serving_of
from wardround.tasks.benchmarks import Sample, get_task
from wardround.tasks.scoring import EpisodeScore

# The plot of an episode: tokens of every model call below the line of the context window, the cumulative cost, and a
# lane for each purpose, with a mark where a new prompt begins (a branch of the message tree).


EPISODE_WIDTH, EPISODE_HEIGHT, LANE, LABEL = 760, 110, 18, 110
"""Size of the drawing, of a lane, and of the labels left of it."""
MOST_CALLS = 150
"""At most this number of calls is drawn; longer episodes are thinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCall:
    """One model call: its bars, lane and branch. Heights are 0 if the endpoint did not count its tokens."""

    ordinal: int
    x: float
    width: float
    input_height: float
    output_height: float
    lane_y: float
    branch: int
    begins: bool
    tooltip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEpisode:
    """``window_y``: the height of the window's line; ``costs``: points of the cumulative cost, empty if a price is
    unknown; ``total``: the sum in US dollars; ``branches``: root-to-leaf paths of the message tree."""

    calls: tuple[DrawnCall, ...]
    lanes: tuple[tuple[str, float], ...]
    window_y: float
    window: int
    most: int
    every: int
    uncounted: int
    costs: str
    total: float | None
    branches: int
    height: float


def branches_of(turns: Sequence[Turn]) -> list[int]:
    """Return the branch of each call, from 1: a prompt that does not repeat the whole previous one of its purpose
    begins a new branch."""
    last: dict[str, tuple[Turn, int]] = {}
    found: list[int] = []
    for turn in turns:
        before = last.get(turn.purpose)
        goes_on = before is not None and turn.prefix_bytes >= before[0].prompt_bytes
        branch = before[1] if before is not None and goes_on else max(found, default=0) + 1
        last[turn.purpose] = (turn, branch)
        found.append(branch)
    return found


def draw_episode(turns: Sequence[Turn], window: int) -> DrawnEpisode | None:
    """Lay out the calls of an episode; None without calls. ``window``: tokens available for prompt and reply."""
    if not turns:
        return None
    counted = [turn.usage.input_tokens + turn.usage.output_tokens if _is_counted(turn) else 0 for turn in turns]
    highest = max(window, *counted) or 1
    purposes = list(dict.fromkeys(turn.purpose for turn in turns))
    step = (EPISODE_WIDTH - LABEL) / len(turns)
    every, branches = 1 + (len(turns) - 1) // MOST_CALLS, branches_of(turns)
    calls = [
        DrawnCall(
            ordinal=turn.ordinal,
            x=round(LABEL + place * step, 1),
            width=round(max(step * every - 1, 1), 1),
            input_height=_height(turn.usage.input_tokens if _is_counted(turn) else 0, highest),
            output_height=_height(turn.usage.output_tokens if _is_counted(turn) else 0, highest),
            lane_y=_lane(purposes.index(turn.purpose)),
            branch=branches[place],
            begins=branches[place] not in branches[:place],
            tooltip=_tooltip(turn, branches[place]),
        )
        for place, turn in enumerate(turns)
        if place % every == 0
    ]
    points, total = _costs(turns, step)
    return DrawnEpisode(
        calls=tuple(calls),
        lanes=tuple((purpose, _lane(number)) for number, purpose in enumerate(purposes)),
        window_y=round(EPISODE_HEIGHT - _height(window, highest), 1),
        window=window,
        most=max(counted),
        every=every,
        uncounted=sum(not _is_counted(turn) for turn in turns),
        costs=points,
        total=total,
        branches=max(branches),
        height=_lane(len(purposes)) + 4,
    )


def _is_counted(turn: Turn) -> bool:
    return not {"input_tokens", "output_tokens"} & set(turn.unreported)


def _height(tokens: int, highest: int) -> float:
    return round(tokens / highest * EPISODE_HEIGHT, 1)


def _lane(number: int) -> float:
    return float(EPISODE_HEIGHT + LANE * (number + 1))


def _costs(turns: Sequence[Turn], step: float) -> tuple[str, float | None]:
    """Return the line of cumulative cost; empty if a cost is unknown, because a partial sum would be wrong."""
    costs = [turn.cost for turn in turns if turn.cost is not None]
    if len(costs) < len(turns):
        return "", None
    sums = list(accumulate(costs))
    total = sums[-1] or 1.0
    points = (
        f"{LABEL + (place + 0.5) * step:.1f},{EPISODE_HEIGHT - one / total * EPISODE_HEIGHT:.1f}"
        for place, one in enumerate(sums)
    )
    return " ".join(points), sums[-1]


def _tooltip(turn: Turn, branch: int) -> str:
    tokens = f"{turn.usage.input_tokens:,} tokens in, {turn.usage.output_tokens:,} out"
    cost = "" if turn.cost is None else f", {turn.cost:.4f} US dollars"
    counted = tokens if _is_counted(turn) else "tokens not counted by the endpoint"
    return f"call {turn.ordinal + 1}, {turn.purpose}, branch {branch}: {counted}{cost}, {turn.seconds:.2f} s"


# The content of an episode's pages: its record as of the question, its plot, its transcript page by page.


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


def record_view(run: ViewedRun, score: EpisodeScore, interest: Interest, *, hours_before: int = 0) -> dict[str, Any]:
    """Return the drawn record as of the prediction time or some hours before it (policy ``known_at``), or why there is
    none: without a store the rest of the page stays as it is."""
    chart, record, missing = _record(run, score, interest, timedelta(hours=hours_before))
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
        "lists": None if record is None or drawing is None else record_lists(record.events, drawing.start),
        "when_empty": {} if chart is None else {role: when_empty(run.store.spec, role) for role in LISTED_ROLES},
        "documents": documents,
        "patient": None if chart is None or record is None else facts_of(chart, record),
        "missing": missing,
        "rows_told": {} if record is None else record.rows,
        "drawn": drawn,
        "read": len(interest.read),
        "cite_page": "",
        "size": (WIDTH, HEIGHT),
    }


def _record(
    run: ViewedRun, score: EpisodeScore, interest: Interest, before: timedelta
) -> tuple[Chart | None, StandingRecord | None, str | None]:
    sample = run.samples[score.sample]
    try:
        chart = run.store.chart(sample.subject_id, sample.moment - before, withheld=sample.withheld)
        record = standing_record(chart, frozenset(interest.cited))
    except UserError as error:
        return None, None, str(error)
    return chart, record, record.missing


def episode_view(run: ViewedRun, page: str, *, is_static: bool = False) -> dict[str, Any]:
    """Return the content of an episode's first page; ``is_static``: without the steps through the record, whose pages
    are only served. NotFound: no such episode."""
    score = run.score(page)
    sample, trajectory = run.samples[score.sample], run.trajectory(score.episode)
    interest = interest_of(trajectory)
    policy = str(run.folder.manifest["policy"])
    record = record_view(run, score, interest)
    missing = "" if sample.is_text_case else record["missing"] or ""
    labels = run.labels[score.task]
    parts = episode_parts(score, sample, trajectory, labels, policy, patient=record["patient"], missing=missing)
    return {
        **parts,
        **record,
        **transcript_view(run, page, 1),
        "citations": parts["citations"][:MOST_CITATIONS],
        "citations_left_out": max(0, len(parts["citations"]) - MOST_CITATIONS),
        "others": len(run.by_sample[sample_page(score.sample)]) - 1,
        "sample_page": sample_page(score.sample),
        "serving": serving_of(trajectory.notes, bank_title(run)),
        "bank_there": not isinstance(bank_or_reason(run), str | None),
        "stepping": [] if is_static or sample.is_text_case else stepping(episode_stem(page), 0),
        "course": draw_episode(trajectory.turns, run.settings.budget_tokens),
        "course_width": EPISODE_WIDTH,
    }


_STEPS = (24, 6, 1)
"""Hours of a step through a record."""
MOST_HOURS = 24 * 90


def stepping(stem: str, hours_before: int) -> list[tuple[str, str]]:
    """Return the steps through a record some hours before the question, with their pages; empty without a record."""

    def page(hours: int) -> str:
        return (
            ""
            if not 0 <= hours <= MOST_HOURS
            else f"{stem}.html#timeline"
            if hours == 0
            else f"{stem}.record-{hours}.html"
        )

    earlier = [(f"{step} h earlier", page(hours_before + step)) for step in _STEPS]
    later = [(f"{step} h later", page(hours_before - step)) for step in reversed(_STEPS)]
    return [*earlier, *later, ("as of the question", page(0) if hours_before else "")]


def record_then_view(run: ViewedRun, page: str, hours_before: int) -> dict[str, Any]:
    """Return the content of the page of a record some hours before the question. NotFound: not one of its moments."""
    score = run.score(page)
    sample, trajectory = run.samples[score.sample], run.trajectory(score.episode)
    if sample.is_text_case or not 1 <= hours_before <= MOST_HOURS:
        raise NotFound(f"a record can be looked at 1 to {MOST_HOURS:,} hours before its question, not {hours_before}")
    stem = episode_stem(page)
    shown = record_view(run, score, interest_of(trajectory), hours_before=hours_before)
    return {
        **shown,
        "result": score,
        "question": question_text(get_task(score.task), sample),
        "hours_before": hours_before,
        "stem": stem,
        "stepping": stepping(stem, hours_before),
        "cite_page": f"{stem}.html",
    }


def transcript_view(run: ViewedRun, page: str, number: int) -> dict[str, Any]:
    """Return the content of a page of an episode's transcript, from 1. NotFound: no such page."""
    score = run.score(page)
    trajectory = run.trajectory(score.episode)
    pages = run.turns(score.episode)
    if not 1 <= number <= len(pages):
        raise NotFound(f"the episode has {len(pages)} pages of turns, not {number}")
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
        "has_pictures": any(block.pictures for section in shown.sections for block in section.blocks),
    }


def page_counts(run: ViewedRun, page: str) -> tuple[int, int]:
    """Return how many pages of turns and of steps an episode has."""
    score = run.score(page)
    trajectory = run.trajectory(score.episode)
    steps = len(timeline(trajectory, run.samples[score.sample]))
    return len(run.turns(score.episode)), -(-steps // STEPS)


def episode_stem(page: str) -> str:
    """Return the file name of an episode's pages without ending, relative to one another."""
    return page.removeprefix("episodes/").removesuffix(".html")


def bank_or_reason(run: ViewedRun) -> Any:
    """Return the bank of a run, None without one, or why it cannot be shown."""
    try:
        return run.bank
    except UserError as error:
        return str(error)


def bank_title(run: ViewedRun) -> Any:
    """Return a function from an id to the name of an experience; no names if the bank is missing."""
    bank = bank_or_reason(run)
    return (lambda name: None) if bank is None or isinstance(bank, str) else bank.title


# The page of a stay in hours: curves, state, proposals, audit and decisions.


_HOUR = timedelta(minutes=59, seconds=59)
"""A step is asked when its hour is over."""
MOST_CURVES = 12
"""Charts above the hours: those most often out of their limits."""


def steps_view(run: ViewedRun, page: str, number: int) -> dict[str, Any]:
    """Return the content of a page of hours, from 1: curves and state as of its last hour, then the hours. NotFound: no
    such page."""
    score = run.score(page)
    sample, trajectory = run.samples[score.sample], run.trajectory(score.episode)
    every = timeline(trajectory, sample, rule_texts(run.settings))
    pages = -(-len(every) // STEPS)
    if not 1 <= number <= pages:
        raise NotFound(f"the episode has {pages} pages of steps, not {number}")
    steps = every[(number - 1) * STEPS : number * STEPS]
    stem = episode_stem(page)
    hours: Sequence[StayHour] = ()
    missing = None
    try:
        hours = stay_hours(run.store, sample)
    except UserError as error:  # without a store the rest of the page stays as it is
        missing = str(error)
    until = parse_time(steps[-1].hour) + _HOUR
    return {
        "result": score,
        "sample": sample,
        "steps": [(step, hours[step.step] if step.step < len(hours) else None) for step in steps],
        "missing": missing,
        "number": number,
        "pager": [
            (f"{(n - 1) * STEPS} to {min(n * STEPS, len(every)) - 1}", f"{stem}.steps-{n}.html")
            for n in range(1, pages + 1)
        ],
        "stem": stem,
        "until": until,
        **_as_of(run, sample, trajectory, until, steps[-1].step, missing),
    }


def _as_of(
    run: ViewedRun, sample: Sample, trajectory: Trajectory, until: datetime, step: int, missing: str | None
) -> Mapping[str, Any]:
    """Return curves and state as of the last hour of a page (policy ``known_at``)."""
    shown = {"drawing": None, "state": (), "size": (WIDTH, HEIGHT), "cite_page": ""}
    if missing:
        return shown
    record = standing_record(run.store.chart(sample.subject_id, until), frozenset())
    drawing = draw_timeline(record, interest_of(trajectory)) if record.events else None
    state = stay_state(run.store, sample, step)
    return {
        **shown,
        "drawing": None if drawing is None else _fewer(drawing),
        "state": () if state is None else state_sections(state, run.store.spec),
    }


def _fewer(drawing: AsOfTimeline) -> AsOfTimeline:
    """Return the drawing with only the curves most often outside their limits, and without bars."""
    panels = [panel for section in drawing.charts for panel in section.panels if panel.results > 1]
    chosen = {id(panel) for panel in sorted(panels, key=lambda panel: (-panel.abnormal, -panel.results))[:MOST_CURVES]}
    charts = [
        replace(
            section,
            groups=tuple(
                (name, kept)
                for name, several in section.groups
                if (kept := tuple(panel for panel in several if id(panel) in chosen))
            ),
        )
        for section in drawing.charts
    ]
    return replace(drawing, charts=tuple(section for section in charts if section.groups), spans=())
