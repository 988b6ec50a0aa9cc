"""The invented hospital, made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from invented import Invented, invent, open_invented


@pytest.fixture(scope="session")
def invented(once: Callable[[str, Callable[[Path], object]], Path]) -> Invented:
    """One hospital in six forms."""
    return open_invented(once("invented", invent))
