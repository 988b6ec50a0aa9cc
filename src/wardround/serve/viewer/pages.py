"""The viewer's pages as text. Served and exported ones come from the same templates and link each other alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from wardround.core import UserError
from wardround.log import Trajectory
from wardround.runs import clocks_note
from wardround.runs.pages import episode_page, episode_parts, matrix, page_environment
from wardround.runs.summary import contender
from wardround.scoring import EpisodeScore
from wardround.serve.viewer.sample_query import ORDERS, ListedSamples, SampleQuery, choices
from wardround.serve.viewer.standing import StandingRecord, standing_record
from wardround.serve.viewer.timeline import HEIGHT, WIDTH, Interest, draw_timeline
from wardround.serve.viewer.viewed_run import NotThere, ViewedRun


class ViewerPages:
    """Pages of some runs, which are numbered from 1. All links are relative: they hold under any address or folder."""

    def __init__(self, runs: Sequence[ViewedRun]) -> None:
        self.runs = tuple(runs)
        self._templates = page_environment("wardround.serve.viewer", styles=("style.css", "viewer.css"))

    def run(self, number: int) -> ViewedRun:
        """Return a run. NotThere: there is none of that number."""
        if not 1 <= number <= len(self.runs):
            raise NotThere(f"no run {number}; there are {len(self.runs)}")
        return self.runs[number - 1]

    def runs_page(self) -> str:
        """The list of runs."""
        return self._render("runs.html.jinja", runs=self.runs)

    def run_page(self, number: int) -> str:
        """Methods by tasks with intervals, and paired tests."""
        run = self.run(number)
        return self._render(
            "run.html.jinja",
            run=run,
            manifest=run.folder.manifest,
            summary=run.summary,
            matrix=matrix(run.summary),
            clocks_note=clocks_note(run.folder),
            missing=int(run.folder.manifest["episodes"]) - len(run.scores),
        )

    def samples_page(
        self, number: int, query: SampleQuery, found: ListedSamples, *, following: str | None = None
    ) -> str:
        """A page of episodes. ``following``: the file of the next page in an export, where nothing can be asked for."""
        run = self.run(number)
        return self._render(
            "samples.html.jinja",
            run=run,
            query=query,
            found=found,
            choices=choices(run),
            orders=ORDERS,
            page=episode_page,
            contender=contender,
            is_static=following is not None,
            following=following if following is not None else _following(query, found),
        )

    def episode_page(self, number: int, page: str) -> str:
        """One episode with its citations and the record as of its prediction time."""
        run = self.run(number)
        score = run.score(page)
        sample, trajectory = run.samples[score.sample], run.trajectory(score)
        interest = interest_of(trajectory)
        record, missing = _record(run, score, interest)
        drawing = None if record is None or not record.events else draw_timeline(record, interest)
        policy = str(run.folder.manifest["policy"])
        return self._render(
            "viewed_episode.html.jinja",
            **episode_parts(score, sample, trajectory, run.labels[score.task], policy),
            drawing=drawing,
            missing=missing,
            rows_told={} if record is None else record.rows,
            drawn={} if drawing is None else drawing.drawn,
            read=len(interest.read),
            size=(WIDTH, HEIGHT),
        )

    def error_page(self, message: str) -> str:
        """What is wrong, in one line."""
        return self._render("error.html.jinja", message=message)

    def _render(self, template: str, **parts: Any) -> str:
        return self._templates.get_template(template).render(parts)


def interest_of(trajectory: Trajectory) -> Interest:
    """Return the rows that an episode was shown and those that its answer cites, numbered as in the citation table."""
    citations: Sequence[Mapping[str, Any]] = (trajectory.outcome or {}).get("citations", ())
    cited: dict[str, int] = {}
    for number, one in enumerate(citations, start=1):
        cited.setdefault(one["row_id"], number)
    read = frozenset(row for turn in trajectory.turns for record in turn.results for row in record.row_ids)
    return Interest(read=read, cited=cited)


def _record(run: ViewedRun, score: EpisodeScore, interest: Interest) -> tuple[StandingRecord | None, str | None]:
    """Return the record as of the prediction time by the clock of knowledge, or why there is none: a store that was
    moved leaves the rest of the page as it is."""
    sample = run.samples[score.sample]
    try:
        record = standing_record(run.store.chart(sample.subject_id, sample.prediction_time), frozenset(interest.cited))
    except UserError as error:
        return None, str(error)
    return record, record.missing


def _following(query: SampleQuery, found: ListedSamples) -> str:
    if found.after is None:
        return ""
    return "samples.html?" + urlencode({**query.filters, "sort": query.order, "after": found.after})
