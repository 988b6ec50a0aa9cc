"""Prompts that an endpoint's content filter refuses: told from other refusals, over real HTTP."""

from __future__ import annotations

import json

import pytest
from model_doubles import completed

from fake_server import Answer, error
from hostile_replies import FILTERED
from wardround.core import PromptWithheld, ProviderError

REFUSED = Answer(status=400, body=json.dumps({"error": FILTERED}).encode())


def test_a_withheld_prompt_is_told_from_other_refusals() -> None:
    with pytest.raises(PromptWithheld, match="content_filter: The response was filtered") as caught:
        completed([REFUSED])
    assert (caught.value.status, caught.value.attempts) == (400, 1)


@pytest.mark.parametrize("said", ["unknown field 'content_filter'", "the content_filter setting is off"])
def test_other_refusals_stay_what_they_are(said: str) -> None:
    with pytest.raises(ProviderError) as caught:
        completed([error(400, said)])
    assert not isinstance(caught.value, PromptWithheld)
