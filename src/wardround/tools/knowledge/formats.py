"""File formats of corpora as streams of documents: JSON lines, pages, PubMed XML."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any, cast
from xml.etree.ElementTree import Element, ParseError, iterparse

from wardround.core import Registry, UserError
from wardround.tools.knowledge.corpus import last_day
from wardround.tools.knowledge.index import Deletion, Document, visible
from wardround.tools.knowledge.page_text import read_html, read_pdf

# Opening a file that may be gzipped, so that one that cannot be unpacked is named.


@contextmanager
def opened(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a file, unpacked where its name ends in ``.gz``. UserError names one that cannot be unpacked to its end."""
    try:
        with cast("IO[bytes]", gzip.open(path)) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(name, error) from None


def damaged(name: str, error: Exception) -> UserError:
    """Return an error that states which file is damaged, how, and what to do."""
    return UserError(f"{name} is damaged ({error}); fetch it again and add it again")


# JSON lines in the shape that MedRAG publishes its corpora in: ``id``, ``title``, ``content`` (or ``text``).


_TEXTS = ("content", "text", "contents", "abstract")
_IDS = ("id", "PMID", "pmid", "docid", "_id")
_DATES = ("published", "date", "year")
_ADDRESSES = ("url", "address", "source_url")


def read_json_lines(path: Path, name: str) -> Iterator[Document]:
    """Read the documents of a file. UserError names the line that is none, or a file that cannot be unpacked."""
    with opened(path, name) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _document(line, f"{name}, line {number}")


def _document(line: bytes, where: str) -> Document:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON ({error}); correct it and add the file again") from None
    if not isinstance(body, dict):
        raise UserError(f"{where} is no JSON object; a document has id, title and content")
    identifier, text = _first(body, _IDS), _first(body, _TEXTS)
    if not identifier or not text:
        raise UserError(f"{where} has no {'text (content)' if identifier else 'id'}; a document has id, title, content")
    return Document(
        id=identifier,
        title=visible(_first(body, ("title",))),
        text=visible(text),
        published=last_day(_first(body, _DATES)),
        address=_first(body, _ADDRESSES),
    )


def _first(body: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first field that is not empty, as text."""
    values = (body.get(name) for name in names)
    return next((str(value) for value in values if isinstance(value, str | int) and str(value).strip()), "")


# Files that people read, one document each: HTML, PDF, Markdown and plain text.


_HTML, _PDF, _TEXT = (".html", ".htm", ".xhtml"), (".pdf",), (".md", ".markdown", ".txt")
PAGE_SUFFIXES = (*_HTML, *_PDF, *_TEXT)
_BEGINS = re.compile(r"\s*(?:#|\||>|[-*+] |\d+[.)] |```|$)")
"""What a line of Markdown begins with that does not go on with the line before it."""
_FRONT_MATTER = re.compile(r"---\n((?:.*\n)*?)---\n")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def read_page(path: Path, name: str) -> Iterator[Document]:
    """Read a file as one document; its id is its name within what was added. A file without text is none."""
    suffix = path.suffix.lower()
    if suffix in _HTML:
        document = _html(path, name)
    elif suffix in _PDF:
        document = Document(id=name, title=path.stem, text=visible(read_pdf(path.read_bytes(), name)))
    else:
        document = _plain(path, name)
    if document.text:
        yield document


def _html(path: Path, name: str) -> Document:
    page = read_html(path.read_bytes(), "")
    return Document(id=name, title=page.title or path.stem, text=page.text, published=page.published)


def _plain(path: Path, name: str) -> Document:
    try:
        written = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8 text ({error.reason}); convert it and add it again") from None
    return plain_document(written, name)


def plain_document(written: str, name: str) -> Document:
    """Return the document that a Markdown text is: titled by its front matter, else by its first heading."""
    facts, text = _front_matter(visible(written))
    heading = _HEADING.search(text)
    title = facts.get("title") or (heading[1] if heading else name)
    text = "\n".join(_joined(text.split("\n")))
    return Document(
        id=name, title=title, text=text, published=last_day(facts.get("date", "")), address=facts.get("url", "")
    )


def _joined(lines: list[str]) -> list[str]:
    """Lines with each paragraph and each item of a list on one: where Markdown was wrapped means nothing."""
    joined: list[str] = []
    for line in lines:
        before = joined[-1] if joined else ""
        goes_on = bool(before.strip()) and not before.lstrip().startswith(("#", "|")) and not _BEGINS.match(line)
        if goes_on:
            joined[-1] = f"{before} {line.strip()}"
        else:
            joined.append(line)
    return joined


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """Take off the ``name: value`` lines between two ``---`` at the top of a Markdown file."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        return {}, text
    lines = (line.partition(":") for line in found[1].splitlines())
    facts = {name.strip().casefold(): value.strip().strip("\"'") for name, _, value in lines}
    return facts, text[found.end() :].lstrip("\n")


# PubMed's XML: articles with their titles and abstracts; later files revise and delete what earlier ones brought.


_ADDRESS = "https://pubmed.ncbi.nlm.nih.gov/{}/"


def read_pubmed(path: Path, name: str) -> Iterator[Document | Deletion]:
    """Read a file's articles in their order, and what it deletes. An article without an abstract is its title."""
    try:
        with opened(path, name) as file:
            for _, element in iterparse(file):
                if element.tag == "PubmedArticle":
                    yield from _article(element)
                    element.clear()
                elif element.tag == "DeleteCitation":
                    yield from (Deletion(id=_text(one)) for one in element.iter("PMID"))
                    element.clear()
    except ParseError as error:
        raise damaged(name, error) from None


def _article(element: Element) -> Iterator[Document]:
    citation = element.find("MedlineCitation")
    article = None if citation is None else citation.find("Article")
    identifier = "" if citation is None else _text(citation.find("PMID"))
    if article is None or not identifier:
        return
    title = visible(_text(article.find("ArticleTitle")))
    yield Document(
        id=identifier,
        title=title,
        text=visible(_abstract(article)) or title,
        published=_published(article),
        address=_ADDRESS.format(identifier),
    )


def _abstract(article: Element) -> str:
    parts = []
    for part in article.iterfind("Abstract/AbstractText"):
        label = part.get("Label")
        parts.append(f"{label.capitalize()}: {_text(part)}" if label else _text(part))
    return "\n".join(parts)


def _published(article: Element) -> date | None:
    """Return the earlier of the issue's date and the day it was first online, each as the last day it can mean."""
    issue = article.find("Journal/JournalIssue/PubDate")
    days = [_day(one) for one in (issue, *article.iterfind("ArticleDate")) if one is not None]
    return min((day for day in days if day is not None), default=None)


def _day(element: Element) -> date | None:
    parts = [_text(element.find(name)) for name in ("Year", "Month", "Day")]
    if not parts[0]:
        return last_day(_text(element.find("MedlineDate")))
    separator = "-" if parts[1].isdigit() else " "
    return last_day(separator.join(part for part in parts if part)) or last_day(parts[0])


def _text(element: Element | None) -> str:
    """Return all text of an element, its marked-up parts included."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


# The formats that corpora are read from, by name. A plug-in adds its own through the same door.


Reader = Callable[[Path, str], Iterator[Document | Deletion]]
"""Takes a file and its name within what was added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFormat:
    """One format. ``suffixes`` are the ends of its files' names.

    ``in_order``: a later file corrects earlier ones. Files are added in the order of their names, and none after a
    later one.
    """

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
        raise UserError(f"the file or folder {str(place)!r} is missing")
    if name is not None:
        return FORMATS.get(name)
    names = [place.name] if place.is_file() else [file.name for file in place.rglob("*") if file.is_file()]
    fitting = [
        known_format
        for known_format in FORMATS.registered
        if any(file.lower().endswith(known_format.suffixes) for file in names)
    ]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(FORMATS.names)
    why = "files of several formats" if fitting else "no file of a known format"
    raise UserError(f"{str(place)!r} holds {why}; say which to read with --format ({known})")


# Formats: the files that corpora are made of, each read as a stream of documents.


__all__ = ["FORMATS", "CorpusFormat", "format_of"]
