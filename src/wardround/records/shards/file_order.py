"""The order in which a subject's rows stood in the source's file: stored rows are in the order of time.

With it the raw rows of a shard can be had from the store again, so that a newer release need not be read for what is
the same. Per row the places by which it moved within its subject: mostly nothing, and then as good as no bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.records.shards.layout import ORIGIN

Integers = npt.NDArray[np.int64]
_MOVED = pa.schema([("moved", pa.int32())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


def order_file(shard: int) -> str:
    """Return where a shard's orders lie in a store."""
    return f"{ORIGIN}/{shard:05d}.arrow"


def moved_rows(subjects: Integers, places: Integers) -> Integers:
    """Return by how much each stored row moved within its subject. ``subjects`` are sorted; ``places`` say where the
    rows stood."""
    here = np.arange(len(subjects))
    if ((places[1:] > places[:-1]) | (subjects[1:] != subjects[:-1])).all():
        return np.zeros(len(subjects), dtype=np.int64)
    order = np.lexsort([places, subjects])
    moved: Integers = np.empty(len(subjects), dtype=np.int64)
    moved[order] = here - order
    return moved


def rows_in_file_order(subjects: Integers, moved: Integers) -> Integers:
    """Return the places of stored rows, subjects in order, each subject's rows as they stood in the file."""
    places: Integers = np.empty(len(subjects), dtype=np.int64)
    places[np.arange(len(subjects)) + moved] = np.arange(len(subjects))
    return places


def write_orders(path: Path, moved: Mapping[str, Integers]) -> None:
    """Write the orders of a shard's tables."""
    schema = _MOVED.with_metadata(dict.fromkeys(moved, ""))
    with pa.OSFile(str(path), "wb") as target, pa.ipc.new_file(target, schema, options=_OPTIONS) as stream:
        for places in moved.values():
            stream.write_batch(pa.record_batch([pa.array(places, pa.int32())], schema=_MOVED))


def read_orders(data: object) -> dict[str, Integers]:
    """Return what a file of :func:`write_orders` holds, by table."""
    reader = pa.ipc.open_file(data)
    names = [name.decode() for name in reader.schema.metadata or {}]
    return {name: reader.get_batch(place).column(0).to_numpy().astype(np.int64) for place, name in enumerate(names)}
