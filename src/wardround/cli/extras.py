"""Optional parts: an import that fails because an extra is not installed says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wardround.core import UserError, how_to_install


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Turn a missing third-party package into one clear line."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("wardround"):
            raise
        raise UserError(f"this needs the extra [{name}]: {how_to_install(name)}") from error
