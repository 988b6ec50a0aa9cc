"""One process at a time follows into a folder: a second one would tell everything twice."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wardround.core import UserError


@contextmanager
def only_follower(folder: Path) -> Iterator[None]:
    """Hold a folder. UserError: another process follows into it. A kill lets it go."""
    with (folder / "follower.lock").open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{folder}: another process follows this stream; stop it, or choose another --out"
            ) from None
        yield
