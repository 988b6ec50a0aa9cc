"""What is known of a corpus beside its documents: a small file next to the index, written after every commit."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from datetime import date as calendar_day
from pathlib import Path
from typing import Any

from wardround.core import UserError, content_hash, is_sealed_json, sealed_json, strict, write_atomically

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
        """A hash of what is in it: the same files added in the same order have the same."""
        return content_hash([(file.name, file.sha256) for file in self.files])

    def with_file(self, file: AddedFile) -> CorpusManifest:
        """Return it with a file more (or again)."""
        others = tuple(one for one in self.files if one.name != file.name)
        waiting = tuple(name for name in self.waiting if name != file.name)
        return replace(self, files=(*others, file), waiting=waiting)

    def has(self, name: str, sha256: str) -> bool:
        """Whether a file with these very bytes was added."""
        return any(one.name == name and one.sha256 == sha256 for one in self.files)

    def facts(self) -> dict[str, Any]:
        """What a run keeps of a corpus that it may read."""
        return {"date": self.date, "licence": self.licence, "documents": self.documents, "sha256": self.digest}


def check_name(name: str) -> str:
    """Return a corpus's name; UserError where it is none. It names a folder and the tool ``retrieve_<name>``."""
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
    """Whether a folder is that of a corpus."""
    return (folder / CORPUS).is_file()
