"""What comes from elsewhere: components by name, plug-in files, packages of extras.

Names may have a user part, such as ``openai/qwen3-4b``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from wardround.core.errors import UserError, WardroundError

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


# Plug-in files: one Python file of a user's own that registers agents, tools, tasks and whatever else has a registry.
#
# A file is imported only where the user names it (``--plugin my.py``), once in a process, under the module name
# ``wardround_plugin_<file name>``, so that every worker process imports the same thing under the same name. What is run
# is a person's own code, with all its rights: nothing here confines it.


_PREFIX = "wardround_plugin_"
_LOADED: dict[str, Plugin] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One imported file: where it is, the module it became, the hash of its source."""

    path: Path
    module: str
    sha256: str

    def to_json(self) -> dict[str, str]:
        """Return what a manifest keeps of it."""
        return {"path": str(self.path), "module": self.module, "sha256": self.sha256}


def load_plugins(paths: Iterable[str | Path]) -> tuple[Plugin, ...]:
    """Import files that register things; one that was imported before is not imported again. Raises UserError."""
    return tuple(_load(Path(path).resolve()) for path in paths)


def loaded_plugins() -> tuple[Plugin, ...]:
    """Return the plug-ins of this process, in the order in which they were imported."""
    return tuple(_LOADED.values())


def must_be_loaded(recorded: Iterable[Mapping[str, Any]], what: str) -> None:
    """Raise UserError unless the user named the plug-ins that something was made with. ``what`` names it."""
    for fact in recorded:
        if str(fact["module"]) not in _LOADED:
            raise UserError(f"{what} was made with a plug-in; name it: --plugin {fact['path']}")


def changed_plugins(recorded: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the paths of the loaded plug-ins that are not what they were when something was made with them."""
    known = [(fact, _LOADED.get(str(fact["module"]))) for fact in recorded]
    return tuple(str(one.path) for fact, one in known if one is not None and one.sha256 != fact["sha256"])


def _load(path: Path) -> Plugin:
    name = _PREFIX + path.stem
    if path.suffix != ".py" or not name.isidentifier():
        raise UserError(f"{str(path)!r} cannot be a plug-in: name a file like my_plugin.py")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise UserError(f"the plug-in {str(path)!r} cannot be read: {error.strerror or error}") from error
    plugin = Plugin(path=path, module=name, sha256=hashlib.sha256(source).hexdigest())
    loaded = _LOADED.get(name)
    if loaded is not None and loaded != plugin:
        problem = (
            "was changed after it was imported" if loaded.path == path else f"and {str(loaded.path)!r} have one name"
        )
        raise UserError(f"the plug-in {str(path)!r} {problem}; start again with one of them")
    if loaded is None:
        _import(plugin, source)
        _LOADED[name] = plugin
    return plugin


def _import(plugin: Plugin, source: bytes) -> None:
    spec = importlib.util.spec_from_loader(plugin.module, _Hashed(plugin, source))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[plugin.module] = module
    try:
        spec.loader.exec_module(module)
    except WardroundError:
        del sys.modules[plugin.module]
        raise
    except Exception as error:
        del sys.modules[plugin.module]
        line = f"{type(error).__name__}: {error}"
        raise UserError(f"the plug-in {str(plugin.path)!r} does not import: {line}") from error


class _Hashed(importlib.abc.SourceLoader):
    """Runs the very bytes that were hashed: neither the file again, nor bytecode kept of an earlier one."""

    def __init__(self, plugin: Plugin, source: bytes) -> None:
        self._plugin = plugin
        self._source = source

    def get_filename(self, fullname: str) -> str:
        """Return where the source is, for tracebacks."""
        return str(self._plugin.path)

    def get_data(self, path: str) -> bytes:
        """Return the source; there is no bytecode."""
        return self._source


# Optional dependencies, imported at first use; a missing one gives a line with the install command.


def how_to_install(extra: str) -> str:
    """Return the install command of an extra. The package is on no index, so it names the source folder."""
    return f"pip install '.[{extra}]' in wardround's source folder"


def import_extra(module: str, extra: str, *, what: str = "this") -> Any:
    """Import a module of an extra for ``what``. UserError: it is not installed; with the install command."""
    with needs_extra(extra, what=what):
        return importlib.import_module(module)


@contextmanager
def needs_extra(extra: str, *, what: str = "this") -> Iterator[None]:
    """Turn a failing third-party import into UserError. A missing module of ours stays a bug."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("wardround"):
            raise
        missing = isinstance(error, ModuleNotFoundError) and error.name
        why = f"no {missing.partition('.')[0]} here" if missing else str(error).partition("\n")[0]
        raise missing_extra(extra, what=what, why=why) from error


def missing_extra(extra: str, *, what: str = "this", why: str = "") -> UserError:
    """Return the error for ``what`` without its extra.

    >>> print(missing_extra("mcp", what="a tool server", why="no mcp here")) a tool server needs the extra [mcp] (no
    mcp here): pip install '.[mcp]' in wardround's source folder
    """
    reason = f" ({why})" if why else ""
    return UserError(f"{what} needs the extra [{extra}]{reason}: {how_to_install(extra)}")
