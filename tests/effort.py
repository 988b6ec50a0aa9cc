"""How much effort the tests make: a sample at every commit, everything with ``WARDROUND_TEST_LONG=1`` (``make long``).

A test that is long only because of how often it looks takes the number from ``often``; one that is long as a whole is
marked ``long``. Either way the suite's form must be able to fail by itself.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

LONG = os.environ.get("WARDROUND_TEST_LONG") == "1"

T = TypeVar("T")


def often(suite: T, long: T) -> T:
    """Return how often to look, or at what: ``suite`` at every commit, ``long`` before a release."""
    return long if LONG else suite


def drawn(items: Sequence[T], suite: int, *, seed: int = 1) -> list[T]:
    """Return a seeded sample in the order of the items, or all of them at length."""
    if LONG or len(items) <= suite:
        return list(items)
    places = sorted(random.Random(seed).sample(range(len(items)), suite))
    return [items[place] for place in places]
