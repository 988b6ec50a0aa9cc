"""What a person may set of knowledge: which corpora, how new, and what may leave the machine for the web."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from wardround.core import UserError, check_settings, setting
from wardround.tools.knowledge.corpus import read_day
from wardround.tools.knowledge.egress import Egress


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
