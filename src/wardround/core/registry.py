"""Registries of everything people add, and names with a user part such as ``openai/qwen3-4b``."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, Protocol, TypeVar

from wardround.core.errors import UserError

# Registries: what people add, by name. Our own things and those of plug-ins go in through the same door.
#
# A thing is registered where it is defined, or is an entry point of the group ``wardround.<kind>`` of any installed
# package. Entry points are looked up when a name is asked for that nobody registered, or when all are listed; a foreign
# package's code runs only when one of its names is asked for.


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered(Generic[T]):
    """One name of a registry: what it is in one line, the place that registered it, and how to have it."""

    name: str
    title: str
    place: str
    load: Callable[[], T]


class Registry(Generic[T]):
    """The things of one kind by name, in the order in which they were registered.

    ``kind`` is the plural that entry points name (``wardround.agents``), ``one`` what an error calls a single one,
    ``of`` the class that everything here is of (None: not checked), ``title`` says in one line what a thing is.
    ``part`` is an optional package of ours that registers things when it is imported, which is done when something is
    first looked up; where it was left out, its things are not there.
    """

    def __init__(
        self,
        kind: str,
        *,
        one: str,
        of: type | None = None,
        title: Callable[[T], str] | None = None,
        part: str | None = None,
    ) -> None:
        self.kind = kind
        self.one = one
        self._of = of
        self._title = title or _first_line
        self._part = part
        self._entries: dict[str, Registered[T]] = {}

    def add(self, name: str, thing: T) -> T:
        """Register a thing under a name and return it; UserError names both places where the name is taken."""
        place = _caller()
        taken = self._entries.get(name)
        if taken is not None:
            raise UserError(f"{self.one} {name!r} is registered twice: in {taken.place} and in {place}; rename one")
        self._check(name, thing, place)
        self._entries[name] = Registered(name=name, title=self._title(thing), place=place, load=lambda: thing)
        return thing

    def named(self, name: str) -> Callable[[T], T]:
        """Return the decorator that registers what it stands before: ``@CONTEXT_POLICIES.named("last-ten")``."""
        return lambda thing: self.add(name, thing)

    def get(self, name: str) -> T:
        """Return the thing of a name; UserError names the nearest and all that exist."""
        entry = self._ours().get(name) or self._installed().get(name)
        if entry is None:
            raise UserError(self._unknown(name))
        thing = entry.load()
        self._check(name, thing, entry.place)
        return thing

    def __contains__(self, name: object) -> bool:
        return name in self._ours() or name in self._installed()

    def __iter__(self) -> Iterator[Registered[T]]:
        """Every entry, ours and plug-ins' first, then those of installed packages, which are not loaded for it."""
        return iter(self._all().values())

    @property
    def names(self) -> tuple[str, ...]:
        """Every name there is."""
        return tuple(self._all())

    @property
    def registered(self) -> tuple[T, ...]:
        """The things that were registered, without those of installed packages that nobody asked for."""
        return tuple(entry.load() for entry in self._ours().values())

    @property
    def installed(self) -> tuple[Registered[T], ...]:
        """The entries of installed packages; listing them runs none of their code."""
        return tuple(entry for name, entry in self._installed().items() if name not in self._ours())

    def _all(self) -> dict[str, Registered[T]]:
        ours = self._ours()
        return ours | {name: entry for name, entry in self._installed().items() if name not in ours}

    def _ours(self) -> dict[str, Registered[T]]:
        part, self._part = self._part, None
        if part is not None and importlib.util.find_spec(part) is not None:
            importlib.import_module(part)
        return self._entries

    def _installed(self) -> dict[str, Registered[T]]:
        """The entry points of this kind; UserError where one bears a name that is taken."""
        found: dict[str, Registered[T]] = {}
        for point in importlib.metadata.entry_points(group=f"wardround.{self.kind}"):
            place = f"{point.dist.name if point.dist else 'an installed package'} ({point.value})"
            taken = self._entries.get(point.name) or found.get(point.name)
            if taken is not None:
                raise UserError(
                    f"{self.one} {point.name!r} is registered twice: in {taken.place} and in {place}; "
                    "uninstall one of the packages"
                )
            found[point.name] = Registered(
                name=point.name, title=f"of the package {place}", place=place, load=point.load
            )
        return found

    def _unknown(self, name: str) -> str:
        names = self.names
        near = get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"there is no {self.one} {name!r}.{hint} There are: {', '.join(names)}"

    def _check(self, name: str, thing: object, place: str) -> None:
        if self._of is not None and not isinstance(thing, self._of):
            given = f"a {type(thing).__name__}"
            if isinstance(thing, type) and issubclass(thing, self._of):
                given = f"the class {thing.__qualname__}; write {thing.__qualname__}()"
            raise UserError(f"{self.one} {name!r} in {place} must be a {self._of.__name__}, not {given}")


def _first_line(thing: object) -> str:
    """What a thing says of itself: its ``title`` or ``description``, else the first line of its docstring."""
    said = getattr(thing, "title", None) or getattr(thing, "description", None) or getattr(thing, "__doc__", None)
    return str(said or "").strip().partition("\n")[0]


def _caller() -> str:
    """Return file and line of whoever called into this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# Names with a part that is the user's own: ``openai/qwen3-4b``, ``replay:run-1``, ``lexical/512``.
#
# Such a name is ``<backend>``, ``<backend>/<rest>`` or ``<backend>:<rest>``; the backend is what is registered, and it
# declares in ``takes`` which of these it is (``/<name>``, ``:<folder>``, nothing).


_FIRST_SEPARATOR = re.compile(r"[/:]")


class Backend(Protocol):
    """What such a registry holds. ``rest_optional``: the name alone is enough."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    @property
    def takes(self) -> str:
        """The separator and what comes after it, for people: ``/<name>``; empty where nothing comes."""
        ...

    @property
    def rest_optional(self) -> bool:
        """Whether the part after the separator may be left out."""
        ...


B = TypeVar("B", bound=Backend)


def find_backend(registry: Registry[B], text: str) -> tuple[B, str]:
    """Return what a name's backend is and the rest of the name; UserError says what is known, or how it is spelt."""
    found = _FIRST_SEPARATOR.search(text)
    name, rest = (text[: found.start()], text[found.end() :]) if found else (text, "")
    backend = registry.get(name)
    separator = found.group() if found else ""
    spelt_right = separator == backend.takes[:1] and bool(rest) if separator else backend.rest_optional
    if not spelt_right and not (text == backend.name and not backend.takes):
        raise UserError(f"the {registry.one} {text!r} is spelt {spelling(backend)}")
    return backend, rest


def spelling(backend: Backend) -> str:
    """Return how a name of this backend is written."""
    return f"{backend.name}[{backend.takes}]" if backend.rest_optional else backend.name + backend.takes
