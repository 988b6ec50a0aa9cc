"""Three-valued logic (Kleene): true, false, or None where it is not known."""

from __future__ import annotations

from collections.abc import Iterable

Truth = bool | None
"""True, False, or None: unknown. What is unknown is never taken for false."""


def all_of(truths: Iterable[Truth]) -> Truth:
    """Return AND: false where one is false, else unknown where one is unknown."""
    unknown = False
    for truth in truths:
        if truth is False:
            return False
        unknown = unknown or truth is None
    return None if unknown else True


def any_of(truths: Iterable[Truth]) -> Truth:
    """Return OR: true where one is true, else unknown where one is unknown."""
    unknown = False
    for truth in truths:
        if truth is True:
            return True
        unknown = unknown or truth is None
    return None if unknown else False


def negate(truth: Truth) -> Truth:
    """Return NOT: unknown stays unknown."""
    return None if truth is None else not truth
