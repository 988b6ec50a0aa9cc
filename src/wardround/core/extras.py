"""Optional dependencies, imported at first use; a missing one gives a line with the install command."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wardround.core.errors import UserError


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
        raise missing_extra(extra, what=what, why=_why(error)) from error


def missing_extra(extra: str, *, what: str = "this", why: str = "") -> UserError:
    """Return the error for ``what`` without its extra.

    >>> print(missing_extra("mcp", what="a tool server", why="no mcp here")) a tool server needs the extra [mcp] (no
    mcp here): pip install '.[mcp]' in wardround's source folder
    """
    reason = f" ({why})" if why else ""
    return UserError(f"{what} needs the extra [{extra}]{reason}: {how_to_install(extra)}")


def _why(error: ImportError) -> str:
    """Return what is not installed; for a package that fails to load, its own message."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"no {error.name.partition('.')[0]} here"
    return str(error).partition("\n")[0]
