"""A browser over page sources: each search, page and find gets a number, the cursor, by which it is named again."""

from __future__ import annotations

import threading

from wardround.core import ToolFailure
from wardround.knowledge.browser.page import BrowserPage, wrapped
from wardround.knowledge.browser.sources import PageSource, results_page
from wardround.knowledge.corpus import SCHEME

CURRENT = -1
"""The cursor, the link and the line that stand for what is shown now, and for its beginning."""
_LINES_BEFORE_A_HIT = 4
_LONGEST_PATTERN = 200


class Browser:
    """The pages of one episode, in the order in which they were come to. ``web`` None: corpora only."""

    def __init__(self, corpora: PageSource, web: PageSource | None = None) -> None:
        self._corpora = corpora
        self._web = web
        self._pages: list[BrowserPage] = []
        self._turn = threading.Lock()

    def search(self, query: str, topn: int, *, tokens: int) -> str:
        """Search the web where there is one, else the corpora; return the page of results as shown."""
        wanted = " ".join(query.split())
        if not wanted:
            raise ToolFailure("'query' is empty; say in a few words what to look for.")
        source = self._corpora if self._web is None else self._web
        return self._come_to(results_page(wanted, source.search(wanted, topn)), tokens=tokens)

    def open(self, link: int | str, *, cursor: int, line: int, count: int, view_source: bool, tokens: int) -> str:
        """Open a link of a page by number, an address, or (-1) another part of the page itself."""
        if isinstance(link, str):
            page, place = self._at(link, written=True), 0
        else:
            page, place = self._led_to(self._page(cursor), link)
        page = _source_of(page) if view_source else page
        return self._come_to(page, line=place if line < 0 else line, count=count, tokens=tokens)

    def find(self, pattern: str, *, cursor: int, tokens: int) -> str:
        """Find a text on a page; return the page of places as shown."""
        if not pattern.strip():
            raise ToolFailure("'pattern' is empty; write the words to find.")
        if len(pattern) > _LONGEST_PATTERN:
            raise ToolFailure(f"'pattern' is longer than {_LONGEST_PATTERN} characters; write a few words of it.")
        page = self._page(cursor)
        if page.listing:
            raise ToolFailure("find looks into an opened page, not into results; open one of them first.")
        return self._come_to(page.find(" ".join(pattern.split())), tokens=tokens)

    def _led_to(self, page: BrowserPage, link: int) -> tuple[BrowserPage, int]:
        """The page that a link leads to, and the line of it to begin with."""
        if link < 0:
            return page, 0
        if link not in page.links:
            there = f"they are 0 to {max(page.links)}" if page.links else "it has none"
            raise ToolFailure(f"the page has no link {link}; {there}.")
        url, place = page.links[link], page.places.get(link, 0)
        known = next((one for one in reversed(self._pages) if one.url == url and not one.listing), None)
        place = place - _LINES_BEFORE_A_HIT if place > _LINES_BEFORE_A_HIT else place
        return known or self._at(url, written=False), place

    def _at(self, url: str, *, written: bool) -> BrowserPage:
        url = url.strip()
        if url.startswith(f"{SCHEME}://"):
            return self._corpora.open(url, written=written)
        if self._web is None:
            raise ToolFailure(
                "the web is closed here; open documents of the corpora (corpus://...), which browser.search finds."
            )
        return self._web.open(url, written=written)

    def _page(self, cursor: int) -> BrowserPage:
        if not self._pages:
            raise ToolFailure("no page is open yet; begin with browser.search, or open an address.")
        if cursor != CURRENT and not 0 <= cursor < len(self._pages):
            raise ToolFailure(f"there is no cursor {cursor}; cursors are 0 to {len(self._pages) - 1}.")
        return self._pages[cursor]

    def _come_to(self, page: BrowserPage, *, line: int = 0, count: int = CURRENT, tokens: int) -> str:
        if line >= len(page.lines):
            raise ToolFailure(f"the page ends with line {len(page.lines) - 1}; 'loc' {line} is behind it.")
        with self._turn:
            self._pages.append(page)
            cursor = len(self._pages) - 1
        return page.shown(cursor, line, page.end_of_view(line, count, tokens))


def _source_of(page: BrowserPage) -> BrowserPage:
    if page.source is None:
        raise ToolFailure("the page has no source that is a text.")
    return BrowserPage(url=page.url, title=f"source of {page.title}", lines=wrapped(page.source), source=page.source)
