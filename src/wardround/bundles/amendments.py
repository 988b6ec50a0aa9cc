"""Rows that were corrected or withdrawn: which events tell of it, and how all read as if it had always been so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.bundles.events import NUMBERS, WORDS, BundleEvents, Integers, in_order
from wardround.bundles.kinds import ENDS, EventKind


def joined(parts: Sequence[BundleEvents]) -> BundleEvents:
    """Return events of several columns as one, in their order."""
    names: dict[str, int] = {}
    concepts = []
    for part in parts:
        own = np.array([names.setdefault(name, len(names)) for name in part.names], np.int64)
        concepts.append(own[part.concept] if len(own) else part.concept)
    numbers = {name: np.concatenate([getattr(part, name) for part in parts]) for name in NUMBERS}
    words = {name: pa.concat_arrays([getattr(part, name) for part in parts]) for name in WORDS}
    return BundleEvents(**(numbers | {"concept": np.concatenate(concepts)}), **words, names=tuple(names))


def as_if_always_so(events: BundleEvents) -> BundleEvents:
    """Return one subject's events as they read now, each row where it first became known: what was withdrawn never was.

    A row's latest version replaces all before it.
    """
    row = _row_numbers(events.row_id)
    ends, withdrawn = np.isin(events.kind, ENDS), events.kind == EventKind.RETRACTION
    plain = ~ends & ~withdrawn
    newest, gone = (_latest(row, events.known, mask)[row] for mask in (plain, withdrawn))
    kept = ~withdrawn & (gone < newest) & (ends | (events.known == newest))
    first = -_latest(row, -events.known, plain)
    changed = replace(
        events, known=np.where(ends, events.known, first[row]), revision=np.where(ends, events.revision, 0)
    )
    return in_order(changed.take(kept))


def _latest(row: Integers, times: Integers, mask: npt.NDArray[np.bool_]) -> Integers:
    """Return the latest time of every row under a mask, the least number there is where it has none."""
    found = np.full(int(row.max(initial=-1)) + 1, np.iinfo(np.int64).min + 1)
    np.maximum.at(found, row[mask], times[mask])
    return found


def _row_numbers(row_id: Any) -> Integers:
    return np.asarray(row_id.dictionary_encode().indices.to_numpy(zero_copy_only=False), np.int64)
