"""The formats that corpora are read from, by name. A plug-in adds its own through the same door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.core import Registry, UserError
from wardround.knowledge.document import Deletion, Document
from wardround.knowledge.formats.json_lines import read_json_lines
from wardround.knowledge.formats.pages import PAGE_SUFFIXES, read_page
from wardround.knowledge.formats.pubmed import read_pubmed

Reader = Callable[[Path, str], Iterator[Document | Deletion]]
"""Takes a file and its name within what was added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFormat:
    """One format. ``suffixes`` are the ends of its files' names. ``in_order``: a later file says what an earlier one no
    longer is, so that files are taken in the order of their names and none after a later one."""

    name: str
    description: str
    suffixes: tuple[str, ...]
    read: Reader
    in_order: bool = False

    def files_in(self, place: Path) -> list[tuple[str, Path]]:
        """List the files of this format at a place, by the names that they have below it."""
        if place.is_file():
            return [(place.name, place)]
        found = (file for file in place.rglob("*") if file.name.lower().endswith(self.suffixes) and file.is_file())
        return sorted((file.relative_to(place).as_posix(), file) for file in found)


FORMATS: Registry[CorpusFormat] = Registry("corpus_formats", one="corpus format", of=CorpusFormat)
"""Every format by name."""
for _format in (
    CorpusFormat(
        name="medrag",
        description="JSON lines in the shape of MedRAG: id, title, content, and where known a date and a url",
        suffixes=(".jsonl", ".jsonl.gz"),
        read=read_json_lines,
    ),
    CorpusFormat(
        name="pubmed",
        description="PubMed's baseline and update files (XML.gz), with revisions and deletions",
        suffixes=(".xml", ".xml.gz"),
        read=read_pubmed,
        in_order=True,
    ),
    CorpusFormat(
        name="pages",
        description="a folder of HTML, PDF, Markdown and text files, one document each",
        suffixes=PAGE_SUFFIXES,
        read=read_page,
    ),
):
    FORMATS.add(_format.name, _format)


def format_of(place: Path, name: str | None) -> CorpusFormat:
    """Return the format of a name, or without one the format of what lies at a place. Raises UserError."""
    if not place.exists():
        raise UserError(f"there is no file or folder {str(place)!r}")
    if name is not None:
        return FORMATS.get(name)
    names = [place.name] if place.is_file() else [file.name for file in place.rglob("*") if file.is_file()]
    fitting = [one for one in FORMATS.registered if any(file.lower().endswith(one.suffixes) for file in names)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(FORMATS.names)
    why = "files of several formats" if fitting else "no file of a known format"
    raise UserError(f"{str(place)!r} holds {why}; say which to read with --format ({known})")
