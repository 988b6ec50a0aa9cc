"""Plug-in files: one Python file of a user's own that registers agents, tools, tasks and whatever else has a registry.

A file is imported only where the user names it (``--plugin my.py``), once in a process, under the module name
``wardround_plugin_<file name>``, so that every worker process imports the same thing under the same name. What is run
is a person's own code, with all its rights: nothing here confines it.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.core.errors import UserError, WardroundError

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
    source = _source(path)
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


def _source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"the plug-in {str(path)!r} cannot be read: {error.strerror or error}") from error


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
