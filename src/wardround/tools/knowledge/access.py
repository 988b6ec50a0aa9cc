"""What an episode may read of the world's knowledge: settings, a library, nothing newer than a day, and the web."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path

from wardround.core import UserError, check_settings, setting
from wardround.models import DataUseGuard
from wardround.records import Chart
from wardround.tools.knowledge.browser import Browser, CorpusSource
from wardround.tools.knowledge.corpus import read_day
from wardround.tools.knowledge.egress import Egress, EgressGuard, fingerprint_of
from wardround.tools.knowledge.fetcher import Fetcher, Network
from wardround.tools.knowledge.library import Library
from wardround.tools.knowledge.web import PageCache, Searcher, WebSource, open_provider


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeSettings:
    """Corpora of a run and what its agents may read of them."""

    library: str | None = setting(
        None, "folder of installed corpora (wardround corpus list); none: the handbook that ships", unit="folder"
    )
    published_until: str | None = setting(
        None,
        "show nothing that was published after this day; dates of records are often shifted, so it is no chart's date",
        unit="YYYY-MM-DD",
    )

    egress: Egress = setting(
        "nothing",
        "what may leave the machine for the web, past the guard: nothing, queries and pages of the hosts below, or of "
        "any public host (invented records only)",
    )
    hosts: tuple[str, ...] = setting((), "hosts whose pages may be opened, their subdomains too", unit="names")
    provider: str | None = setting(
        None, "who searches the web (wardround list providers); none: the browser searches the corpora"
    )
    provider_url: str | None = setting(None, "where the provider is, if not at its usual place", unit="URL")
    provider_key_variable: str | None = setting(
        None, "environment variable that holds the provider's key", unit="name of a variable"
    )
    pages: str | None = setting(None, "folder in which fetched pages are kept; none: in the run's own", unit="folder")
    kept_pages_only: bool = setting(False, "show only pages that were kept: a run again without the web")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.provider is not None and self.egress == "nothing" and not self.kept_pages_only:
            raise UserError(
                f"knowledge.provider is {self.provider} and nothing may leave: set knowledge.egress to permitted or "
                "guarded, or leave the provider out"
            )
        if self.published_until is not None:
            read_day(self.published_until, "knowledge.published_until")

    def resolved(self) -> KnowledgeSettings:
        """Return the same with absolute folders."""
        return replace(self, library=_absolute(self.library), pages=_absolute(self.pages))

    @property
    def until(self) -> date | None:
        """The last day that something may have been published on."""
        return None if self.published_until is None else date.fromisoformat(self.published_until)


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).resolve())


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAccess:
    """The web of a run, shared by its episodes: what may leave, who searches, how pages come and where they stay."""

    settings: KnowledgeSettings
    fetcher: Fetcher
    searcher: Searcher | None = None
    cache: PageCache | None = None

    def of(self, chart: Chart) -> WebSource:
        """Return one episode's way to the web, guarded by what its chart is known by."""
        guard = EgressGuard(
            policy=self.settings.egress, hosts=self.settings.hosts, fingerprint=partial(fingerprint_of, chart)
        )
        return WebSource(
            guard=guard,
            fetcher=self.fetcher,
            searcher=self.searcher,
            provider=self.settings.provider or "",
            cache=self.cache,
            kept_only=self.settings.kept_pages_only,
            until=self.settings.until,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """The knowledge of a run, shared by its episodes. By default the handbook that ships, and no web."""

    library: Library = field(default_factory=Library)
    until: date | None = None
    web: WebAccess | None = None

    @classmethod
    def open(
        cls,
        settings: KnowledgeSettings,
        *,
        guard: DataUseGuard | None = None,
        api_key: str | None = None,
        pages: Path | None = None,
        network: Network | None = None,
    ) -> Knowledge:
        """Open the corpora and web access of the settings.

        ``guard`` is the data-use guard (the strictest by default), ``api_key`` is the provider's, ``pages`` is the
        default folder of stored pages. Raises UserError if the folder is missing, or if the guard refuses the host.
        """
        folder = None if settings.library is None else Path(settings.library)
        if folder is not None and not folder.is_dir():
            raise UserError(
                f"the folder of corpora {str(folder)!r} is missing; add one with: wardround corpus add NAME FILES"
            )
        web = None
        if settings.egress != "nothing":
            web = _open_web(settings, guard or DataUseGuard(), api_key=api_key, pages=pages, network=network)
        return cls(library=Library(folder), until=settings.until, web=web)

    def browser(self, chart: Chart) -> Browser:
        """Return a browser for one episode."""
        corpora = CorpusSource(library=self.library, until=self.until)
        return Browser(corpora, None if self.web is None else self.web.of(chart))

    def close(self) -> None:
        """Close what was opened to the web."""
        if self.web is not None and self.web.searcher is not None:
            self.web.searcher.close()


def _open_web(
    settings: KnowledgeSettings,
    guard: DataUseGuard,
    *,
    api_key: str | None,
    pages: Path | None,
    network: Network | None,
) -> WebAccess:
    _check_hosts(settings, guard)
    searcher = None
    if settings.provider is not None and not settings.kept_pages_only:
        searcher = open_provider(settings.provider, base_url=settings.provider_url, api_key=api_key, check=guard.check)
    kept = Path(settings.pages) if settings.pages is not None else pages
    cache = None if kept is None else PageCache(kept)
    return WebAccess(settings=settings, fetcher=Fetcher(network), searcher=searcher, cache=cache)


def _check_hosts(settings: KnowledgeSettings, guard: DataUseGuard) -> None:
    """Check web hosts with the data-use guard, as models are: a host learns the queries."""
    if settings.egress == "guarded" and guard.sensitivity != "synthetic":
        raise UserError(
            "these records are not invented, so pages of any host may not be opened: set knowledge.egress=permitted "
            "and name the hosts (knowledge.hosts), each permitted with --permit-endpoint https://HOST"
        )
    for host in settings.hosts if settings.egress == "permitted" else ():
        guard.check(f"https://{host}")
