"""``wardround view``: look at runs in a browser, or write the same pages as a static site."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from wardround.cli.extras import needs_extra
from wardround.cli.mcp_options import add_address_options, address
from wardround.cli.progress import TerminalProgress
from wardround.core import UserError
from wardround.models.guard import is_loopback

if TYPE_CHECKING:
    from wardround.serve import Listening
    from wardround.serve.viewer import ViewedRun

_TOKEN_VARIABLE = "WARDROUND_TOKEN"
EXAMPLES = """
  wardround view run
      then open http://127.0.0.1:8765/
  wardround view run-react run-retrosum --port 9000
  wardround view run --export site
      site/index.html opens from disk; it holds record text
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run, finished or not")
    parser.add_argument("--export", type=Path, metavar="DIR", help="write the pages into a new folder, serve nothing")
    parser.add_argument(
        "--with-not-yet-known",
        action="store_true",
        help="with --export: write the pages of what the clock held back, too; it is later than what agents saw",
    )
    add_address_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted, or write."""
    with needs_extra("view"):
        import uvicorn

        from wardround.serve.viewer import ViewedRun, ViewerPages, must_be_token, viewer_app, write_site
    runs = [ViewedRun(path) for path in arguments.runs]
    pages = ViewerPages(runs, shows_later=arguments.export is None or arguments.with_not_yet_known)
    if arguments.export is not None:
        progress = TerminalProgress()
        try:
            page = write_site(pages, arguments.export, report=progress)
        finally:
            progress.close()
        print(f"pages: {page.resolve()}")
        return 0
    where, token = address(arguments), os.environ.get(_TOKEN_VARIABLE) or None
    if token is not None:
        must_be_token(token)
    _check(where, token, runs)
    app = viewer_app(pages, token=token)
    print(f"viewer: {where.origin}/" + (f" (password: as in {_TOKEN_VARIABLE})" if token else ""), file=sys.stderr)
    uvicorn.run(app, host=where.host, port=where.port, log_level="warning", **where.tls_options)
    return 0


def _check(where: Listening, token: str | None, runs: list[ViewedRun]) -> None:
    """Raise UserError where others could look at records: without a token, or over a network that all can read."""
    if is_loopback(httpx2.URL(where.origin)):
        return
    if token is None:
        raise UserError(f"the viewer listens on {where.host} only with a token: set {_TOKEN_VARIABLE}")
    for one in runs:
        where.check(one.store.spec.sensitivity)
