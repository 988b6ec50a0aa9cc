"""The viewer's pages as text. Served and exported pages come from the same templates and have the same links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from wardround.core import UserError
from wardround.reports.report import episode_page, matrix, page_environment
from wardround.reports.standing import row_text
from wardround.reports.summary import contender
from wardround.serve.viewer.bank import bank_view, experience_view
from wardround.serve.viewer.compare_view import sides_view
from wardround.serve.viewer.episode import (
    bank_or_reason,
    episode_stem,
    episode_view,
    record_then_view,
    transcript_view,
)
from wardround.serve.viewer.hidden_rows import ROWS, page_count, page_of, rows_hidden_at
from wardround.serve.viewer.live.pages import StreamPages
from wardround.serve.viewer.live.stream import ViewedStream
from wardround.serve.viewer.review.marks import (
    MarkedEpisode,
    MarksFile,
    agreement_rows,
    marked_episodes,
    marks_csv,
    median_seconds,
)
from wardround.serve.viewer.run import ORDERS, ListedSamples, NotFound, SampleQuery, ViewedRun, choices, sample_page
from wardround.serve.viewer.ward_round import steps_view

MOST_MARKED = 200
_HELD = 4
"""Hidden rows of this number of episodes are cached: their pages are requested one after another."""


class ViewerPages:
    """Pages of some runs, numbered from 1.

    All links are relative: they work under any address or folder. ``shows_later``: whether there is a tab with the rows
    hidden by the clock; ``marks``: the marks of a review round; ``live``: the pages of the streams beside the runs.
    """

    def __init__(
        self,
        runs: Sequence[ViewedRun],
        *,
        streams: Sequence[ViewedStream] = (),
        shows_later: bool = True,
        marks: MarksFile | None = None,
    ) -> None:
        self.runs = tuple(runs)
        self.live = StreamPages(streams, self._render)
        self.marks = marks
        self.shows_later = shows_later
        self._held = lru_cache(maxsize=_HELD)(rows_hidden_at)
        self._templates = page_environment("wardround.serve.viewer", styles=("style.css", "viewer.css"))

    def run(self, number: int) -> ViewedRun:
        """Return a run. NotThere: no run with that number."""
        if not 1 <= number <= len(self.runs):
            raise NotFound(f"no run {number}; there are {len(self.runs)}")
        return self.runs[number - 1]

    def runs_page(self) -> str:
        """Return the list of runs and streams."""
        names = [run.name for run in self.runs] + [stream.name for stream in self.live.streams]
        return self._render("runs.html.jinja", runs=self.runs, streams=self.live.streams, names=names)

    def run_page(self, number: int) -> str:
        """Return the page of a run: methods by tasks with intervals, and paired tests."""
        run = self.run(number)
        return self._render(
            "run.html.jinja",
            run=run,
            manifest=run.folder.manifest,
            summary=run.summary,
            matrix=matrix(run.summary),
            missing=int(run.folder.manifest["episodes"]) - len(run.scores),
            failed=sum(score.finish == "error" for score in run.scores),
            bank=bank_or_reason(run),
            has_marks=self.marks is not None,
        )

    def samples_page(
        self, number: int, query: SampleQuery, found: ListedSamples, *, following: str | None = None
    ) -> str:
        """Return a page of episodes. ``following``: the file of the next page, in an export."""
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
            sample_page=sample_page,
            is_static=following is not None,
            following=following if following is not None else _following(query, found),
        )

    def episode_page(self, number: int, page: str, *, is_static: bool = False) -> str:
        """Return the page of one episode: its card, the record as of its prediction time, its citations and its first
        turns."""
        shown = episode_view(self.run(number), page, is_static=is_static)
        return self._render("viewed_episode.html.jinja", **self._shared(number), **shown)

    def record_page(self, number: int, page: str, hours_before: int) -> str:
        """Return the page of the record some hours before the question of an episode."""
        shown = record_then_view(self.run(number), page, hours_before)
        return self._render("record_then.html.jinja", **self._shared(number), **shown)

    def turns_page(self, number: int, page: str, part: int) -> str:
        """Return a further page of an episode's turns."""
        return self._render("turns.html.jinja", **self._shared(number), **transcript_view(self.run(number), page, part))

    def steps_page(self, number: int, page: str, part: int) -> str:
        """Return a page of the steps of a stay."""
        return self._render("steps.html.jinja", **self._shared(number), **steps_view(self.run(number), page, part))

    def later_page(self, number: int, page: str, part: int) -> str:
        """Return a page of the rows that the clock hid from an episode. NotThere: these pages do not show them, or no
        such page."""
        if not self.shows_later:
            raise NotFound("these pages do not show what was not yet known")
        run = self.run(number)
        score = run.score(page)
        sample = run.samples[score.sample]
        hidden = self._held(run.store, sample.subject_id, sample.moment)
        if not 1 <= part <= page_count(hidden):
            raise NotFound(f"there are {page_count(hidden)} pages of what was not yet known, not {part}")
        stem = episode_stem(page)
        pager = [(str(n), f"{stem}.not-yet-known-{n}.html") for n in range(1, page_count(hidden) + 1)]
        parts = {"hidden": hidden, "shown": page_of(hidden, part), "row_text": row_text, "pager": pager, "number": part}
        return self._render(
            "later.html.jinja", **self._shared(number), **parts, stem=stem, result=score, sample=sample, most=ROWS
        )

    def later_pages(self, number: int, page: str) -> int:
        """Return the number of pages of hidden rows of an episode; 0 if these pages do not show them, or without the
        records."""
        if not self.shows_later:
            return 0
        run = self.run(number)
        sample = run.samples[run.score(page).sample]
        try:
            return page_count(self._held(run.store, sample.subject_id, sample.moment))
        except UserError:
            return 0

    def sides_page(self, number: int, page: str, asked: Mapping[str, str], *, is_static: bool = False) -> str:
        """Return the page of two episodes on one sample, side by side."""
        self.run(number)
        return self._render("sides.html.jinja", is_static=is_static, **sides_view(self.runs, number, page, asked))

    def bank_page(self, number: int, part: int) -> str:
        """Return the page of the graph and the experiences of a run's bank."""
        return self._render("bank.html.jinja", **bank_view(self.run(number), part))

    def experience_page(self, number: int, name: str) -> str:
        """Return the page of one experience: its text, its neighbours, its history, and where it was served and why."""
        return self._render("experience.html.jinja", **experience_view(self.run(number), name))

    def marks_page(self, number: int) -> str:
        """Return the page of reviewers' marks and their agreement. NotThere: no file of marks was given."""
        run, episodes = self.run(number), self._marked(number)
        return self._render(
            "marks.html.jinja",
            run=run,
            episodes=episodes,
            reviewers=sorted({name for episode in episodes for name in episode.marks}),
            rows=agreement_rows(episodes, seed=run.settings.run.seed),
            times=median_seconds(episodes),
            page=episode_page,
            contender=contender,
            most=MOST_MARKED,
        )

    def marks_csv(self, number: int) -> str:
        """Return every mark as CSV. NotThere: no file of marks was given."""
        return marks_csv(self._marked(number))

    def _marked(self, number: int) -> list[MarkedEpisode]:
        if self.marks is None:
            raise NotFound("no file of reviewers' marks was given; open the viewer with --marks FILE")
        return marked_episodes(self.run(number), self.marks)

    def _shared(self, number: int) -> dict[str, Any]:
        return {"run": self.run(number), "shows_later": self.shows_later}

    def error_page(self, message: str) -> str:
        """Return the page of an error, in one line."""
        return self._render("error.html.jinja", message=message)

    def _render(self, template: str, **parts: Any) -> str:
        return self._templates.get_template(template).render(parts)


def _following(query: SampleQuery, found: ListedSamples) -> str:
    if found.after is None:
        return ""
    return "samples.html?" + urlencode({**query.filters, "sort": query.order, "after": found.after})
