"""What a statement names and how much it would unfold to, read from its tokens before SQLite sees it.

SQLite copies the body of a ``WITH`` table for each use while it compiles, where no budget reaches; a chain of tables
that use their predecessor twice grows as 2^n. The size after unfolding is therefore bounded here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
  | (?P<parameter>\?\d*|[:@\#$][A-Za-z0-9_]+)
  | (?P<number>\d[\w.]*|\.\d\w*)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<mark>\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNQUOTE = {"'": "''", '"': '""', "`": "``", "[": "]"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind, its text without quotes and in lower case, and its end in the statement."""

    kind: str
    text: str
    start: int
    end: int


def tokens(sql: str) -> list[Token]:
    """Split a statement as SQLite does, without comments and space."""
    return list(_tokens(sql))


def _tokens(sql: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "mark"
        if kind == "space":
            continue
        text = match.group()
        if kind in ("string", "quoted"):
            double = _UNQUOTE[text[0]]
            text = text[1:-1].replace(double, double[0]) if len(double) == 2 else text[1:-1]
        yield Token(kind, text.lower(), match.start(), match.end())


def named(statement: list[Token]) -> frozenset[str]:
    """Return every name a statement could mean a table by: words and quoted texts."""
    return frozenset(token.text for token in statement if token.kind in ("word", "quoted", "string"))


def means_all_columns(statement: list[Token]) -> bool:
    """Return whether a statement means columns that it does not name: by ``*``, ``t.*`` or a natural join."""
    return any(
        token.text == "natural" or (token.text == "*" and before.text in ("select", "distinct", "all", ",", "."))
        for before, token in pairwise(statement)
    )


def common_tables(statement: list[Token]) -> dict[str, list[tuple[int, int]]]:
    """Return the tables that ``WITH`` defines, each with the token ranges of its bodies."""
    found: dict[str, list[tuple[int, int]]] = {}
    closing = _closing_marks(statement)
    for index, token in enumerate(statement):
        if token.text != "(" or index < 2:
            continue
        before = index - 1
        if statement[before].text == "materialized":
            before -= 2 if statement[before - 1].text == "not" else 1
        if before < 1 or statement[before].text != "as":
            continue
        name = before - 1
        if statement[name].text == ")":
            name = next((opened for opened, closed in closing.items() if closed == name), 0) - 1
        if name >= 0 and statement[name].kind in ("word", "quoted", "string"):
            found.setdefault(statement[name].text, []).append((index, closing.get(index, len(statement))))
    return found


def _closing_marks(statement: list[Token]) -> dict[int, int]:
    closing: dict[int, int] = {}
    open_marks: list[int] = []
    for index, token in enumerate(statement):
        if token.kind == "mark" and token.text == "(":
            open_marks.append(index)
        elif token.kind == "mark" and token.text == ")" and open_marks:
            closing[open_marks.pop()] = index
    return closing


def unfolded_tokens(statement: list[Token]) -> int:
    """Return how many tokens a statement has once every use of a ``WITH`` table is replaced by its body."""
    bodies = common_tables(statement)
    sizes: dict[str, int] = {}

    def size(start: int, end: int, inside: frozenset[str]) -> int:
        total = end - start
        for index in range(start, end):
            token = statement[index]
            if token.text not in bodies or token.text in inside or not _is_use(statement, index):
                continue
            if token.text not in sizes:
                under = inside | {token.text}
                sizes[token.text] = max(size(first, last, under) for first, last in bodies[token.text])
            total += sizes[token.text]
        return total

    return size(0, len(statement), frozenset())


def _is_use(statement: list[Token], index: int) -> bool:
    """Return whether a name stands where a table could: not before a dot, and not where it is being defined."""
    token = statement[index]
    if token.kind not in ("word", "quoted", "string"):
        return False
    following = statement[index + 1].text if index + 1 < len(statement) else ""
    before = statement[index - 1].text if index > 0 else ""
    return following not in (".", "as") or (following == "as" and before in ("from", "join", ",", "("))
