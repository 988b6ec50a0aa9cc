"""Keys: the vector by which an experience is found again, and the encoder it may be compared under."""

from __future__ import annotations

from collections.abc import Sequence
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

    @property
    def length(self) -> float:
        """The vector's length as it is held: 1, but for rounding."""
        return float(np.linalg.norm(self.vector))


def text_key(encoder: Encoder, text: str) -> Key:
    """Encode a text. Blocks: call it off the event loop."""
    return Key(
        encoder=encoder.identity,
        vector=encoder.encode([text])[0],
        text_hash=content_hash(text.encode("utf-8", "replace")),
    )


class KeyEncoder:
    """An encoder that is given another length of a chart. Its keys are compared only with those of that length."""

    def __init__(self, encoder: Encoder, tokens: int) -> None:
        self._encoder = encoder
        self.tokens = tokens
        self.name = encoder.name
        self.identity = f"{encoder.identity}-of-{tokens}-tokens"
        self.dimensions = encoder.dimensions
        self.max_tokens = encoder.max_tokens

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""
        return self._encoder.encode(texts)


def chart_key(encoder: Encoder, chart: RecentChart) -> Key:
    """Encode a chart's most recent events (e of eq. 8), within what the encoder reads. Blocks like ``text_key``."""
    tokens = encoder.tokens if isinstance(encoder, KeyEncoder) else MAX_TOKENS
    limit = tokens if encoder.max_tokens is None else min(tokens, encoder.max_tokens)
    return text_key(encoder, describe_recent_events(chart, max_tokens=limit))
