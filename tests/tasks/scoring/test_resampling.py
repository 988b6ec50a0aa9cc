"""Resamples drawn in parts are those drawn at once, and as many."""

from __future__ import annotations

import numpy as np
import pytest

from wardround.tasks.scoring import bootstrap


@pytest.mark.parametrize("cells", [1, 4, 12])
def test_parts_of_any_size_are_the_same_resamples(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.array([[1.0, 1.0], [0.0, 2.0], [5.0, 3.0]])
    at_once = bootstrap._resample(sums, lambda drawn: drawn[:, 0] / drawn[:, 1], 7, 9)
    monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", cells)
    in_parts = bootstrap._resample(sums, lambda drawn: drawn[:, 0] / drawn[:, 1], 7, 9)
    assert len(at_once) == 9
    assert in_parts.tolist() == at_once.tolist()


@pytest.mark.parametrize("columns", [1, 2, 12, 80])
@pytest.mark.parametrize("count", [1, 3, 155, 5_000])
def test_a_product_in_blocks_is_that_of_all_at_once(count: int, columns: int) -> None:
    generator = np.random.default_rng(count)
    whole = generator.integers(0, 4, size=(210, count))
    parts = generator.integers(0, 1024, size=(count, columns)) / 1024  # sums of such parts are exact in any order
    assert np.array_equal(bootstrap.product(whole, parts), whole.astype(float) @ parts)
    rows = bootstrap.rows_at_once(count, columns)
    assert rows % 4 == 0
    assert rows == 4 or (rows * count <= 15_000 and rows * count * columns <= 200_000)
