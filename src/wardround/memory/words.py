"""The lexical index of a bank: SQLite's FTS5 over normal forms of words, kept in the transaction that adds a text.

A document is a live experience as it reads now: what is superseded or withdrawn leaves the index and its counts, so
that nothing of it shows in what is found. Who reads a past revision makes an index as of it (``index_as_of``), because
how rare a word is belongs to a moment too. Only the rarest words of a question are looked up: a common one costs much
and tells little.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence

from wardround.retrieval.lexical import words_of

_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
MOST_TERMS = 12
MOST_DOCUMENTS = 2_500
"""A question's further words are left out once the rarer ones are in this many documents together."""

_PLACES = "CREATE VIRTUAL TABLE temp.place USING fts5vocab ({}, words, instance)"
_COUNT = "INSERT INTO term VALUES (?, 1) ON CONFLICT (term) DO UPDATE SET documents = documents + 1"
_REMOVE = "INSERT INTO words (words, rowid, tokens) VALUES ('delete', ?, ?)"
_DISCOUNT = "UPDATE term SET documents = documents - 1 WHERE term = ?"
_STANDING = """
SELECT number, title, description, content, condition, exclusions FROM revision
WHERE live AND number IN (SELECT max(number) FROM revision WHERE number <= ? GROUP BY experience) ORDER BY number
"""


def terms_of(text: str) -> list[str]:
    """The words of a text without their plural endings, in order; a decimal point becomes a letter."""
    return [stem(word).replace(".", "x") for word in words_of(text)]


def index_text(connection: sqlite3.Connection, revision: int, parts: Sequence[str]) -> None:
    """Take the text of a live revision into the index."""
    terms = terms_of("\n".join(parts))
    connection.execute("INSERT INTO words (rowid, tokens) VALUES (?, ?)", (revision, " ".join(terms)))
    connection.executemany(_COUNT, [(term,) for term in sorted(set(terms))])


def unindex_text(connection: sqlite3.Connection, revision: int, parts: Sequence[str]) -> None:
    """Take the text of a revision that stands no longer out of the index; ``parts`` are those it was indexed with."""
    terms = terms_of("\n".join(parts))
    connection.execute(_REMOVE, (revision, " ".join(terms)))
    connection.executemany(_DISCOUNT, [(term,) for term in sorted(set(terms))])
    connection.execute("DELETE FROM term WHERE documents < 1")


def index_all(connection: sqlite3.Connection) -> None:
    """Make the index again, from the revisions."""
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    connection.execute("DELETE FROM term")
    _fill(connection, 2**62)


def index_as_of(connection: sqlite3.Connection, revision: int) -> None:
    """Give a connection an index of its own as of a revision: its words are as rare as they were then, and a file that
    may only be read is not changed. From here on the connection sees this index instead of the file's."""
    connection.execute("CREATE VIRTUAL TABLE temp.words USING fts5 (tokens, content='', tokenize='ascii')")
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS term (term TEXT PRIMARY KEY, documents INTEGER)")
    connection.execute("DROP TABLE temp.place")
    connection.execute(_PLACES.format("temp"))
    _fill(connection, revision)


def show_places(connection: sqlite3.Connection) -> None:
    """Let a connection see where each word stands in the file's index: the table ``place``."""
    connection.execute(_PLACES.format("main"))


def _fill(connection: sqlite3.Connection, upto: int) -> None:
    documents: Counter[str] = Counter()
    for number, *texts, exclusions in connection.execute(_STANDING, (upto,)).fetchall():
        terms = terms_of("\n".join([*texts, *json.loads(exclusions)]))
        connection.execute("INSERT INTO words (rowid, tokens) VALUES (?, ?)", (number, " ".join(terms)))
        documents.update(set(terms))
    connection.executemany("INSERT INTO term VALUES (?, ?)", sorted(documents.items()))


def rarest_terms(connection: sqlite3.Connection, text: str) -> tuple[str, ...]:
    """The words of a question that the index is asked for: those it holds, the rarest first, within both limits."""
    asked = list(dict.fromkeys(terms_of(text)))[:512]
    holes = ",".join("?" * len(asked))
    query = f"SELECT documents, term FROM term WHERE term IN ({holes}) ORDER BY documents, term LIMIT ?"
    chosen: list[str] = []
    total = 0
    for documents, term in connection.execute(query, (*asked, MOST_TERMS)):
        total += documents
        if chosen and total > MOST_DOCUMENTS:
            break
        chosen.append(term)
    return tuple(chosen)


def stem(word: str) -> str:
    """Take off an English plural: ``biopsies``, ``doses`` and ``tests`` meet ``biopsy``, ``dose`` and ``test``."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else word[:-1]


def plain_words(text: str) -> str:
    """Return a text as words in lower case without plural endings, one space between."""
    return " ".join(stem(word) for word in _WORD.findall(text.casefold()))
