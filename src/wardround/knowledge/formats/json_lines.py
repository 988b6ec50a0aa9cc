"""JSON lines in the shape that MedRAG publishes its corpora in: ``id``, ``title``, ``content`` (or ``text``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wardround.core import UserError
from wardround.knowledge.dates import last_day
from wardround.knowledge.document import Document, visible
from wardround.knowledge.formats.opened_file import opened

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
    """The first of some fields that says something, as text."""
    values = (body.get(name) for name in names)
    return next((str(value) for value in values if isinstance(value, str | int) and str(value).strip()), "")
