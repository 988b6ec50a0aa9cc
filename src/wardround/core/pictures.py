"""Pictures in messages: encoded images that a tool shows a model, known everywhere by the hash of their bytes.

A message names its pictures; the bytes lie once in a log and go out once a request. Nothing here decodes an image.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
