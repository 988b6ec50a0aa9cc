"""A browser for models: search, open and find over corpora and the web."""

from __future__ import annotations

import re
import textwrap
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol
from urllib.parse import unquote, urlsplit

from wardround.core import ToolFailure, estimate_tokens
from wardround.tools.knowledge.corpus import SCHEME, Corpus, parse_address
from wardround.tools.knowledge.index import Document
from wardround.tools.knowledge.library import Library

# A page as the browser holds it: numbered wrapped lines, links by number, and where a found place is.


WIDTH = 80
VIEW_TOKENS = 1024
"""The lines of a page that are shown at once, by default."""
_TITLE_CHARACTERS = 300
_URL_CHARACTERS = 1000
_MOST_HITS = 50
_LINES_OF_A_HIT = 4
_LINK = re.compile(r"【\d+†(?P<text>[^†】]+)(?:†[^†】]+)?】")
_LINK_BEGUN = re.compile(r"【\d*(?:†(?P<text>[^†】]*)(?:†[^†】]*)?)?$")
_LINK_ENDED = re.compile(r"^[^【】]*】")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserPage:
    """One page. ``links`` are addresses by number; ``places`` (of a page of finds) are the lines they lead to.

    ``listing``: a page of results or finds, in which nothing is found again. ``source`` is what it was made of, where
    that is a text."""

    url: str
    title: str
    lines: Sequence[str]
    links: Mapping[int, str] = field(default_factory=dict)
    places: Mapping[int, int] = field(default_factory=dict)
    listing: bool = False
    source: str | None = None

    def end_of_view(self, start: int, count: int, tokens: int) -> int:
        """Return the line behind the last one to show from ``start`` on: ``count`` lines, or as many as fit, at least
        one, and never more than ``tokens``."""
        room = tokens if count > 0 else min(VIEW_TOKENS, tokens)
        most = len(self.lines) if count <= 0 else min(len(self.lines), start + count)
        end = start
        while end < most:
            room -= estimate_tokens(f"L{end}: {self.lines[end]}\n")
            if room < 0 and end > start:
                break
            end += 1
        return end

    def shown(self, cursor: int, start: int, end: int) -> str:
        """Return the page's text from a line up to ``end`` (excluded), under its head."""
        address = f" ({_cut(unquote(self.url), _URL_CHARACTERS)})" if self.url else ""
        head = f"[{cursor}] {_cut(self.title, _TITLE_CHARACTERS)}{address}"
        where = f"**viewing lines [{start} - {end - 1}] of {len(self.lines) - 1}**"
        body = "\n".join(f"L{number}: {self.lines[number]}" for number in range(start, end))
        return f"{head}\n{where}\n\n{body}"

    def find(self, pattern: str) -> BrowserPage:
        """Return the page of the places of a text, ignoring case and link marks."""
        wanted, lines = pattern.lower(), _without_links(self.lines)
        places: list[int] = []
        number = 0
        while number < len(lines) and len(places) < _MOST_HITS:
            if wanted in lines[number].lower():
                places.append(number)
                number += _LINES_OF_A_HIT
            else:
                number += 1
        found = "\n\n".join(
            "\n".join([f"# 【{hit}†match at L{place}】", *lines[place : place + _LINES_OF_A_HIT]])
            for hit, place in enumerate(places)
        )
        return BrowserPage(
            url=f"{self.url}/find?pattern={pattern}",
            title=f"Find results for text: `{pattern}` in `{self.title}`",
            lines=wrapped(found or f"No `find` results for pattern: `{pattern}`"),
            links=dict.fromkeys(range(len(places)), self.url),
            places=dict(enumerate(places)),
            listing=True,
        )


def wrapped(text: str) -> list[str]:
    """Cut a text into lines of at most 80 characters; an empty line stays one.

    >>> wrapped("a" * 81)[1]
    'a'
    """
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, WIDTH, replace_whitespace=False, drop_whitespace=False) or [""]
    return lines


def _without_links(lines: Sequence[str]) -> list[str]:
    """Lines with the words of links instead of their marks; a mark that is wrapped over two lines too."""
    text = _LINK.sub(lambda found: found["text"], "\n".join(lines))
    bare = [_LINK_BEGUN.sub(lambda found: found["text"] or "", line) for line in text.split("\n")]
    return [_LINK_ENDED.sub("", line) for line in bare]


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 3] + "..."


# Where the browser's pages come from: corpora on this machine, and the web where anything may leave.


_SUMMARY_CHARACTERS = 300
_FROM_EACH = 20
_MARKS = str.maketrans({"【": "〖", "】": "〗", "†": "‡"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One result of a search: where it is, what it is called, a few words of it, and its date where one is known."""

    url: str
    title: str
    summary: str
    published: date | None = None


class PageSource(Protocol):
    """What a browser searches and opens. Both raise ToolFailure in words for the model."""

    def search(self, query: str, topn: int) -> Sequence[SearchResult]:
        """Return at most so many results, best first."""

    def open(self, url: str, *, written: bool) -> BrowserPage:
        """Return a page. ``written``: the model wrote the address, it was not on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSource:
    """The corpora of a library as pages: ``corpus://handbook/sepsis``. Documents published after ``until`` are
    hidden."""

    library: Library
    until: date | None = None

    def search(self, query: str, topn: int) -> Sequence[SearchResult]:
        """Return the nearest documents of every corpus in turns: scores of different corpora are not comparable."""
        corpora = [self.library.get(name) for name in self.library.names]
        found = [list(corpus.search(query, min(topn, _FROM_EACH), until=self.until)) for corpus in corpora]
        ranked = [(place, number, hit.document) for number, hits in enumerate(found) for place, hit in enumerate(hits)]
        return [
            SearchResult(
                url=corpora[number].address(document),
                title=document.title or document.id,
                summary=_beginning(document),
                published=document.published,
            )
            for _, number, document in sorted(ranked, key=lambda one: one[:2])[:topn]
        ]

    def open(self, url: str, *, written: bool) -> BrowserPage:
        """Return a document as a page."""
        named = parse_address(url)
        if named is None:
            raise ToolFailure(f"write the address of a document like {SCHEME}://handbook/sepsis")
        name, identifier = named
        if name not in self.library.names:
            raise ToolFailure(f"there is no corpus {name!r} here; there are: {', '.join(self.library.names)}")
        corpus = self.library.get(name)
        document = corpus.get(identifier, until=self.until)
        if document is None:
            dated = f" that was published by {self.until}" if self.until is not None else ""
            raise ToolFailure(f"the corpus {name!r} has no document {identifier!r}{dated}; search for it first.")
        return _page(corpus, document)


def results_page(query: str, results: Sequence[SearchResult]) -> BrowserPage:
    """Return the page of a search's results, in the form that browsing models know."""
    lines = [
        f"  * 【{number}†{_plain(result.title) or result.url}†{urlsplit(result.url).netloc}】 {_plain(result.summary)}"
        for number, result in enumerate(results)
    ]
    text = "\n".join(["", "URL: ", "# Search Results", "", *(lines or ["No results; try other words."])])
    links = {number: result.url for number, result in enumerate(results)}
    return BrowserPage(url="", title=query, lines=wrapped(text), links=links, listing=True)


def _beginning(document: Document) -> str:
    """Return the first words of a document after its title."""
    text = document.text.removeprefix(f"# {document.title}\n")
    words = " ".join(text.split())
    return words if len(words) <= _SUMMARY_CHARACTERS else words[:_SUMMARY_CHARACTERS].rpartition(" ")[0] + " ..."


def _page(corpus: Corpus, document: Document) -> BrowserPage:
    address = corpus.address(document)
    facts = f"{corpus.name}, published by {document.published}, licence: {corpus.manifest.licence}"
    text = f"\nURL: {address}\n{facts}\n\n{document.text}".translate(_MARKS)
    return BrowserPage(
        url=address, title=_plain(document.title) or document.id, lines=wrapped(text), source=document.text
    )


def _plain(text: str) -> str:
    return " ".join(text.translate(_MARKS).split())


# A browser over page sources: each search, page and find gets a number, the cursor, by which it is named again.


CURRENT = -1
"""Return the cursor, link and line of the current view, and of its beginning."""
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
        """Search the web if it is available, else the corpora; return the page of results as shown."""
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
        if view_source:
            if page.source is None:
                raise ToolFailure("the page has no source that is a text.")
            lines = wrapped(page.source)
            page = BrowserPage(url=page.url, title=f"source of {page.title}", lines=lines, source=page.source)
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
        """Return the page that a link leads to, and the line to begin with."""
        if link < 0:
            return page, 0
        if link not in page.links:
            known_links = f"they are 0 to {max(page.links)}" if page.links else "it has none"
            raise ToolFailure(f"the page has no link {link}; {known_links}.")
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


# A browser for models: search, open and find with numbered pages, lines and links.


__all__ = ["CURRENT", "Browser", "BrowserPage", "CorpusSource", "PageSource", "SearchResult", "wrapped"]
