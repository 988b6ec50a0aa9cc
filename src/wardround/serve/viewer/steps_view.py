"""A stay that was played bundle by bundle, page by page: what came in each hour, what was foretold, what came then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wardround.benchmarks import Sample
from wardround.core import UserError
from wardround.runs.stay_hours import StayHour, stay_hours
from wardround.runs.timeline import timeline
from wardround.serve.viewer.episode_view import STEPS, episode_stem
from wardround.serve.viewer.viewed_run import NotThere, ViewedRun


def steps_view(run: ViewedRun, page: str, number: int) -> dict[str, Any]:
    """Return what a page of steps shows, from 1. NotThere: the episode has no such page."""
    score = run.score(page)
    sample, trajectory = run.samples[score.sample], run.trajectory(score.episode)
    every = timeline(trajectory, sample)
    pages = -(-len(every) // STEPS)
    if not 1 <= number <= pages:
        raise NotThere(f"the episode has {pages} pages of steps, not {number}")
    steps = every[(number - 1) * STEPS : number * STEPS]
    stem = episode_stem(page)
    hours, missing = _hours(run, sample)
    return {
        "result": score,
        "sample": sample,
        "steps": [(one, hours[one.step] if one.step < len(hours) else None) for one in steps],
        "missing": missing,
        "number": number,
        "pager": [(_label(n, len(every)), f"{stem}.steps-{n}.html") for n in range(1, pages + 1)],
        "stem": stem,
    }


def _hours(run: ViewedRun, sample: Sample) -> tuple[Sequence[StayHour], str | None]:
    try:
        return stay_hours(run.store, sample), None
    except UserError as error:  # a store that was moved leaves the rest of the page as it is
        return (), str(error)


def _label(number: int, steps: int) -> str:
    return f"{(number - 1) * STEPS} to {min(number * STEPS, steps) - 1}"
