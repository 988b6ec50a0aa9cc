"""What every SQLite file of ours needs before it is read where nobody may write."""

from __future__ import annotations

from pathlib import Path

from wardround.core.errors import UserError


def must_be_complete(path: Path) -> None:
    """Refuse a database with commits still in its side file: opened as immutable it would silently lack them."""
    for ending in ("-wal", "-journal"):
        side = path.with_name(path.name + ending)
        if side.exists() and side.stat().st_size:
            raise UserError(
                f"{side} holds commits that cannot be read in place; copy the folder to where you may write"
            )
