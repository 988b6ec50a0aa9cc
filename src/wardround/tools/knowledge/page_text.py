"""Extract the readable text of a page. Of HTML: what a person would see, with numbered links; of PDF: its text.

Hidden parts (by attributes, by inline styles, by the page's own style sheets, in comments and scripts) are removed
first. trafilatura extracts the main text of the rest; if it finds none, all blocks are used.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from wardround.core import ConfinedReader, ToolFailure, UnreadableBytes, UserError, missing_extra, needs_extra
from wardround.tools.knowledge.corpus import last_day
from wardround.tools.knowledge.html_hidden import drop_hidden
from wardround.tools.knowledge.index import visible

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser


_DATES = (
    "citation_publication_date",
    "article:published_time",
    "article:modified_time",
    "dc.date",
    "dcterms.modified",
    "last-modified",
    "date",
)
_BLOCKS = (
    "p, div, section, article, ul, ol, table, tr, pre, blockquote, dl, dt, dd, br, hr, figure, h1, h2, h3, h4, h5, h6"
)
_MARKS = str.maketrans("【】", "〖〗")
"""Foreign text holds no link marks of its own."""
_TAG = re.compile(rb"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_OPEN_ENDED = frozenset(
    b"p li td th tr tbody thead tfoot dt dd option br hr img input meta link area base col embed source wbr".split()
)
_DEEPEST = 500
"""Elements within elements; what nests deeper is made to burn time (its parsing takes the square of it)."""
_SHORTEST_MAIN_TEXT = 200
MOST_BYTES = 20 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableText:
    """A page's title and text. ``links`` are the URLs of the marks ``【number†text】`` in it, by number; ``published``
    is the latest day that the page says of itself, None where it says none."""

    title: str
    text: str
    links: Mapping[int, str] = field(default_factory=dict)
    published: date | None = None


_HTML_READER = ConfinedReader(
    "wardround.tools.knowledge.page_text:read_html_confined", cpu_seconds=15, wall_seconds=60.0, memory_bytes=2**30
)


def read_html(body: bytes, url: str) -> ReadableText:
    """Return what a person would read on a page; relative links are relative to ``url``.

    Raises ToolFailure for a page that is nested to burn time or takes too much.
    """
    if len(body) > MOST_BYTES:
        raise ToolFailure(f"the page has more than {MOST_BYTES:,} bytes of HTML and was not read.")
    try:
        page, _ = _HTML_READER.read(body, url=url)
    except UnreadableBytes as error:
        raise ToolFailure(f"the page is damaged or made to take too much ({error}) and was not read.") from None
    links = {int(number): link for number, link in page["links"].items()}
    day = page["published"]
    return ReadableText(
        title=page["title"],
        text=page["text"],
        links=links,
        published=None if day is None else date.fromisoformat(day),
    )


def read_html_confined(body: bytes, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
    """Read a page: what the process of its own runs."""
    page = _read(body, arguments["url"])
    day = None if page.published is None else page.published.isoformat()
    return {"title": page.title, "text": page.text, "links": page.links, "published": day}, []


def _read(body: bytes, url: str) -> ReadableText:
    _refuse_deep(body)
    tree = _parsed(body)
    title = tree.css_first("title")
    name = "" if title is None else visible(" ".join(title.text().split())).translate(_MARKS)
    published = _published(tree)
    drop_hidden(tree)
    links = _mark_links(tree, url)
    return ReadableText(title=name, text=visible(_main_text(tree)), links=links, published=published)


def _parsed(body: bytes) -> LexborHTMLParser:
    with needs_extra("knowledge", what="reading HTML"):
        import tinycss2  # noqa: F401
        from selectolax.lexbor import LexborHTMLParser
    return LexborHTMLParser(body)


def _refuse_deep(body: bytes) -> None:
    depth = 0
    for found in _TAG.finditer(body):
        if found[2].lower() in _OPEN_ENDED:
            continue
        depth = max(0, depth - 1) if found[1] else depth + 1
        if depth > _DEEPEST:
            raise ToolFailure(f"the page nests more than {_DEEPEST} elements in each other and was not read.")


def _published(tree: LexborHTMLParser) -> date | None:
    """Return the latest day in a page's head: of a page that was changed later, the later text is shown."""
    days = []
    for meta in tree.css("meta"):
        name = str(meta.attributes.get("name") or meta.attributes.get("property") or "").casefold()
        day = last_day(str(meta.attributes.get("content") or "")) if name in _DATES else None
        days += [] if day is None else [day]
    return max(days, default=None)


def _mark_links(tree: LexborHTMLParser, url: str) -> dict[int, str]:
    """Write ``【number†text】`` for every link (with its domain where that is another) and return the URLs."""
    links: dict[int, str] = {}
    numbers: dict[str, int] = {}
    here = urlsplit(url).netloc
    _without_marks(tree)
    for node in tree.css("a[href]"):
        text = " ".join(node.text().split()).replace("†", "‡")
        target = _target(url, str(node.attributes.get("href") or ""))
        if target is None or not text:
            node.unwrap()
            continue
        number = numbers.setdefault(target, len(numbers))
        links[number] = target
        domain = urlsplit(target).netloc
        node.replace_with(f"【{number}†{text}】" if domain == here else f"【{number}†{text}†{domain}】")
    return links


def _without_marks(tree: LexborHTMLParser) -> None:
    root = tree.root
    nodes = [] if root is None else [node for node in root.traverse(include_text=True) if node.is_text_node]
    for node in nodes:
        written = node.text_content or ""
        if "【" in written or "】" in written:
            node.replace_with(written.translate(_MARKS))


def _target(url: str, written: str) -> str | None:
    """Return where a link leads; None if that is no web page or a place of the same page."""
    try:
        target = urljoin(url, written.strip()) if not written.strip().startswith("#") else ""
        scheme = urlsplit(target).scheme
    except ValueError:
        return None
    return target if scheme in ("http", "https", "corpus") and urlsplit(target).netloc else None


def _main_text(tree: LexborHTMLParser) -> str:
    """Return the main text as Markdown; all blocks if the page has no main text, or hardly any."""
    try:
        from trafilatura import extract
    except ModuleNotFoundError:
        return _all_blocks(tree)
    found = extract(tree.html or "", output_format="markdown", include_comments=False, favor_recall=True)
    return found if found and len(found) >= _SHORTEST_MAIN_TEXT else _all_blocks(tree)


def _all_blocks(tree: LexborHTMLParser) -> str:
    for level in range(1, 7):
        for node in tree.css(f"h{level}"):
            node.insert_before("\n" + "#" * level + " ")
    for node in tree.css(_BLOCKS):
        node.insert_after("\n")
    for node in tree.css("li"):
        node.insert_before("\n- ")
    for node in tree.css("td, th"):
        node.insert_after(" | ")
    return tree.body.text(deep=True) if tree.body is not None else ""


# The text of a PDF, read by a process of its own (`core/confined.py`).


MOST_PAGES = 500
"""The limit of a file; later pages are left out, with a note."""
_PDF_READER = ConfinedReader(
    "wardround.tools.knowledge.page_text:read_pdf_confined", cpu_seconds=60, wall_seconds=120.0, memory_bytes=2 * 2**30
)


def read_pdf(body: bytes, name: str) -> str:
    """Return the text of a PDF, pages one after the other. Raises UserError if it is unreadable or takes too long.

    ``name`` names it in errors.
    """
    if find_spec("pypdf") is None:
        raise missing_extra("knowledge", what="reading PDF", why="no pypdf here")
    try:
        read, _ = _PDF_READER.read(body, pages=MOST_PAGES)
    except UnreadableBytes:
        raise UserError(f"{name} is no PDF that can be read (damaged, encrypted, or made to take too much)") from None
    left_out = read["count"] - len(read["texts"])
    more = [f"[{left_out:,} more pages are not shown]"] if left_out > 0 else []
    return "\n\n".join([*(text.strip() for text in read["texts"]), *more])


def read_pdf_confined(body: bytes, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
    """Read the pages: what the process of its own runs."""
    import pypdf

    logging.disable(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(body))
    shown = range(min(len(reader.pages), arguments["pages"]))
    return {"count": len(reader.pages), "texts": [reader.pages[n].extract_text() or "" for n in shown]}, []
