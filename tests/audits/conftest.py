"""The invented hospital, made once."""

from __future__ import annotations

import pytest
from invented import Invented, invent


@pytest.fixture(scope="session")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Invented:
    """One hospital in six forms."""
    return invent(tmp_path_factory.mktemp("invented"))
