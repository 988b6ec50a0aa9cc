"""Escapes of addresses, pages and programs: ``%31 &#49; \\u0031 \\x31 U+0031 %u0031`` and hosts in punycode."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import unquote_plus

_CODE_POINT = re.compile(
    r"(?:\\u|%u|\\U0000|\bU\+)([0-9a-f]{4})(?![0-9a-f])|(?:\\u|%u)([0-9a-f]{4})|\\[xu]\{([0-9a-f]{1,6})\}"
    r"|\\x([0-9a-f]{2})|\\([0-7]{3})",
    re.IGNORECASE,
)
_OCTAL = 5
"""The group of the pattern that is in octal; the others are in hexadecimal."""
_PUNYCODE = re.compile(r"\bxn--([a-z0-9-]+)", re.IGNORECASE)


def unescaped(text: str) -> str:
    """Return a text with one layer of every escape undone.

    >>> unescaped("a%31&#50;\\\\u0033\\\\x34")
    'a1234'
    """
    undone = unescape(unquote_plus(_CODE_POINT.sub(_character, text)))
    return _PUNYCODE.sub(_of_punycode, undone)


def _character(found: re.Match[str]) -> str:
    group = found.lastindex or 1
    return _as_character(int(found[group], 8 if group == _OCTAL else 16)) or found[0]


def _as_character(code: int) -> str:
    return chr(code) if code < 0x110000 else ""


def _of_punycode(found: re.Match[str]) -> str:
    try:
        return found[1].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError):
        return found[0]
