"""Progress as data: long work reports it, the command line draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a piece of work is. ``total`` is None when the end is not known; ``note`` is free text.

    ``running``: how many pieces are under way at once; before so many are done, the rate says little.
    """

    label: str
    done: float
    total: float | None = None
    unit: str = ""
    note: str = ""
    running: int = 0


Reporter = Callable[[Progress], None]
"""Called often; must be cheap and must not raise."""


def silent(progress: Progress) -> None:
    """A reporter that says nothing: the default everywhere outside the command line."""
