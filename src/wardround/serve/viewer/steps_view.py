"""A stay that was played bundle by bundle, page by page: what came in each hour, what was foretold, what came then."""

from __future__ import annotations

from typing import Any

from wardround.bundles import BundleStream, bundle_text, subject_bundles
from wardround.core import UserError
from wardround.runs.timeline import timeline
from wardround.serve.viewer.episode_view import STEPS, episode_stem
from wardround.serve.viewer.viewed_run import NotThere, ViewedRun

_LONGEST = 4_000
"""Characters of a bundle in words."""


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
    bundles, missing = _bundles(run, sample.subject_id)
    first = int(sample.facts.get("first", 0))
    return {
        "result": score,
        "sample": sample,
        "steps": [(one, _text(bundles, first + one.step)) for one in steps],
        "missing": missing,
        "number": number,
        "pager": [(_label(n, len(every)), f"{stem}.steps-{n}.html") for n in range(1, pages + 1)],
        "stem": stem,
    }


def _bundles(run: ViewedRun, subject_id: int) -> tuple[BundleStream | None, str | None]:
    try:
        return subject_bundles(run.store, subject_id), None
    except UserError as error:  # a store that was moved leaves the rest of the page as it is
        return None, str(error)


def _text(bundles: BundleStream | None, place: int) -> str:
    if bundles is None or not 0 <= place < len(bundles):
        return ""
    text = bundle_text(bundles[place])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text) - _LONGEST:,} characters more)"


def _label(number: int, steps: int) -> str:
    return f"{(number - 1) * STEPS} to {min(number * STEPS, steps) - 1}"
