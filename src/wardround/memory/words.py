"""Lexical search in a bank: FTS5 with BM25 recomputed to the last bit."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wardround.tools.retrieval.encoder import words_of

# The lexical index of a bank: SQLite's FTS5 over normal forms of words, kept in the transaction that adds a text.
#
# A document is the current text of a live experience. Superseded and withdrawn texts leave the index and its counts, so
# that they do not affect results. Who reads a past revision makes an index as of it (``index_as_of``),
# because how rare a word is belongs to a moment too. Only the rarest words of a question are looked up: a common one
# costs much and tells little.


_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
MOST_TERMS = 12
MOST_DOCUMENTS = 2_500
"""A question's further words are left out once the rarer ones are in this many documents together."""

_PLACES = "CREATE VIRTUAL TABLE temp.place USING fts5vocab ({}, words, instance)"
_COUNT = "INSERT INTO term VALUES (?, 1) ON CONFLICT (term) DO UPDATE SET documents = documents + 1"
_REMOVE = "INSERT INTO words (words, rowid, tokens) VALUES ('delete', ?, ?)"
_DISCOUNT = "UPDATE term SET documents = documents - 1 WHERE term = ?"
_MENTIONED = """
INSERT INTO temp.mention SELECT name, experience FROM main.mention
WHERE experience IN (SELECT experience FROM revision WHERE number <= ?)
"""
_STANDING = """
SELECT number, title, description, content, condition, exclusions FROM revision
WHERE live AND number IN (SELECT max(number) FROM revision WHERE number <= ? GROUP BY experience) ORDER BY number
"""


def terms_of(text: str) -> list[str]:
    """Return the words of a text without plural endings, in order; a decimal point becomes a letter."""
    return [stem(word).replace(".", "x") for word in words_of(text)]


def index_text(connection: sqlite3.Connection, revision: int, parts: Sequence[str]) -> None:
    """Take the text of a live revision into the index."""
    terms = terms_of("\n".join(parts))
    connection.execute("INSERT INTO words (rowid, tokens) VALUES (?, ?)", (revision, " ".join(terms)))
    connection.executemany(_COUNT, [(term,) for term in sorted(set(terms))])


def unindex_text(connection: sqlite3.Connection, revision: int, parts: Sequence[str]) -> None:
    """Remove the text of a superseded revision from the index; ``parts`` are the indexed parts."""
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
    may only be read is not changed. From here on the connection sees this index, and the names that experiences of then
    mention, instead of the file's."""
    connection.execute("CREATE VIRTUAL TABLE temp.words USING fts5 (tokens, content='', tokenize='ascii')")
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS term (term TEXT PRIMARY KEY, documents INTEGER)")
    columns = "(name TEXT, experience TEXT, PRIMARY KEY (name, experience))"
    connection.execute(f"CREATE TEMP TABLE mention {columns} WITHOUT ROWID")
    connection.execute(_MENTIONED, (revision,))
    connection.execute("DROP TABLE temp.place")
    connection.execute(_PLACES.format("temp"))
    _fill(connection, revision)


def show_places(connection: sqlite3.Connection) -> None:
    """Create the table ``place`` of a connection: the positions of each word in the file's index."""
    connection.execute(_PLACES.format("main"))


def _fill(connection: sqlite3.Connection, upto: int) -> None:
    documents: Counter[str] = Counter()
    for number, *texts, exclusions in connection.execute(_STANDING, (upto,)).fetchall():
        terms = terms_of("\n".join([*texts, *json.loads(exclusions)]))
        connection.execute("INSERT INTO words (rowid, tokens) VALUES (?, ?)", (number, " ".join(terms)))
        documents.update(set(terms))
    connection.executemany("INSERT INTO term VALUES (?, ?)", sorted(documents.items()))


def rarest_terms(connection: sqlite3.Connection, text: str) -> tuple[str, ...]:
    """Return the words of a question to search for: those in the index, the rarest first, within both limits."""
    terms = list(dict.fromkeys(terms_of(text)))[:512]
    holes = ",".join("?" * len(terms))
    query = f"SELECT documents, term FROM term WHERE term IN ({holes}) ORDER BY documents, term LIMIT ?"
    chosen: list[str] = []
    total = 0
    for documents, term in connection.execute(query, (*terms, MOST_TERMS)):
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


# How well texts match words: BM25 as FTS5 computes it, to the last bit, from its lists of word positions.
#
# FTS5's own function takes a microsecond for each text that matches, most of a question's time; read a word at a time,
# the lists take a tenth of that. How long each text is stays in memory and follows the file.


_K1 = 1.2
_B = 0.75
"""What FTS5 fixes."""
_COUNTS = 0.6
"""What one occurrence counts: 0.6 is k1 = 2 (a weight multiplies the count of a word); chosen on half of the questions
of a public set, where it finds as much as a maintained library does."""
_LEAST_RARITY = 1e-6
_TERM_PLACES = "SELECT group_concat(doc) FROM place WHERE term = ?"
_LENGTHS = "SELECT group_concat(id), group_concat(hex(sz), '') FROM words_docsize WHERE id > ?"
_TOTALS = "SELECT block FROM words_data WHERE id = 1"

_Numbers = npt.NDArray[np.int64]
_Scores = npt.NDArray[np.float64]


class WordScores:
    """The index of a connection, searched for the best matches."""

    __slots__ = ("_connection", "_last", "_lengths")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.begin()

    def begin(self) -> None:
        """Look at the index anew: the connection may see another one."""
        self._lengths = np.zeros(64, np.int32)
        self._last = 0

    def matching(self, terms: Sequence[str], upto: int, *, most: int = -1) -> list[tuple[int, float]]:
        """Revisions up to a number that hold any of the words, best first, with their BM25 score (greater is better),
        equal ones by number; -1: all of them."""
        if not terms:
            return []
        self._follow()
        places = [self._places(term) for term in terms]
        which = np.repeat(np.arange(len(places)), [len(those) for those in places])
        revisions, scores = self._scored(np.concatenate(places), which, upto)
        found, inverse = np.unique(revisions, return_inverse=True)
        sums = np.bincount(inverse, weights=scores, minlength=len(found)).astype(np.float64, copy=False)
        best = _best(sums, len(sums) if most < 0 else most)
        return list(zip(found[best].tolist(), sums[best].tolist(), strict=True))

    def _places(self, term: str) -> _Numbers:
        """Return the revision at each position of a word, ascending."""
        (found,) = self._connection.execute(_TERM_PLACES, (term,)).fetchone()
        return np.fromstring(found or "", np.int64, sep=",")

    def _scored(self, places: _Numbers, which: _Numbers, upto: int) -> tuple[_Numbers, _Scores]:
        """Return what each word adds to the score of each revision with it; ``which`` word is at each position."""
        # where the next revision, or the next word of the same revision, begins
        begins = np.ones(len(places), bool)
        begins[1:] = (places[1:] != places[:-1]) | (which[1:] != which[:-1])
        first = np.flatnonzero(begins)
        often = _weighed(np.diff(np.append(first, len(places))))
        revisions, term = places[first], which[first]
        row = self._connection.execute(_TOTALS).fetchone()
        texts, words = _numbers_in(row[0])[:2].tolist() if row and row[0] else (0, 0)
        rarity = np.array([_rarity(texts, holding) for holding in np.bincount(term).tolist()])
        inside = revisions <= upto
        revisions, often, term = revisions[inside], often[inside], term[inside]
        length = 1 - _B + _B * self._lengths[revisions] / (words / max(1, texts))
        return revisions, rarity[term] * (often * (_K1 + 1.0) / (often + _K1 * length))

    def _follow(self) -> None:
        """Read the lengths of the texts that were written since."""
        found, sizes = self._connection.execute(_LENGTHS, (self._last,)).fetchone()
        if found is None:
            return
        numbers = np.fromstring(found, np.int64, sep=",")
        self._last = int(numbers[-1])
        if self._last >= len(self._lengths):
            longer = np.zeros(max(2 * len(self._lengths), 5 * self._last // 4), np.int32)
            longer[: len(self._lengths)] = self._lengths
            self._lengths = longer
        self._lengths[numbers] = _numbers_in(bytes.fromhex(sizes))


def _weighed(counts: _Numbers) -> _Scores:
    """Counts of a word times what one counts, added up as FTS5 does: a product may differ in its last bit."""
    sums = np.cumsum(np.full(int(counts.max(initial=0)), _COUNTS))
    return sums[counts - 1]


def _best(sums: _Scores, most: int) -> _Numbers:
    """Return the positions of the greatest sums, greatest first; ties in order."""
    if most >= len(sums):
        return np.argsort(-sums, kind="stable")
    border = np.partition(sums, len(sums) - most)[len(sums) - most] if most else np.inf
    near = np.flatnonzero(sums >= border)
    return near[np.argsort(-sums[near], kind="stable")][:most]


def _rarity(texts: int, holding: int) -> float:
    """Return the weight of a word that occurs in so many of so many texts."""
    rarity = math.log((texts - holding + 0.5) / (holding + 0.5))
    return rarity if rarity > 0 else _LEAST_RARITY


def _numbers_in(blob: bytes) -> _Numbers:
    """Return the numbers of a blob as SQLite writes them: seven bits a byte, the highest first, the last byte below
    128."""
    parts = np.frombuffer(blob, np.uint8)
    last = np.flatnonzero(parts < 128)
    first = np.concatenate(([0], last[:-1] + 1))[: len(last)]
    found = np.zeros(len(last), np.int64)
    for place in range(int((last - first).max(initial=-1)) + 1):
        inside = first + place <= last
        found[inside] = found[inside] << 7 | parts[first[inside] + place] & 127
    return found
