"""Checksums of a store's bytes: what is read is what was written, or a RecordError names the damaged file.

Frames and indexes are checked when they are first needed and before anything parses them: a parser fed damaged bytes
returns other data or ends the process. CRC-32 of a frame costs 2.5 us for 10 KB; whole files have SHA-256.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from wardround.core import RecordError


def frame_checksum(data: Any) -> int:
    """Return the checksum of a frame's stored bytes."""
    return zlib.crc32(data)


def file_sha256(data: Any) -> str:
    """Return the hex SHA-256 of a file's bytes, mapped or read."""
    return hashlib.sha256(data).hexdigest()


def damaged(path: Path, why: str = "its bytes are not those that were written") -> RecordError:
    """Return the error that says so."""
    return RecordError(f"{path} is damaged: {why}; find all such files with 'wardround audit store', then ingest again")


def map_file(path: Path) -> Any:
    """Map a file into memory. The file itself is closed again: a large store has more shards than open files."""
    try:
        if not path.stat().st_size:
            return pa.py_buffer(b"")
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None


def map_checked(path: Path, sha256: str) -> Any:
    """Map a file whose bytes must have a hash. RecordError: they have not."""
    data = map_file(path)
    if file_sha256(data) != sha256:
        raise damaged(path)
    return data


def cut(data: Any, offset: int, size: int, checksum: int, path: Path) -> Any:
    """Return a part of a mapped file whose bytes must have a checksum. RecordError: they have not, or are not there."""
    if offset + size > data.size:
        raise damaged(path, "it is too short")
    part = data.slice(offset, size)
    if frame_checksum(part) != checksum:
        raise damaged(path)
    return part
