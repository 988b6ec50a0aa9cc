"""Rows that were corrected or withdrawn: which events tell of it, and how all read as if it had always been so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.bundles.events import NUMBERS, WORDS, BundleEvents, Integers
from wardround.bundles.kinds import STOPS, EventKind

_ENDS = tuple(STOPS.values())


def is_amendment(events: BundleEvents) -> npt.NDArray[np.bool_]:
    """Say which events change what was told before: a row that reads differently from now on, or is withdrawn."""
    changed = (events.revision > 0) & ~np.isin(events.kind, _ENDS)
    return np.asarray(changed | (events.kind == EventKind.RETRACTION))


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
    ends, withdrawn = np.isin(events.kind, _ENDS), events.kind == EventKind.RETRACTION
    newest = np.zeros(int(row.max(initial=-1)) + 1, np.int64)
    np.maximum.at(newest, row[~ends], events.revision[~ends])
    gone = np.zeros(len(newest), dtype=bool)
    gone[row[withdrawn & (events.revision == newest[row])]] = True
    kept = ~gone[row] & ~withdrawn & (ends | (events.revision == newest[row]))
    first = np.full(len(newest), np.iinfo(np.int64).max)
    np.minimum.at(first, row, events.known)
    known = np.where(ends, events.known, first[row])
    plain = np.where(ends, events.revision, 0)
    changed = replace(events, known=known, revision=plain).take(kept)
    return changed.take(np.lexsort((changed.event, changed.hour, changed.subject)))


def _row_numbers(row_id: Any) -> Integers:
    return np.asarray(row_id.dictionary_encode().indices.to_numpy(zero_copy_only=False), np.int64)
