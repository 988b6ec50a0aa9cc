"""Tokens and money."""

from __future__ import annotations

from dataclasses import dataclass


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
