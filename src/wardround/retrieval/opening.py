"""An encoder by the name a person gives on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wardround.core import Registry, UserError, find_backend, how_to_install, spelling
from wardround.models.guard import DataUseGuard
from wardround.retrieval.cache import CachedEncoder, VectorCache
from wardround.retrieval.encoder import Encoder
from wardround.retrieval.endpoint import EndpointEncoder
from wardround.retrieval.lexical import LexicalEncoder
from wardround.retrieval.sentence import SentenceEncoder

_LEXICAL_FROM_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOpening:
    """What is known where an encoder is opened: the rest of its name, and what was said beside it."""

    name: str
    rest: str = ""
    base_url: str | None = None
    api_key: str | None = None
    guard: DataUseGuard | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEntry:
    """One kind of encoder by name. ``takes`` is what its name goes on with, ``needs`` what has to be given with it.

    ``cached_from``: shorter texts (in characters) are encoded faster than a cache finds them.
    """

    name: str
    description: str
    open: Callable[[EncoderOpening], Encoder]
    takes: str = ""
    rest_optional: bool = False
    needs: str = ""
    cached_from: int = 0

    @property
    def spelling(self) -> str:
        """How its names are written."""
        return spelling(self)


ENCODERS: Registry[EncoderEntry] = Registry("encoders", one="encoder", of=EncoderEntry)
"""Every kind of encoder there is, by the first part of its names."""


def _lexical(opening: EncoderOpening) -> Encoder:
    if opening.rest and not opening.rest.isdecimal():
        raise UserError(f"the encoder {opening.name!r} is spelt {ENCODERS.get('lexical').spelling}, a number")
    return LexicalEncoder(int(opening.rest)) if opening.rest else LexicalEncoder()


def _served(opening: EncoderOpening) -> Encoder:
    if opening.base_url is None:
        raise UserError(
            f"{opening.name} needs an endpoint: set retrieval.encoder_url (serve: --encoder-url), for example http://127.0.0.1:8000/v1"
        )
    return EndpointEncoder(opening.rest, opening.base_url, guard=opening.guard, api_key=opening.api_key)


for _entry in (
    EncoderEntry(
        name="lexical",
        takes="/<dimensions>",
        rest_optional=True,
        description="Hashed words and trigrams, in 1,024 dimensions or others: no weights, no network, no fitting.",
        open=_lexical,
        cached_from=_LEXICAL_FROM_CHARACTERS,
    ),
    EncoderEntry(
        name="sentence-transformers",
        takes="/<name or folder>",
        description="Any model of the sentence-transformers library (bge-m3, BioLORD-2023, MedCPT, MiniLM).",
        needs=how_to_install("encoders"),
        open=lambda opening: SentenceEncoder(opening.rest, device=opening.device),
    ),
    EncoderEntry(
        name="embeddings",
        takes="/<name>",
        description="A model behind any OpenAI-compatible /embeddings endpoint.",
        needs="retrieval.encoder_url; --permit-endpoint for real records on another machine",
        open=_served,
    ),
):
    ENCODERS.add(_entry.name, _entry)


def list_encoders() -> tuple[EncoderEntry, ...]:
    """Every kind of encoder that is registered, in the order to show it."""
    return ENCODERS.registered


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
    entry, rest = find_backend(ENCODERS, name)
    encoder = entry.open(
        EncoderOpening(name=name, rest=rest, base_url=base_url, api_key=api_key, guard=guard, device=device)
    )
    return encoder if cache is None else CachedEncoder(encoder, cache, from_characters=entry.cached_from)
