"""Search providers of the web, by name: one small interface, and a registry to which plug-ins add theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2

from wardround.core import Registry, Secret, ToolFailure, UserError
from wardround.models.endpoint import MalformedReply, read_json
from wardround.tools.knowledge.browser import SearchResult
from wardround.tools.knowledge.corpus import last_day
from wardround.tools.knowledge.index import visible

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
