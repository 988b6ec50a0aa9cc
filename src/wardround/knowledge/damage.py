"""A corpus's folder read whole: every file of its index against the checksum that tantivy wrote at its end."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from wardround.core import UserError
from wardround.knowledge.corpus import INDEX, Corpus

_ENDING = struct.Struct("<II")
"""The last bytes of a file: how long its footer is, and the number that says that there is one."""
_FOOTED = 1337
_WITHOUT = (".json", ".lock")


def damage_of_corpus(folder: Path) -> list[str]:
    """Return what is damaged in a corpus's folder, a line each; nothing where all is as it was written."""
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
        yield f"{folder}: {corpus.manifest.documents:,} documents were added and {len(corpus.index):,} are there"


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
