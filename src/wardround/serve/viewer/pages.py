"""The viewer's pages, as text and as files: those served and those exported have the same templates and links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from wardround.core import Progress, Reporter, UserError, must_be_new, private_folder, silent, write_atomically
from wardround.reports.report import episode_page, matrix, page_environment
from wardround.reports.standing import row_text
from wardround.reports.summary import contender
from wardround.serve.viewer.bank import bank_pages, bank_view, experience_view
from wardround.serve.viewer.compare_view import sides_view
from wardround.serve.viewer.episode import (
    bank_or_reason,
    episode_stem,
    episode_view,
    page_counts,
    record_then_view,
    steps_view,
    transcript_view,
)
from wardround.serve.viewer.hidden_rows import HIDDEN_ROWS, page_count, page_of, rows_hidden_at
from wardround.serve.viewer.patient import bundle_pages, bundles_view, patient_view
from wardround.serve.viewer.review import (
    MarkedEpisode,
    MarksFile,
    agreement_rows,
    marked_episodes,
    marks_csv,
    median_seconds,
)
from wardround.serve.viewer.run import (
    ORDERS,
    ROWS,
    ListedSamples,
    NotFound,
    SampleQuery,
    ViewedBank,
    ViewedRun,
    choices,
    listed,
    sample_page,
)
from wardround.serve.viewer.stream import (
    PATIENTS,
    REFRESHES,
    PatientQuery,
    ViewedStream,
    listed_patients,
    overview,
    read_patient_query,
)

# Pages of live streams.


Render = Callable[..., str]
"""Makes a page of the name of a template and what it shows."""


class StreamPages:
    """Pages of some streams, numbered from 1. They show only committed data of hours that are over."""

    def __init__(self, streams: Sequence[ViewedStream], render: Render) -> None:
        self.streams = tuple(streams)
        self._render = render

    def stream(self, number: int) -> ViewedStream:
        """Return a stream. NotFound: no stream with that number."""
        if not 1 <= number <= len(self.streams):
            raise NotFound(f"no stream {number}; there are {len(self.streams)}")
        return self.streams[number - 1]

    def stream_page(self, number: int, asked: Mapping[str, str]) -> str:
        """Return the page of a stream: its progress and its patients."""
        return self._overview(number, read_patient_query(asked), is_static=False)

    def static_page(self, number: int, page: int) -> str:
        """Return a page of an export: without filters, and without automatic refresh."""
        return self._overview(number, PatientQuery(page=page), is_static=True)

    def patient_page(self, number: int, subject: str, asked: Mapping[str, str], *, is_static: bool = False) -> str:
        """Return the page of a patient: the state, the proposals and reasons, and the latest bundles."""
        refresh = asked.get("refresh", "")
        if refresh and refresh not in REFRESHES:
            raise NotFound(f"no refresh {refresh!r}, only {', '.join(REFRESHES)}")
        view = patient_view(self.stream(number), _number(subject), refresh=refresh)
        return self._render("live_patient.html.jinja", is_static=is_static, **view)

    def bundles_page(self, number: int, subject: str, part: int) -> str:
        """Return a page of a patient's bundles."""
        return self._render("live_bundles.html.jinja", **bundles_view(self.stream(number), _number(subject), part))

    def _overview(self, number: int, query: PatientQuery, *, is_static: bool) -> str:
        stream = self.stream(number)
        moment = stream.look()
        view = overview(stream, moment, query, listed_patients(moment, query))
        return self._render("live_stream.html.jinja", is_static=is_static, **view)


def _number(subject: str) -> int:
    try:
        return int(subject)
    except ValueError:
        raise NotFound(f"no patient {subject!r}") from None


# A stream's pages as files, all of one moment, even if the stream continues while they are written.


def write_stream(pages: StreamPages, number: int, folder: Path, report: Reporter) -> None:
    """Write the list of patients and every patient's pages."""
    stream = pages.stream(number)
    (folder / "patients").mkdir(parents=True)
    with stream.held():
        patients = stream.look().patients
        for page in range(1, max(1, -(-len(patients) // PATIENTS)) + 1):
            name = "index.html" if page == 1 else f"index-{page}.html"
            write_atomically(folder / name, pages.static_page(number, page), durable=False)
        for done, line in enumerate(patients, start=1):
            _write_patient(pages, number, line.subject, line.bundles, folder / "patients")
            report(Progress(label="writing pages", done=done, total=len(patients), unit="patients"))


def _write_patient(pages: StreamPages, number: int, subject: int, bundles: int, folder: Path) -> None:
    html = pages.patient_page(number, str(subject), {}, is_static=True)
    write_atomically(folder / f"{subject}.html", html, durable=False)
    for part in range(1, bundle_pages(bundles) + 1):
        html = pages.bundles_page(number, str(subject), part)
        write_atomically(folder / f"{subject}.bundles-{part}.html", html, durable=False)


# Pages of runs.


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
        """Return a run. NotFound: no run with that number."""
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
        run, is_static = self.run(number), following is not None
        if following is None and found.after is not None:
            following = "samples.html?" + urlencode({**query.filters, "sort": query.order, "after": found.after})
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
            is_static=is_static,
            following=following,
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
        """Return a page of the rows that the clock hid from an episode. NotFound: these pages do not show them, or no
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
        return self._render(
            "later.html.jinja",
            **self._shared(number),
            hidden=hidden,
            shown=page_of(hidden, part),
            row_text=row_text,
            pager=[(str(n), f"{stem}.not-yet-known-{n}.html") for n in range(1, page_count(hidden) + 1)],
            number=part,
            stem=stem,
            result=score,
            sample=sample,
            most=HIDDEN_ROWS,
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
        """Return the page of reviewers' marks and their agreement. NotFound: no file of marks was given."""
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
        """Return every mark as CSV. NotFound: no file of marks was given."""
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


# The same pages as files: a site that opens from disk, without a server.


def write_site(pages: ViewerPages, target: Path, *, report: Reporter = silent) -> Path:
    """Write every page into a new or empty folder; return the first page's path. UserError: the folder is not empty."""
    must_be_new(target)
    private_folder(target)
    for number in range(1, len(pages.runs) + 1):
        _write_run(pages, number, target / "runs" / str(number), report)
    for number in range(1, len(pages.live.streams) + 1):
        write_stream(pages.live, number, target / "streams" / str(number), report)
    write_atomically(target / "index.html", pages.runs_page())
    return target / "index.html"


def _write_run(pages: ViewerPages, number: int, folder: Path, report: Reporter) -> None:
    run = pages.run(number)
    (folder / "episodes").mkdir(parents=True)
    write_atomically(folder / "index.html", pages.run_page(number), durable=False)
    _write_samples(pages, number, folder)
    _write_bank(pages, number, folder)
    if pages.marks is not None:
        write_atomically(folder / "marks.html", pages.marks_page(number), durable=False)
        write_atomically(folder / "marks.csv", pages.marks_csv(number), durable=False)
    (folder / "samples").mkdir()
    for page in run.by_sample:
        html = pages.sides_page(number, page, {}, is_static=True)
        write_atomically(folder / "samples" / page, html, durable=False)
    for done, page in enumerate(run.pages, start=1):
        _write_episode(pages, number, page, folder)
        report(Progress(label="writing pages", done=done, total=len(run.pages), unit="episodes"))


def _write_episode(pages: ViewerPages, number: int, page: str, folder: Path) -> None:
    write_atomically(folder / page, pages.episode_page(number, page, is_static=True), durable=False)
    turns, steps = page_counts(pages.run(number), page)
    later = pages.later_pages(number, page)
    for name, first, last, make in (
        ("turns", 2, turns, pages.turns_page),
        ("steps", 1, steps, pages.steps_page),
        ("not-yet-known", 1, later, pages.later_page),
    ):
        for part in range(first, last + 1):
            target = folder / f"{page.removesuffix('.html')}.{name}-{part}.html"
            write_atomically(target, make(number, page, part), durable=False)


def _write_bank(pages: ViewerPages, number: int, folder: Path) -> None:
    bank = bank_or_reason(pages.run(number))
    if not isinstance(bank, ViewedBank):
        return
    (folder / "bank").mkdir()
    for part in range(1, bank_pages(bank) + 1):
        name = "index.html" if part == 1 else f"index-{part}.html"
        write_atomically(folder / "bank" / name, pages.bank_page(number, part), durable=False)
    for experience in bank.experiences:
        write_atomically(
            folder / "bank" / f"{experience}.html", pages.experience_page(number, experience), durable=False
        )


def _write_samples(pages: ViewerPages, number: int, folder: Path) -> None:
    """Write all episodes by sample into files of a limited number of rows, since files cannot filter."""
    run, query, place = pages.run(number), SampleQuery(filters={}), 1
    last = max(1, -(-len(run.scores) // ROWS))
    while place <= last:
        found = listed(run, query)
        following = f"samples-{place + 1}.html" if place < last else ""
        name = "samples.html" if place == 1 else f"samples-{place}.html"
        html = pages.samples_page(number, query, found, following=following)
        write_atomically(folder / name, html, durable=False)
        query, place = SampleQuery(filters={}, after=found.after), place + 1
