"""PubMed's XML: articles with their titles and abstracts; later files revise and delete what earlier ones brought."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, iterparse

from wardround.knowledge.dates import last_day
from wardround.knowledge.document import Deletion, Document, visible
from wardround.knowledge.formats.opened_file import damaged, opened

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
    """The earlier of the issue's date and the day it was first on line, each as the last day it can mean."""
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
    """All text of an element, that of its marked-up parts too."""
    return "" if element is None else " ".join("".join(element.itertext()).split())
