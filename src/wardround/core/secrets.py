"""Secrets that are sent but never shown, and objects that hide what they work with."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from html import escape
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from weakref import WeakKeyDictionary

from wardround.core.errors import UserError

# A key that is sent and never shown: whatever comes back with it in it is masked before anybody reads it.


MASK = "***"
_SHORTEST_IN_REPLIES = 8
_BETWEEN = "(?:[\\s\u200b-\u200f\u2060\ufeff]|\\\\{1,8}[nrt]){0,64}+"
"""Characters inside a key that a server wrote over two lines."""


class Secret:
    """An API key or a password. It prints as ``***``; ``masked`` takes it out of what others wrote.

    A key is stripped of space around it (a file's last line break) and refused where no HTTP header could hold it. One
    shorter than 8 characters (``EMPTY``, of a server that wants none) is masked in lines that are shown, not in
    replies: it would take words out of them. ``others`` are secrets that are masked with it.
    """

    __slots__ = ("_forms", "_pattern", "_value")

    def __init__(self, value: str, *others: str) -> None:
        self._value = value.strip()
        if not self._value or not self._value.isascii() or not self._value.isprintable():
            raise UserError(
                "the API key is empty or holds characters that no HTTP header can carry; look at its source"
            )
        values = [self._value, *others]
        self._forms = tuple(dict.fromkeys(form for value in values for form in _written(value)))
        long = [value for value in values if len(value) >= _SHORTEST_IN_REPLIES]
        self._pattern = re.compile("|".join(map(_spelled, long)), re.IGNORECASE) if long else None

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def reveal(self) -> str:
        """Return the key itself, for the header it is sent in."""
        return self._value

    def masked(self, text: str) -> str:
        """Return a text without the key, however it is written there."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def masked_bytes(self, body: bytes) -> bytes:
        """Return a reply's bytes without the key as it is usually written."""
        for form in self._forms:
            if len(form) >= _SHORTEST_IN_REPLIES:
                body = body.replace(form.encode(), MASK.encode())
        return body

    def masked_value(self, value: Any) -> Any:
        """Return a reply's JSON value with every text in it masked. RecursionError: it is nested too deep to walk."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(MASK, value)
        if isinstance(value, list):
            return [self.masked_value(item) for item in value]
        if isinstance(value, dict):
            return {self._pattern.sub(MASK, name): self.masked_value(item) for name, item in value.items()}
        return value


def _written(value: str) -> tuple[str, ...]:
    return value, json.dumps(value)[1:-1], quote(value, safe=""), quote(value)


def _spelled(value: str) -> str:
    """A pattern of every way in which servers write a text: cut short after 8 characters or more, escaped for URLs
    (again and again), JSON, HTML or a log, over two lines, in base64 (also behind a user's name, as in a header of
    HTTP) or in hexadecimal digits. Its repetitions are bounded: a text made for that purpose must not cost more than
    its length."""
    between = "" if {" ", "\\"} & set(value) else _BETWEEN
    packed = {re.escape(form) for form in (*_in_base64(value), value.encode().hex())}
    characters = [*map(_spelled_character, value)]
    rest = "".join(f"(?:{between}{character})?+" for character in characters[_SHORTEST_IN_REPLIES:])
    return "|".join([between.join(characters[:_SHORTEST_IN_REPLIES]) + rest, *sorted(packed)])


def _spelled_character(character: str) -> str:
    """Atomic: where a text could be read in two ways the first one holds, or a long key would be tried in millions."""
    code = ord(character)
    before = r"\\{0,8}" if character in "/\"'" else ""
    forms = [
        rf"&\#(?:0{{0,6}}{code}|x0{{0,6}}{code:x});",
        rf"%(?:25){{0,6}}{code:02x}",
        rf"\\{{1,8}}(?:u00|x){code:02x}",
        re.escape(escape(character)),
        before + re.escape(character),
    ]
    return f"(?>{'|'.join(dict.fromkeys(forms))})"


def _in_base64(value: str) -> Iterator[str]:
    """What of a text's base64 is the same whatever stands before and after it, at each of its three places."""
    for before in range(3):
        data = base64.b64encode(bytes(before) + value.encode()).decode().rstrip("=")
        whole = (before + len(value.encode())) * 8 // 6  # characters that no later byte changes
        kept = data[-(-before * 8 // 6) : whole]
        yield kept
        yield kept.translate(str.maketrans("+/", "-_"))


# Things that an object works with and does not hand on: no attribute of a :class:`Sealed` leads to what it stands for.
#
# Whoever imports this module can open one: Python has no walls inside a process (docs/security.md).


T = TypeVar("T")


class Sealed(Generic[T]):
    """Stands for a thing that only :func:`unsealed` gives."""

    __slots__ = ("__weakref__",)

    def __init__(self, thing: T) -> None:
        _INSIDE[self] = thing


_INSIDE: WeakKeyDictionary[Sealed[Any], Any] = WeakKeyDictionary()


def unsealed(sealed: Sealed[T]) -> T:
    """Return the thing that a seal stands for."""
    thing: T = _INSIDE[sealed]
    return thing
