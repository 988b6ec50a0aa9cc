"""Files that people read, one document each: HTML, PDF, Markdown and plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from wardround.core import UserError
from wardround.knowledge.dates import last_day
from wardround.knowledge.document import Document, visible
from wardround.knowledge.html_text import read_html
from wardround.knowledge.pdf_text import read_pdf

_HTML, _PDF, _TEXT = (".html", ".htm", ".xhtml"), (".pdf",), (".md", ".markdown", ".txt")
PAGE_SUFFIXES = (*_HTML, *_PDF, *_TEXT)
_BEGINS = re.compile(r"\s*(?:#|\||>|[-*+] |\d+[.)] |```|$)")
"""What a line of Markdown begins with that does not go on with the line before it."""
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
    if not text.startswith("---\n") or "\n---\n" not in text[4:]:
        return {}, text
    head, _, rest = text[4:].partition("\n---\n")
    lines = (line.partition(":") for line in head.splitlines())
    return {name.strip().casefold(): value.strip().strip("\"'") for name, _, value in lines}, rest.lstrip("\n")
