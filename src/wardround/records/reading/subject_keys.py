"""Subjects that are named by text, as the whole numbers a store needs: the same text is the same number everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from wardround.core import RecordError

_BITS = 53
"""Numbers stay below 2**53, so that they survive JSON, JavaScript and float columns."""


def subject_number(key: str) -> int:
    """Return a positive number below 2**53 that depends on the key only; a whole number written out stays itself."""
    if key.isascii() and key.isdigit() and key[0] != "0" and len(key) <= 16 and int(key) < 1 << _BITS:
        return int(key)
    digest = hashlib.blake2b(key.encode(), digest_size=8, person=b"subject").digest()
    return int.from_bytes(digest, "little") >> (64 - _BITS) or 1


@dataclass(slots=True)
class SubjectKeys:
    """The keys of one source and their numbers. RecordError: two keys have one number (they would share a chart)."""

    _numbers: dict[str, int] = field(default_factory=dict)
    _keys: dict[int, str] = field(default_factory=dict)

    def number(self, key: str) -> int:
        """Return a key's number; outer spaces do not count."""
        key = key.strip()
        number = self._numbers.get(key)
        if number is None:
            number = subject_number(key)
            other = self._keys.setdefault(number, key)
            if other != key:
                raise RecordError(f"subjects {other!r} and {key!r} would have one number, {number}; rename one of them")
            self._numbers[key] = number
        return number

    @property
    def keys(self) -> Mapping[int, str]:
        """Every number with the key that it stands for."""
        return self._keys

    def __len__(self) -> int:
        return len(self._numbers)


def write_keys(path: Path, keys: Mapping[int, str]) -> None:
    """Write numbers and their keys, by number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = pa.array(sorted(keys), pa.int64())
    texts = pa.array([keys[number] for number in sorted(keys)], pa.string())
    table = pa.table({"subject_id": numbers, "key": texts})
    with pa.OSFile(str(path), "wb") as target, pa.ipc.new_file(target, table.schema) as stream:
        stream.write_table(table)


def read_keys(data: object) -> dict[int, str]:
    """Return the numbers and keys that a file or its bytes hold."""
    table = pa.ipc.open_file(data).read_all()
    return dict(zip(table.column("subject_id").to_pylist(), table.column("key").to_pylist(), strict=True))


def joined_keys(parts: Iterable[Mapping[int, str]]) -> dict[int, str]:
    """Return the keys of all tables together. RecordError: two keys have one number."""
    subjects = SubjectKeys()
    for part in parts:
        for key in part.values():
            subjects.number(key)
    return dict(subjects.keys)
