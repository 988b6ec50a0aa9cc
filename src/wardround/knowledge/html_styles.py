"""Styles of a page as a browser reads them: escapes undone, small letters, no comments, variables put in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wardround.core import ToolFailure

_LONGEST = 500_000
"""Characters of style sheets; more are made to burn time."""
_DEEPEST = 8
_NOT_OF_A_SCREEN = (
    "print",
    "speech",
    "not all",
    "not screen",
    "prefers-color-scheme: dark",
    "prefers-color-scheme:dark",
)
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*))?\)")


def declarations(style: str) -> dict[str, str]:
    """Read the values of a ``style`` attribute by their properties.

    >>> declarations(r"di\\73 play: N\\6fne /* x */ !important")
    {'display': 'none'}
    """
    from tinycss2 import parse_blocks_contents

    return _values(parse_blocks_contents(style, skip_comments=True, skip_whitespace=True))


def rules(sheet: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield selector and values of a style sheet's rules, of those within at-rules for the screen too. Raises
    ToolFailure for one that is made to burn time."""
    if len(sheet) > _LONGEST:
        raise ToolFailure(f"the page has more than {_LONGEST:,} characters of styles and was not read.")
    from tinycss2 import parse_stylesheet

    yield from _rules(parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True), 0)


def substituted(values: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return values with those of custom properties in them."""
    return {
        name: _VARIABLE.sub(lambda used: variables.get(used[1], used[2] or ""), value).strip()
        for name, value in values.items()
    }


def _values(nodes: Sequence[Any]) -> dict[str, str]:
    from tinycss2 import serialize

    return {
        node.lower_name: " ".join(serialize(node.value).split()).casefold()
        for node in nodes
        if node.type == "declaration"
    }


def _rules(nodes: Sequence[Any], depth: int) -> Iterator[tuple[str, dict[str, str]]]:
    from tinycss2 import parse_blocks_contents, parse_stylesheet, serialize

    for node in nodes:
        if node.type == "qualified-rule":
            yield serialize(node.prelude).strip(), _values(parse_blocks_contents(node.content, skip_comments=True))
        elif node.type == "at-rule" and node.content and depth < _DEEPEST and _is_of_a_screen(serialize(node.prelude)):
            yield from _rules(parse_stylesheet(node.content, skip_comments=True), depth + 1)


def _is_of_a_screen(condition: str) -> bool:
    return not any(one in condition.casefold() for one in _NOT_OF_A_SCREEN)
