"""What every page of a run is made with: the templates, their style and its hash, and what an episode's page shows."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import jinja2
from markupsafe import Markup

from wardround.benchmarks import Sample
from wardround.codes import LabelSet
from wardround.core import Picture, content_hash, data_url
from wardround.log import Trajectory
from wardround.runs.stay_hours import StayHour
from wardround.runs.summary import RunSummary, contender
from wardround.runs.timeline import timeline
from wardround.scoring import EpisodeScore, SummaryRow

_HERE = "wardround.runs"


@cache
def page_environment(*packages: str, styles: tuple[str, ...] = ("style.css",)) -> jinja2.Environment:
    """Return the templates of runs behind those of ``packages``; pages allow the named styles and no others."""
    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(package, "templates") for package in (*packages, _HERE)])
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = "".join(environment.get_template(name).render() for name in styles)
    environment.globals["style"] = Markup(style)
    environment.globals["style_hash"] = b64encode(sha256(style.encode()).digest()).decode()
    environment.filters["figure"] = lambda value, digits=3: "–" if value is None else f"{value:.{digits}f}"
    environment.filters["whole"] = lambda value: "–" if value is None else f"{value:,.0f}"
    environment.filters["data_url"] = data_url
    environment.filters["percent"] = lambda value: "–" if value is None else f"{value:.0%}"
    return environment


def episode_page(result: EpisodeScore) -> str:
    """File name of an episode's page, relative to the report."""
    return f"episodes/{content_hash(result.episode)[:16]}.html"


def episode_parts(
    result: EpisodeScore,
    sample: Sample,
    trajectory: Trajectory,
    labels: LabelSet | None,
    policy: str,
    hours: Sequence[StayHour] = (),
) -> dict[str, Any]:
    """Return what the template of an episode's page shows. ``hours``: those of a stay, where its store is there."""
    return {
        "result": result,
        "sample": sample,
        "trajectory": trajectory,
        "timeline": timeline(trajectory, sample),
        "hours": hours,
        "policy": policy,
        "contender": contender(result),
        "official": official_names(labels),
        "has_pictures": any(_pictures(trajectory)),
        "citations": (trajectory.outcome or {}).get("citations", ()),
    }


def matrix(summary: RunSummary) -> Mapping[str, Mapping[str, SummaryRow]]:
    """Return the row over all strata of every contender and task: the table of a paper."""
    cells: dict[str, dict[str, SummaryRow]] = {}
    for row in summary.rows:  # the row over all strata comes last
        cells.setdefault(contender(row), {})[row.task] = row
    return cells


def _pictures(trajectory: Trajectory) -> Iterator[Picture]:
    """Every picture that a page shows: of the first prompt and of results."""
    for turn in trajectory.turns:
        for message in turn.prompt:
            yield from message.pictures
        for record in turn.results:
            yield from record.pictures


def official_names(labels: LabelSet | None) -> Callable[[str], str | None]:
    """Return what turns a spelling into an official label: any text is one where none are declared."""
    return str if labels is None else labels.resolve
