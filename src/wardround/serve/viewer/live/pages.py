"""Pages of live streams, served and exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wardround.core import Progress, Reporter, write_atomically
from wardround.serve.viewer.live.patient import bundle_pages, bundles_view, patient_view
from wardround.serve.viewer.live.stream import REFRESHES, ROWS, PatientQuery, ViewedStream, listed, overview, read_query
from wardround.serve.viewer.run import NotFound

Render = Callable[..., str]
"""Makes a page of the name of a template and what it shows."""


class StreamPages:
    """Pages of some streams, numbered from 1. They show only committed data of hours that are over."""

    def __init__(self, streams: Sequence[ViewedStream], render: Render) -> None:
        self.streams = tuple(streams)
        self._render = render

    def stream(self, number: int) -> ViewedStream:
        """Return a stream. NotThere: no stream with that number."""
        if not 1 <= number <= len(self.streams):
            raise NotFound(f"no stream {number}; there are {len(self.streams)}")
        return self.streams[number - 1]

    def stream_page(self, number: int, asked: Mapping[str, str]) -> str:
        """Return the page of a stream: its progress and its patients."""
        return self._overview(number, read_query(asked), is_static=False)

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
        view = overview(stream, moment, query, listed(moment, query))
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
        for page in range(1, max(1, -(-len(patients) // ROWS)) + 1):
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
