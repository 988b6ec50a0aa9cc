"""Optional parts of wardround: imported when first used; of one that is not installed a line says how to get it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wardround.core.errors import UserError


def how_to_install(extra: str) -> str:
    """Return the command for an extra. It is on no package index, so it names the folder of the sources.

    >>> how_to_install("mcp")
    "pip install '.[mcp]' in wardround's source folder"
    """
    return f"pip install '.[{extra}]' in wardround's source folder"


def import_extra(module: str, extra: str, *, what: str = "this") -> Any:
    """Import a module of an extra for ``what``. UserError: it is not installed, and how to get it."""
    with needs_extra(extra, what=what):
        return importlib.import_module(module)


@contextmanager
def needs_extra(extra: str, *, what: str = "this") -> Iterator[None]:
    """Turn a third-party import that fails inside into UserError. A module of ours that is not there stays a bug."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("wardround"):
            raise
        raise missing_extra(extra, what=what, why=_why(error)) from error


def missing_extra(extra: str, *, what: str = "this", why: str = "") -> UserError:
    """Return the error of ``what`` without its extra.

    >>> print(missing_extra("mcp", what="a tool server", why="no mcp here"))
    a tool server needs the extra [mcp] (no mcp here): pip install '.[mcp]' in wardround's source folder
    """
    told = f" ({why})" if why else ""
    return UserError(f"{what} needs the extra [{extra}]{told}: {how_to_install(extra)}")


def _why(error: ImportError) -> str:
    """What is not installed; of a package that is, and does not load, its own words."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"no {error.name.partition('.')[0]} here"
    return str(error).partition("\n")[0]
