"""What others wrote, made safe to print: control characters are shown, never obeyed."""

from __future__ import annotations

import re
from typing import Any, TextIO, cast

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and line feed
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"  # unseen, reordering, halves of characters
)


def printable(text: str) -> str:
    """Return a text with every control character written out (``\\u001b``), as JSON would."""
    return text if text.isascii() and text.isprintable() else _OBEYED.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


class PrintableStream:
    """A text stream that prints nothing a terminal would obey. ``terminal`` is the stream behind it."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        """Write a text, made printable."""
        self.terminal.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def printing(stream: TextIO) -> TextIO:
    """Return a stream that prints through :func:`printable`."""
    return stream if isinstance(stream, PrintableStream) else cast(TextIO, PrintableStream(stream))
