"""A browser for models: search, open and find with numbered pages, lines and links."""

from wardround.knowledge.browser.browser import CURRENT, Browser
from wardround.knowledge.browser.page import BrowserPage, wrapped
from wardround.knowledge.browser.sources import CorpusSource, PageSource, SearchResult

__all__ = ["CURRENT", "Browser", "BrowserPage", "CorpusSource", "PageSource", "SearchResult", "wrapped"]
