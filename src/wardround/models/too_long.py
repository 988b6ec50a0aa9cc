"""Endpoints that refuse a prompt for its length, each in its own words: read, so that the prompt can be made to fit."""

from __future__ import annotations

import re

from wardround.core import PromptTooLong, ProviderError

_STATUSES = (400, 413, 422)
_ABOUT = re.compile(r"context (?:length|size|window)|(?:prompt|input) is (?:too long|longer)", re.IGNORECASE)
_WINDOW = re.compile(r"context (?:length|size|window)\D{0,40}?(\d[\d,]*)|> (\d[\d,]*) maximum", re.IGNORECASE)
_PROMPT = re.compile(
    r"(?:request|input) \((\d[\d,]*) tokens|(\d[\d,]*) in the messages|has (\d[\d,]*) input tokens"
    r"|resulted in (\d[\d,]*) tokens|too long: (\d[\d,]*)",
    re.IGNORECASE,
)


def as_too_long(error: ProviderError) -> ProviderError:
    """Return the error as a PromptTooLong with the figures it names where it is one; else itself."""
    text = str(error)
    if error.status not in _STATUSES or not _ABOUT.search(text):
        return error
    return PromptTooLong(
        text,
        status=error.status,
        attempts=error.attempts,
        prompt_tokens=_figure(_PROMPT, text),
        window_tokens=_figure(_WINDOW, text),
    )


def _figure(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    digits = next((group for group in found.groups() if group), "") if found else ""
    number = int(digits.replace(",", "")[:12]) if digits else 0
    return number or None
