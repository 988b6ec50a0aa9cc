"""The web, where a deployment lets anything leave: search providers by name, and pages with a cache for replays."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2

from wardround.core import Registry, Secret, ToolFailure, UserError, content_hash, private_folder
from wardround.models.endpoint import MalformedReply, read_json
from wardround.tools.knowledge.browser import BrowserPage, SearchResult, wrapped
from wardround.tools.knowledge.corpus import last_day
from wardround.tools.knowledge.egress import EgressGuard
from wardround.tools.knowledge.fetcher import Fetched, Fetcher
from wardround.tools.knowledge.index import visible
from wardround.tools.knowledge.page_text import ReadableText, read_html, read_pdf

# Search providers: one small interface, and a registry to which plug-ins add theirs.


_SECONDS = 20.0
_SECONDS_IN_ALL = 60.0
_MOST_BYTES = 2 * 2**20
_PUBMED = "https://pubmed.ncbi.nlm.nih.gov/{}/"


class Searcher(Protocol):
    """A search provider that was opened."""

    def search(self, query: str, topn: int, until: date | None) -> Sequence[SearchResult]:
        """Return results, best first, as far as it knows none published after ``until``.

        Raises ToolFailure in words for the model."""

    def close(self) -> None:
        """Close its connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOpening:
    """What a provider is opened with."""

    base_url: str
    api_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProvider:
    """One kind of provider. ``base_url`` is its default address, None if it has to be given; the data-use guard has
    allowed it when ``open`` is called."""

    name: str
    description: str
    open: Callable[[ProviderOpening], Searcher]
    base_url: str | None = None
    needs_key: bool = False


PROVIDERS: Registry[SearchProvider] = Registry("search_providers", one="search provider", of=SearchProvider)
"""Every search provider by name."""


class JsonService:
    """A service over HTTP that answers JSON: bounded, without redirects, without a proxy."""

    def __init__(self, opening: ProviderOpening, *, key_header: str | None = None) -> None:
        self._base = opening.base_url.rstrip("/")
        self._secret = Secret(opening.api_key) if opening.api_key else None
        headers = {key_header: self._secret.reveal()} if key_header and self._secret is not None else {}
        self._client = httpx2.Client(headers=headers, timeout=_SECONDS, trust_env=False, follow_redirects=False)

    def ask(self, method: str, path: str, **sent: Any) -> Any:
        """Send one request and return the value of its answer. Raises ToolFailure in words for the model."""
        try:
            with self._client.stream(method, f"{self._base}{path}", **sent) as response:
                body = _bounded(response)
            if response.status_code != 200:
                raise ToolFailure(f"the search provider answered {response.status_code}; go on without it.")
            return read_json(body, self._secret)
        except (httpx2.HTTPError, MalformedReply):
            raise ToolFailure("the search provider cannot be reached or understood; go on without it.") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _bounded(response: httpx2.Response) -> bytes:
    parts, size, deadline = [], 0, time.monotonic() + _SECONDS_IN_ALL
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise MalformedReply("too long")
        if time.monotonic() > deadline:
            raise MalformedReply("too slow")
    return b"".join(parts)


class Serper:
    """Google's results through Serper: ``POST /search``."""

    def __init__(self, opening: ProviderOpening) -> None:
        self._service = JsonService(opening, key_header="x-api-key")
        self.close = self._service.close

    def search(self, query: str, topn: int, until: date | None) -> Sequence[SearchResult]:
        """Return the organic results."""
        limit = {} if until is None else {"tbs": f"cdr:1,cd_max:{until:%m/%d/%Y}"}
        found = self._service.ask("POST", "/search", json={"q": query, "num": topn, **limit})
        return [
            _result(row, url="link", title="title", summary="snippet", day="date") for row in _rows(found, "organic")
        ]


class SearXNG:
    """A SearXNG of one's own: ``GET /search?format=json`` (its settings must allow the format)."""

    def __init__(self, opening: ProviderOpening) -> None:
        self._service = JsonService(opening)
        self.close = self._service.close

    def search(self, query: str, topn: int, until: date | None) -> Sequence[SearchResult]:
        """Return the first results of its first page."""
        found = self._service.ask("GET", "/search", params={"q": query, "format": "json"})
        rows = _rows(found, "results")
        return [_result(row, url="url", title="title", summary="content", day="publishedDate") for row in rows][:topn]


class EUtilities:
    """PubMed through NCBI's E-utilities: ``esearch`` for the papers, ``esummary`` for what they are."""

    def __init__(self, opening: ProviderOpening) -> None:
        self._service = JsonService(opening)
        self._key = {"api_key": opening.api_key} if opening.api_key else {}
        self.close = self._service.close

    def search(self, query: str, topn: int, until: date | None) -> Sequence[SearchResult]:
        """Return papers by relevance."""
        params: dict[str, Any] = {"db": "pubmed", "retmode": "json", **self._key}
        dated = {} if until is None else {"datetype": "pdat", "mindate": "1000/01/01", "maxdate": f"{until:%Y/%m/%d}"}
        terms = {"term": query, "retmax": topn, "sort": "relevance", **dated}
        found = self._service.ask("GET", "/esearch.fcgi", params={**params, **terms})
        ids = [one for one in _value(_value(found, "esearchresult"), "idlist", list) if str(one).isdigit()][:topn]
        if not ids:
            return []
        summaries = self._service.ask("GET", "/esummary.fcgi", params={**params, "id": ",".join(map(str, ids))})
        papers = _value(summaries, "result")
        return [_paper(str(one), _value(papers, str(one))) for one in ids]


def _paper(pmid: str, summary: Mapping[str, Any]) -> SearchResult:
    return SearchResult(
        url=_PUBMED.format(pmid),
        title=visible(str(summary.get("title") or pmid)),
        summary=visible(f"{summary.get('source') or ''} {summary.get('pubdate') or ''}"),
        published=last_day(str(summary.get("pubdate") or "")),
    )


def _result(row: Mapping[str, Any], *, url: str, title: str, summary: str, day: str) -> SearchResult:
    return SearchResult(
        url=str(row.get(url) or ""),
        title=visible(str(row.get(title) or "")),
        summary=visible(str(row.get(summary) or "")),
        published=last_day(str(row.get(day) or "")),
    )


def _rows(body: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """Return the entries of a list in an answer that have an address."""
    for row in _value(body, name, list):
        if isinstance(row, Mapping) and _is_page(str(row.get("link") or row.get("url") or "")):
            yield row


def _is_page(link: str) -> bool:
    try:
        return urlsplit(link).scheme in ("http", "https")
    except ValueError:
        return False


def _value(body: Any, name: str, kind: type = dict) -> Any:
    value = body.get(name) if isinstance(body, Mapping) else None
    return value if isinstance(value, kind) else kind()


for _provider in (
    SearchProvider(
        name="serper",
        description="Google's results through serper.dev; sees every query in clear",
        open=Serper,
        base_url="https://google.serper.dev",
        needs_key=True,
    ),
    SearchProvider(name="searxng", description="a SearXNG server of your own (say where it is)", open=SearXNG),
    SearchProvider(
        name="eutils",
        description="PubMed through NCBI's E-utilities; sees every query in clear",
        open=EUtilities,
        base_url="https://eutils.ncbi.nlm.nih.gov/entrez/eutils",
    ),
):
    PROVIDERS.add(_provider.name, _provider)


def open_provider(name: str, *, base_url: str | None, api_key: str | None, check: Callable[[str], None]) -> Searcher:
    """Open a provider by its name; ``check`` is the data-use guard's. Raises UserError."""
    provider = PROVIDERS.get(name)
    place = base_url or provider.base_url
    if place is None:
        raise UserError(f"the search provider {name!r} needs its address: --set knowledge.provider_url=URL")
    check(place)
    if provider.needs_key and not api_key:
        raise UserError(
            f"the search provider {name!r} needs a key: put it into an environment variable and name that with "
            "--set knowledge.provider_key_variable=NAME"
        )
    return provider.open(ProviderOpening(base_url=place, api_key=api_key))


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
        try:
            text = visible(read_pdf(fetched.body, "the file")).translate(_MARKS)
        except UserError as error:
            raise ToolFailure(f"{error}; try another page.") from None
        return ReadableText(title=fetched.url, text=text), None
    written = _decoded(fetched)
    source = visible(written).translate(_MARKS)
    if fetched.content_type in _HTML:
        return read_html(written.encode("utf-8", "replace"), fetched.url), source
    return ReadableText(title=fetched.url, text=source), source


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
