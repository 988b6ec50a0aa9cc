"""``wardround view``: look at runs and live streams in a browser, or write the same pages as a static site."""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from wardround.cli.parser import TOKEN_VARIABLE, Command, add_address_options, address, guarding_token
from wardround.core import TerminalProgress, UserError, needs_extra
from wardround.stream import is_stream

if TYPE_CHECKING:
    from wardround.serve.viewer import MarksFile, ViewedRun, ViewedStream

EXAMPLES = """
  wardround view run
      then open http://127.0.0.1:8765/
  wardround view run-react run-retrosum --port 9000
  wardround view run --export site
      site/index.html opens from disk; it holds record text
  wardround view run --blinded marks.jsonl
      reviewers mark episodes without knowing agent or score
  wardround view run --marks marks.jsonl
      the same pages with the marks and how far reviewers agree
  wardround view live run
      live is what `wardround stream follow --out live` writes: its patients as data arrive, beside a run
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="folder of a run or a stream, finished or not"
    )
    parser.add_argument("--export", type=Path, metavar="DIR", help="write the pages into a new folder, serve nothing")
    parser.add_argument(
        "--with-not-yet-known",
        action="store_true",
        help="with --export: also write pages of later rows that agents could not see",
    )
    review = parser.add_mutually_exclusive_group()
    review.add_argument(
        "--blinded",
        type=Path,
        metavar="FILE",
        help="serve a blinded review; its marks go to FILE, beside the run",
    )
    review.add_argument("--marks", type=Path, metavar="FILE", help="show the marks of a review and their agreement")
    add_address_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted, or write the pages."""
    with needs_extra("view"):
        import uvicorn

        from wardround.serve.viewer import (
            MarksFile,
            ReviewPages,
            ViewedRun,
            ViewedStream,
            ViewerPages,
            review_app,
            viewer_app,
        )
    streams = [ViewedStream(path) for path in arguments.runs if is_stream(path)]
    runs = [ViewedRun(path) for path in arguments.runs if not is_stream(path)]
    if arguments.export is not None:
        return _export(arguments, runs, streams)
    where = address(arguments)
    specs = chain((run.store.spec for run in runs), (stream.spec for stream in streams))
    token = guarding_token(where, "the viewer", (spec.sensitivity for spec in specs))
    if arguments.blinded is not None:
        if streams:
            raise UserError(f"{streams[0].folder} is a stream; a blinded review needs runs: leave it out")
        app = review_app(ReviewPages(runs, MarksFile(arguments.blinded, runs)), token=token)
    else:
        app = viewer_app(ViewerPages(runs, streams=streams, marks=_marks(arguments, runs)), token=token)
    print(f"viewer: {where.origin}/" + (f" (password: as in {TOKEN_VARIABLE})" if token else ""), file=sys.stderr)
    uvicorn.run(app, host=where.host, port=where.port, log_level="warning", **where.tls_options)
    return 0


def _export(arguments: argparse.Namespace, runs: list[ViewedRun], streams: list[ViewedStream]) -> int:
    """Write the pages as files. UserError: a blinded review needs a server."""
    from wardround.serve.viewer import ViewerPages, write_site

    if arguments.blinded is not None:
        raise UserError("a blinded review stores marks: serve it, it cannot be exported")
    marks = _marks(arguments, runs)
    pages = ViewerPages(runs, streams=streams, shows_later=arguments.with_not_yet_known, marks=marks)
    progress = TerminalProgress()
    try:
        page = write_site(pages, arguments.export, report=progress)
    finally:
        progress.close()
    print(f"pages: {page.resolve()}")
    return 0


def _marks(arguments: argparse.Namespace, runs: list[ViewedRun]) -> MarksFile | None:
    """Open the given file of marks. UserError: it does not exist."""
    from wardround.serve.viewer import MarksFile

    if arguments.marks is None:
        return None
    if not arguments.marks.is_file():
        raise UserError(f"no marks in {str(arguments.marks)!r}; a review with --blinded makes the file")
    return MarksFile(arguments.marks, runs)


VIEW = Command(EXAMPLES, configure, run)
