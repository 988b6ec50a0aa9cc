"""Messages between an agent and a model, in the shape every chat-completions endpoint speaks.

A message encodes itself once: ``wire`` holds its compact JSON and ``digest`` its hash, so that sending, counting and
logging a long history cost the same per turn however long it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wardround.core.pictures import Picture, PictureBytes

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call a model asked for. ``arguments`` is the text as the model wrote it, valid JSON or not."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """What a model is told of a tool. ``parameters`` is a JSON schema of type object, ``strict`` if in strict form."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False
    _wire: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def wire(self) -> bytes:
        """The schema as compact JSON, encoded once: an environment's schemas go out with every request."""
        if self._wire is None:
            text = json.dumps(self.to_wire(), separators=(",", ":"), ensure_ascii=False)
            object.__setattr__(self, "_wire", text.encode("utf-8", "replace"))
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
            text = json.dumps(self.to_wire(), separators=(",", ":"), ensure_ascii=False)
            object.__setattr__(self, "_wire", text.encode("utf-8", "replace"))
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
