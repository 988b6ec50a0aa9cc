"""The page of a stay in hours: curves, state, proposals, audit and decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from wardround.core import UserError, parse_time
from wardround.log import Trajectory
from wardround.reports.standing import standing_record
from wardround.reports.stay_pages import StayHour, rule_texts, stay_hours, stay_state, timeline
from wardround.serve.viewer.episode import STEPS, episode_stem, interest_of
from wardround.serve.viewer.live.patient import state_sections
from wardround.serve.viewer.record import HEIGHT, WIDTH, AsOfTimeline, draw_timeline
from wardround.serve.viewer.run import NotFound, ViewedRun
from wardround.tasks.benchmarks import Sample

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
    hours, missing = _hours(run, sample)
    until = parse_time(steps[-1].hour) + _HOUR
    return {
        "result": score,
        "sample": sample,
        "steps": [(step, hours[step.step] if step.step < len(hours) else None) for step in steps],
        "missing": missing,
        "number": number,
        "pager": [(_label(n, len(every)), f"{stem}.steps-{n}.html") for n in range(1, pages + 1)],
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


def _hours(run: ViewedRun, sample: Sample) -> tuple[Sequence[StayHour], str | None]:
    try:
        return stay_hours(run.store, sample), None
    except UserError as error:  # without a store the rest of the page stays as it is
        return (), str(error)


def _label(number: int, steps: int) -> str:
    return f"{(number - 1) * STEPS} to {min(number * STEPS, steps) - 1}"
