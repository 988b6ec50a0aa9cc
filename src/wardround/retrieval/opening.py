"""An encoder by the name a person gives on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from wardround.core import UserError, how_to_install
from wardround.models.guard import DataUseGuard
from wardround.retrieval.cache import CachedEncoder, VectorCache
from wardround.retrieval.encoder import Encoder
from wardround.retrieval.endpoint import EndpointEncoder
from wardround.retrieval.lexical import LexicalEncoder
from wardround.retrieval.sentence import SentenceEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEntry:
    """What can be opened. ``needs`` says what has to be given or installed with it."""

    name: str
    description: str
    needs: str = ""


_LEXICAL_FROM_CHARACTERS = 500

_ENTRIES = (
    EncoderEntry(name="lexical", description="Hashed words and trigrams: no weights, no network, no fitting."),
    EncoderEntry(name="lexical/<dimensions>", description="The same in another number of dimensions."),
    EncoderEntry(
        name="sentence-transformers/<name or folder>",
        description="Any model of the sentence-transformers library (bge-m3, BioLORD-2023, MedCPT, MiniLM).",
        needs=how_to_install("encoders"),
    ),
    EncoderEntry(
        name="embeddings/<name>",
        description="A model behind any OpenAI-compatible /embeddings endpoint.",
        needs="--encoder-url; --permit-endpoint for real records on another machine",
    ),
)


def list_encoders() -> tuple[EncoderEntry, ...]:
    """Everything ``open_encoder`` knows, in the order to show it."""
    return _ENTRIES


def open_encoder(
    name: str = "lexical",
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    guard: DataUseGuard | None = None,
    device: str | None = None,
    cache: VectorCache | None = None,
) -> Encoder:
    """Open an encoder. Without a guard the strictest one holds: record text stays on this machine.

    The lexical encoder is faster than a look-up on short texts, so ``cache`` serves it for long ones only (a chunk of
    100 events: 1 ms to encode, 0.02 ms to look up). Raises UserError.
    """
    kind, _, rest = name.partition("/")
    if kind == "lexical" and (not rest or rest.isdecimal()):
        lexical = LexicalEncoder(int(rest)) if rest else LexicalEncoder()
        return lexical if cache is None else CachedEncoder(lexical, cache, from_characters=_LEXICAL_FROM_CHARACTERS)
    encoder: Encoder
    if kind == "sentence-transformers" and rest:
        encoder = SentenceEncoder(rest, device=device)
    elif kind == "embeddings" and rest:
        if base_url is None:
            raise UserError(f"{name} needs an endpoint: give --encoder-url, for example http://127.0.0.1:8000/v1")
        encoder = EndpointEncoder(rest, base_url, guard=guard, api_key=api_key)
    else:
        known = [entry.name for entry in _ENTRIES]
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"unknown encoder {name!r}; {hint}known are {', '.join(known)}")
    return encoder if cache is None else CachedEncoder(encoder, cache)
