"""Row ids, content hashes, canonical JSON, derived seeds, and record sensitivity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NewType

RowId = NewType("RowId", str)
"""``table:key``, stable across runs, for example ``labevents:12345``."""

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def row_id(table: str, key: object) -> RowId:
    """Join a table name and a key to a row id."""
    return RowId(f"{table}:{key}")


def canonical_json(value: Any) -> bytes:
    """Return the one byte string that stands for a JSON value: sorted keys, no spaces, UTF-8."""
    return _CANONICAL.encode(value).encode()


def content_hash(value: Any) -> str:
    """Return the hex SHA-256 of bytes, text or any JSON value."""
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, bytes):
        value = canonical_json(value)
    return hashlib.sha256(value).hexdigest()


def sealed_json(body: Mapping[str, Any]) -> str:
    """Return the text of a file of JSON with a hash of itself, so that a flipped bit in it can be seen."""
    plain = json.loads(json.dumps(body))
    return json.dumps({**plain, "seal": content_hash(plain)}, indent=2, ensure_ascii=False) + "\n"


def is_sealed_json(text: bytes) -> bool:
    """Say whether such a file is as it was written. ValueError: it is no JSON."""
    body = json.loads(text)
    return isinstance(body, dict) and body.pop("seal", None) == content_hash(body)


def derive_seed(*parts: object) -> int:
    """Return a 63-bit seed that depends on every part and on nothing else."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


# How sensitive records are: three words, and which of them is stricter.


Sensitivity = Literal["synthetic", "open", "credentialed"]
SENSITIVITIES: tuple[Sensitivity, ...] = ("synthetic", "open", "credentialed")
"""From the freest to the strictest: invented records, openly licensed ones, those under a data-use agreement."""


def strictest(words: Iterable[Sensitivity]) -> Sensitivity:
    """Return the strictest of some words; ``credentialed`` of none."""
    return max(words, key=SENSITIVITIES.index, default="credentialed")
