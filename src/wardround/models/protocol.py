"""What a model is to everything else: one request in, one reply out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Literal, Protocol

from wardround.core import Message, ToolSchema, Usage, canonical_json, chain_hash

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. ``episode`` and ``ordinal`` (0, 1, ...) say whose and which call it is; they are not sent."""

    messages: tuple[Message, ...]
    tools: Sequence[ToolSchema] = ()
    settings: ModelSettings = ModelSettings()
    episode: str = ""
    ordinal: int = 0

    def digest(self, identity: str) -> str:
        """Hex hash of what is asked of whom: model identity, messages, tools, settings. The replay key's first part."""
        path = reduce(chain_hash, self.messages, b"")
        rest = canonical_json([identity, [tool.to_wire() for tool in self.tools], asdict(self.settings)])
        return hashlib.sha256(path + rest).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back. ``token_logprobs`` is None where the endpoint offers none; ``seconds`` is wall time over all
    ``attempts``; ``cost`` is in US dollars, None when no price is known."""

    message: Message
    usage: Usage
    finish_reason: FinishReason
    model: str
    seconds: float = 0.0
    attempts: int = 1
    cost: float | None = None
    token_logprobs: tuple[float, ...] | None = None


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

    async def complete(self, request: Request) -> Reply:
        """Answer one request. Raises ProviderError when no usable reply can be had."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
