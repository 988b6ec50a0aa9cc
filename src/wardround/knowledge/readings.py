"""The ways in which a text can be read: as it stands, and with what hides things in it undone.

An address is percent-decoded until it says the same; base64 and hexadecimal runs are decoded where text comes out;
unseen characters and look-alike forms (full-width digits) are undone; digits that are spelt out become digits.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from html import unescape
from urllib.parse import unquote_plus

from wardround.knowledge.document import visible

_DEEPEST = 4
_RUN = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_PART = re.compile(r"[A-Za-z0-9]{8,}={0,2}")
"""A run without the marks that also part an address."""
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){4,}")
_MOST_RUNS = 50
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SPELT = {word: str(digit) for digit, word in enumerate(_DIGITS)} | {"oh": "0", "nought": "0", "nil": "0"}
_SPELT_RUN = re.compile(rf"\b(?:{'|'.join(_SPELT)})(?:[\s,;-]+(?:{'|'.join(_SPELT)}))+\b", re.IGNORECASE)


def readings(text: str) -> Iterator[str]:
    """Yield a text in each way that it can be read, itself first."""
    waiting, seen = [(text, 0)], set()
    while waiting:
        one, depth = waiting.pop(0)
        plain = visible(unicodedata.normalize("NFKC", one))
        if plain in seen:
            continue
        seen.add(plain)
        yield plain
        if depth < _DEEPEST:
            waiting += [(other, depth + 1) for other in _undone(plain)]


def _undone(text: str) -> Iterator[str]:
    yield unescape(unquote_plus(text))
    yield _SPELT_RUN.sub(lambda run: "".join(_SPELT[word.lower()] for word in re.findall(r"[A-Za-z]+", run[0])), text)
    runs = dict.fromkeys((*_RUN.findall(text)[:_MOST_RUNS], *_PART.findall(text)[:_MOST_RUNS]))
    yield from filter(None, map(_from_base64, runs))
    yield from filter(None, map(_from_hex, _HEX.findall(text)[:_MOST_RUNS]))


def _from_base64(run: str) -> str:
    padded = run.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return _as_text(base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True))
    except (binascii.Error, ValueError):
        return ""


def _from_hex(run: str) -> str:
    return _as_text(bytes.fromhex(run))


def _as_text(data: bytes) -> str:
    """The text that bytes are, empty where they are none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() and len(text) >= 4 else ""
