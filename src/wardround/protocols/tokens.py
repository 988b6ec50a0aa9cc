"""A trigger cut into words, signs and quoted names, with a place that moves on as they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from wardround.core import UserError

_TOKEN = re.compile(r'\s*(?:(?P<quoted>"[^"]*")|(?P<sign>>=|<=|[<>=()])|(?P<word>[^\s()<>="]+))')
_SPELT = str.maketrans({"≥": ">=", "≤": "<=", "“": '"', "”": '"', "×": "x", "–": "-"})
_PHRASES: tuple[tuple[str, str], ...] = (
    (r"(?<=\w)\s+(?:fall|drop|decrease)\s+(?:by|of)\b(?=\s*(?:at least|>=?|\d))", "falls by"),
    (r"\s+(?:of|by)\s+(?=>=|<=)", " "),
    (r"(?<=\w)\s+(?:rise|increase)\s+(?:by|of)\b(?=\s*(?:at least|>=?|\d))", "rises by"),
    (r"\b(?:is |of |by )?(?:at least|no less than|greater than or equal to|minimum of)\b", ">="),
    (r"\b(?:is |of |by )?(?:at most|no more than|less than or equal to|maximum of|up to)\b", "<="),
    (r"\b(?:is |of |by )?(?:less than|lower than|fewer than|below|under)\b", "<"),
    (r"\b(?:is |of |by )?(?:more than|greater than|higher than|above|over|exceeds|exceeding)\b", ">"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerToken:
    """One word, sign or quoted name."""

    text: str
    kind: Literal["quoted", "sign", "word"]

    def is_word(self, *words: str) -> bool:
        """Whether it is one of some words, not quoted."""
        return self.kind == "word" and self.text.lower() in words


class Tokens:
    """The tokens of a trigger, read from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = _cut(text)
        self._place = 0

    @property
    def rest(self) -> str:
        """What is still to be read, in words."""
        return " ".join(token.text for token in self._tokens[self._place :])

    def peek(self, ahead: int = 0) -> TriggerToken | None:
        """Return the next token, or one behind it; None at the end."""
        place = self._place + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def skip(self, count: int = 1) -> None:
        """Move on."""
        self._place += count

    def take(self, *words: str) -> str | None:
        """Take the next token where it is one of some words."""
        token = self.peek()
        if token is None or not token.is_word(*words):
            return None
        self._place += 1
        return token.text.lower()

    def take_all(self, *words: str) -> bool:
        """Take several words in a row, all or none."""
        there = [self.peek(ahead) for ahead in range(len(words))]
        found = all(token is not None and token.is_word(word) for token, word in zip(there, words, strict=True))
        self._place += len(words) * found
        return found

    def take_sign(self, *signs: str) -> str | None:
        """Take the next token where it is one of some signs."""
        token = self.peek()
        if token is None or token.kind != "sign" or token.text not in signs:
            return None
        self._place += 1
        return token.text

    def mark(self) -> int:
        """Return the place, to come back to."""
        return self._place

    def back_to(self, place: int) -> None:
        """Go back to a place."""
        self._place = place


def _cut(text: str) -> list[TriggerToken]:
    found, place, spelt = [], 0, _phrases(text.translate(_SPELT)).strip()
    while place < len(spelt):
        match = _TOKEN.match(spelt, place)
        if match is None:
            raise UserError(f"a quote is not closed: {spelt[place:]!r}")
        kind = cast(Literal["quoted", "sign", "word"], match.lastgroup)
        found.append(TriggerToken(text=match[kind].strip('"'), kind=kind))
        place = match.end()
    return [token for token in found if token.text or token.kind == "quoted"]


def _phrases(text: str) -> str:
    """Write comparisons in words as signs, and nouns of change as verbs, outside quotes."""
    parts = re.split(r'("[^"]*")', text)
    for place in range(0, len(parts), 2):
        for phrase, sign in _PHRASES:
            parts[place] = re.sub(phrase, f" {sign} ", parts[place], flags=re.IGNORECASE)
    return "".join(parts)
