"""The full-text index of a corpus, and what a document is."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from wardround.core import UserError, import_extra

if TYPE_CHECKING:
    import tantivy


_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
"""Characters that no reader sees and a model does: controls, joiners, turned directions, tags, halves of pairs."""
_SPACES = re.compile(r" ?[^\S\n ][^\S\n]*| {2,}")
"""Space that is not one plain space; single ones are not looked at, which is most of a text."""
_BLANK_LINES = re.compile(r"\n(?: ?\n)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document. ``published`` is the last day that its date can mean, None where none is known; ``address`` says
    where it came from (a file, a URL), empty where that says nothing."""

    id: str
    title: str
    text: str
    published: date | None = None
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Says that a document is no longer: a PubMed ``DeleteCitation``."""

    id: str


def visible(text: str) -> str:
    """Return a foreign text as people would see it: without unseen characters, one space for several.

    >>> visible("fever\\u200b  and\\u202e chills")
    'fever and chills'
    """
    irregular = any(blanks in text for blanks in ("  ", "\n\n\n", "\n \n"))
    if not irregular and text.isascii() and text.replace("\n", "").isprintable():
        return text.strip()  # nothing would change: so with most, and looking is a tenth of the work
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    seen = _UNSEEN.sub("", text if text.isascii() else unicodedata.normalize("NFC", text))
    return _BLANK_LINES.sub("\n\n", _SPACES.sub(" ", seen)).strip()


# The full-text index of one corpus, on tantivy: the stored fields of a document, and the search.
#
# A query is taken apart by the analyser that took the documents apart and put together as terms, so that no character
# of it is query syntax. Ranking is BM25 (k1 1.2, b 0.75) over stems, in the title and in the text, each by its own
# lengths; no weights, with which the engine could not pass over blocks of documents that cannot be among the best.


_MOST_TERMS = 32
"""Of a query; of more those are looked for that weigh most: often in the query, rare in the corpus."""
_LOOKED_AT = 5
"""So many times the documents wanted are looked through for early ones."""
_WORDS = "words"
_SEARCHED = ("heading", "body")
_EPOCH = date(1970, 1, 1)
_HEAP_BYTES = 256_000_000
_SMALL_HEAP_BYTES = 15_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A document that was found, and its BM25 score, which compares only within one search."""

    document: Document
    score: float


class CorpusIndex:
    """An index in a folder, or without one in memory. Safe to search from many threads; one process writes at a time.

    Raises UserError where the extra [knowledge] is not installed or the folder holds no index that can be read.
    """

    def __init__(self, folder: Path | None) -> None:
        library = _library()
        self._analyser = _analyser()
        self._schema = _schema()
        try:
            self._index = library.Index(self._schema, None if folder is None else str(folder))
        except (ValueError, OSError) as error:
            raise UserError(
                f"the index in {str(folder)!r} cannot be opened ({error}); remove and add it again"
            ) from None
        self._index.register_tokenizer(_WORDS, self._analyser)
        self._small = folder is None

    def __len__(self) -> int:
        return int(self._index.searcher().num_docs)

    def search(self, query: str, limit: int, *, offset: int = 0, until: date | None = None) -> list[Hit]:
        """Return the documents nearest to a query, best first; ``until`` leaves out what was published later."""
        searcher = self._index.searcher()
        terms = self._terms(query, searcher)
        if not terms or limit < 1:
            return []
        ranked = self._ranked(searcher, terms, offset + limit, until)[offset:]
        return [Hit(document=_document(searcher.doc(place)), score=float(score)) for score, place in ranked]

    def get(self, identifier: str, *, until: date | None = None) -> Document | None:
        """Return a document by its id, None if there is none (or, with ``until``, none that old)."""
        library, searcher = _library(), self._index.searcher()
        wanted = library.Query.term_query(self._schema, "id", identifier)
        hits = searcher.search(self._dated(wanted, until), 1, count=False).hits
        return _document(searcher.doc(hits[0][1])) if hits else None

    def writer(self) -> CorpusWriter:
        """Open the index for writing; UserError while another process does."""
        try:
            opened = self._index.writer(_SMALL_HEAP_BYTES if self._small else _HEAP_BYTES, 1)
        except ValueError as error:
            raise UserError(f"the corpus is being written to by another process ({error}); wait for it") from None
        return CorpusWriter(self._index, self._schema, opened)

    def _terms(self, query: str, searcher: tantivy.Searcher) -> Mapping[str, int]:
        """Return the stems of a query with their counts. A word that a long question repeats is its subject."""
        terms = Counter(self._analyser.analyze(_folded(query)))
        if len(terms) <= _MOST_TERMS:
            return terms
        documents = len(self)
        weight = {
            term: times * math.log(1 + documents / found)
            for term, times in terms.items()
            if (found := searcher.doc_freq("body", term) or searcher.doc_freq("heading", term))
        }
        return {term: terms[term] for term in sorted(weight, key=weight.__getitem__, reverse=True)[:_MOST_TERMS]}

    def _ranked(
        self, searcher: tantivy.Searcher, terms: Mapping[str, int], wanted: int, until: date | None
    ) -> Sequence[tuple[Any, tantivy.DocAddress]]:
        """Return the positions of the best documents.

        With a date, the best documents of all are searched first: the engine finds these in a third of the time, and
        usually enough of them are early.
        """
        if until is None:
            return searcher.search(self._query(terms, None), wanted, count=False).hits
        best = searcher.search(self._query(terms, None), wanted * _LOOKED_AT, count=False).hits
        days = searcher.fast_field_values("published", [place for _, place in best])
        early = [hit for hit, day in zip(best, days, strict=True) if day is not None and day <= (until - _EPOCH).days]
        if len(early) >= wanted or len(best) < wanted * _LOOKED_AT:
            return early[:wanted]
        return searcher.search(self._query(terms, until), wanted, count=False).hits

    def _query(self, terms: Mapping[str, int], until: date | None) -> tantivy.Query:
        library = _library()
        wanted = [
            (library.Query.term_query(self._schema, name, term), times)
            for term, times in terms.items()
            for name in _SEARCHED
        ]
        parts = [
            (library.Occur.Should, one if times == 1 else library.Query.boost_query(one, float(times)))
            for one, times in wanted
        ]
        return self._dated(library.Query.boolean_query(parts), until)

    def _dated(self, query: tantivy.Query, until: date | None) -> tantivy.Query:
        if until is None:
            return query
        library = _library()
        early = library.Query.range_query(
            self._schema, "published", library.FieldType.Integer, -(2**62), (until - _EPOCH).days
        )
        free = library.Query.const_score_query(early, 0.0)
        both = [(library.Occur.Must, query), (library.Occur.Must, free)]
        return cast("tantivy.Query", library.Query.boolean_query(both))


class CorpusWriter:
    """Writes documents; readers see all new documents at once after :meth:`commit`."""

    def __init__(self, index: tantivy.Index, schema: tantivy.Schema, writer: tantivy.IndexWriter) -> None:
        self._index = index
        self._schema = schema
        self._writer = writer

    def put(self, document: Document, published: date, *, replaces: bool) -> None:
        """Add a document; ``replaces``: take out the one of the same id first."""
        if replaces:
            self.remove(document.id)
        fields = {
            "id": document.id,
            "heading": _folded(document.title),
            "body": _folded(document.text),
            "title": document.title.encode(),
            "text": document.text.encode(),
            "address": document.address.encode(),
            "published": (published - _EPOCH).days,
        }
        self._writer.add_document(_library().Document.from_dict(fields, self._schema))

    def remove(self, identifier: str) -> None:
        """Delete a document; a missing one is no error."""
        self._writer.delete_documents_by_term("id", identifier)

    def commit(self) -> None:
        """Make everything since the last commit part of the index, on the disk."""
        self._writer.commit()
        self._index.reload()

    def close(self) -> None:
        """Drop what was not committed, let merges end and give the index free."""
        self._writer.rollback()
        self._writer.wait_merging_threads()


def _library() -> ModuleType:
    """Return tantivy; it is optional, and loaded only where an index is opened."""
    library: ModuleType = import_extra("tantivy", "knowledge", what="a corpus")
    return library


def _analyser() -> tantivy.TextAnalyzer:
    library = _library()
    filters = library.Filter
    builder = (
        library.TextAnalyzerBuilder(library.Tokenizer.simple())
        .filter(filters.lowercase())
        .filter(filters.stopword("english"))
        .filter(filters.stemmer("english"))
    )
    return cast("tantivy.TextAnalyzer", builder.build())


def _folded(text: str) -> str:
    """Return a text without accents, as it is searched. Most texts are ASCII, which is faster here than in the
    analyser."""
    if text.isascii():
        return text
    return "".join(
        character for character in unicodedata.normalize("NFKD", text) if not unicodedata.combining(character)
    )


def _schema() -> tantivy.Schema:
    builder = _library().SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in _SEARCHED:
        builder.add_text_field(name, tokenizer_name=_WORDS, index_option="freq")
    for name in ("title", "text", "address"):
        builder.add_bytes_field(name, stored=True, indexed=False)
    builder.add_integer_field("published", stored=True, indexed=True, fast=True)
    return cast("tantivy.Schema", builder.build())


def _document(stored: tantivy.Document) -> Document:
    fields: dict[str, list[Any]] = stored.to_dict()
    return Document(
        id=fields["id"][0],
        title=bytes(fields["title"][0]).decode(),
        text=bytes(fields["text"][0]).decode(),
        published=date.fromordinal(_EPOCH.toordinal() + fields["published"][0]),
        address=bytes(fields["address"][0]).decode(),
    )
