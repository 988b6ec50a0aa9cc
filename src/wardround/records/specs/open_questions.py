"""The questions of a draft that nobody has answered yet: texts that begin with ``TODO``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wardround.core import UserError

_MARK = "TODO"


def open_questions(body: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every open question in what was read of a TOML file."""
    if isinstance(body, Mapping):
        for key, value in body.items():
            yield from open_questions(value, f"{place}.{key}" if place else str(key))
    elif isinstance(body, list):
        for value in body:
            yield from open_questions(value, place)
    elif isinstance(body, str) and body.startswith(_MARK):
        yield place, body


def refuse_open_questions(body: Any, file: str) -> None:
    """Raise UserError where a question is open; it names the first and counts the others."""
    found = list(open_questions(body))
    if found:
        place, text = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise UserError(f"{file}: {place}: {text}{more}; see them all with 'wardround spec check'")
