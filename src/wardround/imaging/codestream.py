"""The size that a compressed frame itself claims: decoders believe it and not the headers, so it must be theirs.

JPEG and JPEG-LS say it in a start-of-frame segment, JPEG 2000 in its SIZ segment.
"""

from __future__ import annotations

import struct

_START_OF_FRAME = frozenset({*range(0xC0, 0xD0), 0xF7}) - {0xC4, 0xC8, 0xCC}
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})
_SIZ = b"\xff\x4f\xff\x51"
_MOST_SEGMENTS = 256


def claimed_size(frame: bytes) -> tuple[int, int] | None:
    """Return (rows, columns) of a compressed frame; None where it begins like no format that says them."""
    if frame.startswith(b"\xff\xd8"):
        return _jpeg_size(frame)
    place = frame.find(_SIZ, 0, 4096)  # raw, or inside the boxes of a .jp2 file
    return _jpeg2000_size(frame, place) if place >= 0 else None


def _jpeg_size(frame: bytes) -> tuple[int, int] | None:
    place = 2
    for _ in range(_MOST_SEGMENTS):
        if place + 9 > len(frame) or frame[place] != 0xFF:
            return None
        marker = frame[place + 1]
        if marker in _STANDALONE or marker == 0xFF:
            place += 1 if marker == 0xFF else 2
            continue
        if marker in _START_OF_FRAME:
            rows, columns = struct.unpack(">HH", frame[place + 5 : place + 9])
            return rows, columns
        place += 2 + struct.unpack(">H", frame[place + 2 : place + 4])[0]
    return None


def _jpeg2000_size(frame: bytes, place: int) -> tuple[int, int] | None:
    head = frame[place + 8 : place + 24]
    if len(head) < 16:
        return None
    right, bottom, left, top = struct.unpack(">IIII", head)
    return bottom - top, right - left
