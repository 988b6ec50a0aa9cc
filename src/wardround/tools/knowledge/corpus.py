"""A corpus on disk: manifest, dates of publication, integrity check."""

from __future__ import annotations

import calendar
import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from datetime import date as calendar_day
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from zlib import crc32

from wardround.core import UserError, content_hash, is_sealed_json, sealed_json, strict, write_atomically
from wardround.tools.knowledge.index import CorpusIndex, Document, Hit

# The facts of a corpus beside its documents: a small file next to the index, written after every commit.


SCHEMA = 1
CORPUS = "corpus.json"
"""The file that says what a corpus is."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A file whose documents are in the corpus, all of them."""

    name: str
    sha256: str
    documents: int
    withdrawn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusManifest:
    """What a corpus is: its licence, the day it is of (YYYY-MM-DD, which documents without a date have too), and what
    was added. ``waiting``: files that an interrupted add has not come to."""

    name: str
    title: str
    licence: str
    date: str
    format: str
    documents: int = 0
    files: tuple[AddedFile, ...] = ()
    waiting: tuple[str, ...] = ()
    schema: int = field(default=SCHEMA)

    @property
    def day(self) -> calendar_day:
        """The day that the corpus is of."""
        return calendar_day.fromisoformat(self.date)

    @property
    def digest(self) -> str:
        """A hash of the content: equal files added in the same order have equal hashes."""
        return content_hash([(file.name, file.sha256) for file in self.files])

    def with_file(self, file: AddedFile) -> CorpusManifest:
        """Return it with a file more (or again)."""
        others = tuple(known_file for known_file in self.files if known_file.name != file.name)
        waiting = tuple(name for name in self.waiting if name != file.name)
        return replace(self, files=(*others, file), waiting=waiting)

    def has(self, name: str, sha256: str) -> bool:
        """Return whether a file with these very bytes was added."""
        return any(file.name == name and file.sha256 == sha256 for file in self.files)

    def facts(self) -> dict[str, Any]:
        """Return what a run records about a corpus that it may read."""
        return {"date": self.date, "licence": self.licence, "documents": self.documents, "sha256": self.digest}


def check_name(name: str) -> str:
    """Return a corpus's name; UserError if it is none. It names a folder and the tool ``retrieve_<name>``."""
    if not _NAME.fullmatch(name):
        raise UserError(f"a corpus is named by small letters, digits and _ (pubmed, local_guidelines), not {name!r}")
    return name


def read_manifest(folder: Path) -> CorpusManifest:
    """Read what a corpus's folder says of it. Raises UserError."""
    try:
        text = (folder / CORPUS).read_bytes()
        body = json.loads(text)
        if body.get("schema") != SCHEMA:
            raise UserError(f"the corpus in {str(folder)!r} has schema {body.get('schema')!r}; add it again")
        if not is_sealed_json(text):
            raise UserError(
                f"{folder / CORPUS} is damaged: it is not as it was written; remove and add the corpus again"
            )
        del body["seal"]
        return strict(CorpusManifest, body, f"{folder / CORPUS}")
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(
            f"{str(folder)!r} holds no corpus that can be read ({error}); remove and add it again"
        ) from None


def write_manifest(folder: Path, manifest: CorpusManifest) -> None:
    """Write it whole, with a hash of itself."""
    write_atomically(folder / CORPUS, sealed_json(asdict(manifest)))


def holds_corpus(folder: Path) -> bool:
    """Return whether a folder is that of a corpus."""
    return (folder / CORPUS).is_file()


# A corpus that can be read: its index and what is known of it.


INDEX = "index"
SCHEME = "corpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """An installed corpus, or one that was made in memory. Safe to share between threads."""

    manifest: CorpusManifest
    index: CorpusIndex

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Open an installed corpus. Raises UserError."""
        return cls(manifest=read_manifest(folder), index=CorpusIndex(folder / INDEX))

    @property
    def name(self) -> str:
        """Its name: ``pubmed``."""
        return self.manifest.name

    def search(self, query: str, limit: int, *, offset: int = 0, until: date | None = None) -> Sequence[Hit]:
        """Return the documents nearest to a query, best first; ``until`` leaves out what was published later."""
        return self.index.search(query, limit, offset=offset, until=until)

    def get(self, identifier: str, *, until: date | None = None) -> Document | None:
        """Return a document by its id, None if there is none (or, with ``until``, none that old)."""
        return self.index.get(identifier, until=until)

    def address(self, document: Document) -> str:
        """Return the address under which the browser opens a document: ``corpus://pubmed/21645374``."""
        return f"{SCHEME}://{self.name}/{quote(document.id, safe='/')}"


def parse_address(address: str) -> tuple[str, str] | None:
    """Return the corpus and the document that an address names, None if it is of another scheme."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme != SCHEME or not parts.netloc:
        return None
    return parts.netloc, unquote(parts.path.removeprefix("/"))


# Dates as publishers write them, read as the last day that they can mean: what is not surely earlier is later.


_MONTHS = {name.casefold(): number for number, name in enumerate(calendar.month_abbr) if name}
_SEASONS = {"winter": 12, "spring": 6, "summer": 9, "autumn": 12, "fall": 12}
_NUMBERS = re.compile(r"\s*(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?(?!\d)")
_WORDS = re.compile(r"\s*(\d{4})\s+([A-Za-z]{3,})\.?(?:\s+(\d{1,2}))?")
_SPAN = re.compile(r"\s*(\d{4})(?:\s+[A-Za-z]{3,}\.?)?(?:\s+\d{1,2})?\s*[-/]\s*(\d{4}\b)?\s*([A-Za-z]{3,}.*)?$")


def last_day(written: str) -> date | None:
    """Return the last day that a written date can mean, None if it is no date.

    >>> last_day("2011"), last_day("2011 Feb"), last_day("2011-03-05T10:00:00Z")
    (datetime.date(2011, 12, 31), datetime.date(2011, 2, 28), datetime.date(2011, 3, 5))
    """
    span = _SPAN.match(written)
    if span is not None and (span[2] or span[3]):
        return last_day(f"{span[2] or span[1]} {span[3] or ''}")
    found = _WORDS.match(written)
    if found is not None and _month(found[2]) is not None:
        return _last(int(found[1]), _month(found[2]), found[3])
    found = _NUMBERS.match(written)
    if found is None:
        return None
    return _last(int(found[1]), int(found[2]) if found[2] else None, found[3])


def read_day(written: str, what: str) -> date:
    """Return the day that a person wrote as YYYY-MM-DD. UserError: it is none. ``what`` names it."""
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise UserError(f"{what} is a day written like 2024-01-31, not {written!r}") from None


def _month(word: str) -> int | None:
    return _MONTHS.get(word[:3].casefold()) or _SEASONS.get(word.casefold())


def _last(year: int, month: int | None, day: str | None) -> date | None:
    try:
        if month is None:
            return date(year, 12, 31)
        return date(year, month, int(day) if day else calendar.monthrange(year, month)[1])
    except (ValueError, calendar.IllegalMonthError):
        return None


# A corpus's folder read whole: every file of its index against the checksum that tantivy wrote at its end.


_ENDING = struct.Struct("<II")
"""The last bytes of a file: the length of its footer, and the number that marks a footer."""
_FOOTED = 1337
_WITHOUT = (".json", ".lock")


def damage_of_corpus(folder: Path) -> list[str]:
    """Return the damage in a corpus's folder, a line each; nothing if all is as it was written."""
    try:
        return list(_damage(folder))
    except (UserError, OSError) as error:
        return [f"{folder} cannot be read whole: {error}"]


def _damage(folder: Path) -> Iterator[str]:
    files = [path for path in sorted((folder / INDEX).iterdir()) if not path.name.endswith(_WITHOUT)]
    broken = [path for path in files if not _is_whole(path.read_bytes())]
    if broken:  # tantivy panics at some of what it opens then
        yield from (f"{path} is not as it was written" for path in broken)
        return
    corpus = Corpus.open(folder)
    if not corpus.manifest.waiting and len(corpus.index) != corpus.manifest.documents:
        yield f"{folder}: {corpus.manifest.documents:,} documents were added and {len(corpus.index):,} exist"


def _is_whole(data: bytes) -> bool:
    if len(data) < _ENDING.size:
        return False
    length, mark = _ENDING.unpack(data[-_ENDING.size :])
    body = len(data) - _ENDING.size - length
    if mark != _FOOTED or body < 0:
        return False
    try:
        footer = json.loads(data[body : -_ENDING.size])
        return bool(footer["crc"] == crc32(data[:body]))
    except (ValueError, KeyError, TypeError):
        return False
