"""Naming the nearest right thing in an error: what a model wrote, and what it probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz, process

_LISTED = 40


def nearest(text: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return up to ``limit`` names that look like ``text``, best first; empty when nothing does."""
    choices = list(names)
    found = process.extract(text.casefold(), choices, scorer=fuzz.WRatio, processor=str.casefold, limit=limit)
    return [str(name) for name, similarity, _ in found if similarity >= 60]


def unknown(kind: str, text: str, names: Iterable[str]) -> str:
    """Return the sentence for a name that does not exist: the nearest ones if any, and all that exist."""
    choices = list(names)
    close = nearest(text, choices)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    rest = f" and {len(choices) - _LISTED} more" if len(choices) > _LISTED else ""
    return f"there is no {kind} {text!r}.{hint} Available: {', '.join(choices[:_LISTED])}{rest}."
