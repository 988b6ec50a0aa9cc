"""Where the browser's pages come from: corpora on this machine, and the web where anything may leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol
from urllib.parse import urlsplit

from wardround.core import ToolFailure
from wardround.knowledge.browser.page import BrowserPage, wrapped
from wardround.knowledge.corpus import SCHEME, Corpus, parse_address
from wardround.knowledge.document import Document
from wardround.knowledge.index import Hit
from wardround.knowledge.library import Library

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
    """The corpora of a library as pages: ``corpus://handbook/sepsis``. Nothing published after ``until`` is there."""

    library: Library
    until: date | None = None

    def search(self, query: str, topn: int) -> Sequence[SearchResult]:
        """Return the nearest documents of every corpus, taken in turns: scores of two corpora do not compare."""
        corpora = [self.library.get(name) for name in self.library.names]
        found = [list(corpus.search(query, min(topn, _FROM_EACH), until=self.until)) for corpus in corpora]
        ranked = [
            (place, number, _result(corpora[number], hit))
            for number, hits in enumerate(found)
            for place, hit in enumerate(hits)
        ]
        return [result for _, _, result in sorted(ranked, key=lambda one: one[:2])[:topn]]

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
    """The page of a search's results, as models that browse know it."""
    lines = [
        f"  * 【{number}†{_plain(one.title) or one.url}†{urlsplit(one.url).netloc}】 {_plain(one.summary)}"
        for number, one in enumerate(results)
    ]
    text = "\n".join(["", "URL: ", "# Search Results", "", *(lines or ["No results; try other words."])])
    links = {number: one.url for number, one in enumerate(results)}
    return BrowserPage(url="", title=query, lines=wrapped(text), links=links, listing=True)


def _result(corpus: Corpus, hit: Hit) -> SearchResult:
    document = hit.document
    return SearchResult(
        url=corpus.address(document),
        title=document.title or document.id,
        summary=_beginning(document),
        published=document.published,
    )


def _beginning(document: Document) -> str:
    """The first words of a document behind its title."""
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
