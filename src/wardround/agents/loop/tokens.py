"""Counting tokens: one protocol, the offline estimator behind it by default, a real tokenizer by file path.

A counter only has to be about right: ``Calibration`` raises it to what endpoints report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from wardround.core import Message, ToolSchema, UserError, estimate_tokens

MESSAGE_OVERHEAD_TOKENS = 5
"""Role marks and separators that a chat template puts round every message."""
CALL_OVERHEAD_TOKENS = 12
"""What a chat template writes round one tool call."""
PICTURE_OVERHEAD_TOKENS = 30
"""The title that goes with a picture, and the marks round it."""
_MOST_RAISED = 3.0


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return how many tokens the text is."""
        ...


class EstimatedTokens:
    """The offline default: no vocabulary, no dependency, the same everywhere."""

    def count(self, text: str) -> int:
        """Return the estimate of :func:`wardround.core.estimate_tokens`."""
        return estimate_tokens(text)


class FileTokens:
    """Exact counts from a ``tokenizer.json`` (or a folder that holds one); needs the ``tokenizers`` package."""

    def __init__(self, path: Path) -> None:
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise UserError(f"no tokenizer.json at {str(file)!r}: name the file or the folder of a downloaded model")
        self._tokenizer = _tokenizers().Tokenizer.from_file(str(file))

    def count(self, text: str) -> int:
        """Return the number of ids the tokenizer gives, special tokens apart."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _tokenizers() -> Any:
    try:
        import tokenizers  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UserError("a tokenizer file needs the `tokenizers` package: pip install tokenizers") from error
    return tokenizers


class Calibration:
    """Turns counts into what the endpoint will report: ``factor`` starts at 1 and only rises."""

    def __init__(self) -> None:
        self.factor = 1.0

    def observe(self, counted: int, reported: int) -> bool:
        """Take one reported prompt size; returns whether the factor rose."""
        if counted <= 0 or reported <= 0:
            return False
        raised = min(max(self.factor, reported / counted), _MOST_RAISED)
        rose, self.factor = raised > self.factor, raised
        return rose

    def tighten(self) -> None:
        """Count a quarter more from now on: a prompt was refused that these counts let through."""
        self.factor = min(self.factor * 1.25, _MOST_RAISED)


def count_message(counter: TokenCounter, message: Message) -> int:
    """Return the tokens of one message with its tool calls, its pictures and overheads."""
    total = MESSAGE_OVERHEAD_TOKENS + (counter.count(message.content) if message.content else 0)
    total += count_pictures(message)
    for call in message.tool_calls:
        total += CALL_OVERHEAD_TOKENS + counter.count(call.name) + counter.count(call.arguments)
    return total


def count_pictures(message: Message) -> int:
    """Return about how many tokens the pictures of a message take; see :class:`wardround.core.Picture`."""
    return sum(PICTURE_OVERHEAD_TOKENS + picture.tokens for picture in message.pictures)


def count_schemas(counter: TokenCounter, schemas: Sequence[ToolSchema]) -> int:
    """Return the tokens the tool schemas take in every prompt."""
    return sum(counter.count(schema.wire.decode()) for schema in schemas)
