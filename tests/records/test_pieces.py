"""A store's rows, some subjects at a time: together they are all rows, and what was read is let go with a piece."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from records.small_source import small_store
from wardround.records import Store
from wardround.records.pieces import stored_pieces

ROWS = 5_000


def test_pieces_are_all_rows_of_a_shard_with_their_subjects_whole(synthetic_store: Store) -> None:
    pieces = list(stored_pieces(synthetic_store, 0, ROWS))
    subjects = [np.unique(np.concatenate([table.subject for table in piece])) for piece in pieces]
    assert len(pieces) > 5
    assert all(one[-1] < other[0] for one, other in pairwise(subjects))
    assert np.concatenate(subjects).tolist() == synthetic_store.subjects.tolist()
    for layout, table in synthetic_store.shard_tables(0):
        own = [each for piece in pieces for each in piece if each.layout is layout]
        owners, whole = table.whole()
        assert np.concatenate([each.subject for each in own]).tolist() == owners.tolist()
        assert pa.Table.from_batches([each.stored for each in own]).equals(pa.Table.from_batches([whole]))


def test_a_piece_ends_before_the_subject_that_would_make_it_too_large(synthetic_store: Store) -> None:
    sizes = [sum(len(table.subject) for table in piece) for piece in stored_pieces(synthetic_store, 0, ROWS)]
    largest = max(sum(len(t.subject) for t in piece) for piece in stored_pieces(synthetic_store, 0, 1))
    assert all(size <= ROWS + largest for size in sizes)


def test_no_more_is_held_than_a_piece_takes(synthetic_store: Store) -> None:
    whole = sum(table.whole()[1].nbytes for _, table in synthetic_store.shard_tables(0))
    before, most = pa.total_allocated_bytes(), 0
    for piece in stored_pieces(synthetic_store, 0, ROWS):
        assert piece
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < whole / 3


def test_the_files_of_a_shard_are_let_go_when_it_is_read(tmp_path: Path) -> None:
    """Mapped pages are memory of the process: a store that is read through would end up in memory whole."""
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        pytest.skip("this system does not list what a process has mapped")
    store = small_store(tmp_path, shards=2)
    mapped = []
    for shard in range(store.shard_count):
        for _ in stored_pieces(store, shard):
            mapped.append(f"{store.path}/shards/{shard:05d}" in maps.read_text())
    del _
    assert all(mapped)
    assert f"{store.path}/shards" not in maps.read_text()
