"""One file of named arrays and a JSON head: the same bytes for the same content, read without a copy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardround.core import UserError

MAGIC = b"wardround-blocks-1\n"
ALIGNMENT = 64
_DTYPES = frozenset({"uint8", "int32", "int64", "uint64", "float32"})


def write_blocks(path: Path, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write ``head`` and one-dimensional ``arrays`` to ``path`` in one rename."""
    places: dict[str, tuple[str, int, int]] = {}
    offset = 0
    for name, array in arrays.items():
        places[name] = (str(array.dtype), len(array), offset)
        offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    encoded = json.dumps({"head": dict(head), "arrays": places}, ensure_ascii=False).encode()
    prefix = MAGIC + len(encoded).to_bytes(8, "little") + encoded
    draft = path.with_name(f".{path.name}.part")
    with draft.open("wb") as file:
        file.write(prefix + b"\0" * (-len(prefix) % ALIGNMENT))
        for array in arrays.values():
            raw = np.ascontiguousarray(array).tobytes()
            file.write(raw + b"\0" * (-len(raw) % ALIGNMENT))
    draft.replace(path)


def read_blocks(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What ``write_blocks`` wrote; UserError if it is something else or cut short."""
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}") from problem
    if not raw.startswith(MAGIC):
        raise UserError(f"{path} is not a candidate space file of this version; build it again")
    start = len(MAGIC) + 8
    length = int.from_bytes(raw[len(MAGIC) : start], "little")
    try:
        content = json.loads(raw[start : start + length])
        base = -(-(start + length) // ALIGNMENT) * ALIGNMENT
        arrays = {name: _array(raw, base, *place) for name, place in content["arrays"].items()}
    except (ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{path} is damaged ({problem}); build it again") from problem
    return content["head"], arrays


def _array(raw: bytes, base: int, dtype: str, length: int, offset: int) -> NDArray[Any]:
    if dtype not in _DTYPES:
        raise ValueError(f"array type {dtype!r}")
    return np.frombuffer(raw, dtype=dtype, count=length, offset=base + offset)


def pack_texts(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Texts without line feeds as one array of UTF-8 bytes."""
    return np.frombuffer("".join(f"{text}\n" for text in texts).encode(), dtype=np.uint8)


def unpack_texts(array: NDArray[Any]) -> tuple[str, ...]:
    """The reverse of ``pack_texts``."""
    return tuple(array.tobytes().decode().split("\n")[:-1])
