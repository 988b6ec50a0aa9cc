"""Registries of everything people can add, and names with a user part such as ``openai/qwen3-4b``."""

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

# Registries: components by name. Built-in components and plug-ins are registered in the same way.
#
# A component is registered where it is defined, or is an entry point of the group ``wardround.<kind>`` of any installed
# package. Entry points are looked up for unknown names and for listings; a foreign package's code runs only when one of
# its names is requested.


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered(Generic[T]):
    """One name of a registry: its title, the place that registered it, and its loader."""

    name: str
    title: str
    place: str
    load: Callable[[], T]


class Registry(Generic[T]):
    """The components of one kind by name, in order of registration.

    ``kind``: the plural in the entry-point group (``wardround.agents``). ``one``: the singular for error messages.
    ``of``: the class of all components (None: not checked). ``title``: returns the title of a component. ``part``: an
    optional package of ours that registers components on import; it is imported at the first lookup, and its
    components are missing where it was left out.
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
        """Register a component and return it. UserError names both places where the name exists already."""
        place = _caller()
        existing = self._entries.get(name)
        if existing is not None:
            raise UserError(f"{self.one} {name!r} is registered twice: in {existing.place} and in {place}; rename one")
        self._check(name, thing, place)
        self._entries[name] = Registered(name=name, title=self._title(thing), place=place, load=lambda: thing)
        return thing

    def named(self, name: str) -> Callable[[T], T]:
        """Return the decorator that registers a component: ``@CONTEXT_POLICIES.named("last-ten")``."""
        return lambda thing: self.add(name, thing)

    def get(self, name: str) -> T:
        """Return the component of a name. UserError names the nearest name and all that exist."""
        ours = self._ours().get(name)
        if ours is not None:
            return ours.load()  # checked when it was added
        entry = self._installed().get(name)
        if entry is None:
            raise UserError(self._unknown(name))
        thing = entry.load()
        self._check(name, thing, entry.place)
        return thing

    def __contains__(self, name: object) -> bool:
        return name in self._ours() or name in self._installed()

    def __iter__(self) -> Iterator[Registered[T]]:
        """Iterate over every entry: ours and plug-ins' first, then those of installed packages, not loaded."""
        return iter(self._all().values())

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._all())

    @property
    def registered(self) -> tuple[T, ...]:
        """The registered components, without unused ones of installed packages."""
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
        """Return the entry points of this kind. UserError: a name exists already."""
        entries: dict[str, Registered[T]] = {}
        for point in importlib.metadata.entry_points(group=f"wardround.{self.kind}"):
            place = f"{point.dist.name if point.dist else 'an installed package'} ({point.value})"
            existing = self._entries.get(point.name) or entries.get(point.name)
            if existing is not None:
                raise UserError(
                    f"{self.one} {point.name!r} is registered twice: in {existing.place} and in {place}; "
                    "uninstall one of the packages"
                )
            entries[point.name] = Registered(
                name=point.name, title=f"of the package {place}", place=place, load=point.load
            )
        return entries

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
    """Return a component's ``title`` or ``description``, else the first line of its docstring."""
    text = getattr(thing, "title", None) or getattr(thing, "description", None) or getattr(thing, "__doc__", None)
    return str(text or "").strip().partition("\n")[0]


def _caller() -> str:
    """Return file and line of the code that called into this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# Names with a user part: ``openai/qwen3-4b``, ``replay:run-1``, ``lexical/512``.
#
# Such a name is ``<backend>``, ``<backend>/<rest>`` or ``<backend>:<rest>``. The backend is registered, and declares in
# ``takes`` which form it has (``/<name>``, ``:<folder>``, empty).


_FIRST_SEPARATOR = re.compile(r"[/:]")


class Backend(Protocol):
    """A registry entry with a user part. ``rest_optional``: the name alone is enough."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    @property
    def takes(self) -> str:
        """The separator and a description of the user part: ``/<name>``; empty without one."""
        ...

    @property
    def rest_optional(self) -> bool:
        """Whether the user part may be left out."""
        ...


B = TypeVar("B", bound=Backend)


def find_backend(registry: Registry[B], text: str) -> tuple[B, str]:
    """Return a name's backend and the user part. UserError lists known names, or gives the spelling."""
    separator_match = _FIRST_SEPARATOR.search(text)
    name, rest = (text[: separator_match.start()], text[separator_match.end() :]) if separator_match else (text, "")
    backend = registry.get(name)
    separator = separator_match.group() if separator_match else ""
    spelt_right = separator == backend.takes[:1] and bool(rest) if separator else backend.rest_optional
    if not spelt_right and not (text == backend.name and not backend.takes):
        raise UserError(f"the {registry.one} {text!r} is spelt {spelling(backend)}")
    return backend, rest


def spelling(backend: Backend) -> str:
    """Return the spelling of this backend's names."""
    return f"{backend.name}[{backend.takes}]" if backend.rest_optional else backend.name + backend.takes
