"""Resamples drawn in parts are those drawn at once, and as many."""

from __future__ import annotations

import numpy as np
import pytest

from wardround.scoring import bootstrap


@pytest.mark.parametrize("cells", [1, 4, 12])
def test_parts_of_any_size_are_the_same_resamples(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.array([[1.0, 1.0], [0.0, 2.0], [5.0, 3.0]])
    at_once = bootstrap._resample(sums, lambda drawn: drawn[:, 0] / drawn[:, 1], 7, 9)
    monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", cells)
    in_parts = bootstrap._resample(sums, lambda drawn: drawn[:, 0] / drawn[:, 1], 7, 9)
    assert len(at_once) == 9
    assert in_parts.tolist() == at_once.tolist()
