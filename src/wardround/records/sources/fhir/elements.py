"""Elements of resources, decoded once: the same few thousand codes, references and times come again and again.

Elements of equal bytes are one object, with what was read of it (:func:`once`). Nothing of it may be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import msgspec

from wardround.records.specs.wall_clock import SHORTEST_TIME, WallClock

Json = dict[str, Any]
T = TypeVar("T")
_LONGEST = 1_000
"""Longer elements (in bytes) are texts, which do not come again."""
_MOST = 16_384
_DECODER = msgspec.json.Decoder()


class Element(dict[str, Any]):
    """An element that contains elements."""

    __slots__ = ("readings",)
    readings: dict[Any, Any]


class ElementList(list[Any]):
    """A repeated element."""

    __slots__ = ("readings",)
    readings: dict[Any, Any]


def once(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Call a function of an element once for each element that is kept; one that raises is called again."""

    @wraps(function)
    def read(element: Any) -> T:
        if type(element) is not Element and type(element) is not ElementList:
            return function(element)
        try:
            found: T = element.readings[function]
            return found
        except KeyError:
            pass
        except AttributeError:
            element.readings = {}
        found = element.readings[function] = function(element)
        return found

    return read


class Elements:
    """Decodes elements; their times are hospital local time where a clock is given."""

    def __init__(self, clock: WallClock | None = None) -> None:
        self._clock = clock
        self._known: dict[bytes, Any] = {}

    def decoded(self, elements: Mapping[str, msgspec.Raw]) -> Json:
        """Decode the elements of a resource. MsgspecError, UnicodeDecodeError: something is not JSON."""
        known = self._known.get
        found = {}
        for name, raw in elements.items():
            element = bytes(raw)
            value = known(element)
            found[name] = self._new(element) if value is None else value
        return found

    def _new(self, element: bytes) -> Any:
        value = self.kept(_DECODER.decode(element))
        if len(element) <= _LONGEST:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[element] = value
        return value

    def kept(self, value: Any) -> Any:
        """Return an element as one that is kept, with its times as local time."""
        kind = type(value)
        if kind is str:
            return value if self._clock is None else self._clock.text(value)
        kept = self.kept
        if kind is dict:
            short = SHORTEST_TIME
            return Element(
                {n: each if type(each) is str and len(each) < short else kept(each) for n, each in value.items()}
            )
        return ElementList([kept(each) for each in value]) if kind is list else value
