"""Refusals for a prompt's length, in the words of the usual servers."""

from __future__ import annotations

import pytest
from model_doubles import completed

from fake_server import error
from wardround.core import PromptTooLong, ProviderError

SAID = [
    (
        "request (9031 tokens) exceeds the available context size (8192 tokens), try increasing it",
        9031,
        8192,
    ),
    (
        "This model's maximum context length is 8192 tokens. You requested 9216 tokens (9000 in the messages).",
        9000,
        8192,
    ),
    (
        "'max_tokens' is too large. The maximum context length is 8192 tokens; your request has 5000 input tokens",
        5000,
        8192,
    ),
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        130000,
        128000,
    ),
    ("The input (9,000 tokens) is longer than the model's context length (8,192 tokens).", 9000, 8192),
    ("prompt is too long: 210000 tokens > 200000 maximum", 210000, 200000),
    ("Input is too long for requested model: the context window is full", None, None),
]


@pytest.mark.parametrize(("said", "prompt", "window"), SAID)
def test_a_prompt_too_long_is_told_from_other_refusals(said: str, prompt: int | None, window: int | None) -> None:
    with pytest.raises(PromptTooLong) as caught:
        completed([error(400, said)])
    assert (caught.value.prompt_tokens, caught.value.window_tokens) == (prompt, window)
    assert caught.value.status == 400


@pytest.mark.parametrize(("status", "said"), [(400, "unknown role 'tool' in a context"), (401, SAID[0][0])])
def test_other_refusals_stay_what_they_are(status: int, said: str) -> None:
    with pytest.raises(ProviderError) as caught:
        completed([error(status, said)])
    assert not isinstance(caught.value, PromptTooLong)
