"""The browser's tools, as models that browse know them: search, open, find. They share one stack of pages."""

from __future__ import annotations

from typing import Annotated

from wardround.knowledge import CURRENT
from wardround.tools.page import Page
from wardround.tools.session import Session
from wardround.tools.signature import Range, tool

_HEAD_TOKENS = 120
_USUAL = 10
_MOST = 20

Cursor = Annotated[int, Range(-1), "Number of the page, as in [3] at its head; -1 for the latest."]


@tool("web", name="browser.search", reads_only=False)
def browser_search(
    session: Session,
    page: Page,
    *,
    query: Annotated[str, "What to look for, in a few medical words, without any patient's details."],
    topn: Annotated[int, Range(1, _MOST), "How many results."] = _USUAL,
) -> str:
    """Search medical knowledge. The page of results has a number, its cursor; each result is a link, written
    【link†title†source】, which browser.open opens by its number."""
    return session.browser.search(query, topn, tokens=page.tokens - _HEAD_TOKENS)


@tool("web", name="browser.open", reads_only=False)
def browser_open(
    session: Session,
    page: Page,
    *,
    id: Annotated[int | str, "A link's number on the page; or an address, such as corpus://handbook/sepsis."] = CURRENT,
    cursor: Cursor = CURRENT,
    loc: Annotated[int, Range(-1), "First line to show; -1 for the beginning, or where a found place is."] = CURRENT,
    num_lines: Annotated[int, Range(-1), "How many lines; -1 for as many as fit."] = CURRENT,
    view_source: Annotated[bool, "Show what the page is made of instead of its text."] = False,
) -> str:
    """Open a link of the page of a cursor, or an address, or (without id) go on in the same page from line loc.
    Lines are numbered L0, L1, ...; cite what you use as 【cursor†L9-L11】."""
    link = _link(id)
    return session.browser.open(
        link, cursor=cursor, line=loc, count=num_lines, view_source=view_source, tokens=page.tokens - _HEAD_TOKENS
    )


@tool("web", name="browser.find", reads_only=False)
def browser_find(
    session: Session,
    page: Page,
    *,
    pattern: Annotated[str, "The exact words to find; small and capital letters are the same."],
    cursor: Cursor = CURRENT,
) -> str:
    """Find exact words in an opened page. Each place is a link, which browser.open opens at that line."""
    return session.browser.find(pattern, cursor=cursor, tokens=page.tokens - _HEAD_TOKENS)


def _link(written: int | str) -> int | str:
    """A link's number where one was written as a text."""
    bare = written.strip() if isinstance(written, str) else ""
    return int(bare) if bare.removeprefix("-").isdecimal() and len(bare) < 8 else written
