"""How many tokens a text will be, without a tokenizer: one linear count over classes of characters.

Tokenizers spell numbers out (Qwen: one token a digit; GPT, Llama: up to three digits a token) and words in pieces of
about five letters. The weights lean to the high side: too high wastes room, too low overflows a model's window.
Measured error: docs/design/agent-loop.md.
"""

from __future__ import annotations

LETTERS_PER_TOKEN = 4.4
TOKENS_PER_DIGIT = 0.9
TOKENS_PER_MARK = 0.6
_DIGITS = tuple("0123456789")
_MARKS = tuple("\n|:,.-_/;()[]{}\"'=<>*#%+")


def estimate_tokens(text: str) -> int:
    """Return the estimated tokens of a text: deterministic, about 60 microseconds for 8,000 characters."""
    digits = sum(map(text.count, _DIGITS))
    marks = sum(map(text.count, _MARKS))
    wide = 0 if text.isascii() else len(text.encode("utf-8", "replace")) - len(text)
    letters = len(text) - digits - marks
    return round(letters / LETTERS_PER_TOKEN + digits * TOKENS_PER_DIGIT + marks * TOKENS_PER_MARK + wide * 0.5)
