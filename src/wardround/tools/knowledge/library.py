"""The library: the corpora of one folder and the handbook that ships, by their names; adding and removing corpora."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from wardround.core import Progress, Reporter, UserError, private_folder, silent, unknown
from wardround.tools.knowledge.corpus import (
    CORPUS,
    INDEX,
    AddedFile,
    Corpus,
    CorpusManifest,
    check_name,
    holds_corpus,
    read_day,
    read_manifest,
    write_manifest,
)
from wardround.tools.knowledge.formats import CorpusFormat, format_of, plain_document
from wardround.tools.knowledge.index import CorpusIndex, CorpusWriter, Deletion, Document

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
        sha256 = hashlib.sha256(document.text.encode()).hexdigest()
        files.append(AddedFile(name=page.name, sha256=sha256, documents=1))
    writer.commit()
    writer.close()
    manifest = replace(_HANDBOOK, documents=len(files), files=tuple(files))
    return Corpus(manifest=manifest, index=index)


# Adding files to a corpus so that a kill at any moment loses nothing and doubles nothing.
#
# Documents become part of the index some files at a time, in one commit of tantivy's, and then the manifest says which
# files these were. A kill before the commit leaves the corpus as it was; one between the two lets the same files be
# read again, whose documents replace themselves. The same command goes on where it stopped.


_DOCUMENTS_AT_ONCE = 50_000
"""So many are read before a commit, and the rest of their file."""
_READ_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The counts of one add; ``unchanged`` files were in the corpus already."""

    manifest: CorpusManifest
    files: int
    documents: int
    withdrawn: int
    unchanged: int


def add_corpus(
    library: Path,
    name: str,
    place: Path,
    *,
    licence: str = "",
    date: str = "",
    title: str = "",
    format_name: str | None = None,
    report: Reporter = silent,
) -> Added:
    """Add a file or a folder to a corpus; create the corpus if it does not exist.

    A new corpus needs its licence and its day (YYYY-MM-DD). A document replaces an earlier one with the same id. Raises
    UserError; documents added before an error stay.
    """
    form = format_of(place, format_name)
    folder = library / check_name(name)
    manifest = _manifest(folder, name, form, licence=licence, date=date, title=title)
    found = form.files_in(place)
    if not found:
        raise UserError(f"{str(place)!r} holds no file that ends in {', '.join(form.suffixes)}")
    new = [(file, path, sha256) for file, path, sha256 in _hashed(found) if not manifest.has(file, sha256)]
    _refuse_earlier(form, manifest, [file for file, _, _ in new])
    private_folder(folder / INDEX)
    adding = _Adding(folder=folder, manifest=manifest, form=form, report=report)
    adding.all(new)
    return Added(
        manifest=adding.manifest,
        files=len(new),
        documents=adding.documents,
        withdrawn=adding.withdrawn,
        unchanged=len(found) - len(new),
    )


def remove_corpus(library: Path, name: str) -> None:
    """Delete a corpus. Its manifest goes first, so that a killed deletion leaves no corpus. Raises UserError."""
    if name == HANDBOOK:
        raise UserError(f"{HANDBOOK} ships with wardround and cannot be removed")
    folder = library / check_name(name)
    if not folder.is_dir():
        raise UserError(f"there is no corpus {name!r} in {str(library)!r}; wardround corpus list names them")
    (folder / CORPUS).unlink(missing_ok=True)
    shutil.rmtree(folder)


class _Adding:
    """One add: files are read into the index, group by group."""

    def __init__(self, *, folder: Path, manifest: CorpusManifest, form: CorpusFormat, report: Reporter) -> None:
        self.manifest = manifest
        self.documents = 0
        self.withdrawn = 0
        self._folder = folder
        self._form = form
        self._report = report
        self._index = CorpusIndex(folder / INDEX)
        self._was_empty = len(self._index) == 0
        self._seen: set[str] = set()
        self._group: list[AddedFile] = []

    def all(self, files: Sequence[tuple[str, Path, str]]) -> None:
        """Read the files, commit after each group of them."""
        writer = self._index.writer()
        try:
            self.manifest = replace(self.manifest, waiting=tuple(name for name, _, _ in files))
            write_manifest(self._folder, self.manifest)
            for done, (name, path, sha256) in enumerate(files):
                self._group.append(self._one(writer, name, path, sha256))
                if sum(file.documents for file in self._group) >= _DOCUMENTS_AT_ONCE:
                    self._commit(writer)
                self._report(Progress(label="adding", done=done + 1, total=len(files), unit="files"))
            self._commit(writer)
        finally:
            writer.close()

    def _one(self, writer: CorpusWriter, name: str, path: Path, sha256: str) -> AddedFile:
        documents = withdrawn = 0
        for document in self._form.read(path, name):
            if isinstance(document, Deletion):
                writer.remove(document.id)
                withdrawn += 1
            else:
                self._put(writer, document)
                documents += 1
        return AddedFile(name=name, sha256=sha256, documents=documents, withdrawn=withdrawn)

    def _put(self, writer: CorpusWriter, document: Document) -> None:
        replaces = not self._was_empty or document.id in self._seen
        writer.put(document, document.published or self.manifest.day, replaces=replaces)
        if self._was_empty:
            self._seen.add(document.id)

    def _commit(self, writer: CorpusWriter) -> None:
        writer.commit()
        manifest = self.manifest
        for file in self._group:
            manifest = manifest.with_file(file)
            self.documents += file.documents
            self.withdrawn += file.withdrawn
        self.manifest = replace(manifest, documents=len(self._index))
        write_manifest(self._folder, self.manifest)
        self._group = []


def _manifest(folder: Path, name: str, form: CorpusFormat, *, licence: str, date: str, title: str) -> CorpusManifest:
    """Return the new manifest of a corpus: the old one with the changed facts."""
    if name == HANDBOOK:
        raise UserError(f"{HANDBOOK} ships with wardround; give yours another name")
    if holds_corpus(folder):
        known = read_manifest(folder)
        if known.format != form.name:
            raise UserError(f"the corpus {name!r} is made of {known.format} files, these are {form.name}")
        changes = {"licence": licence, "date": date, "title": title}
        known = replace(known, **{key: value for key, value in changes.items() if value})  # type: ignore[arg-type]
        read_day(known.date, "--date")
        return known
    if not licence or not date:
        raise UserError("a new corpus needs --licence (as its publisher names it) and --date (the day it is of)")
    read_day(date, "--date")
    return CorpusManifest(name=name, title=title or name, licence=licence, date=date, format=form.name)


def _hashed(files: Sequence[tuple[str, Path]]) -> Iterator[tuple[str, Path, str]]:
    for name, path in files:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while part := file.read(_READ_BYTES):
                digest.update(part)
        yield name, path, digest.hexdigest()


def _refuse_earlier(form: CorpusFormat, manifest: CorpusManifest, new: Sequence[str]) -> None:
    """Raise UserError if a file would undo a later one."""
    last = max((file.name for file in manifest.files), default="")
    early = [name for name in new if form.in_order and name < last]
    if early:
        raise UserError(
            f"{early[0]} comes before {last}, which is in the corpus: it would undo revisions and deletions; remove "
            "the corpus and add all files together"
        )
