"""Messages between agent and model: text, pictures, thinking, tool calls, usage, token estimates."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# Pictures in messages: encoded images that a tool shows a model, known everywhere by the hash of their bytes.
#
# A message names its pictures; the bytes lie once in a log and go out once a request. Nothing here decodes an image.


MediaType = Literal["image/png", "image/jpeg"]
PATCH_PIXELS = 28
"""The side of the square that one token stands for (Qwen2.5-VL: 14-pixel patches, merged two by two)."""

PictureBytes = Callable[[str], bytes]
"""Gives the bytes behind a hash; whoever has none gives an empty one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One encoded image. ``sha256`` is the hex hash of ``data``; ``title`` says what it shows, in a few words.

    ``data`` is empty where only the reference was read. Two pictures are equal when their references are.
    """

    sha256: str
    media_type: MediaType
    width: int
    height: int
    title: str
    data: bytes = field(default=b"", repr=False, compare=False)
    _base64: str | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, data: bytes, *, media_type: MediaType, width: int, height: int, title: str) -> Picture:
        """Return the picture of some bytes; ``width`` and ``height`` in pixels."""
        digest = hashlib.sha256(data).hexdigest()
        return cls(sha256=digest, media_type=media_type, width=width, height=height, title=title, data=data)

    @property
    def base64(self) -> str:
        """The bytes as base64, made once."""
        if self._base64 is None:
            object.__setattr__(self, "_base64", base64.b64encode(self.data).decode("ascii"))
        assert self._base64 is not None
        return self._base64

    @property
    def tokens(self) -> int:
        """About how many tokens a model spends on it: one for each square of 28 pixels, parts of squares too."""
        return -(-self.width // PATCH_PIXELS) * -(-self.height // PATCH_PIXELS)

    @property
    def file_name(self) -> str:
        """The name under which its bytes lie in a folder of pictures."""
        return f"{self.sha256}.{'png' if self.media_type == 'image/png' else 'jpg'}"

    def to_wire(self) -> dict[str, Any]:
        """Return the reference: all but the bytes."""
        size = {"width": self.width, "height": self.height}
        return {"sha256": self.sha256, "media_type": self.media_type, **size, "title": self.title}

    @classmethod
    def from_wire(cls, body: Mapping[str, Any], find: PictureBytes | None = None) -> Picture:
        """Read a reference; ``find`` gives the bytes."""
        data = b"" if find is None else find(body["sha256"])
        return cls(**{name: body[name] for name in ("sha256", "media_type", "width", "height", "title")}, data=data)


def data_url(picture: Picture) -> str:
    """Return a picture as a ``data:`` URL, as chat-completions endpoints take it."""
    return f"data:{picture.media_type};base64,{picture.base64}"


# Messages between an agent and a model, in the shape every chat-completions endpoint speaks.
#
# A message encodes itself once: ``wire`` holds its compact JSON and ``digest`` its hash, so that sending, counting and
# logging a long history cost the same per turn however long it is.


Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call of a model. ``arguments`` is the text as the model wrote it, valid JSON or not."""

    id: str
    name: str
    arguments: str

    def as_object(self, otherwise: str) -> dict[str, Any]:
        """Return the arguments as an object; what is none, as it was written, under the name ``otherwise``."""
        try:
            found = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            found = None
        return found if isinstance(found, dict) else {otherwise: self.arguments}


_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def _encoded(wire: Mapping[str, Any]) -> bytes:
    return _COMPACT.encode(wire).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """A tool's description for a model. ``parameters``: a JSON schema of type object; ``strict``: in strict form."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False
    _wire: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def wire(self) -> bytes:
        """The schema as compact JSON, encoded once: an environment's schemas go out with every request."""
        if self._wire is None:
            object.__setattr__(self, "_wire", _encoded(self.to_wire()))
        assert self._wire is not None
        return self._wire

    def to_wire(self) -> dict[str, Any]:
        """Return the chat-completions form."""
        function: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        if self.strict:
            function["strict"] = True
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. ``tool_call_id`` is set exactly on messages of role ``tool``.

    ``wire`` names its pictures by their hashes; their bytes are put in where a request is sent (`models/wire.py`).
    """

    role: Role
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    pictures: tuple[Picture, ...] = ()
    _wire: bytes | None = field(default=None, init=False, repr=False, compare=False)
    _digest: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def wire(self) -> bytes:
        """The message as compact JSON for a chat-completions request."""
        if self._wire is None:
            object.__setattr__(self, "_wire", _encoded(self.to_wire()))
        assert self._wire is not None
        return self._wire

    @property
    def digest(self) -> bytes:
        """SHA-256 of ``wire``."""
        if self._digest is None:
            object.__setattr__(self, "_digest", hashlib.sha256(self.wire).digest())
        assert self._digest is not None
        return self._digest

    def to_wire(self) -> dict[str, Any]:
        """Return the chat-completions form as a dict."""
        body: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            body["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        if self.tool_call_id is not None:
            body["tool_call_id"] = self.tool_call_id
        if self.pictures:
            body["pictures"] = [picture.to_wire() for picture in self.pictures]
        return body

    @classmethod
    def from_wire(cls, body: Mapping[str, Any], find: PictureBytes | None = None) -> Message:
        """Read the chat-completions form; tolerant of absent and null fields, strict about types.

        ``find`` gives the bytes of the pictures it names; without it only their references are read.
        """
        calls = tuple(_call_from_wire(call, index) for index, call in enumerate(body.get("tool_calls") or ()))
        content = body.get("content")
        if content is not None and not isinstance(content, str):
            content = "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
        pictures = tuple(Picture.from_wire(picture, find) for picture in body.get("pictures") or ())
        return cls(
            role=body["role"],
            content=content,
            tool_calls=calls,
            tool_call_id=body.get("tool_call_id"),
            pictures=pictures,
        )


def _call_from_wire(call: Mapping[str, Any], index: int) -> ToolCall:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments if arguments is not None else {}, ensure_ascii=False)
    return ToolCall(
        id=str(call.get("id") or f"call_{index}"), name=str(function.get("name") or ""), arguments=arguments
    )


def chain_hash(parent: bytes, message: Message) -> bytes:
    """Return the hash of a message in its place: it names the whole path from the root to here."""
    return hashlib.sha256(parent + message.digest).digest()


# Thinking that a model wrote into its reply instead of beside it.


_WHOLE = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_END = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


def without_thinking(text: str) -> str:
    """Return a reply without its thinking: tagged, cut off before its end, or begun by the chat template.

    Templates of thinking models end with the opening tag, so that many replies hold only the closing one.
    """
    return _END.sub(" ", _WHOLE.sub(" ", text))


# Tokens and money.


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or many calls. ``cached_tokens`` is the part of ``input_tokens`` served from a prefix cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens. No price known means no cost printed, never zero."""

    input: float
    output: float
    cached: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return the cost of a usage in US dollars."""
        cached_price = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        return (fresh * self.input + usage.cached_tokens * cached_price + usage.output_tokens * self.output) / 1e6


# How many tokens a text will be, without a tokenizer: one linear count over classes of characters.
#
# The weights are fitted to tokenizers that spell numbers digit by digit, on tool results, notes, prompts and schemas of
# the synthetic hospital. Estimate over count, 5th, 50th and 95th percentile of texts: 1.01, 1.07, 1.16 for Tekken
# (131,072 pieces), 0.93, 1.02, 1.10 for SentencePiece (32,000). Tokenizers that take three digits at once need fewer
# tokens: for them the estimate is high, which wastes room but never overflows a window.


LETTERS_PER_TOKEN = 4.0
TOKENS_PER_DIGIT = 1.35
TOKENS_PER_MARK = 0.55
_DIGITS = b"0123456789"
_MARKS = b"\n|:,.-_/;()[]{}\"'=<>*#%+"


def estimate_tokens(text: str) -> int:
    """Return the estimated tokens of a text: deterministic, about 10 microseconds for 8,000 characters."""
    encoded = text.encode("utf-8", "replace")
    digits = len(encoded) - len(encoded.translate(None, _DIGITS))
    marks = len(encoded) - len(encoded.translate(None, _MARKS))
    wide = len(encoded) - len(text)
    letters = len(text) - digits - marks
    return round(letters / LETTERS_PER_TOKEN + digits * TOKENS_PER_DIGIT + marks * TOKENS_PER_MARK + wide * 0.5)
