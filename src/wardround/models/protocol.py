"""What a model is to everything else: one request in, one reply out."""

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
    """Canonical JSON of the settings; ``temperature=1`` and ``1.0`` ask for the same thing and read the same."""
    plain = asdict(settings)
    for name in ("temperature", "top_p", "presence_penalty"):
        plain[name] = None if plain[name] is None else float(plain[name])
    return canonical_json(plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. ``episode`` and ``ordinal`` (0, 1, ...) say whose and which call it is; they are not sent.

    ``response_schema`` is a JSON schema that the reply's text should follow; an endpoint that offers no structured
    output ignores it (``complete_structured`` copes with either). ``tool_choice`` none shows the tools, which the
    history calls, and asks for text (the prompt's start stays as it was); an endpoint may ignore that too.
    """

    messages: tuple[Message, ...]
    tools: Sequence[ToolSchema] = ()
    settings: ModelSettings = ModelSettings()
    episode: str = ""
    ordinal: int = 0
    response_schema: Mapping[str, Any] | None = None
    tool_choice: Literal["auto", "none"] = "auto"

    def digest(self, identity: str, *, path: bytes | None = None) -> str:
        """Hex hash of what is asked of whom: model identity, messages, tools, settings. The replay key's first part.

        ``path`` is the chain hash of the messages where the caller has it already (it spares walking a long history).
        """
        if path is None:
            path = reduce(chain_hash, self.messages, b"")
        hasher = hashlib.sha256(path)
        hasher.update(canonical_json(identity))
        for tool in self.tools:
            hasher.update(tool.wire)
        hasher.update(_settings_json(self.settings))
        if self.response_schema is not None:
            hasher.update(canonical_json(self.response_schema))
        if self.tool_choice != "auto":
            hasher.update(canonical_json({"tool_choice": self.tool_choice}))
        return hasher.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back. ``token_logprobs`` is None where the endpoint offers none; ``seconds`` is wall time over all
    ``attempts``; ``cost`` is in US dollars, None when no price is known.

    ``unreported`` names the fields of ``usage`` the endpoint said nothing of: they stand at 0 there and are unknown.
    ``identity`` is that of the model that answered, empty only where it equals ``model``. ``reasoning`` is thinking
    text that came beside the message; it is recorded and never sent back. ``calls_left_out`` counts tool calls beyond
    the most that one reply may have; it is not recorded.
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
    """A language-model client, or anything that answers like one."""

    @property
    def name(self) -> str:
        """As given on the command line, for example ``openai/qwen3-30b`` or ``offline``."""
        ...

    @property
    def identity(self) -> str:
        """Name plus endpoint: what a recorded reply is keyed by."""
        ...

    async def check(self) -> None:
        """Preflight: raise ProviderError, in one clear line, when no call could succeed. Costs no tokens."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Answer one request. Raises ProviderError when no usable reply can be had."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
