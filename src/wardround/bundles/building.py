"""Bundles made of events given one by one: by hand, or as they come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa

from wardround.bundles.events import BundleEvent, BundleEvents, BundleStream, cut, in_order
from wardround.bundles.kinds import EventKind, ValueLevel
from wardround.bundles.levels import with_levels
from wardround.core import to_microseconds


def event_of(
    kind: EventKind,
    concept: str,
    known: datetime,
    *,
    value: float | None = None,
    text: str | None = None,
    unit: str | None = None,
    time: datetime | None = None,
    row_id: str = "",
    revision: int = 0,
) -> BundleEvent:
    """Return an event; without a ``time`` it happened when it became known. Its level is worked out in the stream."""
    return BundleEvent(
        kind=kind,
        concept=concept,
        value=value,
        text=text,
        unit=unit,
        level=ValueLevel.UNKNOWN,
        time=known if time is None else time,
        known=known,
        row_id=row_id or f"{kind.name.lower()}:{concept}:{known:%Y%m%d%H%M%S}",
        revision=revision,
    )


def stream_of(subject_id: int, events: Iterable[BundleEvent]) -> BundleStream:
    """Return the bundles of one subject's events, in whatever order they are given."""
    return cut(with_levels(in_order(columns_of(subject_id, list(events)))))


def columns_of(subject_id: int, events: Sequence[BundleEvent]) -> BundleEvents:
    """Return one subject's events as columns, in their order."""
    names: dict[str, int] = {}
    nothing = np.full(len(events), np.nan)
    return BundleEvents(
        subject=np.full(len(events), subject_id, np.int64),
        event=np.array([to_microseconds(event.time) for event in events], np.int64),
        known=np.array([to_microseconds(event.known) for event in events], np.int64),
        kind=np.array([event.kind for event in events], np.int8),
        concept=np.array([names.setdefault(event.concept, len(names)) for event in events], np.int64),
        value=np.array([np.nan if event.value is None else event.value for event in events], np.float64),
        low=nothing,
        high=nothing,
        level=np.array([event.level for event in events], np.int8),
        revision=np.array([event.revision for event in events], np.int64),
        timed=np.ones(len(events), dtype=bool),
        names=tuple(names),
        text=pa.array([event.text for event in events], pa.string()),
        unit=pa.array([event.unit for event in events], pa.string()),
        row_id=pa.array([event.row_id for event in events], pa.string()),
        encounter=pa.nulls(len(events), pa.string()),
    )
