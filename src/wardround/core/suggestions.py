"""Naming the nearest right thing in an error: what a model wrote, and what it probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz, process

_LISTED = 40
_LOOKED_AT = 10
_SHORTEST_PART = 3
_LONGEST = 400
"""Characters of a name that is looked at and repeated: nothing has a longer one, and likeness to it takes seconds."""


def shortened(text: str) -> str:
    """Return what was written as it may be repeated: no message grows with it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def nearest(text: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return up to ``limit`` names that look like ``text``, best first; empty when nothing does."""
    choices = list(names)
    wanted = text[:_LONGEST].casefold()
    found = process.extract(wanted, choices, scorer=fuzz.WRatio, processor=str.casefold, limit=_LOOKED_AT)
    return [str(name) for name, _, _ in found if _resembles(wanted, str(name).casefold())][:limit]


def _resembles(text: str, name: str) -> bool:
    """Whether a name is a likely slip of the text: most letters in order, or one within the other."""
    if len(text) >= _SHORTEST_PART and (text in name or (len(name) >= _SHORTEST_PART and name in text)):
        return True
    return fuzz.ratio(text, name) >= 60 or (len(text) > 5 and fuzz.partial_ratio(text, name) >= 80)


def unknown(kind: str, text: str, names: Iterable[str]) -> str:
    """Return the sentence for a name that does not exist: the nearest ones if any, and all that exist."""
    choices = list(names)
    close = nearest(text, choices)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    rest = f" and {len(choices) - _LISTED} more" if len(choices) > _LISTED else ""
    return f"there is no {kind} {shortened(text)!r}.{hint} Available: {', '.join(choices[:_LISTED])}{rest}."
