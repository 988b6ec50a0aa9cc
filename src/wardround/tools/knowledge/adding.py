"""Adding files to a corpus so that a kill at any moment loses nothing and doubles nothing.

Documents become part of the index some files at a time, in one commit of tantivy's, and then the manifest says which
files these were. A kill before the commit leaves the corpus as it was; one between the two lets the same files be read
again, whose documents replace themselves. The same command goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wardround.core import Progress, Reporter, UserError, private_folder, silent
from wardround.tools.knowledge.corpus import (
    CORPUS,
    INDEX,
    AddedFile,
    CorpusManifest,
    check_name,
    holds_corpus,
    read_day,
    read_manifest,
    write_manifest,
)
from wardround.tools.knowledge.formats import CorpusFormat, format_of
from wardround.tools.knowledge.index import CorpusIndex, CorpusWriter, Deletion, Document
from wardround.tools.knowledge.library import HANDBOOK

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
