"""Reading time rules from text; the language is described in `language.py`."""

from __future__ import annotations

import re
from collections.abc import Callable

from wardround.core import UserError
from wardround.records.rules.language import (
    Among,
    Around,
    Choice,
    Closed,
    Column,
    Combined,
    Constant,
    Dated,
    EndOfDay,
    Following,
    Given,
    Known,
    Lag,
    LateCell,
    MedianDelay,
    Reference,
    Rule,
    Shift,
    There,
    Until,
)

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
    if head not in _BUILDERS:
        raise UserError(f"time rule {text!r}: unknown function {head!r}; known are {', '.join(sorted(_BUILDERS))}")
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
            return _BUILDERS[head](head, arguments, text), rest[1:]
        if rest[0] != ",":
            raise UserError(f"time rule {text!r}: expected ',' or ')', found {rest[0]!r}")
        rest = rest[1:]


def _names(head: str, arguments: list[Rule], count: int, text: str) -> list[str]:
    names = [argument.name for argument in arguments if isinstance(argument, Column)]
    if len(arguments) != count or len(names) != count:
        raise UserError(f"time rule {text!r}: {head} takes {count} plain names")
    return names


def _combined(head: str, arguments: list[Rule], text: str) -> Rule:
    return Combined(head, tuple(arguments))


def _known(head: str, arguments: list[Rule], text: str) -> Rule:
    key, table = _names(head, arguments, 2, text)
    return Known(key, table)


def _reference(head: str, arguments: list[Rule], text: str) -> Rule:
    key, table, column = _names(head, arguments, 3, text)
    return Reference(key, table, column)


def _late_cell(head: str, arguments: list[Rule], text: str) -> Rule:
    key, table, column = _names(head, arguments, 3, text)
    return LateCell(key, table, column)


def _there(head: str, arguments: list[Rule], text: str) -> Rule:
    key, table = _names(head, arguments[:2], 2, text)
    if len(arguments) != 3:
        raise UserError(f"time rule {text!r}: at takes a key, a table and a rule")
    return There(key, table, arguments[2])


def _among(head: str, arguments: list[Rule], text: str) -> Rule:
    table, key = _names(head, arguments[:2], 2, text)
    if len(arguments) != 3:
        raise UserError(f"time rule {text!r}: {head} takes a table, its key and a rule")
    return Among(head, table, key, arguments[2])


def _given(head: str, arguments: list[Rule], text: str) -> Rule:
    if len(arguments) != 3:
        raise UserError(f"time rule {text!r}: given takes three rules")
    return Given(*arguments)


def _until(head: str, arguments: list[Rule], text: str) -> Rule:
    if len(arguments) != 2:
        raise UserError(f"time rule {text!r}: until takes two rules")
    return Until(*arguments)


def _choice(head: str, arguments: list[Rule], text: str) -> Rule:
    quoted = [part.name for part in arguments[1:-2] if isinstance(part, Column) and part.name.startswith("'")]
    if len(arguments) < 4 or not isinstance(arguments[0], Column) or len(quoted) != len(arguments) - 3:
        raise UserError(f"time rule {text!r}: when takes a column, quoted values and two rules")
    return Choice(arguments[0].name, tuple(value[1:-1] for value in quoted), arguments[-2], arguments[-1])


def _lag(head: str, arguments: list[Rule], text: str) -> Rule:
    if len(arguments) != 2 or not isinstance(arguments[1], Column):
        raise UserError(f"time rule {text!r}: lag takes a rule and the name of a setting")
    return Lag(arguments[0], arguments[1].name)


def _shift(head: str, arguments: list[Rule], text: str) -> Rule:
    minutes = arguments[1] if len(arguments) == 2 else None
    if not isinstance(minutes, Column) or not minutes.name.lstrip("-").isdecimal():
        raise UserError(f"time rule {text!r}: shift takes a rule and a whole number of minutes")
    return Shift(arguments[0], int(minutes.name))


def _end_of_day(head: str, arguments: list[Rule], text: str) -> Rule:
    if len(arguments) != 1:
        raise UserError(f"time rule {text!r}: end_of_day takes one rule")
    return EndOfDay(arguments[0])


def _dated(head: str, arguments: list[Rule], text: str) -> Rule:
    if len(arguments) != 2:
        raise UserError(f"time rule {text!r}: dated takes two rules, a time and its day")
    return Dated(*arguments)


def _median_delay(head: str, arguments: list[Rule], text: str) -> Rule:
    start, end = _names(head, arguments, 2, text)
    return MedianDelay(start, end)


def _following(head: str, arguments: list[Rule], text: str) -> Rule:
    column, quoted = _column_and_values(arguments)
    barriers = tuple(value[1:] for value in quoted if value.startswith("!"))
    values = tuple(value for value in quoted if not value.startswith("!"))
    if column is None or not values:
        raise UserError(f"time rule {text!r}: following takes a rule, a column and quoted values")
    return Following(arguments[0], column, values, barriers)


def _closed(head: str, arguments: list[Rule], text: str) -> Rule:
    column, quoted = _column_and_values(arguments)
    if column is None or len(quoted) != 2:
        raise UserError(f"time rule {text!r}: closed takes a rule, a column and two quoted beginnings")
    return Closed(arguments[0], column, *quoted)


def _around(head: str, arguments: list[Rule], text: str) -> Rule:
    if len(arguments) != 4 or not isinstance(arguments[0], Column):
        raise UserError(f"time rule {text!r}: around takes a table and three rules, a time, a start and an end")
    return Around(arguments[0].name, *arguments[1:])


def _column_and_values(arguments: list[Rule]) -> tuple[str | None, list[str]]:
    """Read a rule's arguments after the first: a column and quoted values; no column if they are something else."""
    names = [part.name for part in arguments[1:] if isinstance(part, Column)]
    quoted = [name[1:-1] for name in names[1:] if name.startswith("'")]
    fine = len(arguments) > 2 and len(names) == len(arguments) - 1 and len(quoted) == len(names) - 1
    return (names[0] if fine and not names[0].startswith("'") else None), quoted


_BUILDERS: dict[str, Callable[[str, list[Rule], str], Rule]] = {
    "max": _combined,
    "min": _combined,
    "first": _combined,
    "last": _combined,
    "given": _given,
    "until": _until,
    "known": _known,
    "ref": _reference,
    "cell": _late_cell,
    "at": _there,
    "earliest": _among,
    "latest": _among,
    "when": _choice,
    "lag": _lag,
    "shift": _shift,
    "end_of_day": _end_of_day,
    "dated": _dated,
    "median_delay": _median_delay,
    "following": _following,
    "closed": _closed,
    "around": _around,
}
