"""Retrieval: encoders, their vector cache, and the text a chart is recognised by.

Nothing here decides what an agent is shown.
"""

from wardround.retrieval.cache import CachedEncoder, VectorCache
from wardround.retrieval.encoder import Encoder, Vectors
from wardround.retrieval.endpoint import EndpointEncoder
from wardround.retrieval.lexical import LexicalEncoder
from wardround.retrieval.opening import EncoderEntry, list_encoders, open_encoder
from wardround.retrieval.recent import describe_recent_events
from wardround.retrieval.sentence import SentenceEncoder

__all__ = [
    "CachedEncoder",
    "Encoder",
    "EncoderEntry",
    "EndpointEncoder",
    "LexicalEncoder",
    "SentenceEncoder",
    "VectorCache",
    "Vectors",
    "describe_recent_events",
    "list_encoders",
    "open_encoder",
]
