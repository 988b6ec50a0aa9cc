"""Events as the ledger keeps them: what was read of a line stays what it was, whatever is read later."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wardround.bundles import BundleEvent

TakenEvents = list[tuple[BundleEvent, bool]]
"""Events with, of each, whether only the person's own values can tell its level."""
_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(TakenEvents)


def packed_events(events: Sequence[tuple[BundleEvent, bool]]) -> bytes:
    """Return events as bytes."""
    return _ENCODER.encode(events)


def unpacked_events(body: bytes) -> TakenEvents:
    """Return the events that some bytes hold."""
    return _DECODER.decode(body)
