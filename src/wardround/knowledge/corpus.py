"""A corpus that can be read: its index and what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from wardround.knowledge.document import Document
from wardround.knowledge.index import CorpusIndex, Hit
from wardround.knowledge.manifest import CorpusManifest, read_manifest

INDEX = "index"
SCHEME = "corpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """An installed corpus, or one that was made in memory. Safe to share between threads."""

    manifest: CorpusManifest
    index: CorpusIndex

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Open an installed corpus. Raises UserError."""
        return cls(manifest=read_manifest(folder), index=CorpusIndex(folder / INDEX))

    @property
    def name(self) -> str:
        """Its name: ``pubmed``."""
        return self.manifest.name

    def search(self, query: str, limit: int, *, offset: int = 0, until: date | None = None) -> Sequence[Hit]:
        """Return the documents nearest to a query, best first; ``until`` leaves out what was published later."""
        return self.index.search(query, limit, offset=offset, until=until)

    def get(self, identifier: str, *, until: date | None = None) -> Document | None:
        """Return a document by its id, None where there is none (or, with ``until``, none that old)."""
        return self.index.get(identifier, until=until)

    def address(self, document: Document) -> str:
        """Return the address under which the browser opens a document: ``corpus://pubmed/21645374``."""
        return f"{SCHEME}://{self.name}/{quote(document.id, safe='/')}"


def parse_address(address: str) -> tuple[str, str] | None:
    """Return the corpus and the document that an address names, None where it is of another scheme."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme != SCHEME or not parts.netloc:
        return None
    return parts.netloc, unquote(parts.path.removeprefix("/"))
