"""Things that an object works with and does not hand on: no attribute of a :class:`Sealed` leads to what it stands for.

Whoever imports this module can open one: Python has no walls inside a process (docs/security.md).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class Sealed(Generic[T]):
    """Stands for a thing that only :func:`unsealed` gives."""

    __slots__ = ("__weakref__",)

    def __init__(self, thing: T) -> None:
        _INSIDE[self] = thing


_INSIDE: WeakKeyDictionary[Sealed[Any], Any] = WeakKeyDictionary()


def unsealed(sealed: Sealed[T]) -> T:
    """Return the thing that a seal stands for."""
    thing: T = _INSIDE[sealed]
    return thing
