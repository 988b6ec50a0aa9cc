"""The library: the corpora of one folder and the handbook that ships, by their names."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from wardround.core import UserError, unknown
from wardround.tools.knowledge.corpus import AddedFile, Corpus, CorpusManifest, holds_corpus, read_manifest
from wardround.tools.knowledge.formats import plain_document
from wardround.tools.knowledge.index import CorpusIndex

HANDBOOK = "handbook"
_HANDBOOK = CorpusManifest(
    name=HANDBOOK,
    title="wardround's own pages of reference, for demonstration; not for the care of patients",
    licence="Apache-2.0",
    date="2026-11-22",
    format="pages",
)


class Library:
    """Corpora by name, opened on first use; without a ``folder`` there is only the handbook. Thread-safe.

    Documents added to an open corpus are visible once it is opened again.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._open: dict[str, Corpus] = {}
        self._opening = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all corpora; the installed ones first."""
        installed = [] if self.folder is None or not self.folder.is_dir() else sorted(self.folder.iterdir())
        return (*(one.name for one in installed if holds_corpus(one) and one.name != HANDBOOK), HANDBOOK)

    def get(self, name: str) -> Corpus:
        """Return a corpus. Raises UserError with the known names."""
        with self._opening:
            found = self._open.get(name)
            if found is None:
                if name not in self.names:
                    raise UserError(unknown("corpus", name, self.names))
                found = self._open[name] = _handbook() if name == HANDBOOK else Corpus.open(self._place(name))
            return found

    def manifest(self, name: str) -> CorpusManifest:
        """Return the manifest of a corpus, without opening its index."""
        return self.get(name).manifest if name == HANDBOOK else read_manifest(self._place(name))

    def facts(self) -> Mapping[str, Any]:
        """Return what a run records about the corpora that it may read. Raises UserError for one that cannot be
        opened."""
        return {name: self.get(name).manifest.facts() for name in self.names}

    def _place(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name


def _handbook() -> Corpus:
    """Make the corpus that ships: a few dozen pages, indexed in memory in some milliseconds."""
    index = CorpusIndex(None)
    writer = index.writer()
    files = []
    pages = resources.files("wardround.tools.knowledge").joinpath("handbook").iterdir()
    for page in sorted((one for one in pages if one.name.endswith(".md")), key=lambda one: one.name):
        document = plain_document(page.read_text(encoding="utf-8"), page.name.removesuffix(".md"))
        writer.put(document, document.published or _HANDBOOK.day, replaces=False)
        files.append(AddedFile(name=page.name, sha256=_sha256(document.text), documents=1))
    writer.commit()
    writer.close()
    manifest = replace(_HANDBOOK, documents=len(files), files=tuple(files))
    return Corpus(manifest=manifest, index=index)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
