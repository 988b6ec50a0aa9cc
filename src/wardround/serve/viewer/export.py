"""The same pages as files: a site that opens from disk, without a server."""

from __future__ import annotations

from pathlib import Path

from wardround.core import Progress, Reporter, must_be_new, private_folder, silent, write_atomically
from wardround.serve.viewer.pages import ViewerPages
from wardround.serve.viewer.sample_query import ROWS, SampleQuery, listed


def write_site(pages: ViewerPages, target: Path, *, report: Reporter = silent) -> Path:
    """Write every page under a folder that is new or empty; return the first one's path. UserError: it is not empty."""
    must_be_new(target)
    private_folder(target)
    for number in range(1, len(pages.runs) + 1):
        _write_run(pages, number, target / "runs" / str(number), report)
    write_atomically(target / "index.html", pages.runs_page())
    return target / "index.html"


def _write_run(pages: ViewerPages, number: int, folder: Path, report: Reporter) -> None:
    run = pages.run(number)
    (folder / "episodes").mkdir(parents=True)
    write_atomically(folder / "index.html", pages.run_page(number), durable=False)
    _write_samples(pages, number, folder)
    for done, page in enumerate(run.pages, start=1):
        write_atomically(folder / page, pages.episode_page(number, page), durable=False)
        report(Progress(label="writing pages", done=done, total=len(run.pages), unit="episodes"))


def _write_samples(pages: ViewerPages, number: int, folder: Path) -> None:
    """Nothing can be asked of a file: all episodes by sample, in files of so many rows."""
    run, query, place = pages.run(number), SampleQuery(filters={}), 1
    last = max(1, -(-len(run.scores) // ROWS))
    while place <= last:
        found = listed(run, query)
        following = f"samples-{place + 1}.html" if place < last else ""
        name = "samples.html" if place == 1 else f"samples-{place}.html"
        html = pages.samples_page(number, query, found, following=following)
        write_atomically(folder / name, html, durable=False)
        query, place = SampleQuery(filters={}, after=found.after), place + 1
