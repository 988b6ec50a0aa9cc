"""The model interface: one request in, one reply out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, reduce
from typing import Any, Literal, Protocol

from wardround.core import Message, ToolSchema, Usage, canonical_json, chain_hash
from wardround.log import USAGE_FIELDS

__all__ = ["USAGE_FIELDS", "FinishReason", "Model", "ModelSettings", "Reply", "Request"]

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Sampling settings; None leaves a field to the endpoint. ``seed`` is sent only where it is set."""

    temperature: float | None = 0.7
    top_p: float | None = 0.8
    presence_penalty: float | None = None
    max_output_tokens: int = 4096
    seed: int | None = None
    token_logprobs: bool = False


@lru_cache(maxsize=256)
def _settings_json(settings: ModelSettings) -> bytes:
    """Return canonical JSON of the settings; ``temperature=1`` and ``1.0`` give the same text."""
    plain = asdict(settings)
    for name in ("temperature", "top_p", "presence_penalty"):
        plain[name] = None if plain[name] is None else float(plain[name])
    return canonical_json(plain)


@lru_cache(maxsize=256)
def _text_json(text: str) -> bytes:
    return canonical_json(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. ``episode`` and ``ordinal`` (0, 1, ...) identify the call; they are not sent.

    ``response_schema``: a JSON schema for the reply's text; an endpoint without structured output ignores it
    (``complete_structured`` handles both). ``tool_choice`` none shows the tools, which the history calls, and requests
    text (the start of the prompt stays the same); an endpoint may ignore that too.
    """

    messages: tuple[Message, ...]
    tools: Sequence[ToolSchema] = ()
    settings: ModelSettings = ModelSettings()
    episode: str = ""
    ordinal: int = 0
    response_schema: Mapping[str, Any] | None = None
    tool_choice: Literal["auto", "none"] = "auto"

    def digest(self, identity: str, *, path: bytes | None = None) -> str:
        """Return the hex hash of model identity, messages, tools and settings.

        It is the first part of the replay key. ``path`` is the chain hash of the messages where the caller has it (it
        saves reading a long history).
        """
        if path is None:
            path = reduce(chain_hash, self.messages, b"")
        hasher = hashlib.sha256(path)
        hasher.update(_text_json(identity))
        hasher.update(b"".join([tool.wire for tool in self.tools]))
        hasher.update(_settings_json(self.settings))
        if self.response_schema is not None:
            hasher.update(canonical_json(self.response_schema))
        if self.tool_choice != "auto":
            hasher.update(canonical_json({"tool_choice": self.tool_choice}))
        return hasher.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply.

    ``token_logprobs`` is None where the endpoint offers none. ``seconds`` is wall time over all ``attempts``. ``cost``
    is in US dollars, None when no price is known. ``unreported`` names the fields of ``usage`` that the endpoint did
    not report: they are 0 there and unknown. ``identity`` is that of the model that answered, empty only where it
    equals ``model``. ``reasoning`` is thinking text beside the message; it is recorded and never sent back.
    ``calls_left_out`` counts tool calls beyond the limit of one reply; it is not recorded.
    """

    message: Message
    usage: Usage
    finish_reason: FinishReason
    model: str
    seconds: float = 0.0
    attempts: int = 1
    cost: float | None = None
    token_logprobs: tuple[float, ...] | None = None
    unreported: tuple[str, ...] = ()
    identity: str = ""
    reasoning: str | None = None
    calls_left_out: int = 0

    @property
    def usage_known(self) -> bool:
        """Whether the endpoint counted the tokens of this call."""
        return "input_tokens" not in self.unreported and "output_tokens" not in self.unreported


class Model(Protocol):
    """A language-model client, or anything with the same interface."""

    @property
    def name(self) -> str:
        """The name on the command line, for example ``openai/qwen3-30b`` or ``offline``."""
        ...

    @property
    def identity(self) -> str:
        """Name plus endpoint: the key of a recorded reply."""
        ...

    async def check(self) -> None:
        """Raise ProviderError, in one clear line, when no call could succeed. Costs no tokens."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Answer one request. ProviderError: there is no usable reply."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
