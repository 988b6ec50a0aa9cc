"""The language of triggers: ``lactate > 4 mmol/L OR (map < 65 AND NOT on vasopressors)``.

A condition is a number of a name (``> >= < <= =``, a unit may follow), ``NAME is low|normal|high|abnormal``, ``NAME is
rising|falling|steady``, ``on DRUG``, ``problem NAME``, ``allergy NAME``, ``done ACTION`` or ``hours since NAME >= 6``.
Problems and actions are this encounter's, but with ``ever problem NAME``, ``history of NAME`` and ``ever done ACTION``.
Names with other signs than words stand in quotes. What is none of this is not compiled, and says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast, get_args

from wardround.core import UserError
from wardround.protocols.conditions import (
    AtLevel,
    AtValue,
    HoursSince,
    Joined,
    Moving,
    Negated,
    Node,
    Relation,
    Stated,
)
from wardround.protocols.facts import Direction, Level

_TOKEN = re.compile(r'\s*(?:(?P<quoted>"[^"]*")|(?P<sign>>=|<=|[<>=()])|(?P<word>[^\s()<>="]+))')
_SPELT = str.maketrans({"≥": ">=", "≤": "<=", "“": '"', "”": '"'})
_RELATIONS = frozenset({">", ">=", "<", "<=", "="})
_LEVELS = frozenset({*get_args(Level), "abnormal"})
_DIRECTIONS = frozenset(get_args(Direction))
_STATED = {"on": "on", "taking": "on", "problem": "problem", "allergy": "allergy", "done": "done"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A trigger as written, and compiled where it could be: else ``problem`` says why not, and only a model judges."""

    text: str
    node: Node | None = None
    problem: str | None = None


def compile_trigger(text: str) -> Trigger:
    """Compile a trigger where it is in the language."""
    try:
        return Trigger(text=text, node=_Reader(_tokens(text)).whole())
    except UserError as error:
        return Trigger(text=text, problem=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    text: str
    kind: Literal["quoted", "sign", "word"]

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


def _tokens(text: str) -> list[_Token]:
    found, place, spelt = [], 0, text.translate(_SPELT).strip()
    while place < len(spelt):
        match = _TOKEN.match(spelt, place)
        if match is None:
            raise UserError(f"a quote is not closed: {spelt[place:]!r}")
        kind = cast(Literal["quoted", "sign", "word"], match.lastgroup)
        found.append(_Token(text=match[kind].strip('"'), kind=kind))
        place = match.end()
    return found


class _Reader:
    """Reads tokens from left to right: OR binds least, NOT most."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0

    def whole(self) -> Node:
        if not self._tokens:
            raise UserError("the trigger is empty")
        node = self._either()
        if self._place < len(self._tokens):
            raise UserError(f"nothing belongs at {self._tokens[self._place].text!r}")
        return node

    def _either(self) -> Node:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Joined(how="OR", parts=tuple(parts))

    def _both(self) -> Node:
        parts = [self._one()]
        while self._take("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Joined(how="AND", parts=tuple(parts))

    def _one(self) -> Node:
        if self._take("not"):
            return Negated(part=self._one())
        if self._sign("("):
            node = self._either()
            if not self._sign(")"):
                raise UserError("a bracket is not closed")
            return node
        return self._condition()

    def _condition(self) -> Node:
        if self._take_words("history", "of"):
            return Stated(what="problem", concept=self._name(), ever=True)
        ever = self._take_words("ever", "problem") or self._take_words("ever", "done")
        self._place -= ever
        first = self._peek()
        if first is not None and first.kind == "word" and first.text.lower() in _STATED:
            self._place += 1
            what = cast(Literal["on", "problem", "allergy", "done"], _STATED[first.text.lower()])
            return Stated(what=what, concept=self._name(), ever=ever)
        since = self._take_words("hours", "since")
        name = self._name()
        if self._take("is"):
            return self._state_of(name)
        relation, threshold = self._relation(name)
        if since:
            return HoursSince(concept=name, relation=relation, threshold=threshold)
        return AtValue(concept=name, relation=relation, threshold=threshold, unit=self._unit())

    def _name(self) -> str:
        words: list[str] = []
        while (token := self._peek()) is not None and token.kind != "sign" and not token.is_word("and", "or", "is"):
            words.append(token.text)
            self._place += 1
        if not words:
            raise UserError("a name is missing: say what is measured, given, done or diagnosed")
        return " ".join(words)

    def _state_of(self, name: str) -> Node:
        token = self._peek()
        said = token.text.lower() if token is not None else ""
        self._place += 1
        if said in _LEVELS:
            return AtLevel(concept=name, level=cast(Level, said))
        if said in _DIRECTIONS:
            return Moving(concept=name, direction=cast(Direction, said))
        raise UserError(f"{name!r} is {said!r}: say one of {', '.join(sorted(_LEVELS | _DIRECTIONS))}")

    def _relation(self, name: str) -> tuple[Relation, float]:
        token = self._peek()
        if token is None or token.text not in _RELATIONS:
            raise UserError(f"{name!r} is asked nothing: compare it (> 4), or say `is high`, `on`, `problem`, `done`")
        self._place += 1
        number = self._peek()
        self._place += 1
        try:
            return cast(Relation, token.text), float(number.text if number is not None else "")
        except ValueError:
            raise UserError(f"after {name!r} {token.text} comes no number") from None

    def _unit(self) -> str | None:
        words: list[str] = []
        while (token := self._peek()) is not None and token.kind == "word" and not token.is_word("and", "or"):
            words.append(token.text)
            self._place += 1
        return " ".join(words) or None

    def _peek(self) -> _Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _take(self, word: str) -> bool:
        token = self._peek()
        found = token is not None and token.is_word(word)
        self._place += found
        return found

    def _take_words(self, *words: str) -> bool:
        there = self._tokens[self._place : self._place + len(words)]
        found = len(there) == len(words) and all(token.is_word(word) for token, word in zip(there, words, strict=True))
        self._place += len(words) * found
        return found

    def _sign(self, sign: str) -> bool:
        token = self._peek()
        found = token is not None and token.kind == "sign" and token.text == sign
        self._place += found
        return found
