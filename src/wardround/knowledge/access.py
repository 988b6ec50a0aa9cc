"""What an episode may read of the world's knowledge: a library, and nothing newer than a day."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from wardround.core import UserError
from wardround.knowledge.library import Library
from wardround.knowledge.settings import KnowledgeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """The knowledge of a run, shared by its episodes. By default the handbook that ships."""

    library: Library = field(default_factory=Library)
    until: date | None = None

    @classmethod
    def open(cls, settings: KnowledgeSettings) -> Knowledge:
        """Open what settings name. Raises UserError where there is no such folder."""
        folder = None if settings.library is None else Path(settings.library)
        if folder is not None and not folder.is_dir():
            raise UserError(
                f"there is no folder of corpora {str(folder)!r}; add one with: wardround corpus add NAME FILES"
            )
        return cls(library=Library(folder), until=settings.until)
