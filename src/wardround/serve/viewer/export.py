"""The same pages as files: a site that opens from disk, without a server."""

from __future__ import annotations

from pathlib import Path

from wardround.core import Progress, Reporter, must_be_new, private_folder, silent, write_atomically
from wardround.serve.viewer.bank import bank_pages
from wardround.serve.viewer.episode import bank_or_reason, page_counts
from wardround.serve.viewer.live.pages import write_stream
from wardround.serve.viewer.pages import ViewerPages
from wardround.serve.viewer.run import ROWS, SampleQuery, ViewedBank, listed


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
