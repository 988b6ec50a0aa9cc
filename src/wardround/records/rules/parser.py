"""Reading time rules from text; the language is described in `language.py`."""

from __future__ import annotations

import re

from wardround.core import UserError
from wardround.records.rules.language import RULES, Arguments, Column, Constant, Rule

_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|-?[0-9]+|'[^']*'|[(),])")


def parse_rule(text: str) -> Rule:
    """Read one rule. UserError says what was expected and shows the text."""
    tokens = _tokens(text)
    rule, rest = _parse(tokens, text)
    if rest:
        raise UserError(f"time rule {text!r}: nothing may follow {str(rule)!r}, found {rest[0]!r}")
    return rule


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UserError(f"time rule {text!r}: cannot read {text[position:].strip()!r}")
        tokens.append(match.group(1))
        position = match.end()
    if not tokens:
        raise UserError("a time rule is empty; write a column, 'always' or 'never'")
    return tokens


def _parse(tokens: list[str], text: str) -> tuple[Rule, list[str]]:
    head, rest = tokens[0], tokens[1:]
    if head in "(),":
        raise UserError(f"time rule {text!r}: expected a name, found {head!r}")
    if not rest or rest[0] != "(":
        return (Constant(head) if head in ("always", "never") else Column(head)), rest
    if head not in RULES:
        raise UserError(f"time rule {text!r}: unknown function {head!r}; known are {', '.join(sorted(RULES.names))}")
    arguments: list[Rule] = []
    rest = rest[1:]
    while True:
        if not rest:
            raise UserError(f"time rule {text!r}: a ')' is missing")
        argument, rest = _parse(rest, text)
        arguments.append(argument)
        if not rest:
            raise UserError(f"time rule {text!r}: a ')' is missing")
        if rest[0] == ")":
            return RULES.get(head).read(head, Arguments(arguments, text)), rest[1:]
        if rest[0] != ",":
            raise UserError(f"time rule {text!r}: expected ',' or ')', found {rest[0]!r}")
        rest = rest[1:]
