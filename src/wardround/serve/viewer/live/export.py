"""A stream's pages as files, all of one moment, however the stream goes on while they are written."""

from __future__ import annotations

from pathlib import Path

from wardround.core import Progress, Reporter, write_atomically
from wardround.serve.viewer.live.pages import StreamPages
from wardround.serve.viewer.live.patient_query import ROWS
from wardround.serve.viewer.live.patient_view import bundle_pages


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
