"""Keys: the vector by which an experience is found again, and the encoder it may be compared under."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wardround.core import content_hash
from wardround.retrieval import Encoder, Vectors, describe_recent_events
from wardround.retrieval.recent import MAX_TOKENS, RecentChart


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Key:
    """``vector`` has length 1. ``text_hash`` names the text; the text, which is record text, is not kept."""

    encoder: str
    vector: Vectors
    text_hash: str = ""

    def __post_init__(self) -> None:
        vector = np.ascontiguousarray(self.vector, dtype="<f4").reshape(-1)
        vector.setflags(write=False)
        object.__setattr__(self, "vector", vector)
        if not len(vector) or not np.isfinite(vector).all():
            raise ValueError("a key needs a vector of finite numbers")


def text_key(encoder: Encoder, text: str) -> Key:
    """Encode a text. Blocks: call it off the event loop."""
    return Key(
        encoder=encoder.identity,
        vector=encoder.encode([text])[0],
        text_hash=content_hash(text.encode("utf-8", "replace")),
    )


def chart_key(encoder: Encoder, chart: RecentChart, *, max_tokens: int = MAX_TOKENS) -> Key:
    """Encode a chart's most recent events (e of eq. 8), within what the encoder reads. Blocks like ``text_key``."""
    limit = max_tokens if encoder.max_tokens is None else min(max_tokens, encoder.max_tokens)
    return text_key(encoder, describe_recent_events(chart, max_tokens=limit))
