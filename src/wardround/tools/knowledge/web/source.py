"""The web as a source of pages, with a cache so that a run can be replayed."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from wardround.core import ToolFailure, UserError, content_hash, private_folder
from wardround.tools.knowledge.browser import BrowserPage, SearchResult, wrapped
from wardround.tools.knowledge.egress import EgressGuard
from wardround.tools.knowledge.html_text import ReadableText, read_html
from wardround.tools.knowledge.index import visible
from wardround.tools.knowledge.pdf_text import read_pdf
from wardround.tools.knowledge.web.fetcher import Fetched, Fetcher
from wardround.tools.knowledge.web.providers import Searcher

# Pages and results as they were fetched, by content hash: a run can be repeated without the web.
#
# A folder: ``asked/<hash of the request>.json`` says what was asked, when, and which content answered;
# ``content/<hash>.json.gz`` is that content. The same content is kept once; a request keeps its first answer.


class PageCache:
    """Safe for several threads and processes: files are written whole under their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        private_folder(folder / "asked")
        private_folder(folder / "content")

    def get(self, *request: str) -> Mapping[str, Any] | None:
        """Return the stored answer of a request; None if it was never made."""
        try:
            entry = json.loads(self._request_file(request).read_bytes())
            body = gzip.decompress(self._content(entry["content"]).read_bytes())
        except (OSError, ValueError, KeyError):
            return None
        if hashlib.sha256(body).hexdigest() != entry["content"]:
            return None
        answer: Mapping[str, Any] = json.loads(body)
        return answer

    def put(self, *request: str, answer: Mapping[str, Any]) -> None:
        """Keep what answered a request, unless something is kept already."""
        body = json.dumps(answer, sort_keys=True, ensure_ascii=False).encode()
        name = hashlib.sha256(body).hexdigest()
        _write(self._content(name), gzip.compress(body, mtime=0))
        entry = {"request": request, "content": name, "fetched": datetime.now(UTC).isoformat(timespec="seconds")}
        _write(self._request_file(request), json.dumps(entry, indent=1).encode())

    def _request_file(self, request: tuple[str, ...]) -> Path:
        return self.folder / "asked" / f"{content_hash(list(request))}.json"

    def _content(self, name: str) -> Path:
        return self.folder / "content" / f"{name}.json.gz"


def _write(path: Path, body: bytes) -> None:
    """Rename a finished file to its name, unless the file exists."""
    if path.exists():
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_bytes(body)
    os.replace(part, path)


# The web as a source of pages: a provider that searches, a fetcher that opens, the egress guard before both.


_HTML = ("text/html", "application/xhtml+xml")
_MOST_CHARACTERS = 400_000
_MARKS = str.maketrans("【】", "〖〗")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSource:
    """One episode's access to the web.

    Requests pass ``guard``. Answers are stored in ``cache`` and served from there later. ``kept_only``: no request is
    sent, and pages that are not stored are unavailable.
    """

    guard: EgressGuard
    fetcher: Fetcher
    searcher: Searcher | None = None
    provider: str = ""
    cache: PageCache | None = None
    kept_only: bool = False
    until: date | None = None

    def search(self, query: str, topn: int) -> Sequence[SearchResult]:
        """Ask the provider; with ``until`` what has no date, or a later one, is left out. What leaves is what a reader
        sees of the query: no space of another kind or number."""
        query = " ".join(visible(query).split())
        if self.searcher is None and not self.kept_only:
            raise ToolFailure("no search provider is set here; open a page by its address.")
        self.guard.check_query(query)
        request = ("search", self.provider, query, str(topn), str(self.until))
        kept = self._kept(request)
        if kept is None:
            assert self.searcher is not None
            found = self.searcher.search(query, topn, self.until)
            kept = self._keep(request, {"results": [_written(one) for one in found]})
        results = [_read_result(one) for one in kept["results"]]
        return [result for result in results if self.until is None or self._is_old(result.published)][:topn]

    def open(self, url: str, *, written: bool) -> BrowserPage:
        """Fetch a page and make it readable."""
        self.guard.check_address(url, written=written)
        request = ("page", url)
        kept = self._kept(request)
        if kept is None:
            fetched = self.fetcher.get(url, check=lambda step: self.guard.check_address(step, written=False))
            kept = self._keep(request, _page_facts(fetched))
        published = date.fromisoformat(kept["published"]) if kept["published"] else None
        if self.until is not None and not self._is_old(published):
            why = "gives no date" if published is None else f"is of {published}"
            raise ToolFailure(f"the page {why}; here nothing is shown that was published after {self.until}.")
        text = f"\nURL: {kept['url']}\n{kept['text']}"
        return BrowserPage(
            url=kept["url"],
            title=kept["title"],
            lines=wrapped(text),
            links={int(number): link for number, link in kept["links"].items()},
            source=kept["source"],
        )

    def _is_old(self, published: date | None) -> bool:
        return published is not None and self.until is not None and published <= self.until

    def _kept(self, request: tuple[str, ...]) -> Mapping[str, Any] | None:
        kept = None if self.cache is None else self.cache.get(*request)
        if kept is None and self.kept_only:
            raise ToolFailure("this was not kept when the run was recorded, and nothing new is fetched here.")
        return kept

    def _keep(self, request: tuple[str, ...], answer: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.cache is not None:
            self.cache.put(*request, answer=answer)
        return answer


def _page_facts(fetched: Fetched) -> dict[str, Any]:
    page, source = _readable(fetched)
    return {
        "url": fetched.url,
        "title": page.title or fetched.url,
        "text": _cut(page.text),
        "links": {str(number): link for number, link in page.links.items()},
        "published": None if page.published is None else page.published.isoformat(),
        "source": None if source is None else _cut(source),
    }


def _readable(fetched: Fetched) -> tuple[ReadableText, str | None]:
    """Return the page's text and, if it is a text document, its source."""
    if fetched.content_type == "application/pdf":
        return ReadableText(title=fetched.url, text=_of_pdf(fetched)), None
    written = _decoded(fetched)
    source = visible(written).translate(_MARKS)
    if fetched.content_type in _HTML:
        return read_html(written.encode("utf-8", "replace"), fetched.url), source
    return ReadableText(title=fetched.url, text=source), source


def _of_pdf(fetched: Fetched) -> str:
    try:
        return visible(read_pdf(fetched.body, "the file")).translate(_MARKS)
    except UserError as error:
        raise ToolFailure(f"{error}; try another page.") from None


def _decoded(fetched: Fetched) -> str:
    try:
        return fetched.body.decode(fetched.charset or "utf-8", "replace")
    except (LookupError, UnicodeError):
        return fetched.body.decode("utf-8", "replace")


def _cut(text: str) -> str:
    left = len(text) - _MOST_CHARACTERS
    return text if left <= 0 else f"{text[:_MOST_CHARACTERS]}\n[{left:,} more characters are not shown]"


def _written(result: SearchResult) -> dict[str, Any]:
    body = asdict(result)
    return body | {"published": None if result.published is None else result.published.isoformat()}


def _read_result(body: Mapping[str, Any]) -> SearchResult:
    day = body["published"]
    return SearchResult(**{**body, "published": date.fromisoformat(day) if day else None})
