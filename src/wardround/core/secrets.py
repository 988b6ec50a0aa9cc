"""A key that is sent and never shown: whatever comes back with it in it is masked before anybody reads it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from wardround.core.errors import UserError

MASK = "***"
_SHORTEST_IN_REPLIES = 8


class Secret:
    """An API key. It prints as ``***``; ``masked`` takes it out of what others wrote.

    A key is stripped of space around it (a file's last line break) and refused where no HTTP header could hold it. One
    shorter than 8 characters (``EMPTY``, of a server that wants none) is masked in lines that are shown, not in
    replies: it would take words out of them.
    """

    __slots__ = ("_forms", "_long", "_value")

    def __init__(self, value: str) -> None:
        self._value = value.strip()
        if not self._value or not self._value.isascii() or not self._value.isprintable():
            raise UserError(
                "the API key is empty or holds characters that no HTTP header can carry; look at its source"
            )
        written = (self._value, json.dumps(self._value)[1:-1], quote(self._value, safe=""), quote(self._value))
        self._forms = tuple(dict.fromkeys(written))
        self._long = len(self._value) >= _SHORTEST_IN_REPLIES

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
        return text

    def masked_bytes(self, body: bytes) -> bytes:
        """Return a reply's bytes without the key."""
        for form in self._forms if self._long else ():
            body = body.replace(form.encode(), MASK.encode())
        return body

    def masked_value(self, value: Any) -> Any:
        """Return a reply's JSON value with every text in it masked. RecursionError: it is nested too deep to walk."""
        if not self._long:
            return value
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, list):
            return [self.masked_value(item) for item in value]
        if isinstance(value, dict):
            return {self.masked(name): self.masked_value(item) for name, item in value.items()}
        return value
