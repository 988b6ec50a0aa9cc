"""Events as the ledger keeps them: what was read of a line stays what it was, whatever is read later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from wardround.bundles import BundleEvent, EventKind, ValueLevel

TakenEvents = list[tuple[BundleEvent, bool]]
"""Events with, of each, whether only the person's own values can tell its level."""


class _Taken(msgspec.Struct, array_like=True):
    kind: EventKind
    concept: str
    value: float | None
    text: str | None
    unit: str | None
    level: ValueLevel
    time: datetime
    known: datetime
    row_id: str
    revision: int
    alone: bool


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[_Taken])


def packed_events(events: Sequence[tuple[BundleEvent, bool]]) -> bytes:
    """Return events as bytes."""
    return _ENCODER.encode(
        [
            _Taken(e.kind, e.concept, e.value, e.text, e.unit, e.level, e.time, e.known, e.row_id, e.revision, alone)
            for e, alone in events
        ]
    )


def unpacked_events(body: bytes) -> TakenEvents:
    """Return the events that some bytes hold."""
    return [
        (
            BundleEvent(
                kind=e.kind,
                concept=e.concept,
                value=e.value,
                text=e.text,
                unit=e.unit,
                level=e.level,
                time=e.time,
                known=e.known,
                row_id=e.row_id,
                revision=e.revision,
            ),
            e.alone,
        )
        for e in _DECODER.decode(body)
    ]
