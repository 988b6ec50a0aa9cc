"""Where base weights may lie, and what is said where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.core import UserError
from wardround.learning import BaseWeights


@pytest.mark.parametrize("path", ["nowhere", "folder", "file.bin"])
def test_weights_that_are_not_here_are_refused_in_one_line(path: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"a \.gguf file|give one"):
        BaseWeights(path=tmp_path / path)
