"""Retrieval: encoders, their vector cache, the text that identifies a chart, and evidence from a long chart.

The package knows charts and encoders; it knows no task and no agent. The caller decides what is shown, and when.
"""

from wardround.tools.retrieval.chunks import (
    IndicatorTrajectory,
    Passage,
    combined_score,
    described_codes,
    merge,
    time_relevance,
)
from wardround.tools.retrieval.encoder import CachedEncoder, Encoder, LexicalEncoder, VectorCache, Vectors
from wardround.tools.retrieval.evidence_index import EvidenceIndex
from wardround.tools.retrieval.evidence_settings import RetrievalSettings
from wardround.tools.retrieval.opening import (
    ENCODERS,
    EncoderConfig,
    EncoderEntry,
    EndpointEncoder,
    SentenceEncoder,
    list_encoders,
    open_encoder,
)
from wardround.tools.retrieval.recent import describe_recent_events

__all__ = [
    "ENCODERS",
    "CachedEncoder",
    "Encoder",
    "EncoderConfig",
    "EncoderEntry",
    "EndpointEncoder",
    "EvidenceIndex",
    "IndicatorTrajectory",
    "LexicalEncoder",
    "Passage",
    "RetrievalSettings",
    "SentenceEncoder",
    "VectorCache",
    "Vectors",
    "combined_score",
    "describe_recent_events",
    "described_codes",
    "list_encoders",
    "merge",
    "open_encoder",
    "time_relevance",
]
