"""What a person may set of knowledge: which corpora, how new, and what may leave the machine for the web."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from wardround.core import check_settings, setting
from wardround.knowledge.dates import read_day


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

    def __post_init__(self) -> None:
        check_settings(self)
        if self.published_until is not None:
            read_day(self.published_until, "knowledge.published_until")

    @property
    def until(self) -> date | None:
        """The last day that something may have been published on."""
        return None if self.published_until is None else date.fromisoformat(self.published_until)
