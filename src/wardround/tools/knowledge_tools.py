"""Tools that look up medical knowledge, and the browser's tools."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from wardround.core import ToolFailure, estimate_tokens
from wardround.tools.definition import Range, Tool, tool
from wardround.tools.knowledge import CURRENT, Corpus, Document
from wardround.tools.session import Page, Session, ToolResult

_CAPTION_TOKENS = 80
_LEAST_TOKENS = 120
"""Of a document's text on a page that shows several."""
_CHARACTERS_PER_TOKEN = 3
_USUAL = 5
"""Documents of a search, as in the papers' tools."""
_MOST = 20
_SHOWN_QUERY = 80

Query = Annotated[str, "What to look up, in a few medical words. No patient's details are needed."]
Limit = Annotated[int, Range(1, _MOST), "How many documents."]


def corpus_tool(corpus: str, what: str) -> Tool:
    """Return the tool ``retrieve_<corpus>``, which searches the corpus of that name; ``what`` describes it."""

    def retrieve(session: Session, page: Page, *, query: Query, limit: Limit = _USUAL) -> ToolResult:
        return _found(session, page, corpus, query, limit)

    retrieve.__doc__ = f"Look up {what}: the documents nearest to a query, best first, with their texts."
    return tool("knowledge", name=f"retrieve_{corpus}")(retrieve)


retrieve_pubmed = corpus_tool("pubmed", "abstracts of the biomedical literature (PubMed)")
retrieve_textbooks = corpus_tool("textbooks", "passages of medical textbooks")
retrieve_statpearls = corpus_tool("statpearls", "StatPearls articles for clinical decisions")
retrieve_wikipedia = corpus_tool("wikipedia", "general knowledge (Wikipedia)")
retrieve_handbook = corpus_tool("handbook", "short reference pages on common clinical problems and tests")


@tool("knowledge")
def retrieve_corpus(
    session: Session,
    page: Page,
    *,
    corpus: Annotated[
        str, "Name of an installed corpus, such as handbook; any other is answered with those there are."
    ],
    query: Query,
    limit: Limit = _USUAL,
) -> ToolResult:
    """Look up a query in any installed corpus of medical knowledge, by the corpus's name."""
    return _found(session, page, corpus, query, limit)


def _found(session: Session, page: Page, name: str, query: str, limit: int) -> ToolResult:
    wanted = " ".join(query.split())
    if not wanted:
        raise ToolFailure("'query' is empty; say in a few medical words what to look up.")
    corpus = _corpus(session, name)
    found = list(corpus.search(wanted, limit + 1, offset=page.offset, until=session.knowledge.until))
    shown = found[:limit]
    if not shown:
        return ToolResult(text=f"{_corpus_line(corpus)}: {_nothing(session, page, wanted)}", rows_total=0, rows_shown=0)
    cursor = page.cursor(page.offset + limit) if len(found) > limit else None
    more = f", cursor={cursor} for the next" if cursor else ""
    end = page.offset + len(shown)
    caption = f"{_corpus_line(corpus)}: documents {page.offset + 1}-{end} nearest to {_short(wanted)!r}{more}"
    share = max(_LEAST_TOKENS, (page.tokens - _CAPTION_TOKENS) // len(shown))
    texts = (
        _text(session, page, corpus, hit.document, number=page.offset + place, tokens=share)
        for place, hit in enumerate(shown, start=1)
    )
    return ToolResult(text="\n".join([caption, *texts]), rows_shown=len(shown), cursor=cursor)


def _corpus(session: Session, name: str) -> Corpus:
    library = session.knowledge.library
    plain = name.strip().casefold()
    if plain not in library.names:
        raise ToolFailure(
            f"the corpus {plain!r} is not installed here. Installed: {', '.join(library.names)}; search one of them "
            "with its tool if you have it, else go on without."
        )
    return library.get(plain)


def _corpus_line(corpus: Corpus) -> str:
    manifest = corpus.manifest
    count = f"{manifest.documents:,} document{'' if manifest.documents == 1 else 's'}"
    return f"{manifest.name} ({count}, as of {manifest.date})"


def _nothing(session: Session, page: Page, query: str) -> str:
    """Return why nothing is shown."""
    until = session.knowledge.until
    dated = f" that was published by {until}" if until is not None else ""
    if page.offset:
        return "there are no further documents."
    return f"no document{dated} holds a word of {_short(query)!r}; try other words."


def _text(session: Session, page: Page, corpus: Corpus, document: Document, *, number: int, tokens: int) -> str:
    address = corpus.address(document)
    head = f"[{number}] {document.title or document.id} (published by {document.published}; {address})"
    text, rest = _cut(document.text, tokens - estimate_tokens(head))
    if rest:
        whole = page.part(partial(_read_on, session, corpus, document.id), "read_document", address)
        text += f" [{rest:,} more characters: cursor={whole.cursor(len(document.text) - rest)}]"
    return f"{head}\n{text}"


def _read_on(session: Session, corpus: Corpus, identifier: str, page: Page) -> ToolResult:
    """Return a document from the page's offset (characters) on."""
    document = corpus.get(identifier, until=session.knowledge.until)
    assert document is not None, identifier
    text, rest = _cut(document.text[page.offset :], page.tokens - _CAPTION_TOKENS)
    cursor = page.cursor(len(document.text) - rest) if rest else None
    more = f", cursor={cursor} for the next" if cursor else ""
    start = page.offset + 1
    end = len(document.text) - rest
    caption = f"{corpus.address(document)}: characters {start:,}-{end:,} of {len(document.text):,}{more}"
    return ToolResult(text=f"{caption}\n{text}", cursor=cursor)


def _cut(text: str, tokens: int) -> tuple[str, int]:
    """Return the start of a text within a token limit, cut at a word's end, and the number of characters left."""
    room = max(1, tokens) * _CHARACTERS_PER_TOKEN
    if len(text) <= room:
        return text, 0
    end = max(text.rfind(" ", room // 2, room), text.rfind("\n", room // 2, room))
    end = room if end < 0 else end
    return text[:end], len(text) - end


def _short(query: str) -> str:
    return query if len(query) <= _SHOWN_QUERY else query[: _SHOWN_QUERY - 3] + "..."


# The browser's tools, as models that browse know them: search, open, find. They share one stack of pages.


_HEAD_TOKENS = 120
_USUAL_BROWSED = 10
_MOST_BROWSED = 20

Cursor = Annotated[int, Range(-1), "Number of the page, as in [3] at its head; -1 for the latest."]


@tool("web", name="browser.search", reads_only=False)
def browser_search(
    session: Session,
    page: Page,
    *,
    query: Annotated[str, "What to look for, in a few medical words, without any patient's details."],
    topn: Annotated[int, Range(1, _MOST_BROWSED), "How many results."] = _USUAL_BROWSED,
) -> str:
    """Search medical knowledge. The page of results has a number, its cursor; each result is a link, written
    【link†title†source】, which browser.open opens by its number."""
    return session.browser.search(query, topn, tokens=page.tokens - _HEAD_TOKENS)


@tool("web", name="browser.open", reads_only=False)
def browser_open(
    session: Session,
    page: Page,
    *,
    id: Annotated[int | str, "A link's number on the page; or an address, such as corpus://handbook/sepsis."] = CURRENT,
    cursor: Cursor = CURRENT,
    loc: Annotated[int, Range(-1), "First line to show; -1 for the beginning, or where a found place is."] = CURRENT,
    num_lines: Annotated[int, Range(-1), "How many lines; -1 for as many as fit."] = CURRENT,
    view_source: Annotated[bool, "Show what the page is made of instead of its text."] = False,
) -> str:
    """Open a link of the page of a cursor, or an address, or (without id) go on in the same page from line loc.
    Lines are numbered L0, L1, ...; cite what you use as 【cursor†L9-L11】."""
    bare = id.strip() if isinstance(id, str) else ""  # a link's number may be written as text
    link = int(bare) if bare.removeprefix("-").isdecimal() and len(bare) < 8 else id
    return session.browser.open(
        link, cursor=cursor, line=loc, count=num_lines, view_source=view_source, tokens=page.tokens - _HEAD_TOKENS
    )


@tool("web", name="browser.find", reads_only=False)
def browser_find(
    session: Session,
    page: Page,
    *,
    pattern: Annotated[str, "The exact words to find; small and capital letters are the same."],
    cursor: Cursor = CURRENT,
) -> str:
    """Find exact words in an opened page. Each place is a link, which browser.open opens at that line."""
    return session.browser.find(pattern, cursor=cursor, tokens=page.tokens - _HEAD_TOKENS)
