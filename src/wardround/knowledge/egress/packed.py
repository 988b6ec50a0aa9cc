"""Text packed in base 64, 32 and 16, or written as the codes of its characters."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wardround.knowledge.egress.characters import plain

_MOST_RUNS = 40
_SHORTEST = 4
"""Characters of a text that is taken for one."""
_SHORTEST_INSIDE = 6
"""The same where it begins within a run, or is written as numbers."""
_LINE_END = 10
_PIECE = re.compile(rb"[ -~]{%d,}" % _SHORTEST)
_SEPARATED = re.compile(r"[^A-Za-z0-9]+")
_PREFIX = re.compile(r"0[xob]|\\?[xu]|[u]?\+|#x?", re.IGNORECASE)
_UNLIKE_A_WORD = r"(?=[A-Za-z+/_-]{0,20}[0-9A-Z])"
"""Within what follows there is a digit or a capital."""
_CODES = {16: 2, 10: 3, 8: 3, 2: 8}
"""Digits of a character's code at most, by the base that it is written in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packing:
    """``run`` finds what may be packed so; ``block`` characters hold whole bytes."""

    run: re.Pattern[str]
    block: int
    decode: Callable[[str], bytes]


def _base64(run: str) -> bytes:
    return base64.b64decode(run.translate(str.maketrans("-_", "+/")), validate=True)


def _base32(run: str) -> bytes:
    return base64.b32decode(run, casefold=True)


_PACKINGS = (
    _Packing(run=re.compile(rf"{_UNLIKE_A_WORD}[A-Za-z0-9+/_-]{{6,}}"), block=4, decode=_base64),
    _Packing(run=re.compile(rf"{_UNLIKE_A_WORD}[A-Za-z0-9]{{6,}}"), block=4, decode=_base64),
    _Packing(run=re.compile(r"(?<![A-Za-z])[A-Za-z2-7]{10,}"), block=8, decode=_base32),
    _Packing(run=re.compile(r"(?:[0-9a-fA-F]{2}){4,}"), block=2, decode=bytes.fromhex),
)


def unpacked(text: str) -> str:
    """Return what the runs of a text say where all of a run is packed text, a line each.

    >>> unpacked("see SGVsbG8sIHdvcmxk")
    'Hello, world'
    """
    found = [_as_text(data, shortest) for data, shortest in _every_data(text)]
    found += (one for one in _coded(text) if len(one) >= _SHORTEST_INSIDE)
    return "\n".join(dict.fromkeys(filter(None, found)))


def pieces_unpacked(text: str) -> str:
    """Return every piece of text that can be unpacked, wherever a packing may begin, a line each."""
    squeezed = _SEPARATED.sub("", text)
    everything = [*_every_data(text), *(one for packing in _PACKINGS for one in _data(packing, squeezed))]
    found = [piece.decode("ascii") for data, _ in everything for piece in _PIECE.findall(data.replace(b"\0", b""))]
    return "\n".join(dict.fromkeys((*found, *_coded(text))))


def _every_data(text: str) -> Iterator[tuple[bytes, int]]:
    """What the runs of a text are unpacked to, with the characters that a text of it must have."""
    for packing in _PACKINGS:
        for run in packing.run.findall(text)[:_MOST_RUNS]:
            yield from _data(packing, run)


def _data(packing: _Packing, run: str) -> Iterator[tuple[bytes, int]]:
    """What a run is unpacked to, from each place at which a block may begin."""
    for offset in range(packing.block):
        yield _decoded(packing, run[offset:]), _SHORTEST_INSIDE if offset else _SHORTEST


def _decoded(packing: _Packing, run: str) -> bytes:
    """The bytes of a run, of all but its last character where that is one too many; none where it is not packed so."""
    for some in (run, run[:-1]):
        padding = "=" * (-len(some) % packing.block) if packing.block in (4, 8) else ""
        try:
            return packing.decode(some + padding)
        except (binascii.Error, ValueError):
            continue
    return b""


def _as_text(data: bytes, shortest: int) -> str:
    """The text that bytes are, empty where they are none."""
    try:
        text = plain(data.decode("utf-8"))
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() and len(text) >= shortest else ""


def _coded(text: str) -> Iterator[str]:
    """Texts whose bytes are written as numbers, one after the other, in any base."""
    groups = _SEPARATED.sub(" ", _PREFIX.sub(" ", text)).split()
    for base, longest in _CODES.items():
        data = bytes(_of_code(group, base, longest) for group in groups)
        found = (plain(piece.decode("utf-8", "ignore")) for piece in data.split(b"\n"))
        yield from (piece for piece in found if len(piece) >= _SHORTEST)


def _of_code(group: str, base: int, longest: int) -> int:
    """The byte that a number is, a line's end for what is none."""
    try:
        code = int(group, base) if 2 <= len(group) <= longest else 0
    except ValueError:
        return _LINE_END
    return code if 32 <= code < 256 else _LINE_END
