"""Thinking that a model wrote into its reply instead of beside it."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_END = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


def without_thinking(text: str) -> str:
    """Return a reply without its thinking: tagged, cut off before its end, or begun by the chat template.

    Templates of thinking models end with the opening tag, so that many replies hold only the closing one.
    """
    return _END.sub(" ", _WHOLE.sub(" ", text))
